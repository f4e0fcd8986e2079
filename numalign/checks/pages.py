"""The checks' pages: docs/checks in a checkout, beside this file in a wheel."""

from __future__ import annotations

import os

__all__ = ["ids", "page"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_SUFFIX = ".md"


def ids() -> list[str]:
    """The ids of all checks, sorted."""
    return sorted(name.removesuffix(_SUFFIX) for name in os.listdir(_folder()) if name.endswith(_SUFFIX))


def page(id: str) -> str | None:
    """The page of a check, None where there is no such check."""
    if id not in ids():
        return None
    with open(os.path.join(_folder(), id + _SUFFIX), encoding="utf-8") as file:
        return file.read()


def _folder() -> str:
    packed = os.path.join(_HERE, "pages")
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(os.path.dirname(_HERE)), "docs", "checks")
