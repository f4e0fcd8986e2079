"""Reading the machines of a fleet: finding the documents and snapshots, and reading them in several processes at once.

What is found is not trusted: only regular files are opened, links to directories are not followed, sizes are bounded,
and a file that cannot be read is a line of the answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import IO, NamedTuple

import msgspec

from numalign.cli import progress
from numalign.cli.files import MAX_BYTES
from numalign.cli.source import machine_document
from numalign.errors import CannotRead
from numalign.fleet import Gathering, Sight, Unread, sight
from numalign.words import count

__all__ = ["Found", "gather"]

_DOCUMENTS = (".json", ".jsonl", ".ndjson", ".yaml", ".yml")
_SNAPSHOTS = (".tar.gz", ".tgz", ".tar")
_CHUNK = 16
"""Files that a process is given at once."""
_FEW = 24
"""Files up to which starting processes takes longer than reading."""
_MOST_PROCESSES = 32
_AHEAD = 4
"""Chunks for each process that are handed out before their answers are taken."""
_PIPES = re.compile(r"/dev/fd/\d+|/dev/stdin|/proc/self/fd/\d+")
"""Where a shell puts what a command writes: `<(command)`."""
_BEFORE = b"\xef\xbb\xbf \t\r\n"
"""What may stand before a document."""
_STDIN = "standard input"


class Found(NamedTuple):
    """The nodes that were read, and what could not be."""

    gathering: Gathering
    unread: list[Unread]


class _Task(NamedTuple):
    """Something to read: its name for people, and its content where it is not a file to be opened."""

    source: str
    data: bytes | None = None


def gather(paths: Iterable[str]) -> Found:
    """Reads all Machine documents and snapshots in files and directories (`-`: on standard input)."""
    gathering, unread = Gathering(), []
    for number, answer in enumerate(_answers(_tasks(paths)), 1):
        for one in answer:
            if isinstance(one, Sight):
                gathering.add(one)
            else:
                unread.append(one)
        progress.say(f"read {count(number, 'file')}, {count(len(gathering), 'node')}")
    return Found(gathering, unread)


# -- finding


def _tasks(paths: Iterable[str]) -> Iterator[_Task | Unread]:
    for path in paths:
        if path == "-":
            yield from _of_stream(sys.stdin.buffer)
        elif os.path.isdir(path):
            yield from _below(path)
        else:
            yield _Task(path)


def _below(folder: str) -> Iterator[_Task | Unread]:
    """The documents and snapshots in a directory and those below it, by name; an unpacked snapshot is one of them."""
    todo, nothing = [folder], True
    while todo:
        here = todo.pop()
        if here == folder or not _is_root(here):
            try:
                with os.scandir(here) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                nothing = False
                yield Unread(here, error.strerror or str(error))
                continue
        if _is_root(here):
            nothing = False
            yield _Task(here)
            continue
        todo += (entry.path for entry in reversed(listed) if not _hidden(entry) and _is_folder(entry))
        for entry in listed:
            if not _hidden(entry) and entry.name.endswith((*_DOCUMENTS, *_SNAPSHOTS)) and not _is_folder(entry):
                nothing = False
                yield _Task(entry.path)
    if nothing:
        yield Unread(folder, f"nothing in it ends in {', '.join((*_DOCUMENTS, *_SNAPSHOTS))}")


def _hidden(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(".")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_root(folder: str) -> bool:
    """Whether a directory is a host's root, as an unpacked snapshot is."""
    return os.path.isdir(os.path.join(folder, "sys", "devices", "system", "cpu"))


def _of_stream(stream: IO[bytes]) -> Iterator[_Task]:
    """What standard input holds: a document a line, else documents one after another, or a snapshot."""
    first = stream.readline(MAX_BYTES + 1)
    if not _is_line(first):
        yield _Task(_STDIN, first + stream.read(MAX_BYTES + 1 - len(first)))
        return
    number, line = 1, first
    while line:
        if line.strip():
            yield _Task(f"{_STDIN}:{number}", line)
        number, line = number + 1, stream.readline(MAX_BYTES + 1)


def _is_line(line: bytes) -> bool:
    """Whether a line is a document as a whole."""
    line = line.strip()
    return line[:1] == b"{" and line[-1:] == b"}"


# -- reading


