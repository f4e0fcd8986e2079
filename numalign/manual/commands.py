"""The commands as `--help` has them: usage, options and examples, from the table of commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numalign.cli.commands import COMMANDS, Command
from numalign.cli.help import ABOUT, GROUPS, explained, panelled, usage, written
from numalign.cli.options import ARGUMENTS
from numalign.cli.parameters import WISHES, arguments_of, function_of, options_of

__all__ = ["Entry", "Page", "pages"]

PROGRAM = "numalign"


class Entry(NamedTuple):
    """An argument, an option or a command of a group: how it is written, and its help."""

    written: str
    help: str


class Page(NamedTuple):
    """What `--help` says of a command: the words that call it, a line about it, paragraphs, what it takes, examples.

    `commands` are those of a group; a group has no examples.
    """

    words: tuple[str, ...]
    summary: str
    usage: str
    about: tuple[str, ...]
    arguments: tuple[Entry, ...]
    options: tuple[Entry, ...]
    commands: tuple[Entry, ...]
    examples: tuple[str, ...]

    @property
    def name(self) -> str:
        """The command as it is called."""
        return " ".join(self.words)


def pages() -> tuple[Page, ...]:
    """The program, its groups and its commands, in the order of `--help`."""
    return tuple(_pages())


def _pages() -> Iterator[Page]:
    yield _group((), "the NUMA alignment of Kubernetes GPU nodes", ABOUT)
    seen = set()
    for command in COMMANDS:
        group = command.words[0]
        if group in GROUPS and group not in seen:
            seen.add(group)
            yield _group((group,), GROUPS[group], GROUPS[group])
        yield _command(command)


def _group(words: tuple[str, ...], summary: str, about: str) -> Page:
    """The page of the program, or of the words that several commands begin with."""
    name = " ".join((PROGRAM, *words))
    own = [command for command in COMMANDS if command.words[: len(words)] == words]
    entries = tuple(Entry(" ".join(command.words), _sentence(command.summary)) for command in own)
    return Page((PROGRAM, *words), summary, f"{name} COMMAND [OPTIONS]", (about,), (), (), entries, ())


def _command(command: Command) -> Page:
    function = function_of(command)
    defaults = {**WISHES, **(function.__kwdefaults__ or {})}
    rows = [each for _, options in panelled(options_of(command)) for each in options.items()]
    return Page(
        words=(PROGRAM, *command.words),
        summary=command.summary,
        usage=usage(command),
        about=tuple(" ".join(text.split()) for text in (function.__doc__ or "").split("\n\n")),
        arguments=tuple(Entry(name.upper(), ARGUMENTS[f"{command.words[0]}.{name}"]) for name in arguments_of(command)),
        options=tuple(Entry(written(row), explained(row, defaults.get(name))) for name, row in rows),
        commands=(),
        examples=command.examples,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."
