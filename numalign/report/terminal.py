"""Printing for people: as wide as the terminal, in colour only there, and as plain text anywhere else."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

from numalign.report.screen import columns, encoded, shows_colours

__all__ = ["drawn", "show"]


_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)\n")
"""Spaces that end a line, before what switches its colours off."""

T = TypeVar("T")


def show(
    draw: Callable[[Console, T], None], document: T, emit: Callable[[bytes, str | None], None], out: str | None
) -> None:
    """Draws the document and hands the text to `emit`: for the terminal, or for the file `out` in UTF-8."""
    stream = sys.stdout if out is None else None
    text = drawn(draw, document, columns(stream), coloured=shows_colours(stream))
    emit(encoded(text, stream), out)


def drawn(draw: Callable[[Console, T], None], document: T, width: int, *, coloured: bool = False) -> str:
    """The document as text of that width."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    draw(console, document)
    return _TRAILING.sub(r"\1\n", text.getvalue())
