"""Finds the directory into which numalign.pyz is unpacked, which only its user can write, and runs numalign from there.

A directory is looked through at every start, so one that is half unpacked, or lost files in a crash, is completed.
This is all that a start reads when nothing has to be unpacked: zipped modules are compiled at each start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import time
from collections.abc import Mapping
from typing import NoReturn

__all__ = ["CACHE", "Unsafe", "caches", "lacking", "own", "run", "unsafe"]

CACHE = "NUMALIGN_PYZ_CACHE"
"""Names the directory to unpack into."""
_ROOTS_OWN = "/var/cache"
_CANNOT, _INTERRUPTED = 3, 130
_DAY = 24 * 3600
_held: list[int] = []
"""Files that stay open as long as this process runs: the locks on what it uses."""


class Unsafe(OSError):
    """A directory that others can write into, or that no library can be loaded from."""


def run(version: str, build: str) -> NoReturn:
    """Runs numalign with the command line of this process, and ends it."""
    tag = "cp{}{}".format(*sys.version_info[:2])
    loader = __spec__.loader  # a zipimporter
    archive: str = loader.archive  # type: ignore[union-attr]
    manifest: str = loader.get_data(f"files/{tag}").decode()  # type: ignore[union-attr]
    try:
        folder = _kept(f"{version}-{build}-{tag}", archive, manifest)
        if folder is None:
            from .unpack import for_this_run

            folder = for_this_run(archive, manifest)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"numalign.pyz: cannot unpack itself: {where}{error.strerror or error}\n")
        sys.stderr.write(f"              {CACHE} names a directory to use\n")
        sys.exit(_CANNOT)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    # the zip is out of the way: every import would look into it first
    sys.path[:] = [folder, *(path for path in sys.path if path != archive)]
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


def lacking(folder: str, manifest: str) -> list[tuple[str, str]]:
    """The wheel and the path of each file that is not there, or not whole: of files that were not yet written out, a
    crash leaves nothing, or less.

    The manifest has the name of each wheel on a line, and below it `SIZE PATH` of each of its files.
    """
    found = []
    wheel = ""
    look = os.stat
    for line in manifest.splitlines():
        size, space, path = line.partition(" ")
        if not space:
            wheel = line
            continue
        try:
            if look(f"{folder}/{path}").st_size == int(size):
                continue
        except OSError:
            pass
        found.append((wheel, path))
    return found


def own(folder: str) -> str:
    """The folder, made if need be, where only this user can write into it, and libraries can be loaded from it.

    Raises OSError, Unsafe where that is not so.
    """
    with contextlib.suppress(FileExistsError):
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
        os.mkdir(folder, 0o700)
    folder = os.path.realpath(folder)  # what is looked at here is what is used, wherever a link points later
    found = os.stat(folder)
    if found.st_uid != os.geteuid():
        raise Unsafe(f"{folder} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unsafe(f"others can write to {folder}")
    why = unsafe(folder, os.geteuid())
    if why is not None:
        raise Unsafe(why)
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise Unsafe(f"{folder} is on a file system that is mounted noexec")
    return folder


def _kept(name: str, archive: str, manifest: str) -> str | None:
    """The folder that later runs find again, with everything in it; None where there is no place for one.

    Raises OSError where the place was named and is none.
    """
    for cache in caches(os.environ, os.geteuid()):
        try:
            return _filled(os.path.join(cache, name), archive, manifest)
        except OSError:  # noqa: PERF203
            if os.environ.get(CACHE):
                raise
    return None


def _filled(folder: str, archive: str, manifest: str) -> str:
    """The folder with everything in it that the archive has. Raises OSError."""
    folder = own(folder)
    _hold(folder)
    files = lacking(folder, manifest)
    if files:
        from .unpack import remove_unused, unpack

        unpack(folder, archive, files)
        remove_unused(folder)
    return folder


def _hold(folder: str) -> None:
    """Marks the folder as in use as long as this process runs, so that it is not removed as an old one."""
    path = os.path.join(folder, ".lock")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _held.append(fd)
    with contextlib.suppress(OSError):  # a file system without locks, or one that can only be read
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if time.time() - os.fstat(fd).st_mtime > _DAY:
            os.utime(path)
