"""numalign kubelet: what a kubelet makes of a configuration, and what its versions know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.files import emit, emit_document
from numalign.cli.node import Configuration, Kubelet, read_configuration, version
from numalign.cli.source import load, open_host
from numalign.errors import DoesNotHold

if TYPE_CHECKING:
    from numalign.kubelet.document import Document

__all__ = ["allocatable", "config", "features"]

_SEE_VERIFY = "numalign verify says where, and what to write"


def config(
    *,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    kubernetes_version: str | None = None,
    output: str = "text",
    root: str | None = None,
    out: str | None = None,
) -> int:
    """Print the effective configuration: file, drop-ins and flags merged, and where each value comes from."""
    host = open_host(root or "/")
    kubelet = Kubelet(host)
    configuration = read_configuration(config, config_dir, kubelet_flags, kubelet, root)
    document = _effective(configuration, version(kubernetes_version, kubelet).minor)
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
    from numalign.kubelet.rules import problems
    from numalign.kubelet.settings import settings
    from numalign.kubelet.view import kubelet_view

    found_machine, host = load(root, machine, nvml)
    view = kubelet_view(found_machine)
    kubelet = Kubelet(host)
    minor = version(kubernetes_version, kubelet).minor
    document = _effective(read_configuration(config, config_dir, kubelet_flags, kubelet, root), minor)
    wanted = settings(document.values, minor)
    for problem in problems(wanted, view):
        raise DoesNotHold(f"{document.source}: the kubelet does not start: {problem.message}", hint=_SEE_VERIFY)
    found = allocatable(wanted, view)
    emit_document(found, output, "allocatable:draw", out)
    return 0


def _effective(configuration: Configuration, minor: int) -> Document:
    """The effective configuration. Raises DoesNotHold where the kubelet does not load it."""
    from numalign.kubelet.document import Refused
    from numalign.kubelet.effective import effective

    try:
        return effective(*configuration, minor)
    except Refused as error:
        place = error.placed(configuration.source)
        raise DoesNotHold(f"{place}: the kubelet does not load it: {error.message}", hint=_SEE_VERIFY) from error
