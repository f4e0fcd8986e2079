"""Reading a plain command line without Typer, which takes longer to import than a host takes to read.

Whatever is not plain (help, completion, mistakes) gives None and is Typer's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from numalign.cli.commands import COMMANDS, Command
from numalign.cli.options import SEVERAL, Option
from numalign.cli.parameters import arguments_of, function_of, options_of

Value = str | bool | tuple[str, ...]

__all__ = ["Call", "read", "stray_word"]


class Call(NamedTuple):
    """A command's function and the parameters that the command line gives it."""

    function: Callable[..., int]
    parameters: dict[str, Value]


def read(words: list[str], environment: dict[str, str]) -> Call | None:
    """The call that the command line means; None where only Typer can tell."""
    for command in COMMANDS:
        if tuple(words[: len(command.words)]) == command.words:
            function = function_of(command)
            parameters = _parameters(command, function, words[len(command.words) :], environment)
            return None if parameters is None else Call(function, parameters)
    return None


def stray_word(words: list[str]) -> tuple[Command, int] | None:
    """The place of the first word that is neither an option, nor an option's value, nor wanted; None where none is.

    Behind an option that the command does not have nobody can tell which word is stray: that option is the mistake.
    """
    for command in COMMANDS:
        if tuple(words[: len(command.words)]) != command.words:
            continue
        arguments = arguments_of(command)
        if any(f"{command.words[0]}.{name}" in SEVERAL for name in arguments):
            return None
        wanted = len(arguments)
        takes = {flag: row.takes != "flag" for row in options_of(command).values() for flag in row.flags}
        rest = iter(range(len(command.words), len(words)))
        for place in rest:
            word = words[place]
            flag, equals, _ = word.partition("=")
            if word == "-" or not word.startswith("-"):
                wanted -= 1
                if wanted < 0:
                    return command, place
            elif flag not in takes:
                return None
            elif takes[flag] and not equals:
                next(rest, None)
    return None


def _parameters(
    command: Command, function: Callable[..., int], words: list[str], environment: dict[str, str]
) -> dict[str, Value] | None:
    arguments, rows = arguments_of(command), options_of(command)
    by_flag = {flag: name for name, row in rows.items() for flag in row.flags}
    found: dict[str, Value] = {}
    for name, row in rows.items():
        if row.environment and environment.get(row.environment):
            found[name] = environment[row.environment]
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag in by_flag:
            name = by_flag[flag]
            given = _value(rows[name], rest, value if equals else None)
            if given is None:
                return None
            if rows[name].takes == "list":
                before = found.get(name, ())
                found[name] = (*(before if isinstance(before, tuple) else ()), str(given))
            else:
                found[name] = given
        elif word == "-" or not word.startswith("-"):
            if not arguments or not word:
                return None
            name = arguments[0]
            if f"{command.words[0]}.{name}" in SEVERAL:
                before = found.get(name, ())
                found[name] = (*(before if isinstance(before, tuple) else ()), word)
            else:
                found[arguments.pop(0)] = word
        else:
            return None
    return found if _required(function) <= set(found) else None


def _required(function: Callable[..., int]) -> set[str]:
    """The parameters without a default."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount - len(function.__defaults__ or ())]
    keyword = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return {*positional, *keyword} - set(function.__kwdefaults__ or ())


def _value(row: Option, rest: object, written: str | None) -> str | bool | None:
    """What the option was given; None where it is not plainly right."""
    if row.takes == "flag":
        return True if written is None else None
    value = next(rest, None) if written is None else written  # type: ignore[call-overload]
    if not isinstance(value, str) or (written is None and value.startswith("-") and value != "-"):
        return None
    if row.choices:
        return next((choice for choice in row.choices if choice == value.lower()), None)
    return value if value or row.may_be_empty else None
