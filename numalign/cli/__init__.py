"""The command line: thin functions over the rest, one file a command."""

from __future__ import annotations

import os
import sys

from numalign import __version__
from numalign.cli import progress, quick
from numalign.errors import NumalignError

__all__ = ["run"]

# As a shell counts a process that a signal ended.
_INTERRUPTED, _READER_LEFT = 130, 141
_COMPLETION = "_NUMALIGN_COMPLETE"
"""The variable by which a shell asks what can follow."""
_OTHERWISE: dict[tuple[str, ...], list[str]] = {
    # other ways to say it
    ("checks",): ["checks", "list"],
    ("version",): ["--version"],
    ("-V",): ["--version"],
}


def run(words: list[str]) -> int:
    """Runs a command line (without the program's name) and gives its exit status."""
    try:
        with progress.shown():
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
    if _COMPLETION in os.environ:
        from numalign.cli.completion import answer

        return answer(os.environ[_COMPLETION], words)
    words = _OTHERWISE.get(tuple(words), words)
    if words == ["--version"]:
        return _say(f"numalign {__version__}\n")
    call = quick.read(words, dict(os.environ))
    if call is not None:
        return call.function(**call.parameters)
    from numalign.cli.help import helped

    asked = helped(words)
    if asked is not None:
        text, status = asked
        return _say(text, status)
    from numalign.cli.mistakes import mistake

    mistaken = mistake(words)
    if mistaken is not None:
        raise mistaken
    from numalign.cli.app import build

    try:
        build()(args=words, prog_name="numalign")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 0 if left.code is None else 2
    return 0


def _say(text: str, status: int = 0) -> int:
    from numalign.cli.files import emit
    from numalign.report.screen import encoded

    emit(encoded(text, sys.stdout), None)
    return status
