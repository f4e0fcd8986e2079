"""`kubelet upgrade`: what comes, what goes, and what a version changes by itself."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.checks.finding import Finding
from numalign.checks.upgrade import GateChange, Upgrade
from numalign.report.findings import draw_finding
from numalign.report.text import plain_table, wrapped
from numalign.words import count, printable

__all__ = ["draw"]


def draw(console: Console, found: Upgrade) -> None:
    """The findings that are new and those that are over, then gates, options and values."""
    where = f"{printable(found.config)} on {printable(found.machine or 'this machine')}"
    console.print(Text(f"{where} · Kubernetes {found.from_version} to {found.to_version}", style="bold"))
    _findings(console, f"found with {found.to_version} and not with {found.from_version}", found.comes)
    _findings(console, f"found with {found.from_version} and no more with {found.to_version}", found.goes)
    if found.values:
        console.print()
        for value in found.values:
            console.print(Text(f"{value.field} changes by itself", style="bold"))
            for version, words in ((found.from_version, value.before), (found.to_version, value.after)):
                listed = wrapped(printable(words), console.width - 8).replace("\n", "\n      ")
                console.print(Padding(Text(f"{version}  {listed}", no_wrap=True, overflow="ignore"), (0, 0, 0, 2)))
    _tables(console, found)
    console.print()
    same = f"{count(found.stays, 'finding')} of numalign verify in both" if found.stays else "nothing found in both"
    changed = found.comes or found.goes or found.values or found.gates or found.options
    console.print(Text(same if changed else f"nothing changes; {same}"))


def _findings(console: Console, title: str, findings: Sequence[Finding]) -> None:
    if findings:
        console.print()
        console.print(Text(title, style="bold"))
        for finding in findings:
            draw_finding(console, finding)


def _tables(console: Console, found: Upgrade) -> None:
    """The gates and options that change, those first that the configuration has."""
    versions = ((found.from_version, "left"), (found.to_version, "left"), ("", "left"))
    if found.gates:
        console.print()
        table = plain_table(("feature gate", "whole"), *versions)
        for gate in sorted(found.gates, key=lambda gate: not gate.named):
            table.add_row(printable(gate.name), *_states(gate), "named" if gate.named else "")
        console.print(table)
    if found.options:
        console.print()
        table = plain_table(("policy option", "whole"), *versions)
        for option in sorted(found.options, key=lambda option: not option.used):
            groups = (option.before or "–", option.after or "–")
            table.add_row(option.name, *groups, "used" if option.used else "")
        console.print(table)


def _states(gate: GateChange) -> tuple[str, str]:
    """`off (alpha)`, `on (GA, locked)`; where the version does not have it `–`, or `on for good`."""
    states = []
    for known, on in ((gate.before, gate.on_before), (gate.after, gate.on_after)):
        if known is None:
            states.append("on for good" if on else "–")
        else:
            states.append(f"{'on' if on else 'off'} ({known.stage}{', locked' * known.locked})")
    return states[0], states[1]
