"""The checks' pages: docs/checks in a checkout, beside this file in a wheel."""

from __future__ import annotations

import os
from typing import NamedTuple

from numalign.checks.finding import SEVERITIES, Severity

__all__ = ["Rule", "ids", "page", "rule"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_SUFFIX = ".md"
_SEVERITY = "Severity: "


def ids() -> list[str]:
    """The ids of all checks, sorted."""
    return sorted(name.removesuffix(_SUFFIX) for name in os.listdir(_folder()) if name.endswith(_SUFFIX))


def page(id: str) -> str | None:
    """The page of a check, None where there is no such check."""
    if id not in ids():
        return None
    with open(os.path.join(_folder(), id + _SUFFIX), encoding="utf-8") as file:
        return file.read()


class Rule(NamedTuple):
    """What the page of a check says first: its summary, and how bad a finding is; where that depends, at its worst."""

    id: str
    summary: str
    severity: Severity
    text: str


def rule(id: str) -> Rule:
    """The rule that a check looks after."""
    text = page(id) or ""
    lines = text.splitlines()
    severities = next((line for line in lines if line.startswith(_SEVERITY)), "")
    named = [severity for severity in SEVERITIES if severity in severities]
    return Rule(id, lines[2] if len(lines) > 2 else id, named[0] if named else "info", text)


def _folder() -> str:
    packed = os.path.join(_HERE, "pages")
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(os.path.dirname(_HERE)), "docs", "checks")
