"""Snapshots: a tar archive of everything that was read off a host, to read again elsewhere.

An archive is a root directory (sys/, proc/) with the answers of NVML and of the hardware database beside it
(numalign/), so an unpacked one can be read with --root. Archives are untrusted: only files, directories and links are
taken, sizes and counts are bounded, and a link leads nowhere but to another member.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from numalign.errors import CannotRead
from numalign.probe import NvmlMode, probe
from numalign.probe.host import MAX_FILE, Host

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ArchiveHost", "Recorder", "is_archive", "pack", "record", "unpack"]

_STEADY_LINES = {
    # files that change while the host stays as it is: the beginnings of the lines that the commands read
    "meminfo": ("MemTotal:", "Node "),
    "cpuinfo": ("model name", "cpu\t", "CPU implementer", "CPU part", "Model", "vendor_id"),
    "status": ("Cpus_allowed_list:", "Mems_allowed_list:"),
}
_SELF = "proc/self"

MAX_MEMBERS = 200_000
MAX_BYTES = 256 << 20
"""Bytes of all members together, unpacked."""
_ERRORS = "numalign/errors.json"
_TIMES = "numalign/modified.json"
_ErrorNumber = Annotated[int, msgspec.Meta(ge=1, le=4095)]  # the kernel's MAX_ERRNO (include/linux/err.h)
_MAX_PATH = 1024
_GZIP = b"\x1f\x8b"


class Recorder(Host):
    """A host that keeps everything that is read off it."""

    def __init__(self, root: str = "/") -> None:
        super().__init__(root)
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()
        self.errors: dict[str, int] = {}
        self.times: dict[str, float] = {}

    def read(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        try:
            data = super().read(path, limit)
        except OSError as error:
            self._failed(path, error)
            raise
        place = self.real(path)
        if data is not None and place is not None and len(self.files.get(place, b"")) <= len(data):
            self.files[place] = data
        return data

    def entries(self, path: str) -> list[str]:
        try:
            names = super().entries(path)
        except OSError as error:
            self._failed(path, error)
            raise
        place = self.real(path)
        if place is not None:
            self.folders.add(place)
            for name in names:
                self._entry(f"{place}/{name}" if place else name)
        return names

    def link(self, path: str) -> str | None:
        try:
            target = super().link(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._failed(path, error)
            raise
        if target is not None:
            self.links[path] = target
        elif os.path.isdir(f"{self.root}/{path}"):
            self.folders.add(path)
        else:
            self.files.setdefault(path, b"")  # that it is there was asked for
        return target

    def modified(self, path: str) -> float | None:
        time = super().modified(path)
        if time is not None:
            self.times[path] = time
        return time

    def remember(self, path: str, data: bytes) -> None:
        self.files.setdefault(path, data)

    def _entry(self, path: str) -> None:
        """A name in a listed directory: links and directories are kept; a file counts only where it is read."""
        here = f"{self.root}/{path}"
        try:
            if os.path.islink(here):
                self.links[path] = os.readlink(here)
            elif os.path.isdir(here):
                self.folders.add(path)
        except OSError as error:
            self._failed(path, error)

    def _failed(self, path: str, error: OSError) -> None:
        self.errors[path] = error.errno or errno.EIO


def record(root: str, nvml_mode: NvmlMode) -> Recorder:
    """Everything that is read of the machine below a root directory, and NVML's answers."""
    recorder = Recorder(root)
    probe(recorder, nvml_mode)
    _steady(recorder)
    return recorder


def _steady(recorder: Recorder) -> None:
    """Leaves out what differs from one moment to the next and what nothing reads: the reader's own number, counters."""
    own = f"proc/{recorder.links.pop(_SELF, '')}"
    recorder.folders.discard(own)
    if f"{own}/status" in recorder.files:
        recorder.files[f"{_SELF}/status"] = recorder.files.pop(f"{own}/status")
    for path, data in recorder.files.items():
        kept = _STEADY_LINES.get(path.rpartition("/")[2])
        if kept is not None:
            recorder.files[path] = b"".join(_lines(data, kept))


def _lines(data: bytes, kept: tuple[str, ...]) -> Iterator[bytes]:
    for line in data.splitlines(keepends=True):
        text = line.decode("utf-8", "replace")
        if text.startswith(kept) and ("MemTotal:" in text or not text.startswith("Node ")):
            yield line


