"""Hints as the kubelet makes them: every set of NUMA nodes in turn, by size, then by ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from numalign.admission.hints import Hint, ids
from numalign.admission.memory import MemoryUse

__all__ = ["cpu_hints", "device_hints", "memory_hints"]


def masks(nodes: int) -> Iterator[int]:
    for size in range(1, nodes.bit_count() + 1):
        for some in combinations(ids(nodes), size):
            yield sum(1 << node for node in some)


def marked(found: Sequence[int], size: int) -> list[Hint]:
    return [Hint(mask, mask.bit_count() == size) for mask in found]


def cpu_hints(
    nodes: int, all_cpus: Sequence[int], free: Sequence[int], reusable: Sequence[int], request: int
) -> list[Hint]:
    """Hints for CPUs, of which each NUMA node has so many, so many free, and so many left by init containers."""
    size, found = nodes.bit_count(), []
    for mask in masks(nodes):
        inside = ids(mask)
        if sum(all_cpus[node] for node in inside) >= request:
            size = min(size, len(inside))
        if any(count for node, count in enumerate(reusable) if not mask >> node & 1):
            continue
        if sum(free[node] for node in inside) + sum(reusable) >= request:
            found.append(mask)
    return marked(found, size)


def device_hints(
    nodes: int, homes: Sequence[int | None], available: Sequence[int], reusable: Sequence[int], request: int
) -> list[Hint]:
    """Hints for devices with these NUMA nodes, None without topology; positions of those available and reusable."""
    if len({*available, *reusable}) < request:
        return []
    size, found = nodes.bit_count(), []
    for mask in masks(nodes):
        if sum(1 for home in homes if (home or 0) & mask) >= request:
            size = min(size, mask.bit_count())
        with_topology = [homes[device] for device in reusable if homes[device] is not None]
        if any(not (home or 0) & mask for home in with_topology):
            continue
        if len(with_topology) + sum(1 for device in available if (homes[device] or 0) & mask) >= request:
            found.append(mask)
    return marked(found, size)


def memory_hints(
    nodes: int,
    allocatable: Mapping[str, Sequence[int]],
    use: MemoryUse,
    wanted: Mapping[str, int],
    reusable: Mapping[tuple[int, str], int],
) -> list[Hint]:
    """Hints for memory, the same for each type."""
    size, found = nodes.bit_count(), []
    for mask in masks(nodes):
        inside = ids(mask)
        if any(sum(allocatable[kind][node] for node in inside) < amount for kind, amount in wanted.items()):
            continue
        size = min(size, len(inside))
        if len(inside) == 1 and use.groups[inside[0]].bit_count() > 1:
            continue
        if len(inside) > 1 and any(use.blocks[node] and use.groups[node] != mask for node in inside):
            continue
        if all(
            sum(use.free[kind][node] for node in inside) + reusable.get((mask, kind), 0) >= amount
            for kind, amount in wanted.items()
        ):
            found.append(mask)
    return marked(found, size)
