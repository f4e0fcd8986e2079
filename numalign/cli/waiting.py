"""Waiting and deadlines: looking again until what is expected is there, and never longer than was allowed."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from numalign.cli import progress
from numalign.errors import CannotRead, WrongUsage

if TYPE_CHECKING:
    from types import FrameType

    from numalign.checks.answer import Answer

__all__ = ["Sleeper", "deadline", "seconds", "until"]

_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8}(?:\.\d{1,3})?)s?)?")
_FIRST, _GROWTH, _LONGEST = 0.2, 1.5, 2.0
"""The pauses between two looks, in seconds."""
_STDOUT, _STDERR = 1, 2
_LAST_WORD = 1000
"""Milliseconds that the last line may take to be written."""


class Sleeper(Protocol):
    """Something to sleep on that wakes when the host changes (numalign.probe.watch.Watch)."""

    def wait(self, seconds: float) -> bool:
        """Sleeps so long at most; says whether something changed."""

    def settle(self) -> None:
        """Forgets what changed so far."""


def seconds(text: str, flag: str) -> float:
    """The seconds of `120s`, `2m`, `1h30m` or `90`. Raises WrongUsage.

    >>> [seconds(text, "--wait") for text in ("120s", "2m", "1h30m", "90", "1m0.5s")]
    [120.0, 120.0, 5400.0, 90.0, 60.5]
    """
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise WrongUsage(f"{flag} {text} is no duration", hint=f"{flag} 120s or {flag} 2m")
    hours, minutes, rest = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + rest


def until(look: Callable[[], Answer], wait: float, sleeper: Sleeper, tell: Callable[[str], None]) -> Answer:
    """Looks until nothing is found that counts, or `wait` seconds are over; gives the last answer.

    `tell` is told what is waited for. Raises CannotRead where something needed cannot be read to the last.
    """
    end = time.monotonic() + wait
    pause = _FIRST
    while True:
        late = time.monotonic() >= end
        try:
            answer = look()
            if answer.holds or late:
                return answer
            missing = ", ".join(dict.fromkeys(found.id for found in answer.report.findings if answer.counts(found)))
        except CannotRead as error:
            if late:
                raise
            missing = error.message
        tell(missing)
        if sleeper.wait(min(pause, end - time.monotonic())):
            # changes come in bursts: a driver makes dozens of devices
            pause = _FIRST
            time.sleep(max(0.0, min(_FIRST, end - time.monotonic())))
            sleeper.settle()
        else:
            pause = min(pause * _GROWTH, _LONGEST)


@contextlib.contextmanager
def deadline(allowed: float, status: int, *, on_stdout: bool) -> Iterator[None]:
    """Ends the process with one line and this exit status where what is within takes longer than `allowed` seconds.

    A read from a file system or driver that hangs cannot be interrupted, so another thread ends the process under it.
    """
    done = threading.Event()
    main = threading.get_ident()

    def watch() -> None:
        if not done.wait(allowed):
            progress.end()
            where = _reading(sys._current_frames().get(main))
            words = f"verify did not end within {allowed:g} s{where} (--timeout allows more)"
            _say_last(f"{words}\n" if on_stdout else f"numalign: {words}\n", _STDOUT if on_stdout else _STDERR)
            _end_children()
            os._exit(status)

    thread = threading.Thread(target=watch, name="deadline", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()


def _reading(frame: FrameType | None) -> str:
    """What the thread of a frame reads, as its functions call it: `: still reading PATH`."""
    from numalign.words import printable

    while frame is not None:
        path = frame.f_locals.get("path")
        if isinstance(path, str) and frame.f_globals.get("__name__", "").startswith("numalign."):
            return f": still reading {printable(path)}"
        frame = frame.f_back
    return ""


def _say_last(line: str, fd: int) -> None:
    """Writes a line where somebody takes it."""
    with contextlib.suppress(OSError):
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        if poll.poll(_LAST_WORD):
            os.write(fd, line.encode("utf-8", "replace"))


def _end_children() -> None:
    """Kills the processes that this one asked (NVML's, the kubelet's binary), which would outlive it."""
    with contextlib.suppress(OSError, ValueError):
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                for pid in file.read().split():
                    os.kill(int(pid), signal.SIGKILL)
