"""What verify found, for people."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.checks import Report
from numalign.checks.finding import SEVERITIES
from numalign.report.text import style_of
from numalign.words import count, printable

__all__ = ["draw"]

_PLURALS = {"error": "errors", "warning": "warnings", "info": "info"}


def draw(console: Console, report: Report) -> None:
    """Each finding with its place, what was seen and what to do; then how many checks passed."""
    for finding in report.findings:
        head = Text(f"{finding.severity:<9}", style=style_of(finding.severity))
        head.append(f"{finding.id}  {printable(finding.place)}", style="none")
        console.print(head)
        console.print(Padding(Text(printable(finding.message)), (0, 0, 0, 9)))
        if finding.remedy:
            console.print(Padding(Text(printable(finding.remedy)), (0, 0, 0, 9)))
    if report.findings:
        console.print()
    found = [finding.severity for finding in report.findings]
    counts = [
        count(found.count(severity), severity, _PLURALS[severity]) for severity in SEVERITIES if severity in found
    ]
    console.print(Text(", ".join([f"{count(report.passed, 'check')} passed", *counts])))
