"""`numalign`, `--help`: what a command is for, examples that work as they stand, its options by what they are about.

Written from the table of commands, without Typer: who asks for help does not wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from textwrap import wrap

from numalign.cli.commands import COMMANDS, Command
from numalign.cli.options import ARGUMENTS, SEVERAL, Option
from numalign.cli.parameters import WISHES, arguments_of, function_of, options_of
from numalign.report.screen import columns, shows_colours

__all__ = ["ABOUT", "GROUPS", "explained", "helped", "names_of", "panelled", "text", "usage", "written"]

GROUPS = {
    "render": "Write configuration for a machine, with the reason for every choice.",
    "kubelet": "What a kubelet makes of a configuration, and what its versions know.",
    "checks": "The checks that verify makes.",
}
"""The words that several commands begin with."""

_PANELS: Mapping[str, tuple[str, ...]] = {
    "The machine": ("root", "machine", "nvml"),
    "The kubelet": (
        *("config", "config_dir", "kubelet_flags", "state_dir", "running", "kubernetes_version"),
        *("kubeconfig", "node_name"),
    ),
    "Policies": ("policy", "scope", "option"),
    "Reserved CPUs": ("reserved_cpus", "reserved_cpu_count", "reserved_cores_per_numa", "reserve_on"),
    "Memory": ("memory_manager", "kube_reserved_memory", "system_reserved_memory"),
    "Devices": ("device", "devices", "mig_strategy"),
    "What is expected": ("expect", "expect_gpus", "expect_nics"),
    "What counts": ("only", "ignore", "fail_on", "policy_file"),
    "Output": ("output", "out", "diff", "check", "template", "base"),
}
"""What the options of several commands are about, by parameter; all others stand first, under Options."""

ABOUT = (
    "numalign reads a GPU node, writes the kubelet's configuration for it, checks that the two agree, and says what "
    "becomes of a pod."
)
_FIRST = (
    "numalign inspect # the topology map of this machine",
    "numalign plan --shares # what a pod can have beside its GPUs",
    "numalign render kubelet-config # its kubelet's configuration, with reasons",
    "numalign verify # does the node do what it is configured to?",
    "numalign predict pod.yaml # what the kubelet would do with a pod",
    "numalign snapshot node.tar.gz # all of this in a file, to use elsewhere",
)
_STATUS = (
    "Exit status: 0 it holds, 1 it does not, 2 wrong usage, 3 something could not be read. numalign --version prints "
    "the version."
)
_MOST = 100
"""Columns: longer lines are hard to read."""


def helped(words: list[str]) -> tuple[str, int] | None:
    """The help that a command line asks for, and the exit status; None where it asks for none.

    A line that stops before it names a command is wrong usage, and gets the help all the same.
    """
    given = words[: words.index("--")] if "--" in words else words
    if not given:
        return text(()), 2
    asked = given[0] == "help" or bool({"-h", "--help"} & {*given})
    path = given[1:] if given[0] == "help" else given
    known = _known(path)
    rest = [word for word in path[len(known) :] if word not in ("-h", "--help")]
    if tuple(path) == known and known in {(group,) for group in GROUPS}:
        return text(known), 0 if asked else 2
    if not asked or (rest and not rest[0].startswith("-") and known not in {command.words for command in COMMANDS}):
        return None
    return text(known, whole=True), 0


def _known(words: list[str]) -> tuple[str, ...]:
    """The words of a command line that name a command or group."""
    names = {(), *((group,) for group in GROUPS), *(command.words for command in COMMANDS)}
    return max((name for name in names if tuple(words[: len(name)]) == name), key=len)


def text(words: tuple[str, ...], *, whole: bool = False) -> str:
    """The help on a command or group; on none a few commands to begin with, or the `whole` list."""
    width = min(columns(sys.stdout, 80), _MOST)
    command = next((command for command in COMMANDS if command.words == words), None)
    if command is not None:
        lines = _of_command(command, width)
    elif words:
        own = [command for command in COMMANDS if command.words[: len(words)] == words]
        lines = _of_group(f"numalign {' '.join(words)}", GROUPS[words[0]], own, width)
    elif whole:
        lines = _of_group("numalign", ABOUT, COMMANDS, width)
    else:
        lines = _first_steps(width)
    return "\n".join(lines) + "\n"


def names_of(table: str) -> list[str]:
    """The names in a table or of a function, written as `module:NAME`."""
    module, _, name = table.partition(":")
    found = getattr(import_module(module), name)
    return list(found() if callable(found) else found)


def _first_steps(width: int) -> Iterator[str]:
    yield from _paragraph(ABOUT, width)
    yield from ("", _heading("To begin with"))
    yield from _examples(_FIRST, width)
    yield ""
    yield from _paragraph("numalign --help lists all commands, numalign COMMAND --help has examples of each.", width)


def _of_group(called: str, about: str, commands: Iterable[Command], width: int) -> Iterator[str]:
    yield f"Usage: {called} COMMAND [OPTIONS]"
    yield ""
    yield from _paragraph(about, width)
    yield ""
    yield _heading("Commands")
    yield from _rows([(" ".join(command.words), command.summary) for command in commands], width)
    yield ""
    yield "numalign COMMAND --help has examples and the options of each."
    if called == "numalign":
        yield ""
        yield from _paragraph(_STATUS, width)


def _of_command(command: Command, width: int) -> Iterator[str]:
    arguments = arguments_of(command)
    yield f"Usage: {usage(command)}"
    yield ""
    described = (function_of(command).__doc__ or command.summary).split("\n\n")
    for i, part in enumerate(described):
        yield from [""] * (i > 0)
        yield from _paragraph(part, width)
    yield from ("", _heading("Examples"))
    yield from _examples(command.examples, width)
    if arguments:
        yield from ("", _heading("Arguments"))
        yield from _rows([(name.upper(), ARGUMENTS[f"{command.words[0]}.{name}"]) for name in arguments], width)
    defaults = {**WISHES, **(function_of(command).__kwdefaults__ or {})}
    for panel, options in panelled(options_of(command)):
        yield from ("", _heading(panel))
        yield from _rows([(written(row), explained(row, defaults.get(name))) for name, row in options.items()], width)


def usage(command: Command) -> str:
    """`numalign predict FILE [OPTIONS]`."""
    several = {name for name in arguments_of(command) if f"{command.words[0]}.{name}" in SEVERAL}
    arguments = [f"{name.upper()}{'...' * (name in several)}" for name in arguments_of(command)]
    return " ".join(("numalign", *command.words, *arguments, "[OPTIONS]"))


def panelled(options: Mapping[str, Option]) -> Iterator[tuple[str, dict[str, Option]]]:
    """The options in panels, in the order in which they are looked for."""
    panels = {name: {own: options[own] for own in names if own in options} for name, names in _PANELS.items()}
    own = {name: row for name, row in options.items() if not any(name in panel for panel in panels.values())}
    for title, rows in {"Options": own, **panels}.items():
        if rows:
            yield title, rows


def written(row: Option) -> str:
    """`-o, --output FORMAT`."""
    flags = sorted(row.flags, key=len)
    metavar = row.metavar or ("" if row.takes == "flag" else "|".join(row.choices))
    return f"{', '.join(flags)} {metavar}".rstrip()


def explained(row: Option, default: object) -> str:
    """The option's help with the values that it takes."""
    said, mark, without = row.help.partition(" [default")
    if row.names_from is not None:
        said = f"{said} {', '.join(names_of(row.names_from))}."
    if row.choices and not all(choice in said for choice in row.choices):
        said = f"{said.removesuffix('.')}: {', '.join(row.choices)}"
    said += mark + without
    if row.choices and isinstance(default, str):
        said = f"{said} [default: {default}]"
    return f"{said} Also from the variable {row.environment}." if row.environment else said


