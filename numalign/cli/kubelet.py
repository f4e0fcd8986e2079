"""numalign kubelet: what a kubelet makes of a configuration, and what its versions know."""

from __future__ import annotations

from numalign.cli.files import emit
from numalign.cli.source import load_machine
from numalign.cli.verify import read_configuration
from numalign.errors import DoesNotHold

__all__ = ["allocatable", "config", "features"]


def config(
    *,
    config: str,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    kubernetes_version: str | None = None,
    output: str = "text",
    out: str | None = None,
) -> int:
    """Print the effective configuration: file, drop-ins and flags merged, and where each value comes from."""
    from numalign.kubelet.document import Refused
    from numalign.kubelet.effective import effective
    from numalign.kubelet.versions import DEFAULT, parse_version

    minor = parse_version(kubernetes_version) if kubernetes_version else DEFAULT
    try:
        document = effective(*read_configuration(config, config_dir, kubelet_flags), minor)
    except Refused as error:
        place = f"{config}:{error.line}: " if error.line else f"{config}: "
        raise DoesNotHold(f"{place}{error.message}", hint="the kubelet does not start on it") from error
    from numalign.report.configuration import draw, printed

    if output == "text":
        from numalign.report.terminal import show

        show(draw, document, emit, out)
    else:
        emit(printed(document, output), out)
    return 0


def features(*, kubernetes_version: str | None = None, output: str = "text", out: str | None = None) -> int:
    """Print the feature gates and policy options around CPUs, memory, topology and devices of a version."""
    from numalign.kubelet.versions import DEFAULT, features, parse_version

    found = features(parse_version(kubernetes_version) if kubernetes_version else DEFAULT)
    if output == "json":
        from numalign.machine import encode

        emit(encode(found), out)
    else:
        from numalign.report.features import draw
        from numalign.report.terminal import show

        show(draw, found, emit, out)
    return 0


def allocatable(
    *,
    config: str,
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
    from numalign.kubelet.document import Refused
    from numalign.kubelet.effective import effective
    from numalign.kubelet.settings import settings
    from numalign.kubelet.versions import DEFAULT, parse_version
    from numalign.kubelet.view import kubelet_view

    minor = parse_version(kubernetes_version) if kubernetes_version else DEFAULT
    view = kubelet_view(load_machine(root, machine, nvml))
    try:
        document = effective(*read_configuration(config, config_dir, kubelet_flags), minor)
        found = allocatable(settings(document.values, minor), view)
    except (Refused, ValueError) as error:
        raise DoesNotHold(f"{config}: {error}", hint="numalign verify says where, and what to write") from error
    if output == "json":
        from numalign.machine import encode

        emit(encode(found), out)
    else:
        from numalign.report.allocatable import draw
        from numalign.report.terminal import show

        show(draw, found, emit, out)
    return 0