class ArchiveHost(Host):
    """A host whose files are the members of a snapshot, held in memory."""

    def __init__(self, files: dict[str, bytes], links: dict[str, str], name: str) -> None:
        super().__init__("/")
        self.root = name
        self._files = files
        self._links = links
        self._folders: dict[str, set[str]] = {"": set()}
        for path in (*files, *links):
            self._add_parents(path)
        self._errors: dict[str, int] = {}
        self._errors = self.value(_ERRORS, _decode_errors) or {}
        self._times = self.value(_TIMES, _decode_times) or {}
        for path in self._errors:
            self._add_parents(path)

    @property
    def packed(self) -> bool:
        return True

    def add_folder(self, path: str) -> None:
        """Makes a directory, empty unless members lie in it."""
        self._folders.setdefault(path, set())
        self._add_parents(path)

    def read(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        self._raise_recorded(path)
        place = self.real(path)
        data = None if place is None else self._files.get(place)
        return None if data is None else data[:limit]

    def entries(self, path: str) -> list[str]:
        self._raise_recorded(path)
        place = self.real(path)
        return [] if place is None else sorted(self._folders.get(place, ()))

    def link(self, path: str) -> str | None:
        self._raise_recorded(path)
        target = self._links.get(path)
        if target is None and path not in self._files and path not in self._folders:
            raise FileNotFoundError
        return target

    def modified(self, path: str) -> float | None:
        return self._times.get(path)

    def _raise_recorded(self, path: str) -> None:
        number = self._errors.get(path)
        if number:
            raise OSError(number, os.strerror(number))

    def _add_parents(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition("/")
            names = self._folders.setdefault(parent, set())
            if len(self._folders) > MAX_MEMBERS:
                raise _too_large(self.root)
            if name in names:
                return
            names.add(name)
            path = parent


def is_archive(head: bytes) -> bool:
    """Whether the first 512 bytes are those of a gzip file or a tar archive."""
    return head[:2] == _GZIP or head[257:262] == b"ustar"


def pack(recorder: Recorder) -> bytes:
    """The recorded reads as a gzipped tar archive; the same reads give the same bytes."""
    files = dict(recorder.files)
    if recorder.errors:
        files[_ERRORS] = msgspec.json.encode(recorder.errors, order="sorted")
    if recorder.times:
        files[_TIMES] = msgspec.json.encode(recorder.times, order="sorted")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*files, *recorder.links, *recorder.folders} - {""}):
            member = tarfile.TarInfo(path)
            member.mode = 0o644
            if path in recorder.links:
                member.type = tarfile.SYMTYPE
                member.linkname = recorder.links[path]
                archive.addfile(member)
            elif path in files:
                member.size = len(files[path])
                archive.addfile(member, io.BytesIO(files[path]))
            else:
                member.type = tarfile.DIRTYPE
                member.mode = 0o755
                archive.addfile(member)
    return gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)


def unpack(data: bytes, name: str) -> ArchiveHost:
    """The host in a snapshot. Raises CannotRead where the archive is damaged, too large or not a snapshot."""
    stream: io.BufferedIOBase = io.BytesIO(data)
    if data[:2] == _GZIP:
        stream = gzip.GzipFile(fileobj=stream)
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    folders: list[str] = []
    total = 0
    try:
        with tarfile.open(fileobj=_Bounded(stream, name), mode="r|", tarinfo=_Member) as archive:
            for count, member in enumerate(archive):
                path = _member_path(member, name)
                total += max(member.size, 0)
                if count >= MAX_MEMBERS or total > MAX_BYTES:
                    raise _too_large(name)
                if member.isdir():
                    folders.append(path)
                elif member.issym():
                    links[path] = member.linkname
                elif member.isreg():
                    content = archive.extractfile(member)
                    files[path] = content.read() if content else b""
                elif member.islnk():
                    files[path] = files.get(_clean(member.linkname), b"")
                else:
                    raise CannotRead(f"{name}: {path!r} is a device or a pipe; a snapshot has none")
            _drain(archive)
    except (tarfile.TarError, OSError, EOFError, RecursionError, ValueError, zlib.error) as error:
        raise CannotRead(f"{name}: no snapshot, or a damaged one: {error or type(error).__name__}") from error
    host = ArchiveHost(files, links, name)
    for folder in folders:
        host.add_folder(folder)
    return host


class _Member(tarfile.TarInfo):
    """A member whose header is whole: tarfile itself takes a bad one behind the first member for the archive's end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise  # the block of zeros that ends an archive
            raise tarfile.ReadError(str(error) if buf else "it was cut off") from error


def _drain(archive: tarfile.TarFile) -> None:
    """Reads what is left behind the archive's end, so that gzip compares its checksum; only zeros may be there."""
    while archive.fileobj and (rest := archive.fileobj.read(1 << 16)):
        if any(rest):
            raise tarfile.ReadError("more follows behind its end")


class _Bounded(io.RawIOBase):
    """A stream that ends the reading of an archive where it unpacks to more than any snapshot."""

    def __init__(self, stream: io.BufferedIOBase, name: str) -> None:
        self._stream = stream
        self._name = name
        self._left = MAX_BYTES + MAX_MEMBERS * 1024

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._name)
        return data


def _too_large(name: str) -> CannotRead:
    return CannotRead(f"{name}: more than {MAX_MEMBERS} members or {MAX_BYTES >> 20} MiB, which no snapshot has")


def _member_path(member: tarfile.TarInfo, name: str) -> str:
    path = member.name
    if path.startswith("/") or ".." in path.split("/") or len(path) > _MAX_PATH:
        raise CannotRead(f"{name}: the member {path[:80]!r} leads out of the archive; it was left unread")
    return _clean(path)


def _clean(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _decode_errors(text: str) -> dict[str, _ErrorNumber]:
    return msgspec.json.decode(text, type=dict[str, _ErrorNumber])


def _decode_times(text: str) -> dict[str, float]:
    return msgspec.json.decode(text, type=dict[str, float])
