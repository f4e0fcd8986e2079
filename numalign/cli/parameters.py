"""What the functions of the commands take: the rows of their options, the names of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from numalign.cli.commands import Command
from numalign.cli.options import ARGUMENTS, OPTIONS, Option

__all__ = ["WISHES", "arguments_of", "function_of", "option_of", "options_of", "parameters_of"]


def option_of(command: Command, parameter: str) -> Option:
    """The row of a command's parameter."""
    whole = OPTIONS.get(f"{' '.join(command.words)}.{parameter}")
    return whole or OPTIONS.get(f"{command.words[0]}.{parameter}") or OPTIONS[parameter]


def function_of(command: Command) -> Callable[..., int]:
    """The command's function, imported."""
    module, _, name = command.function.partition(":")
    function: Callable[..., int] = getattr(import_module(module), name)
    return function


WISHES: dict[str, str | tuple[str, ...] | None] = {
    # the parameters of a command that takes **wishes -> their defaults
    "reserved_cpus": None,
    "reserved_cpu_count": None,
    "reserved_cores_per_numa": None,
    "reserve_on": None,
    "policy": None,
    "scope": None,
    "option": (),
    "memory_manager": "none",
    "kube_reserved_memory": None,
    "system_reserved_memory": None,
    "kubernetes_version": None,
}
_TAKES_MORE = 0x08  # the code flag of a function with **parameters


def parameters_of(function: Callable[..., int]) -> tuple[str, ...]:
    """The names of a command function's keyword parameters, the wishes among them where it takes **wishes."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return (*own, *WISHES) if code.co_flags & _TAKES_MORE else own


def arguments_of(command: Command) -> list[str]:
    """The parameters that are written without a flag, in their order."""
    return [name for name in parameters_of(function_of(command)) if f"{command.words[0]}.{name}" in ARGUMENTS]


def options_of(command: Command) -> dict[str, Option]:
    """The command's options by parameter, in their order."""
    names = parameters_of(function_of(command))
    return {name: option_of(command, name) for name in names if f"{command.words[0]}.{name}" not in ARGUMENTS}
