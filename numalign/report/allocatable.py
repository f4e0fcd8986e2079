"""`kubelet allocatable`: what the node has, keeps and gives."""

from __future__ import annotations

from rich.console import Console

from numalign.kubelet.allocatable import Allocatable
from numalign.report.text import plain_table
from numalign.words import size

__all__ = ["draw"]


def draw(console: Console, found: Allocatable) -> None:
    """The resources, then the pools of each NUMA node."""
    table = plain_table(("resource", "left"), ("capacity", "right"), ("reserved", "right"), ("allocatable", "right"))
    for row in found.resources:
        table.add_row(row.resource, row.capacity, row.reserved, row.allocatable)
    console.print(table)
    console.print()
    pools = plain_table(("NUMA", "right"), ("exclusive CPUs", "left"), ("shared pool", "left"), ("memory", "right"))
    for node in found.numa_nodes:
        memory = "–" if node.memory_bytes is None else size(node.memory_bytes)
        pools.add_row(str(node.numa_node), str(node.exclusive) or "–", str(node.shared) or "–", memory)
    console.print(pools)
