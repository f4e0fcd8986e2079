"""Running a command again and again, as a container that publishes its result does: each round in a child process.

A child that hangs or is ended by its deadline ends alone, and what it allocates goes with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from numalign.errors import WrongUsage

__all__ = ["begin"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def begin(period: float) -> None:
    """Comes back in a child each `period` seconds, a round after the other; this process only waits, and ends with 0
    when it is told to end (SIGTERM, SIGINT, SIGHUP), or with a child that says wrong usage, which stays wrong."""
    child = 0

    def end(number: int, frame: FrameType | None) -> NoReturn:
        if child > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)  # and no waiting: one that hangs in a driver does not end
        os._exit(0)

    # a handler of its own: the first process of a container ignores signals that have none
    for number in _SIGNALS:
        signal.signal(number, end)
    while True:
        start = time.monotonic()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        child = os.fork()
        if child == 0:
            for number in _SIGNALS:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if child == 0:
            return
        _, status = os.waitpid(child, 0)
        child = 0
        if os.waitstatus_to_exitcode(status) == WrongUsage.exit_status:
            sys.exit(WrongUsage.exit_status)
        time.sleep(max(0.0, start + period - time.monotonic()))
