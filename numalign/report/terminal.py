"""Printing for people: as wide as the terminal, in colour only there, and as plain text anywhere else."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

__all__ = ["drawn", "show"]

_UNLIMITED = 10_000
_NARROWEST = 60
"""Below this the terminal breaks the lines itself."""
_ASCII = str.maketrans({"·": "-", "×": "x", "–": "-", "…": "...", "│": "|", "├": "|", "└": "`", "─": "-", "›": ">"})

T = TypeVar("T")


def show(
    draw: Callable[[Console, T], None], document: T, emit: Callable[[bytes, str | None], None], out: str | None
) -> None:
    """Draws the document and hands the text to `emit`: for the terminal, or for the file `out` in UTF-8."""
    terminal = out is None and sys.stdout is not None and sys.stdout.isatty()
    coloured = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = drawn(draw, document, _width(terminal), coloured=coloured)
    printed = sys.stdout.encoding if out is None and sys.stdout is not None else None
    emit(_encoded(text, printed or "utf-8"), out)


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
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n"))


def _width(terminal: bool) -> int:
    """The terminal's width; where there is none, as wide as the text, unless COLUMNS says otherwise."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and 0 < int(columns) < _UNLIMITED:
        return max(int(columns), _NARROWEST)
    if not terminal:
        return _UNLIMITED
    try:
        return max(os.get_terminal_size(sys.stdout.fileno()).columns or 80, _NARROWEST)
    except OSError:
        return 80


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace")
