"""`kubelet allocatable`: what the node has, keeps and gives."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rich.console import Console

from numalign.kubelet.allocatable import Allocatable
from numalign.quantity import Quantity
from numalign.report.text import plain_table

__all__ = ["draw"]

_CPU_UNITS = (("", Fraction(1)), ("m", Fraction(1, 1000)))
_UNITS = (
    *((f"{letter}i", Fraction(1 << 10 * power)) for power, letter in ((3, "G"), (2, "M"), (1, "K"))),
    ("", Fraction(1)),
)
"""The suffixes of amounts, the largest first."""


def draw(console: Console, found: Allocatable) -> None:
    """The resources, then the pools of each NUMA node."""
    table = plain_table(("resource", "left"), ("capacity", "right"), ("reserved", "right"), ("allocatable", "right"))
    units = {}
    for row in found.resources:
        amounts = [Quantity.parse(text) for text in (row.capacity, row.reserved, row.allocatable)]
        units[row.resource] = unit = _unit(amounts, _CPU_UNITS if row.resource == "cpu" else _UNITS)
        table.add_row(row.resource, *(_written(amount, unit) for amount in amounts))
    console.print(table)
    console.print()
    pools = plain_table(("NUMA", "right"), ("exclusive CPUs", "left"), ("shared pool", "left"), ("memory", "right"))
    kept = [Quantity(node.memory_bytes) for node in found.numa_nodes if node.memory_bytes is not None]
    unit = _unit(kept, [units.get("memory", _UNITS[-1]), _UNITS[-1]])
    for node in found.numa_nodes:
        memory = "–" if node.memory_bytes is None else _written(Quantity(node.memory_bytes), unit)
        pools.add_row(str(node.numa_node), str(node.exclusive) or "–", str(node.shared) or "–", memory)
    console.print(pools)


def _unit(amounts: Sequence[Quantity], units: Sequence[tuple[str, Fraction]]) -> tuple[str, Fraction]:
    """The largest unit of which all amounts are whole numbers, so that they can be compared as they stand."""
    return next(
        (unit for unit in units if all((amount.value / unit[1]).denominator == 1 for amount in amounts)), units[-1]
    )


def _written(amount: Quantity, unit: tuple[str, Fraction]) -> str:
    suffix, size = unit
    return f"{amount.value / size}{suffix}" if amount else "0"
