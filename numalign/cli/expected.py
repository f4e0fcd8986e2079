"""What a person expects of the machine: --expect-gpus, --expect-nics, --expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.numbers import whole_number
from numalign.cli.source import read_machine

if TYPE_CHECKING:
    from numalign.checks.finding import Expected

__all__ = ["read_expected"]


def read_expected(gpus: str | None, nics: str | None, file: str | None) -> Expected:
    """The numbers, and the machine in the file. Raises WrongUsage or CannotRead."""
    from numalign.checks.finding import Expected

    return Expected(
        gpus=whole_number("--expect-gpus", gpus),
        nics=whole_number("--expect-nics", nics),
        machine=None if file is None else read_machine(file, "--expect")[0],
        machine_source="standard input" if file == "-" else file or "",
    )
