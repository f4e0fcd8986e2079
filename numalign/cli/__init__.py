"""The command line: thin functions over the rest, one file a command."""

from __future__ import annotations

import os
import sys

from numalign.cli import quick
from numalign.errors import NumalignError

__all__ = ["run"]

# As a shell counts a process that a signal ended.
_INTERRUPTED, _READER_LEFT = 130, 141


def run(words: list[str]) -> int:
    """Runs a command line (without the program's name) and gives its exit status."""
    try:
        status = _call(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except NumalignError as error:
        from numalign.words import printable

        print(f"numalign: {printable(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"          {printable(error.hint)}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader left (numalign … | head): nothing to say, but no success either, and the interpreter must not
        # flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _READER_LEFT


def _call(words: list[str]) -> int:
    words = ["checks", "list"] if words == ["checks"] else words
    call = quick.read(words, dict(os.environ))
    if call is not None:
        return call.function(**call.parameters)
    stray = quick.stray_word(words)
    if stray is not None:
        from numalign.cli.mistakes import named_without_option

        command, place = stray
        raise named_without_option(command, words, place)
    from numalign.cli.app import build

    try:
        build()(args=words, prog_name="numalign")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0 if left.code is None else 2
    return 0
