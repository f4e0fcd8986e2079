"""The commands and their options, as data: Typer's declarations and the quick reading of a command line come from here.

A command's function has a keyword parameter for each option; the row of that name says how it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Literal, NamedTuple

__all__ = ["ARGUMENTS", "COMMANDS", "OPTIONS", "Command", "Option", "function_of", "option_of", "parameters_of"]

Takes = Literal["text", "choice", "flag"]


class Option(NamedTuple):
    """An option: the ways to write it, its help, and what it takes; `choices` are the values of a choice."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    takes: Takes = "text"
    environment: str | None = None


class Command(NamedTuple):
    """A command: the words that call it, where its function is, and examples for its help."""

    words: tuple[str, ...]
    function: str
    examples: tuple[str, ...]


COMMANDS: tuple[Command, ...] = (
    Command(
        ("inspect",),
        "numalign.cli.inspect:inspect",
        (
            "numalign inspect                      this host",
            "numalign inspect -o matrix            the links, as nvidia-smi topo -m prints them",
            "numalign inspect --machine node.tar.gz -o json",
        ),
    ),
    Command(
        ("render", "kubelet-config"),
        "numalign.cli.render:kubelet_config",
        (
            "numalign render kubelet-config --out /var/lib/kubelet/config.yaml",
            "numalign render kubelet-config --machine node.tar.gz --reserved-cpus 0-1,112-113",
        ),
    ),
    Command(
        ("verify",),
        "numalign.cli.verify:verify",
        (
            "numalign verify                       /var/lib/kubelet/config.yaml against this host",
            "numalign verify --config kubelet.yaml --machine node.tar.gz",
        ),
    ),
    Command(
        ("snapshot",),
        "numalign.cli.snapshot:snapshot",
        (
            "numalign snapshot node.tar.gz         to read elsewhere with --machine node.tar.gz",
            "numalign snapshot node.tar.gz --redact",
        ),
    ),
)

ARGUMENTS: dict[str, str] = {
    # parameter of a command's function -> help; it is written without a flag
    "snapshot.file": "The archive to write (- for standard output).",
}

OPTIONS: dict[str, Option] = {
    # the parameter's name, or command.parameter where a command has a row of its own
    "root": Option(("--root",), "Read the host below this directory.", metavar="DIR", environment="NUMALIGN_ROOT"),
    "machine": Option(
        ("--machine",),
        "Read a snapshot or a Machine document instead of a host (- for standard input).",
        metavar="FILE",
    ),
    "nvml": Option(
        ("--nvml",),
        "Ask NVML where the host has NVIDIA devices (auto), never (off), or fail without it (require).",
        choices=("auto", "off", "require"),
        takes="choice",
    ),
    "inspect.output": Option(
        ("--output", "-o"),
        "How to print the map.",
        choices=("text", "tree", "matrix", "json", "yaml"),
        takes="choice",
    ),
    "verify.output": Option(("--output", "-o"), "How to print the findings.", choices=("text", "json"), takes="choice"),
    "out": Option(("--out",), "Write to this file, whole or not at all.", metavar="FILE"),
    "redact": Option(("--redact",), "Leave out the host's name, serial numbers and addresses.", takes="flag"),
    "reserved_cpus": Option(
        ("--reserved-cpus",), "The CPUs to keep for the system, such as 0-1,112-113; whole cores.", metavar="LIST"
    ),
    "config": Option(
        ("--config",),
        "The KubeletConfiguration to verify [default: /var/lib/kubelet/config.yaml below the root].",
        metavar="FILE",
    ),
    "fail_on": Option(
        ("--fail-on",),
        "The lowest severity that makes the exit status 1.",
        choices=("error", "warning", "info"),
        takes="choice",
    ),
}


def option_of(command: Command, parameter: str) -> Option:
    """The row of a command's parameter."""
    return OPTIONS.get(f"{command.words[0]}.{parameter}") or OPTIONS[parameter]


def function_of(command: Command) -> Callable[..., int]:
    """The command's function, imported."""
    module, _, name = command.function.partition(":")
    function: Callable[..., int] = getattr(import_module(module), name)
    return function


def parameters_of(function: Callable[..., int]) -> tuple[str, ...]:
    """The names of a command function's keyword parameters."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
