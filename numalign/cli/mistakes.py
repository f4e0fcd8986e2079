"""Mistakes on the command line that deserve more than Typer's word: a file or directory named without its option."""

from __future__ import annotations

import os

from numalign.cli.options import ARGUMENTS, Command, function_of, option_of, parameters_of
from numalign.errors import WrongUsage

__all__ = ["named_without_option"]


def named_without_option(command: Command, word: str) -> WrongUsage:
    """The error for a word that stands where the command takes none, with the option that it is most likely for."""
    called = f"numalign {' '.join(command.words)}"
    if os.path.isdir(word):
        option = "--root"
    elif word.endswith((".gz", ".tgz", ".tar")):
        option = "--machine"
    else:
        option = command.file
    known = {flag for name in parameters_of(function_of(command)) for flag in _flags(command, name)}
    hint = f"{called} {option} {word}" if option in known else f"{called} --help has its options"
    return WrongUsage(f"{called} takes no {word!r} without an option", hint=hint)


def _flags(command: Command, name: str) -> tuple[str, ...]:
    return () if f"{command.words[0]}.{name}" in ARGUMENTS else option_of(command, name).flags
