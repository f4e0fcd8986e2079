"""Which checks count, and how badly: a report with the checks left out that nobody asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from numalign.checks import Report
from numalign.checks.finding import SEVERITIES, Severity
from numalign.checks.itself import SELF
from numalign.checks.table import all_ids

__all__ = ["by_id", "chosen", "matching", "unknown"]


def unknown(pattern: str) -> str | None:
    """What to write instead of an id or glob that fits no check; None where it fits one.

    >>> unknown("gpu-*"), unknown("gpu-lots")
    (None, 'did you mean gpu-lost?')
    """
    if matching((pattern,)):
        return None
    near = get_close_matches(pattern, _known(), n=1)
    return f"did you mean {near[0]}?" if near else "numalign checks list has them"


def matching(patterns: Iterable[str]) -> frozenset[str]:
    """The ids of the checks that any of the ids or globs fits."""
    wanted = tuple(patterns)
    return frozenset(id for id in _known() if any(fnmatchcase(id, pattern) for pattern in wanted))


def _known() -> list[str]:
    """The ids of all checks, those of a container among them."""
    return [*all_ids(), *(id for check in SELF for id in check.ids)]


def by_id(severities: Mapping[str, Severity]) -> dict[str, Severity]:
    """The severity of each check that a policy names; of several globs that fit one, the last holds."""
    return {id: severity for pattern, severity in severities.items() for id in matching((pattern,))}


def chosen(
    report: Report, only: Iterable[str] = (), ignore: Iterable[str] = (), severities: Mapping[str, Severity] = {}
) -> Report:
    """The report on the checks of `only` (empty: all) but those of `ignore`, with other severities, the worst first."""
    kept = matching(only or ("*",)) - matching(ignore)
    instead = by_id(severities)
    findings = [
        msgspec.structs.replace(finding, severity=instead.get(finding.id, finding.severity))
        for finding in report.findings
        if finding.id in kept
    ]
    return msgspec.structs.replace(
        report,
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        checks=tuple(outcome for outcome in report.checks if outcome.id in kept),
    )
