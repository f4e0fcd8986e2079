"""The Typer application, built from the table of commands and options: it reads what quick does not, and says what is
wrong with a command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from numalign.cli.commands import COMMANDS, Command
from numalign.cli.options import ARGUMENTS, SEVERAL
from numalign.cli.parameters import WISHES, function_of, option_of
from numalign.errors import WrongUsage

__all__ = ["build", "parameters"]


def build() -> typer.Typer:
    """The application with every command of the table."""
    app = typer.Typer(
        name="numalign",
        add_completion=False,
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
                groups[word] = typer.Typer(rich_markup_mode=None)
                app.add_typer(groups[word], name=word)
            parent = groups[word]
        parent.command(command.words[-1])(_declared(command))
    return app


def _main() -> None:
    pass


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


def _declaration(command: Command, parameter: inspect.Parameter) -> tuple[Any, Any]:
    name = f"{command.words[0]}.{parameter.name}"
    if name in ARGUMENTS:
        kind = list[str] if name in SEVERAL else str | None if parameter.default is None else str
        return kind, typer.Argument(metavar=parameter.name.upper())
    row = option_of(command, parameter.name)
    kinds: dict[str, Any] = {
        "flag": bool,
        "text": str | None,
        "choice": Literal[row.choices] if row.choices else str,
        "list": list[str],
    }
    return kinds[row.takes], typer.Option(*row.flags, metavar=row.metavar, envvar=row.environment, case_sensitive=False)
