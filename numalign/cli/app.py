"""The Typer application, built from the table of commands and options: help, completion, and messages on mistakes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Literal

import typer

from numalign import __version__
from numalign.cli.options import ARGUMENTS, COMMANDS, WISHES, Command, Option, function_of, option_of
from numalign.errors import WrongUsage

__all__ = ["build", "parameters"]

_ABOUT = """Inspect, configure and verify the NUMA alignment of Kubernetes GPU nodes.

Start with `numalign inspect`; then `numalign render kubelet-config` writes the kubelet's configuration for the
machine, `numalign verify` says whether the two agree, and `numalign predict` what the kubelet would do with a pod.
"""
_GROUPS = {
    "render": "Write configuration for a machine.",
    "kubelet": "What a kubelet makes of a configuration.",
    "checks": "The checks that verify makes.",
}


def build() -> typer.Typer:
    """The application with every command of the table."""
    app = typer.Typer(
        name="numalign",
        help=_ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main)
    groups: dict[str, typer.Typer] = {}
    for command in COMMANDS:
        parent = app
        for word in command.words[:-1]:
            if word not in groups:
                groups[word] = typer.Typer(help=_GROUPS[word], no_args_is_help=True, rich_markup_mode=None)
                app.add_typer(groups[word], name=word)
            parent = groups[word]
        parent.command(command.words[-1], short_help=command.summary, epilog=_examples(command))(_declared(command))
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"numalign {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    pass


_main.__doc__ = _ABOUT


def _examples(command: Command) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in command.examples)


def _declared(command: Command) -> Callable[..., None]:
    """The command's function as Typer wants it: each parameter annotated with its option."""
    function = function_of(command)
    declared = []
    for parameter in parameters(function):
        kind, declaration = _declaration(command, parameter)
        declared.append(parameter.replace(annotation=Annotated[kind, declaration]))

    def run(**given: Any) -> None:
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        _refuse_empty(command, given)
        raise typer.Exit(function(**given))

    run.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in declared}
    run.__doc__ = function.__doc__
    return run


def parameters(function: Callable[..., int]) -> list[inspect.Parameter]:
    """The parameters of a command's function, with the wishes for **wishes."""
    declared = list(inspect.signature(function).parameters.values())
    own = [parameter for parameter in declared if parameter.kind is not parameter.VAR_KEYWORD]
    if len(own) == len(declared):
        return own
    return own + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in WISHES.items()
    ]


def _refuse_empty(command: Command, given: dict[str, Any]) -> None:
    """Raises WrongUsage where a text is empty: most often a script's variable that is not set."""
    for name, value in given.items():
        argument = f"{command.words[0]}.{name}" in ARGUMENTS
        if value in ("", ("",)) and (argument or not option_of(command, name).may_be_empty):
            what = name.upper() if argument else option_of(command, name).flags[0]
            raise WrongUsage(f"{what} is empty", hint="is a variable of the script not set?")


def _help(row: Option) -> str:
    """The option's help, with the names of its table."""
    if row.names_from is None:
        return row.help
    module, _, table = row.names_from.partition(":")
    return f"{row.help} {', '.join(getattr(import_module(module), table))}."


def _declaration(command: Command, parameter: inspect.Parameter) -> tuple[Any, Any]:
    argument = ARGUMENTS.get(f"{command.words[0]}.{parameter.name}")
    if argument is not None:
        return str, typer.Argument(help=argument, metavar=parameter.name.upper(), show_default=False)
    row = option_of(command, parameter.name)
    kinds: dict[str, Any] = {
        "flag": bool,
        "text": str | None,
        "choice": Literal[row.choices] if row.choices else str,
        "list": list[str],
    }
    return kinds[row.takes], typer.Option(
        *row.flags, help=_help(row), metavar=row.metavar, envvar=row.environment, case_sensitive=False
    )
