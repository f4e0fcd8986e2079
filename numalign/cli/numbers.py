"""The whole number that an option takes."""

from __future__ import annotations

from numalign.errors import WrongUsage

__all__ = ["whole_number"]

_MOST = 10_000


def whole_number(option: str, text: str | None, *, least: int = 0) -> int | None:
    """The number that an option's text is; None where it was not given. Raises WrongUsage."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and least <= int(text) <= _MOST):
        raise WrongUsage(f"{option} {text}: a whole number from {least} to {_MOST} is wanted")
    return int(text)
