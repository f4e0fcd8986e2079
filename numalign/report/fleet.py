"""numalign fleet: the classes, the odd ones out, and how many of a pod fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.fleet import ClassOfNodes, Fleet, Odd, OddNode, PodFit, Shape
from numalign.report.text import plain_table, style_of
from numalign.words import count, few, folded, printable, short_cpu_model, size

__all__ = ["draw", "page_values"]

_FEW_NAMES = 6
"""Names of nodes that are shown; -o json has all."""
_INDENT = (0, 0, 0, 2)


def draw(console: Console, fleet: Fleet) -> None:
    """The numbers, each class, the odd ones, and the pods."""
    for line in folded(numbers(fleet), console.width):
        console.print(Text(line, style="bold"))
    console.print()
    for one in fleet.classes:
        _class(console, one)
    for heading, topology in (("odd ones out", True), ("same topology, but", False)):
        odd = [each for each in fleet.odd if each.topology is topology]
        if odd:
            console.print()
            console.print(Text(heading, style="bold"))
            for each in odd:
                _odd(console, each)
    if fleet.pods:
        console.print()
        _pods(console, fleet)
    for line in _notes(fleet):
        console.print()
        console.print(Text(printable(line)))


def numbers(fleet: Fleet) -> str:
    """`512 nodes · 2 classes · 4 odd · 1 not read`."""
    odd = sum(one.nodes for one in fleet.odd if one.topology)
    other = sum(one.nodes for one in fleet.odd if not one.topology)
    parts = [f"{fleet.nodes:,} node{'' if fleet.nodes == 1 else 's'}", count(len(fleet.classes), "class", "classes")]
    parts += [f"{odd:,} odd"] * bool(odd) + [f"{other:,} differ within their class"] * bool(other)
    parts += ["all alike"] * (len(fleet.classes) == 1 and fleet.nodes > 1 and not fleet.odd)
    parts += [f"{len(fleet.unread):,} not read"] * bool(fleet.unread)
    return " · ".join(parts)


def shape_words(shape: Shape) -> str:
    """`2 × EPYC 9654 · 192 cores, 384 CPUs · 2 NUMA nodes, NPS1 · 1.5 TiB · 8 H100 80GB HBM3 · 10 ConnectX-7`."""
    parts = [f"{shape.sockets or 1} × {short_cpu_model(shape.cpu_model)}"] if shape.cpu_model else []
    parts.append(f"{count(shape.cores, 'core')}, {count(shape.cpus, 'CPU')}")
    nodes = count(shape.numa_nodes, "NUMA node") if shape.numa_nodes else "NUMA nodes not known"
    named = shape.numa_layout.startswith(("NPS", "SNC")) and shape.numa_layout != "SNC off"
    parts.append(f"{nodes}, {shape.numa_layout}" if named else nodes)
    parts.append(size(shape.memory_bytes))
    parts += [f"{one.count} {one.model}" for one in (*shape.gpus, *shape.nics)]
    return printable(" · ".join(parts))


def page_values(fleet: Fleet) -> dict[str, Any]:
    """What the page in templates/ is filled in with."""
    return {
        "fleet": fleet,
        "numbers": numbers(fleet),
        "classes": [
            {
                "of": one,
                "words": shape_words(one.shape),
                "configuration": json.dumps(one.configuration.fields, indent=2) if one.configuration else "",
            }
            for one in fleet.classes
        ],
        "fits": [
            row
            for place, total in enumerate(fleet.pods)
            for row in (*_rows(fleet, place), *([("all", total)] if len(fleet.classes) + bool(fleet.odd) > 1 else []))
        ],
    }


def _class(console: Console, one: ClassOfNodes) -> None:
    words = shape_words(one.shape)
    if one.like is not None:
        words = f"as class {one.like}, but {', '.join(odd.what for odd in one.differences) or 'another topology'}"
    head = f"{one.name:>3}  {count(one.nodes, 'node'):>12}  "
    lines = [*folded(words, max(console.width - len(head), 40)), few([printable(name) for name in one.names], 3)]
    configuration = one.configuration
    if configuration is not None:
        lines += [printable(configuration.file)] if configuration.file else []
        lines += [f"no configuration: {printable(configuration.reason)}"] if configuration.reason else []
        lines += [f"warning  {printable(text)}" for text in configuration.warnings]
        if configuration.differs:
            fields = sorted({field for each in configuration.differs.values() for field in each})
            names = few([printable(name) for name in configuration.differs], 3)
            lines.append(f"configuration differs ({', '.join(fields)}) for {names}")
    for number, line in enumerate(lines):
        style = style_of("warning") if line.startswith(("warning", "no conf", "configuration")) else ""
        _hanging(console, head if number == 0 else " " * len(head), line, style)


def _hanging(console: Console, head: str, text: str, style: str = "") -> None:
    """A head and a text beside it, that stays beside it where it is broken."""
    table = plain_table(("", "whole"), ("", "left"))
    table.show_header = False
    table.padding = (0, 0, 0, 0)
    table.add_row(Text(head), Text(text, style=style))
    console.print(table)


def _odd(console: Console, one: Odd) -> None:
    where = f"{one.nodes:,} of {one.of_nodes:,} as class {one.like}"
    console.print(Padding(Text.assemble((f"{where}: ", ""), (printable(str(one)), style_of("error"))), _INDENT))
    names = [_named(node) for node in one.names]
    more = {False: "  (needs another configuration)", True: "", None: ""}[one.same_configuration]
    console.print(Padding(Text(few(names, _FEW_NAMES) + more), (0, 0, 0, 6)))


def _named(node: OddNode) -> str:
    where = few(node.where, 2)
    return printable(f"{node.name} ({where})" if where else node.name)


def _pods(console: Console, fleet: Fleet) -> None:
    """A row for each pod and class: how many fit on a node, and on all."""
    table = plain_table(
        ("pod", "left"), ("class", "whole"), ("a node", "right"), ("nodes", "right"), ("in all", "right"), ("", "left")
    )
    for place, total in enumerate(fleet.pods):
        rows = list(_rows(fleet, place))
        for number, (name, fit) in enumerate(rows):
            reason = printable(fit.reason or "") if not fit.each else ""
            pod = printable(fit.pod) if number == 0 else ""
            table.add_row(pod, name, str(fit.each), f"{fit.nodes:,}", f"{fit.total:,}", reason)
        if len(rows) > 1:
            table.add_row("", "all", "", f"{total.nodes:,}", f"{total.total:,}", "")
    console.print(table)


def _rows(fleet: Fleet, place: int) -> Iterator[tuple[str, PodFit]]:
    for one in fleet.classes:
        yield one.name, one.pods[place]
    odd: Sequence[PodFit] = [one.pods[place] for one in fleet.odd if one.pods]
    if odd:
        most = max(fit.each for fit in odd)
        yield "odd", PodFit(odd[0].pod, most, sum(f.nodes for f in odd), sum(f.total for f in odd), odd[0].reason)


def _notes(fleet: Fleet) -> Iterator[str]:
    same = [one for one in fleet.twice if one.same_node]
    if same:
        yield f"read more than once, the last counts: {few([one.name for one in same])}"
    others = [one for one in fleet.twice if not one.same_node]
    if others:
        sources = few(others[0].sources, 2)
        yield f"several nodes have one name: {few([one.name for one in others])} ({sources})"
    yield from fleet.notes
