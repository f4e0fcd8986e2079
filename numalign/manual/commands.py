"""The commands as `--help` has them: usage, options and examples, read off the command line's own declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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
    from typer.main import get_command

    from numalign.cli.app import build

    return tuple(_pages(get_command(build()), (PROGRAM,), None))


def _pages(command: Any, words: tuple[str, ...], parent: Any) -> Iterator[Page]:
    context = command.make_context(words[-1], [], parent=parent, resilient_parsing=True)
    inner = {name: command.get_command(context, name) for name in getattr(command, "commands", {})}
    yield Page(
        words=words,
        summary=command.get_short_help_str(limit=200),
        usage=" ".join((*words, *(piece.strip("{}") for piece in command.collect_usage_pieces(context)))),
        about=tuple(" ".join(text.split()) for text in (command.help or "").split("\n\n")),
        arguments=tuple(
            Entry(parameter.make_metavar(context), parameter.help or "")
            for parameter in command.get_params(context)
            if parameter.param_type_name == "argument"
        ),
        options=tuple(
            Entry(record[0], " ".join(record[1].split()))
            for parameter in command.get_params(context)
            if parameter.param_type_name == "option" and (record := parameter.get_help_record(context))
        ),
        commands=tuple(Entry(name, one.get_short_help_str(limit=200)) for name, one in inner.items()),
        examples=tuple(line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  ")),
    )
    for name, one in inner.items():
        yield from _pages(one, (*words, name), context)
