"""numalign plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numalign.cli.files import emit_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numalign.machine import Machine
    from numalign.plan import Plan
    from numalign.report.picture.pages import Section

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

    there, found = planned(root, machine, nvml, wishes)
    if output in ("svg", "html"):
        from numalign.cli.pictures import emit_picture
        from numalign.report.picture.overlays import of_plan

        emit_picture(output, there, of_plan(there, found), lambda: _sections(there, found), out)
        return 0
    emit_document(found, output, "plan:draw_shares" if shares else "plan:draw", out)
    return 0


def _sections(machine: Machine, found: Plan) -> Iterator[Section]:
    from numalign.report.picture.pages import Section, in_words, map_sections
    from numalign.report.plan import draw_shares
    from numalign.words import printable

    yield in_words("Shares", draw_shares, found)
    values = {decision.field: decision.value or "left out" for decision in found.decisions}
    rows = [(each.field, printable(values[each.field]), printable(each.reason)) for each in found.decisions]
    yield Section("Decisions", ("field", "value", "why"), rows)
    yield from map_sections(machine)
