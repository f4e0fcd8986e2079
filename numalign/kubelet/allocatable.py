"""What a node has, what is kept from pods, and what they can have; exactly.

Source: pkg/kubelet/cm/node_container_manager_linux.go and pkg/kubelet/nodestatus, 1.27 to 1.36.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.restart import default_memory_state
from numalign.kubelet.settings import Settings, capacity, reservation
from numalign.kubelet.static_cpus import reserved_cpus
from numalign.kubelet.view import KubeletView
from numalign.quantity import Quantity

__all__ = ["Allocatable", "NodePools", "ResourceAmounts", "allocatable"]


class ResourceAmounts(msgspec.Struct, frozen=True, rename="camel"):
    """A resource's capacity, what is reserved of it, and what is allocatable, as quantities."""

    resource: str
    capacity: str
    reserved: str
    allocatable: str


class NodePools(msgspec.Struct, frozen=True, rename="camel"):
    """A NUMA node: CPUs that can be exclusive, those of the shared pool with nothing given out, allocatable memory in
    bytes (None without a static memory manager)."""

    numa_node: int
    exclusive: CpuSet = msgspec.field(name="exclusiveCPUs")
    shared: CpuSet = msgspec.field(name="sharedCPUs")
    memory_bytes: int | None = msgspec.field(name="allocatableMemoryBytes")


class Allocatable(msgspec.Struct, frozen=True, rename="camel"):
    """The node's resources and its pools; the `exclusive` pools are empty under the CPU manager's policy none."""

    api_version: str
    kind: Literal["Allocatable"]
    resources: tuple[ResourceAmounts, ...]
    numa_nodes: tuple[NodePools, ...]


def allocatable(settings: Settings, view: KubeletView) -> Allocatable:
    """The amounts. Memory is also less by all huge pages, as the node's status has it. Raises ValueError where a
    reservation is no quantity."""
    has = capacity(view)
    kept = reservation(settings, view)
    huge = sum((amount for name, amount in has.items() if name.startswith("hugepages-")), Quantity(0, "BinarySI"))
    rows = []
    for name, amount in has.items():
        left = amount - kept.get(name, Quantity())
        if name == "memory":
            left = left - huge
        rows.append(
            ResourceAmounts(
                resource=name,
                capacity=str(amount),
                reserved=str(kept.get(name, Quantity())),
                allocatable=str(left if left.value > 0 else Quantity()),
            )
        )
    return Allocatable(
        api_version="numalign/v1", kind="Allocatable", resources=tuple(rows), numa_nodes=_pools(settings, view)
    )


def _pools(settings: Settings, view: KubeletView) -> tuple[NodePools, ...]:
    static = settings.cpu_policy == "static"
    reserved = reserved_cpus(settings, view)
    memory = default_memory_state(settings, view) if settings.memory_policy == "Static" else {}
    pools = []
    for node in view.nodes:
        strict = settings.option("strict-cpu-reservation")
        table = memory[node.id].memory["memory"] if node.id in memory else None
        pools.append(
            NodePools(
                numa_node=node.id,
                exclusive=node.cpus - reserved if static else CpuSet(),
                shared=node.cpus - reserved if strict else node.cpus,
                memory_bytes=table.allocatable if table else None,
            )
        )
    return tuple(sorted(pools, key=lambda pool: pool.numa_node))
