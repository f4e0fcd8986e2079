"""What a drawing of a machine takes together."""

from __future__ import annotations

from collections.abc import Iterator

from numalign.cpuset import CpuSet
from numalign.machine import Machine, NumaNode

__all__ = ["alike", "nvlink_groups"]


def alike(machine: Machine) -> list[tuple[CpuSet, list[NumaNode]]]:
    """The NUMA nodes, with neighbours that hold nothing but the same amount of memory taken together."""
    groups: list[tuple[CpuSet, list[NumaNode]]] = []
    homes = {device.numa_node for device in machine.devices()} | {gpu.memory_numa_node for gpu in machine.gpus}
    bare = {node.id for node in machine.numa_nodes if not node.cpus and node.id not in homes}
    for node in machine.numa_nodes:
        last = groups[-1][1][-1] if groups else None
        if last is not None and {node.id, last.id} <= bare and node.memory_bytes == last.memory_bytes:
            ids, nodes = groups.pop()
            groups.append((ids | CpuSet((node.id,)), [*nodes, node]))
        else:
            groups.append((CpuSet((node.id,)), [node]))
    return groups


def nvlink_groups(machine: Machine) -> Iterator[CpuSet]:
    """The indices of the GPUs that NVLinks join, directly or by way of others, a set for each such group."""
    index = {gpu.bdf: gpu.index for gpu in machine.gpus}
    groups: list[CpuSet] = []
    for link in machine.links:
        if link.nvlinks and link.a in index and link.b in index:
            joined = CpuSet((index[link.a], index[link.b]))
            apart = [group for group in groups if not group & joined]
            for group in groups:
                if group & joined:
                    joined |= group
            groups = [*apart, joined]
    yield from sorted(groups, key=min)
