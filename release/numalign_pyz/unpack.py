"""Unpacks numalign.pyz: into a directory that stays, or into one for a single run.

Each file is put in place whole, with the same content by whoever comes first: two first runs do not disturb each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable
from types import FrameType

from .run import lacking, own

__all__ = ["for_this_run", "remove_unused", "unpack"]

_UNUSED = 30 * 24 * 3600
"""Seconds after which what another numalign.pyz unpacked is removed."""
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def unpack(folder: str, archive: str, files: Iterable[tuple[str, str]]) -> None:
    """Unpacks from the archive the files, each given by its wheel and its path in there. Raises OSError."""
    wanted: dict[str, list[str]] = {}
    for wheel, path in files:
        wanted.setdefault(wheel, []).append(path)
    with zipfile.ZipFile(archive) as outer:
        for wheel, paths in wanted.items():
            with outer.open(f"wheels/{wheel}") as stored, zipfile.ZipFile(stored) as inner:
                for path in paths:
                    _put(os.path.join(folder, path), inner.read(path))


def _put(path: str, data: bytes) -> None:
    """Writes a file whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.urandom(8).hex()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_unused(folder: str) -> None:
    """Removes what other numalign.pyz unpacked beside the folder, and no process used for a month."""
    cache, own_name = os.path.split(folder)
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if name == own_name or "-cp3" not in name:
            continue
        with contextlib.suppress(OSError), open(os.path.join(path, ".lock"), "rb") as lock:
            if time.time() - os.fstat(lock.fileno()).st_mtime > _UNUSED:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)


def for_this_run(archive: str, manifest: str) -> str:
    """A folder that is gone when the command ends: a child runs it, behind which this process cleans up.

    Raises OSError where there is no place for it.
    """
    sys.dont_write_bytecode = True
    for number in _ENDING:
        signal.signal(number, _end)
    problem: OSError = FileNotFoundError("there is no directory for it")
    try:
        for place in dict.fromkeys((tempfile.gettempdir(), *_PLACES)):
            try:
                folder = _unpacked_in(place, archive, manifest)
            except OSError as error:
                problem = error
                continue
            _clean_up_behind_child(folder)
            return folder
    except _Ended as ended:
        _die_of(ended.number)
    raise problem


class _Ended(BaseException):
    """A signal that ends the process came; no Exception, so that nothing takes it for its own."""

    def __init__(self, number: int) -> None:
        self.number = number


def _end(number: int, frame: FrameType | None) -> None:
    raise _Ended(number)


def _die_of(number: int) -> None:
    with contextlib.suppress(OSError):  # of SIGKILL, which has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _unpacked_in(place: str, archive: str, manifest: str) -> str:
    """A folder with everything in it, below a place. Raises OSError, and leaves nothing then."""
    folder = tempfile.mkdtemp(prefix="numalign-", dir=place)
    try:
        unpack(own(folder), archive, lacking(folder, manifest))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _clean_up_behind_child(folder: str) -> None:
    """Comes back in a child; this process waits for it, removes the folder, and ends as the child did."""
    child = os.fork()
    if child == 0:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        return

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in _ENDING:
        signal.signal(number, pass_on)
    for number in (signal.SIGINT, signal.SIGQUIT):  # the terminal sends them to the child, too
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))