def _answers(tasks: Iterable[_Task | Unread]) -> Iterator[list[Sight | Unread]]:
    """What each task gives, in their order; by this process where they are few."""
    tasks = iter(tasks)
    first = list(islice(tasks, _FEW))
    seen: set[tuple[str, bytes]] = set()
    if len(first) < _FEW or _processors() == 1:
        yield from (_read(task, seen) for task in first)
        yield from (_read(task, seen) for task in tasks)
        return
    processes = _processors()
    pool = ProcessPoolExecutor(processes, get_context("fork"), _begin)
    try:
        waiting: deque[Future[list[list[Sight | Unread]]]] = deque()
        for chunk in _chunks(first, tasks):
            waiting.append(pool.submit(_read_all, chunk))
            if len(waiting) > _AHEAD * processes:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    except BrokenProcessPool as error:
        raise CannotRead(
            "a process that read documents was ended from outside", hint="is there enough memory?"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chunks(first: list[_Task | Unread], tasks: Iterator[_Task | Unread]) -> Iterator[list[_Task | Unread]]:
    """The tasks in portions of about equal work: fewer where they carry their content."""
    yield first
    while chunk := list(islice(tasks, _CHUNK)):
        yield chunk


def _processors() -> int:
    return min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)


_SENT: set[tuple[str, bytes]] = set()
"""In a process that reads: the kinds of machines that it has sent."""


def _begin() -> None:
    """A process that reads is ended by the one that started it, not by the terminal, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read_all(tasks: list[_Task | Unread]) -> list[list[Sight | Unread]]:
    return [_read(task, _SENT) for task in tasks]


def _read(task: _Task | Unread, seen: set[tuple[str, bytes]]) -> list[Sight | Unread]:
    """The nodes of a file, or why there are none."""
    if isinstance(task, Unread):
        return [task]
    try:
        if task.data is None and os.path.isdir(task.source):
            return [_probed_root(task.source, seen)]
        data = _content(task.source) if task.data is None else task.data
        return _nodes(data, task.source, seen)
    except CannotRead as error:
        return [Unread(task.source, _reason(error.message, task.source))]
    except (OSError, RecursionError, MemoryError) as error:
        return [Unread(task.source, (error.strerror if isinstance(error, OSError) else None) or type(error).__name__)]


def _reason(message: str, source: str) -> str:
    """The message without the name that stands before it anyway."""
    return message.removeprefix(source).lstrip(": ").removeprefix("is ") or message


def _content(path: str) -> bytes:
    """A file's bytes. Raises CannotRead where it is none, or larger than any document; never waits for a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if _PIPES.fullmatch(path):
            os.set_blocking(fd, True)
        elif not stat.S_ISREG(mode):
            raise CannotRead("it is a pipe, a socket or a device, and no file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise CannotRead(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def _nodes(data: bytes, source: str, seen: set[tuple[str, bytes]]) -> list[Sight | Unread]:
    """The machine of a snapshot, or those of a file of one or several documents."""
    from numalign.probe.snapshot import is_archive

    if is_archive(data[:512]):
        return [_probed(data, source, seen)]
    found: list[Sight | Unread] = []
    parts = list(_documents(data))
    for number, part in enumerate(parts, 1):
        name = source if len(parts) == 1 else f"{source}:{number}"
        try:
            found.append(_of_document(part, name, seen))
        except CannotRead as error:
            found.append(Unread(name, _reason(error.message, name)))
    return found


def _documents(data: bytes) -> Iterator[bytes]:
    """The documents of a text: one, one a line, or several of YAML with `---` between them."""
    text = data.lstrip(_BEFORE)
    if text[:1] == b"{":
        lines = [line for line in text.split(b"\n") if line.strip()]
        several = len(lines) > 1 and all(map(_is_line, lines))
        return iter(lines if several else [data])
    parts = re.split(rb"^---[ \t]*\r?$", data, flags=re.MULTILINE)
    return iter([part for part in parts if part.strip()] or [data])


class _Head(msgspec.Struct):
    """What a document says that it is."""

    kind: str | None = None


def _of_document(data: bytes, source: str, seen: set[tuple[str, bytes]]) -> Sight:
    try:
        machine = machine_document(data, source)
    except CannotRead as error:
        with contextlib.suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            kind = msgspec.json.decode(data, type=_Head).kind
            if kind != "Machine":
                what = f"kind {kind}" if kind else "it has no kind"
                raise CannotRead(f"no Machine document: {what}") from error
        raise
    text = data.lstrip(_BEFORE)
    return sight(machine, source, text if text[:1] == b"{" else None, seen)


def _probed(data: bytes, source: str, seen: set[tuple[str, bytes]]) -> Sight:
    from numalign.probe import probe
    from numalign.probe.snapshot import unpack

    return sight(probe(unpack(data, source)), source, None, seen)


def _probed_root(folder: str, seen: set[tuple[str, bytes]]) -> Sight:
    from numalign.probe import probe
    from numalign.probe.host import Host

    return sight(probe(Host(folder)), folder, None, seen)


# -- telling how far it is
