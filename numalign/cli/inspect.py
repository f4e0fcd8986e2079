"""numalign inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.files import emit, emit_document
from numalign.cli.source import load_machine
from numalign.errors import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numalign.machine import Machine
    from numalign.report.picture.pages import Section

__all__ = ["inspect"]


def inspect(
    *,
    output: str = "text",
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    state_dir: str | None = None,
    kubernetes_version: str | None = None,
    running: bool = False,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Print the topology map: NUMA nodes, CPUs, memory, GPUs, NICs, and how near each is to each.

    -o svg and -o html draw it. With --config the picture shows which CPUs are reserved and which a container can have,
    and with --running which container has what.
    """
    kubelet = (config, config_dir, kubelet_flags, state_dir, kubernetes_version)
    wanted = running or any(given is not None for given in kubelet)
    if output in ("svg", "html"):
        from numalign.cli.pictures import emit_picture
        from numalign.report.picture.overlay import NOTHING

        overlay = NOTHING
        if wanted:
            from numalign.cli.predict import prepare
            from numalign.report.picture.overlays import of_node

            ready = prepare(*kubelet, running=running, root=root, machine=machine, nvml=nvml)
            found, overlay = ready.machine, of_node(ready.machine, ready.node, ready.predict(()))
        else:
            found = load_machine(root, machine, nvml)
        emit_picture(output, found, overlay, lambda: _sections(found), out)
        return 0
    if wanted:
        raise WrongUsage(
            "a kubelet's configuration is only drawn over a picture", hint="-o svg and -o html are pictures"
        )
    found = load_machine(root, machine, nvml)
    if output == "yaml":
        from numalign.report.document import to_yaml

        emit(to_yaml(found), out)
    else:
        emit_document(found, output, f"{output}:draw", out)
    return 0


def _sections(machine: Machine) -> Iterator[Section]:
    from numalign.report.matrix import draw
    from numalign.report.picture.pages import in_words, map_sections

    yield from map_sections(machine)
    if len(machine.devices()) > 1:
        yield in_words("Links", draw, machine)
