"""`kubelet features`: the gates and options of a version."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from numalign.kubelet.versions import Features
from numalign.report.text import plain_table

__all__ = ["draw"]


def draw(console: Console, found: Features) -> None:
    """A table of the gates, one of the options of each field."""
    console.print(Text(f"Kubernetes {found.kubernetes_version}", style="bold"))
    console.print()
    table = plain_table(("feature gate", "left"), ("stage", "left"), ("default", "left"), ("", "left"))
    for gate in found.gates:
        table.add_row(gate.name, gate.stage, "on" if gate.default else "off", "locked" if gate.locked else "")
    console.print(table)
    for field in dict.fromkeys(option.field for option in found.options):
        console.print()
        options = plain_table((field, "whole"), ("group", "left"), ("needs", "left"))
        for option in found.options:
            if option.field == field:
                options.add_row(option.name, option.group, option.gate or "")
        console.print(options)
