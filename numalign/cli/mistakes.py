"""Mistakes on the command line that deserve more than Typer's word: a command or option that goes by another name, a
file or directory named without its option."""

from __future__ import annotations

import os
import shlex

from numalign.cli import quick
from numalign.cli.commands import COMMANDS, Command
from numalign.cli.help import GROUPS
from numalign.cli.parameters import options_of
from numalign.errors import WrongUsage

__all__ = ["mistake"]

_ELSEWHERE: dict[str, tuple[str, ...]] = {
    # what people call it, here or with other tools -> the commands that they most likely mean
    "allocate": ("kubelet allocatable",),
    "check": ("verify", "checks list"),
    "collect": ("snapshot",),
    "completions": ("completion",),
    "diff": ("render kubelet-config --diff",),
    "doctor": ("verify",),
    "explain": ("checks show", "predict"),
    "gates": ("kubelet features",),
    "generate": ("render kubelet-config", "render pod"),
    "lint": ("verify",),
    "map": ("inspect",),
    "matrix": ("inspect -o matrix",),
    "reserve": ("plan",),
    "shares": ("plan --shares",),
    "show": ("inspect", "checks show"),
    "simulate": ("predict",),
    "test": ("verify",),
    "topo": ("inspect -o matrix",),
    "topology": ("inspect",),
    "tree": ("inspect -o tree",),
    "validate": ("verify",),
    "why": ("predict", "checks show"),
}
_FLAGS: dict[str, str] = {
    # an option that is none of ours -> what does it
    "-o": "--out FILE writes to a file",
    "--format": "-o chooses the form, where a command has several",
    "--install-completion": "numalign completion --help says how a shell learns the commands",
    "--show-completion": "numalign completion bash prints it, and so for zsh and fish",
}


def mistake(words: list[str]) -> WrongUsage | None:
    """The error for a command line that cannot be right, with the nearest that can; None where Typer tells."""
    stray = quick.stray_word(words)
    if stray is not None:
        return _named_without_option(*stray, words)
    command = next((own for own in COMMANDS if tuple(words[: len(own.words)]) == own.words), None)
    if command is not None:
        return _another_option(command, words)
    if words[0].startswith("-"):
        hint = _FLAGS.get(words[0], "numalign --help lists the commands")
        return WrongUsage(f"numalign has no option {words[0]}", hint=hint)
    return _no_command(words)


def _no_command(words: list[str]) -> WrongUsage:
    """No command begins so; a group lacks its second word."""
    from difflib import get_close_matches

    within = words[0] if words[0] in GROUPS and len(words) > 1 else ""
    word = words[1] if within else words[0]
    names = {" ".join(own.words[bool(within) :]): own for own in COMMANDS if not within or own.words[0] == within}
    ends = {own.words[-1]: own for own in names.values()}
    meant = [] if within else list(_ELSEWHERE.get(word, ()))
    if not meant:
        close = get_close_matches(word, [*names, *ends, *({} if within else GROUPS)], n=2)
        meant = [" ".join((names.get(near) or ends[near]).words) if near not in GROUPS else near for near in close]
    hint = f"did you mean {' or '.join(f'numalign {near}' for near in dict.fromkeys(meant))}?"
    called = f"numalign {within}".rstrip()
    return WrongUsage(f"there is no command {called} {word}", hint=hint if meant else f"{called} --help has those")


def _another_option(command: Command, words: list[str]) -> WrongUsage | None:
    """The first option that the command does not have, with those that are nearest."""
    takes = {flag: row.takes != "flag" for row in options_of(command).values() for flag in row.flags}
    rest = iter(words[len(command.words) :])
    for word in rest:
        if word == "--":
            return None
        if word == "-" or not word.startswith("-"):
            continue
        flag, equals, _ = word.partition("=") if word.startswith("--") else (word[:2], word[2:], "")
        if flag not in takes:
            called = f"numalign {' '.join(command.words)}"
            return WrongUsage(
                f"{called} has no option {flag}", hint=_instead(flag, [*takes]) or f"{called} --help has all"
            )
        if takes[flag] and not equals:
            next(rest, None)
    return None


def _instead(flag: str, known: list[str]) -> str | None:
    """What an option that is none is most likely meant for."""
    if flag in _FLAGS:
        return _FLAGS[flag]
    from difflib import get_close_matches

    begun = [other for other in known if len(flag) > 3 and (other.startswith(flag) or other.endswith(flag[1:]))]
    near = begun or get_close_matches(flag, known, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else None


def _named_without_option(command: Command, place: int, words: list[str]) -> WrongUsage:
    """A word where the command takes none; the hint is the same line with the option that it is most likely for."""
    called, word = f"numalign {' '.join(command.words)}", words[place]
    known = {flag for row in options_of(command).values() for flag in row.flags}
    option = _likely(command, word)
    usable = option in known and not any(other.partition("=")[0] == option for other in words)
    line = shlex.join(["numalign", *words[:place], option, *words[place:]])
    if usable:
        hint = line
    elif word.isdecimal() and "--shares" in known:
        hint = f"{called} --shares has a row for each number of GPUs"
    else:
        hint = f"{called} --help has its options"
    return WrongUsage(f"{called} takes no {word!r} without an option", hint=hint)


def _likely(command: Command, word: str) -> str:
    """The option that a word is most likely for. A file that is there is none to write to: to follow the hint would
    replace it."""
    if os.path.isdir(word):
        return "--root"
    if word.endswith((".gz", ".tgz", ".tar")):
        return "--machine"
    if word.isdecimal() and not os.path.exists(word):
        return "--gpus"
    for row in options_of(command).values():
        if word in row.choices:
            return max(row.flags, key=len)
    return "--base" if command.file == "--out" and os.path.exists(word) else command.file
