"""What a person expects of the machine: --expect-gpus, --expect-nics, --expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.source import read_machine
from numalign.errors import WrongUsage

if TYPE_CHECKING:
    from numalign.checks.finding import Expected

__all__ = ["read_expected"]

_MOST = 10_000


def read_expected(gpus: str | None, nics: str | None, file: str | None) -> Expected:
    """The numbers, and the machine in the file. Raises WrongUsage or CannotRead."""
    from numalign.checks.finding import Expected

    return Expected(
        gpus=_number("--expect-gpus", gpus),
        nics=_number("--expect-nics", nics),
        machine=None if file is None else read_machine(file, "--expect")[0],
        machine_source="standard input" if file == "-" else file or "",
    )


def _number(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= _MOST):
        raise WrongUsage(f"{option} {text}", hint=f"a whole number from 0 to {_MOST}")
    return int(text)
