"""The pictures of inspect, plan and predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.files import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numalign.machine import Machine
    from numalign.report.picture.overlay import Overlay
    from numalign.report.picture.pages import Section

__all__ = ["PICTURES", "emit_picture"]

PICTURES = ("svg", "html")
"""The outputs that are pictures."""


def emit_picture(
    output: str, machine: Machine, overlay: Overlay, sections: Callable[[], Iterable[Section]], out: str | None
) -> None:
    """Prints or writes the picture of a machine; a page has the sections too. Raises CannotRead."""
    from numalign.report.picture.pages import html_page, svg_file

    data = svg_file(machine, overlay) if output == "svg" else html_page(machine, overlay, tuple(sections()))
    emit(data, out)
