"""Reading a host: file access below a root directory, never out of it; what cannot be read is noted, never raised.

Paths are the host's own, without the leading slash: `sys/devices/system/cpu/online`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Literal, TypeVar

from numalign.cpuset import MAX_CPUS, CpuSet

__all__ = ["MAX_FILE", "MAX_LINKS", "Entry", "Host", "Problem", "clean", "numbered", "whole_number"]

MAX_FILE = 1 << 20
"""Bytes read of one file at most."""
MAX_LINKS = 40
"""Symbolic links followed in one path at most, as the kernel has it."""
_MAX_PROBLEMS = 200
_MAX_STEPS = 4000
"""Parts of a path followed at most, those of links' targets included."""

_NUMBER = re.compile(r"-?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}")
Entry = Literal["file", "directory", "link"]
T = TypeVar("T")


class Problem:
    """A file that should have told something and did not: `kind` is missing, unreadable, malformed or too-large."""

    __slots__ = ("kind", "path", "reason")

    def __init__(self, kind: str, path: str, reason: str) -> None:
        self.kind = kind
        self.path = path
        self.reason = reason


class Host:
    """The files below a root directory.

    Links are followed as the host itself would follow them: absolute ones start at the root, and `..` stops there.
    The readers return None where there is nothing to read, and note in `problems` what is wrong with a file.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.realpath(root).rstrip("/")
        self.problems: dict[str, Problem] = {}
        self.further_problems = 0
        self._real: dict[str, str | None] = {"": ""}

    @cached_property
    def live(self) -> bool:
        """Whether this is the running host itself, so that its drivers and databases can be asked: its root, or a
        directory in which its /proc lies (a container that has the host's / mounted)."""
        return not self.root or (not self.packed and _boot_id(self.root) == _boot_id("") != "")

    @property
    def packed(self) -> bool:
        """Whether this is a snapshot, and no directory."""
        return False

    # -- the accesses that a recording or an archive replaces

    def read(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        """The file's bytes, `limit` at most; None where there is no such file. Raises OSError: unreadable."""
        directory, _, name = path.rpartition("/")
        base = self.real(directory)
        if base is None:
            return None
        try:
            fd = self._open(f"{self.root}/{base}/{name}")
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            if error.errno != errno.ELOOP:
                raise
            followed = self.real(path)
            if followed is None:
                return None
            fd = self._open(f"{self.root}/{followed}")
        try:
            return _drain(fd, limit)
        finally:
            os.close(fd)

    def entries(self, path: str) -> list[str]:
        """The names in a directory, sorted; none where it does not exist. Raises OSError where it is unreadable."""
        base = self.real(path)
        if base is None:
            return []
        try:
            return sorted(os.listdir(f"{self.root}/{base}"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def link(self, path: str) -> str | None:
        """The target of the link at a real path, as it is written; None where something else is there.

        Raises FileNotFoundError where nothing is there, OSError where it is unreadable.
        """
        try:
            return os.readlink(f"{self.root}/{path}")
        except NotADirectoryError as error:
            raise FileNotFoundError from error
        except OSError as error:
            if error.errno == errno.EINVAL:
                return None
            raise

    def modified(self, path: str) -> float | None:
        """When a file was last written (seconds since 1970); None where it is missing or nobody can say."""
        place = self.real(path)
        try:
            return None if place is None else os.stat(f"{self.root}/{place}").st_mtime
        except OSError:
            return None

    # -- built on them

    def target(self, path: str) -> str | None:
        """The last name of a link's target (`driver` gives `nvidia`); None where there is no such link."""
        directory, _, name = path.rpartition("/")
        base = self.real(directory)
        if base is None:
            return None
        try:
            link = self.link(f"{base}/{name}")
        except FileNotFoundError:
            return None
        except OSError as error:
            self.note("unreadable", path, os.strerror(error.errno or 0))
            return None
        return clean(link.rstrip("/").rpartition("/")[2]) if link else None

    def real(self, path: str) -> str | None:
        """The path with every link followed inside the root; None where it leads nowhere."""
        try:
            return self._real[path]
        except KeyError:
            pass
        found = self._real[path] = self._follow(path)
        return found

    def _follow(self, path: str) -> str | None:
        parent, _, name = path.rpartition("/")
        base = self._real.get(parent, "") if parent in self._real else ""
        if base is None:
            return None
        todo = [name] if parent in self._real else path.split("/")[::-1]
        links = steps = 0
        while todo:
            part = todo.pop()
            steps += 1
            if part in ("", "."):
                continue
            if part == "..":
                base = base.rpartition("/")[0]
                continue
            here = f"{base}/{part}" if base else part
            try:
                target = self.link(here)
            except FileNotFoundError:
                return None
            except OSError as error:
                self.note("unreadable", here, os.strerror(error.errno or 0))
                return None
            if target is None:
                base = self._real[here] = here
                continue
            links += 1
            if links > MAX_LINKS or steps > _MAX_STEPS:
                return None
            todo += target.split("/")[::-1]
            base = "" if target.startswith("/") else base
        return base

    def remember(self, path: str, data: bytes) -> None:
        """Keeps an answer that came from no file's content, where a recording wants it and has none; else forgets
        it."""

    def note(self, kind: str, path: str, reason: str) -> None:
        """Notes a problem with a file, once a file and only so many."""
        if path in self.problems:
            return
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems[path] = Problem(kind, clean(path), reason)
        else:
            self.further_problems += 1

    def text(self, path: str, limit: int = MAX_FILE) -> str | None:
        """The file's text without blanks, newlines and NUL bytes around it; None where missing, unreadable or larger
        than any such file. With a `limit` of its own a reader takes the beginning only."""
        try:
            data = self.read(path, limit + (limit == MAX_FILE))
        except OSError as error:
            self.note("unreadable", path, os.strerror(error.errno or 0))
            return None
        if data is not None and len(data) > MAX_FILE:
            self.note("too-large", path, f"it has more than {MAX_FILE >> 20} MiB")
            return None
        return None if data is None else data.decode("utf-8", "replace").strip("\0 \t\r\n")

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; none where it is missing or unreadable. Names that are no UTF-8 are left
        out: no document could hold them."""
        try:
            names = self.entries(path)
        except OSError as error:
            self.note("unreadable", path, os.strerror(error.errno or 0))
            return []
        texts = [name for name in names if clean(name) == name]
        if len(texts) < len(names):
            self.note("malformed", path, "it has names that are no UTF-8")
        return texts

    def expect(self, path: str) -> None:
        """Notes a file that every host has, where it is missing and nothing is noted of it or of a directory above it
        yet."""
        above = [path[:end] for end, letter in enumerate(path) if letter == "/"]
        if self.problems.keys().isdisjoint((*above, path)) and self.real(path) is None:
            self.note("missing", path, "there is no such file")

    def number(self, path: str, *, expected: bool = False) -> int | None:
        """The file's decimal or 0x-prefixed whole number."""
        return self.value(path, whole_number, expected=expected)

    def cpulist(self, path: str) -> CpuSet | None:
        """The file's CPU list; an empty file is the empty set."""
        return self.value(path, CpuSet.parse, empty=True)

    def mask(self, path: str) -> CpuSet | None:
        """The file's CPU mask."""
        return self.value(path, CpuSet.parse_mask)

    def value(self, path: str, parse: Callable[[str], T], *, empty: bool = False, expected: bool = False) -> T | None:
        """What `parse` makes of the file; None, and a problem noted, where it raises ValueError or it is empty, or
        where it is missing and `expected` of every host."""
        text = self.text(path)
        if text is None:
            if expected:
                self.expect(path)
            return None
        if not text and not empty:
            self.note("malformed", path, "it is empty")
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.note("malformed", path, str(error))
            return None

    @staticmethod
    def _open(path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def clean(text: str) -> str:
    """A name of a file as text that any document can hold; bytes that are no UTF-8 become U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def whole_number(text: str) -> int:
    """A decimal or 0x-prefixed whole number of 64 bits; raises ValueError."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    number = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"{text} is too large a number")
    return number


def numbered(names: Iterable[str], stem: str) -> list[int]:
    """The numbers of the names that the kernel makes of `stem` and a number below MAX_CPUS, ascending.

    >>> numbered(["node10", "node2", "node01", "nodes"], "node")
    [2, 10]
    """
    numbers = (name[len(stem) :] for name in names if name.startswith(stem))
    told = (int(number) for number in numbers if number.isdecimal() and len(number) < 6 and str(int(number)) == number)
    return sorted(number for number in told if number < MAX_CPUS)


def _boot_id(root: str) -> str:
    """What the kernel calls this boot, empty where there is no such file."""
    try:
        with open(f"{root}/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _drain(fd: int, limit: int) -> bytes:
    """Everything the descriptor gives, `limit` bytes at most; a directory or a device gives OSError."""
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "")
    data = os.read(fd, limit)
    while len(data) < limit:
        more = os.read(fd, limit - len(data))
        if not more:
            break
        data += more
    return data
