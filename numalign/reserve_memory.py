"""How much memory to keep for the system, and on which NUMA nodes: sums that a static memory manager starts with.

The equation is the kubelet's (pkg/kubelet/cm/memorymanager): reservedMemory over all NUMA nodes is kubeReserved +
systemReserved + evictionHard's memory.available. Huge pages have no part in it, since none can be reserved; they take
their room on a NUMA node all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.kubelet.settings import default_eviction_hard
from numalign.machine import Machine, NumaNode
from numalign.quantity import Quantity
from numalign.words import numa_nodes, size

__all__ = ["MemoryReservation", "MemoryWishes", "reserve_memory", "room"]

_PODS = 110
_KUBE = Quantity.parse(f"{255 + 11 * _PODS}Mi")
_SYSTEM = Quantity.parse("1Gi")
_EVICTION = Quantity.parse("100Mi")
_STEP = 1 << 20
_SIGNAL = "memory.available"


class MemoryWishes(msgspec.Struct, frozen=True):
    """Amounts to keep, where a person says them; `eviction_hard` are thresholds beside memory.available."""

    kube: Quantity | None = None
    system: Quantity | None = None
    eviction: Quantity | None = None
    thresholds: Mapping[str, str] | None = None


class MemoryReservation(msgspec.Struct, frozen=True):
    """The three reservations, and the part of each NUMA node in their sum."""

    kube: Quantity
    system: Quantity
    eviction: Quantity
    by_node: Mapping[int, Quantity]
    kube_reason: str
    system_reason: str
    reason: str
    thresholds: Mapping[str, str] | None

    def eviction_hard(self, minor: int) -> Mapping[str, str]:
        """The hard thresholds with this one for memory; the others stay as they are by default."""
        others = default_eviction_hard({}, minor) if self.thresholds is None else self.thresholds
        return {"memory.available": str(self.eviction), **{name: others[name] for name in others if name != _SIGNAL}}

    def words(self) -> str:
        """`746Mi on NUMA node 0, 745Mi on NUMA node 1`."""
        alike: dict[str, list[int]] = {}
        for id, amount in self.by_node.items():
            alike.setdefault(str(amount), []).append(id)
        return ", ".join(f"{amount} on {numa_nodes(ids)}" for amount, ids in alike.items())


def reserve_memory(machine: Machine, reserved_cpus: CpuSet, wishes: MemoryWishes) -> MemoryReservation:
    """The reservation, on the NUMA nodes on which the reserved CPUs are. Raises DoesNotHold where none can be."""
    if not machine.numa_nodes:
        raise DoesNotHold("a static memory manager needs NUMA nodes, and this machine has none that are known")
    kube = _KUBE if wishes.kube is None else wishes.kube
    system = _SYSTEM if wishes.system is None else wishes.system
    eviction = wishes.eviction or _EVICTION
    total = kube + system + eviction
    home = [node for node in machine.numa_nodes if node.cpus.bits & reserved_cpus.bits and node.memory_bytes]
    by_node = _divided(total.whole, home)
    if not home:
        raise DoesNotHold(
            "a static memory manager reserves memory where the reserved CPUs are, and no such NUMA node is known to "
            "have any",
            hint="read the host itself or a whole snapshot of it (node*/meminfo), or keep to others with --reserve-on",
        )
    if by_node is None:
        left = sum(map(room, home))
        raise DoesNotHold(
            f"{total} of memory cannot be reserved: NUMA nodes with reserved CPUs have {size(left)} beside huge pages",
            hint="ask for less with --kube-reserved-memory and --system-reserved-memory, or for fewer huge pages",
        )
    return MemoryReservation(
        kube=kube,
        system=system,
        eviction=eviction,
        by_node={id: Quantity(amount, "BinarySI") for id, amount in by_node.items()},
        kube_reason=f"as EKS reckons for {_PODS} pods: 255Mi and 11Mi a pod" if wishes.kube is None else "as asked for",
        system_reason="for the system's services" if wishes.system is None else "as asked for",
        reason=f"in all {total}: kubeReserved + systemReserved + evictionHard memory.available, "
        "on the NUMA nodes with reserved CPUs",
        thresholds=wishes.thresholds,
    )


def _divided(total: int, nodes: list[NumaNode]) -> dict[int, int] | None:
    """The amount in equal parts of whole MiB, what is over on the first; NUMA nodes without room for theirs have none.
    None where it fits nowhere."""
    while nodes:
        part = total // len(nodes) // _STEP * _STEP
        parts = {node.id: part for node in nodes}
        parts[nodes[0].id] += total - part * len(nodes)
        full = [node for node in nodes if parts[node.id] >= room(node)]
        if not full:
            return {id: amount for id, amount in parts.items() if amount}
        nodes = [node for node in nodes if node not in full]
    return None


def room(node: NumaNode) -> int:
    """The bytes of a NUMA node beside its huge pages."""
    return (node.memory_bytes or 0) - sum(pages.size * (pages.total or 0) for pages in node.hugepages)
