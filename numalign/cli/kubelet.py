"""numalign kubelet: what a kubelet makes of a configuration, and what its versions know."""

from __future__ import annotations

from numalign.cli.files import emit, emit_document
from numalign.cli.node import Kubelet, effective_document, read_configuration, refuse_unstartable, version
from numalign.cli.source import load, open_host

__all__ = ["allocatable", "config", "features"]


def config(
    *,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    kubernetes_version: str | None = None,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    out: str | None = None,
) -> int:
    """Print the effective configuration: file, drop-ins and flags merged, and where each value comes from."""
    host = open_host(root or "/") if machine is None else load(root, machine, "off")[1]
    kubelet = Kubelet(host)
    configuration = read_configuration(config, config_dir, kubelet_flags, kubelet, root)
    document = effective_document(configuration, version(kubernetes_version, kubelet).minor)
    from numalign.report.configuration import draw, printed

    if output == "text":
        from numalign.report.terminal import show

        show(draw, document, emit, out)
    else:
        emit(printed(document, output), out)
    return 0


def features(*, kubernetes_version: str | None = None, output: str = "text", out: str | None = None) -> int:
    """Print the feature gates and policy options around CPUs, memory, topology and devices of a version."""
    from numalign.kubelet.versions import features, wanted_version

    found = features(wanted_version(kubernetes_version))
    emit_document(found, output, "features:draw", out)
    return 0


def allocatable(
    *,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    kubernetes_version: str | None = None,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "off",
    out: str | None = None,
) -> int:
    """Print what the node has, what is kept, what pods can have, and the CPU pools of each NUMA node."""
    from numalign.kubelet.allocatable import allocatable
    from numalign.kubelet.settings import settings
    from numalign.kubelet.view import kubelet_view

    found_machine, host = load(root, machine, nvml)
    view = kubelet_view(found_machine)
    kubelet = Kubelet(host)
    minor = version(kubernetes_version, kubelet).minor
    document = effective_document(read_configuration(config, config_dir, kubelet_flags, kubelet, root), minor)
    wanted = settings(document.values, minor)
    refuse_unstartable(document, wanted, view)
    found = allocatable(wanted, view)
    emit_document(found, output, "allocatable:draw", out)
    return 0
