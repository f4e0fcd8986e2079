"""numalign plan."""

from __future__ import annotations

from typing import Any

from numalign.cli.files import emit_document

__all__ = ["plan"]


def plan(
    *,
    shares: bool = False,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Decide on a configuration for a machine and say why: reserved CPUs and memory, policies and options.

    With --shares, what a container can have beside its GPUs so that all others stay usable.
    """
    from numalign.cli.wishes import planned

    _, found = planned(root, machine, nvml, wishes)
    emit_document(found, output, "plan:draw_shares" if shares else "plan:draw", out)
    return 0
