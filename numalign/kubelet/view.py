"""A machine as the kubelet's own reader (cAdvisor) sees it: what the rules count is not always what is there.

Source: github.com/google/cadvisor utils/sysinfo and machine/machine.go, as vendored by Kubernetes 1.27 to 1.36.
"""

from __future__ import annotations

import msgspec

from numalign.cpuset import CpuSet
from numalign.machine import Machine, NumaNode

__all__ = ["KubeletView", "ViewNode", "kubelet_view"]


class ViewNode(msgspec.Struct, frozen=True):
    """A NUMA node of the view; its cores are CPUs of one socket and core id. Sizes are bytes, huge pages by size."""

    id: int
    memory_bytes: int
    cores: tuple[CpuSet, ...]
    sockets: frozenset[int]
    hugepages: dict[int, int]
    distances: tuple[int, ...] | None

    @property
    def cpus(self) -> CpuSet:
        """The CPUs of the node's cores."""
        bits = 0
        for core in self.cores:
            bits |= core.bits
        return CpuSet.from_mask(bits)


class KubeletView(msgspec.Struct, frozen=True):
    """NUMA nodes in the order in which the kubelet lists them: by name, so 10 comes before 2."""

    nodes: tuple[ViewNode, ...]
    memory_bytes: int

    @property
    def cpus(self) -> CpuSet:
        """Every CPU that the kubelet knows: those of the NUMA nodes."""
        bits = 0
        for node in self.nodes:
            bits |= node.cpus.bits
        return CpuSet.from_mask(bits)

    @property
    def cores(self) -> int:
        """How many cores the kubelet counts."""
        return sum(len(node.cores) for node in self.nodes)

    @property
    def sockets(self) -> int:
        """How many sockets the kubelet counts."""
        return len(frozenset().union(*(node.sockets for node in self.nodes)))

    @property
    def cpus_per_core(self) -> int:
        """The whole-number division by which the kubelet takes every core for equally wide."""
        return len(self.cpus) // self.cores if self.cores else 0


def _hugepages(node: NumaNode) -> dict[int, int]:
    """Pages by size; a size without any page is a resource of 0 to the kubelet."""
    return {pages.size: pages.total for pages in node.hugepages if pages.total is not None}


def kubelet_view(machine: Machine) -> KubeletView:
    """The view of a machine. Without NUMA nodes the kubelet takes each socket for one, and knows no memory of it."""
    by_place: dict[int, dict[tuple[int, int], int]] = {}
    homes = {cpu: node.id for node in machine.numa_nodes for cpu in node.cpus}
    for core in machine.cores:
        for cpu in core.cpus:
            core_id = (core.cpu_core_ids or {}).get(cpu, core.core_id)
            place = homes.get(cpu) if machine.numa_nodes else core.socket
            if core_id is None or core.socket is None or place is None:
                continue  # skipped with a warning in the kubelet's log
            ids = by_place.setdefault(place, {})
            key = (core.socket, core_id)
            ids[key] = ids.get(key, 0) | 1 << cpu
    listed = {node.id: node for node in machine.numa_nodes}
    nodes = []
    for id in sorted(listed or by_place, key=str):
        cores = by_place.get(id, {})
        node = listed.get(id)
        nodes.append(
            ViewNode(
                id=id,
                memory_bytes=(node.memory_bytes or 0) if node else 0,
                cores=tuple(sorted((CpuSet.from_mask(bits) for bits in cores.values()), key=CpuSet.first)),
                sockets=frozenset(socket for socket, _ in cores),
                hugepages=_hugepages(node) if node else {},
                distances=tuple(node.distances[to] for to in sorted(node.distances))
                if node and node.distances
                else None,
            )
        )
    return KubeletView(nodes=tuple(nodes), memory_bytes=machine.memory_bytes or 0)
