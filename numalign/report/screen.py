"""What is known of the terminal that a person looks at: its width, and whether it shows colours."""

from __future__ import annotations

import os
from typing import TextIO

__all__ = ["columns", "encoded", "is_terminal", "shows_colours"]

_MOST = 10_000
_ASCII = str.maketrans({"·": "-", "×": "x", "–": "-", "…": "...", "│": "|", "├": "|", "└": "`", "─": "-", "›": ">"})
_NARROWEST = 60
"""Below this the terminal breaks the lines itself."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at what is written there."""
    return stream is not None and not stream.closed and stream.isatty()


def shows_colours(stream: TextIO | None) -> bool:
    """Whether it is a terminal that is to show colours (NO_COLOR and TERM=dumb say that it is not)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(stream: TextIO | None, otherwise: int = _MOST) -> int:
    """The terminal's width; where there is none what COLUMNS says, else `otherwise`."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and 0 < int(said) < _MOST:
        return max(int(said), _NARROWEST)
    if stream is None or not is_terminal(stream):
        return otherwise
    try:
        return max(os.get_terminal_size(stream.fileno()).columns or 80, _NARROWEST)
    except OSError:
        return 80


def encoded(text: str, stream: TextIO | None) -> bytes:
    """The text as a stream takes it (None: a file, in UTF-8), with what it cannot write in ASCII."""
    encoding = (stream.encoding if stream is not None else None) or "utf-8"
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace")
