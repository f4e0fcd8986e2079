"""The errors that a person sees: one line that says what, where, and what to do.

Every error ends the command with the exit status of its class and is never shown as a traceback.
"""

from __future__ import annotations

__all__ = ["CannotRead", "DoesNotHold", "NumalignError", "WrongUsage"]


class NumalignError(Exception):
    """Something that ends the command; `hint` says what to do next."""

    exit_status = 1

    def __init__(self, message: str, /, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class DoesNotHold(NumalignError):
    """What was asked for does not hold or is not possible on this machine (exit status 1)."""


class WrongUsage(NumalignError):
    """The command was called wrongly (exit status 2)."""

    exit_status = 2


class CannotRead(NumalignError):
    """Something needed could not be read or written (exit status 3)."""

    exit_status = 3
