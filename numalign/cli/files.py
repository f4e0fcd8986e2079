"""Reading a file that a person named, and writing one whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from numalign.cli import progress
from numalign.errors import CannotRead

if TYPE_CHECKING:
    import msgspec

__all__ = ["emit", "emit_document", "read_file", "write_file"]

MAX_BYTES = 64 << 20


def read_file(path: str, limit: int = MAX_BYTES) -> bytes:
    """The file's bytes (`-`: standard input). Raises CannotRead: unreadable, or more than `limit` bytes."""
    progress.say("reading standard input" if path == "-" else f"reading {path}")
    try:
        if path == "-":
            data = _standard_input(limit)
        else:
            with open(path, "rb") as file:
                data = file.read(limit + 1)
    except IsADirectoryError as error:
        raise CannotRead(f"{path} is a directory", hint="a file is wanted") from error
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror}") from error
    if len(data) > limit:
        raise CannotRead(f"{path}: larger than {limit >> 20} MiB")
    return data


@cache
def _standard_input(limit: int) -> bytes:
    """What is read from standard input, of which there is only one reading."""
    if sys.stdin.isatty():
        progress.end()  # who types sees what is waited for
    return sys.stdin.buffer.read(limit + 1)


def write_file(path: str, data: bytes, mode: int | None = None) -> None:
    """Writes the file whole or not at all; an existing one keeps its mode and owner, and is left alone where it holds
    the same already. A new one has the `mode`, else what the umask leaves. Raises CannotRead."""
    target = os.path.realpath(path)
    # not by the process id: in containers they are the same each time, and one that was killed leaves its file
    temporary = os.path.join(os.path.dirname(target), f".numalign-{os.urandom(8).hex()}.tmp")
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(target).st_mode):
                with open(target, "wb") as file:  # a device or a pipe such as /dev/stdout is no file to replace
                    file.write(data)
                return
            if os.path.getsize(target) == len(data):
                with open(target, "rb") as file:
                    if file.read() == data:
                        return
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with open(fd, "wb") as file:
                if mode is not None:
                    os.fchmod(fd, mode)
                with contextlib.suppress(FileNotFoundError):
                    old = os.stat(target)
                    os.fchmod(fd, stat.S_IMODE(old.st_mode))
                    with contextlib.suppress(PermissionError):
                        os.fchown(fd, old.st_uid, old.st_gid)
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise CannotRead(f"{path}: cannot be written: {error.strerror}") from error


def emit(data: bytes, out: str | None, mode: int | None = None) -> None:
    """Prints a document to standard output, or writes it to the file `out`, if new with `mode`. Raises CannotRead."""
    progress.end()
    if out is not None and out != "-":
        write_file(out, data, mode)
        return
    if sys.stdout is None:
        raise CannotRead("standard output is closed", hint="write to a file with --out")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes again when it ends
        raise CannotRead(f"standard output: cannot be written: {error.strerror}") from error


def emit_document(document: msgspec.Struct, output: str, drawing: str, out: str | None) -> None:
    """Prints or writes a document as JSON, or as text, drawn by a function of numalign.report (`module:function`).

    Raises CannotRead.
    """
    if output == "json":
        from numalign.machine import encode

        emit(encode(document), out)
        return
    from numalign.report.terminal import show

    module, _, function = drawing.partition(":")
    show(getattr(import_module(f"numalign.report.{module}"), function), document, emit, out)
