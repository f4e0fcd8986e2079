"""What a command is at, for a person who waits: a line on standard error, from the second second on, gone in the end.

Nothing is written where standard error is no terminal, or a dumb one.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

__all__ = ["end", "hold", "say", "shown"]

_PATIENCE = 1.0
"""Seconds for which nobody wonders."""
_PAUSE = 0.5
_ERASE = "\r\x1b[K"


class _Line:
    """The line and the thread that writes it; one a process."""

    def __init__(self) -> None:
        self.text = "working"
        self.held = ""
        self.begun = 0.0
        self.over: threading.Event | None = None
        self.thread: threading.Thread | None = None


_LINE = _Line()


def say(text: str) -> None:
    """What the command is at now, in a few words."""
    _LINE.text = text


def hold(text: str) -> None:
    """What the command waits for, whatever it is at in between."""
    _LINE.held = text


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Shows the line while the block runs, if that takes long."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    import threading

    from numalign.words import printable

    _LINE.begun, _LINE.over = time.monotonic(), threading.Event()
    _LINE.thread = threading.Thread(target=_write, args=(_LINE.over, printable), name="progress", daemon=True)
    _LINE.thread.start()
    try:
        yield
    finally:
        end()


def end() -> None:
    """Takes the line away, before something else is printed."""
    if _LINE.over is not None and _LINE.thread is not None:
        _LINE.over.set()
        _LINE.thread.join()
        _LINE.over = _LINE.thread = None


def _write(over: threading.Event, printable: Callable[[str], str]) -> None:
    if over.wait(_PATIENCE):
        return
    with contextlib.suppress(OSError, ValueError):
        fd = sys.stderr.fileno()
        while True:
            line = f"{printable(_LINE.held or _LINE.text)}, {time.monotonic() - _LINE.begun:.0f} s"
            width = max(os.get_terminal_size(fd).columns or 80, 20) - 1
            os.write(fd, f"{_ERASE}{line[:width]}".encode(sys.stderr.encoding or "ascii", "replace"))
            if over.wait(_PAUSE):
                break
        os.write(fd, _ERASE.encode())