def _heading(title: str) -> str:
    return f"\x1b[1m{title}:\x1b[0m" if shows_colours(sys.stdout) else f"{title}:"


def _paragraph(words: str, width: int, indent: str = "") -> list[str]:
    return wrap(
        " ".join(words.split()),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _rows(rows: list[tuple[str, str]], width: int) -> Iterator[str]:
    """Names with their explanations beside them, or below where a name is long."""
    column = min(max(len(name) for name, _ in rows), 26) + 4
    for name, explanation in rows:
        lines = _paragraph(explanation, width, " " * column)
        if len(name) + 4 <= column:
            yield f"  {name}".ljust(column) + lines[0].lstrip()
            lines = lines[1:]
        else:
            yield f"  {name}"
        yield from lines


def _examples(examples: tuple[str, ...], width: int) -> Iterator[str]:
    """Command lines with their remarks beside them, or above where there is no room."""
    pairs = [example.partition(" # ") for example in examples]
    beside = [(line, remark) for line, _, remark in pairs if remark and len(line) + len(remark) + 6 <= width]
    column = max(
        (
            len(line)
            for line, _ in beside
            if all(len(line) + len(remark) + 6 <= width for other, remark in beside if len(other) <= len(line))
        ),
        default=0,
    )
    for line, _, remark in pairs:
        if not remark:
            yield f"  {line}"
        elif (line, remark) in beside:
            yield f"  {line.ljust(column)}  # {remark}"
        else:
            yield from (f"  # {remark}", f"  {line}")
