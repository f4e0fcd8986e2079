"""What verify found, for people."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.checks import Container, Report
from numalign.checks.finding import SEVERITIES, Finding
from numalign.report.text import style_of
from numalign.words import count, printable

__all__ = ["draw", "draw_finding"]

_PLURALS = {"error": "errors", "warning": "warnings", "info": "info"}
_MOST_REASONS = 3
_MOST_OF_ONE = 50
"""Findings of one check that are shown: nobody reads more, and writing thousands takes longer than finding them."""


def draw(console: Console, report: Report) -> None:
    """Each finding with its place, what was seen and what to do; then what came of the checks."""
    if report.container is not None:
        console.print(Text(printable(_given(report.container))))
        console.print()
    found = Counter(finding.id for finding in report.findings)
    shown: Counter[str] = Counter()
    for finding in report.findings:
        shown[finding.id] += 1
        if shown[finding.id] > _MOST_OF_ONE:
            continue
        draw_finding(console, finding)
        if shown[finding.id] == _MOST_OF_ONE and found[finding.id] > _MOST_OF_ONE:
            more = found[finding.id] - _MOST_OF_ONE
            console.print(Padding(Text(f"and {more} more of {finding.id}, which -o json has"), (0, 0, 0, 9)))
    if report.findings:
        console.print()
    version = f"; Kubernetes {report.kubernetes_version}{_assumed(report)}" if report.kubernetes_version else ""
    console.print(Text(_summary(report) + version + _policy(report)))
    for line in _not_looked_at(report):
        console.print(Text(printable(line)))
    if report.findings:
        console.print(Text("numalign checks show ID explains each"))


def draw_finding(console: Console, finding: Finding) -> None:
    """A finding with its place, what was seen and what to do."""
    head = Text(f"{finding.severity:<9}", style=style_of(finding.severity))
    head.append(f"{finding.id}  {printable(finding.place)}", style="none")
    console.print(head)
    console.print(Padding(Text(printable(finding.message)), (0, 0, 0, 9)))
    if finding.remedy:
        console.print(Padding(Text(printable(finding.remedy)), (0, 0, 0, 9)))


def _given(container: Container) -> str:
    """What a container was given, in a line: `CPUs 4-7 of NUMA 0; memory of NUMA 0-1; GPU 3; no NIC by PCIDEVICE_*`."""
    cpus = "CPUs that cannot be told" if container.cpus is None else f"CPUs {container.cpus}"
    memory = container.memory_numa_nodes
    gpus = f"GPU {', '.join(map(str, container.gpus))}" if container.gpus else "no GPU of the map"
    nics = ", ".join(container.nics) if container.nics else "no NIC by PCIDEVICE_*"
    where = f" of NUMA {container.numa_nodes}" if container.numa_nodes else ""
    return f"{cpus}{where}; memory of NUMA {memory or '?'}; {gpus}; {nics}"


def _summary(report: Report) -> str:
    """One line: `39 passed, 1 error, 4 not applicable`."""
    found = [finding.severity for finding in report.findings]
    counts = [f"{report.count('passed')} passed"]
    counts += [
        count(found.count(severity), severity, _PLURALS[severity]) for severity in SEVERITIES if severity in found
    ]
    others = (("not-applicable", "not applicable"), ("not-looked-at", "not looked at"))
    counts += [f"{report.count(status)} {words}" for status, words in others if report.count(status)]
    return ", ".join(counts)


def _assumed(report: Report) -> str:
    return " (assumed: --kubernetes-version names another)" if report.version_from == "assumed" else ""


def _policy(report: Report) -> str:
    return f"; policy {printable(report.policy)}" if report.policy else ""


def _not_looked_at(report: Report) -> list[str]:
    """The reasons for which checks could not look, with how many each."""
    reasons = Counter(outcome.reason or "" for outcome in report.checks if outcome.status == "not-looked-at")
    lines = [f"not looked at  {number}: {reason}" for reason, number in reasons.most_common(_MOST_REASONS)]
    further = len(reasons) - _MOST_REASONS
    return [*lines, f"not looked at  {count(further, 'more reason')}"] if further > 0 else lines
