"""Unpacks what numalign.pyz holds for this Python into a directory that only its user can write, once, and runs it.

A directory is looked through at every start, so one that is half unpacked, or lost files in a crash, is completed. Each
file is put in place whole, with the same content by whoever comes first: two first runs do not disturb each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

__all__ = ["CACHE", "Unsafe", "caches", "complete", "run", "unsafe"]

CACHE = "NUMALIGN_PYZ_CACHE"
"""Names the directory to unpack into."""
_ROOTS_OWN = "/var/cache"
_CANNOT = 3
_DAY = 24 * 3600
_UNUSED = 30 * _DAY
"""Seconds after which what another numalign.pyz unpacked is removed."""
_held: list[int] = []
"""Files that stay open as long as this process runs: the locks on what it uses."""


class Unsafe(OSError):
    """A directory that others can write into."""


class File(NamedTuple):
    """A file to unpack: the wheel that holds it, its path in there, and its size in bytes."""

    wheel: str
    path: str
    size: int


def run(version: str, build: str) -> NoReturn:
    """Runs numalign with the command line of this process, and ends it."""
    tag = "cp%d%d" % sys.version_info[:2]
    name = f"{version}-{build}-{tag}"
    archive = __spec__.loader  # type: ignore[name-defined]
    files = _files(archive.get_data(f"files/{tag}").decode())
    try:
        folder = _kept(name, archive.archive, files) or _for_this_run(archive.archive, files)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(f"cannot unpack itself: {where}{error.strerror or error}; {CACHE} names a directory to use")
    except KeyboardInterrupt:
        sys.exit(130)
    # the zip is out of the way: every import would look into it first
    sys.path[:] = [folder, *(path for path in sys.path if path != archive.archive)]
    from numalign.__main__ import main

    main()
    sys.exit(0)


def caches(environment: Mapping[str, str], user: int) -> list[str]:
    """The directories to unpack into, the best first. Root takes none from a HOME, which sudo may leave a user's."""
    if environment.get(CACHE):
        return [environment[CACHE]]
    if user == 0:
        return [os.path.join(_ROOTS_OWN, "numalign")]
    home = environment.get("HOME", "")
    named = (environment.get("XDG_CACHE_HOME", ""), os.path.join(home, ".cache") if home else "")
    return [os.path.join(path, "numalign") for path in named if os.path.isabs(path)]


def unsafe(path: str, user: int) -> str | None:
    """Why another user could change what is below the path; None where none can but root."""
    path = os.path.realpath(path)
    while True:
        found = os.stat(path)
        if found.st_uid not in (0, user):
            return f"{path} belongs to another user"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
            return f"others can write to {path}"
        if path == "/":
            return None
        path = os.path.dirname(path)


def complete(folder: str, archive: str, files: list[File]) -> None:
    """Unpacks from the archive what the folder lacks. Raises OSError."""
    lacking = set(_lacking(folder, files))
    if not lacking:
        return
    import zipfile

    with zipfile.ZipFile(archive) as outer:
        for wheel in sorted({file.wheel for file in lacking}):
            with outer.open(f"wheels/{wheel}") as stored, zipfile.ZipFile(stored) as inner:
                for file in lacking:
                    if file.wheel == wheel:
                        _put(os.path.join(folder, file.path), inner.read(file.path))


def _files(manifest: str) -> list[File]:
    """The files of a manifest: the name of each wheel on a line, and below it `SIZE PATH` of each of its files."""
    files = []
    wheel = ""
    for line in manifest.splitlines():
        size, space, path = line.partition(" ")
        if space:
            files.append(File(wheel, path, int(size)))
        else:
            wheel = line
    return files


def _lacking(folder: str, files: list[File]) -> Iterator[File]:
    """The files that are not there, or not whole: a crash leaves files whose size is not written yet."""
    for file in files:
        try:
            if os.stat(f"{folder}/{file.path}").st_size == file.size:
                continue
        except OSError:
            pass
        yield file


def _put(path: str, data: bytes) -> None:
    """Writes a file whole or not at all."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
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


def _kept(name: str, archive: str, files: list[File]) -> str | None:
    """The folder that later runs find again; None where there is no place for one. Raises OSError where the place was
    named and is none."""
    for cache in caches(os.environ, os.geteuid()):
        try:
            folder = _own(os.path.join(cache, name))
            _hold(folder)
            complete(folder, archive, files)
        except OSError:
            if os.environ.get(CACHE):
                raise
        else:
            return folder
    return None


def _own(folder: str) -> str:
    """The folder, made if need be, where only this user can write into it, and run what is in it. Raises OSError."""
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
    why = unsafe(folder, os.geteuid())
    if why is None and os.stat(folder).st_uid != os.geteuid():
        why = f"{folder} belongs to another user"
    if why is None and os.stat(folder).st_mode & stat.S_ISVTX:
        why = f"others can write to {folder}"
    if why is not None:
        raise Unsafe(why)
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise Unsafe(f"{folder} is on a file system that is mounted noexec")
    return folder


def _hold(folder: str) -> None:
    """Marks the folder as used as long as this process runs, and removes what was not used for long."""
    path = os.path.join(folder, ".lock")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _remove_others(folder)
    _held.append(fd)
    with contextlib.suppress(OSError):  # a file system without locks, or one that can only be read
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if time.time() - os.fstat(fd).st_mtime > _DAY:
            os.utime(path)


def _remove_others(folder: str) -> None:
    """Removes what other numalign.pyz unpacked and no process used for a month."""
    import shutil

    cache, own = os.path.split(folder)
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if name == own or "-cp3" not in name:
            continue
        with contextlib.suppress(OSError), open(os.path.join(path, ".lock"), "rb") as lock:
            if time.time() - os.fstat(lock.fileno()).st_mtime > _UNUSED:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)


def _for_this_run(archive: str, files: list[File]) -> str:
    """A folder that is gone when the command ends: it runs in a child, behind which this process cleans up.

    Raises OSError where there is no place for it.
    """
    import tempfile

    sys.dont_write_bytecode = True
    problem: OSError = FileNotFoundError("there is no directory for it")
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", "/run")):
        try:
            folder = tempfile.mkdtemp(prefix="numalign-", dir=place)
        except OSError as error:
            problem = error
            continue
        try:
            complete(_own(folder), archive, files)
        except BaseException as error:
            _remove(folder)
            if not isinstance(error, OSError):
                raise
            problem = error
            continue
        if _in_child(folder):
            return folder
    raise problem


def _in_child(folder: str) -> bool:
    """True in the child; the parent waits for it, removes the folder and ends as the child did."""
    import signal

    child = os.fork()
    if child == 0:
        return True

    def pass_on(number: int, frame: Any) -> None:
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    for number in (signal.SIGINT, signal.SIGQUIT):  # the terminal sends them to the child too
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(child, 0)
    _remove(folder)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _end(problem: str) -> NoReturn:
    sys.stderr.write(f"numalign.pyz: {problem}\n")
    sys.exit(_CANNOT)
