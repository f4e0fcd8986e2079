"""Mistakes on the command line that deserve more than Typer's word: a file or directory named without its option."""

from __future__ import annotations

import os
import shlex

from numalign.cli.options import ARGUMENTS, Command, function_of, option_of, parameters_of
from numalign.errors import WrongUsage

__all__ = ["named_without_option"]


def named_without_option(command: Command, words: list[str], place: int) -> WrongUsage:
    """The error for the word of a command line at a place where the command takes none; the hint is the same line with
    the option that the word is most likely for."""
    called, word = f"numalign {' '.join(command.words)}", words[place]
    option = _likely(command, word)
    known = {flag for name in parameters_of(function_of(command)) for flag in _flags(command, name)}
    usable = option in known and not any(other.partition("=")[0] == option for other in words)
    line = shlex.join(["numalign", *words[:place], option, *words[place:]])
    hint = line if usable else f"{called} --help has its options"
    return WrongUsage(f"{called} takes no {word!r} without an option", hint=hint)


def _likely(command: Command, word: str) -> str:
    """The option that a word is most likely for. A file that is there is none to write to: to follow the hint would
    replace it."""
    if os.path.isdir(word):
        return "--root"
    if word.endswith((".gz", ".tgz", ".tar")):
        return "--machine"
    return "--base" if command.file == "--out" and os.path.exists(word) else command.file


def _flags(command: Command, name: str) -> tuple[str, ...]:
    return () if f"{command.words[0]}.{name}" in ARGUMENTS else option_of(command, name).flags
