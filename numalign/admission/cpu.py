"""The CPU manager's static policy: hints for exclusive CPUs, and which CPUs a container gets.

Source: pkg/kubelet/cm/cpumanager/policy_static.go, 1.27 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from numalign.admission.demand import ContainerDemand, PodDemand
from numalign.admission.hints import Box, Hints, Sockets, ids
from numalign.admission.refusal import empty_pool, smt_alignment, unexpected
from numalign.cpuset import CpuSet
from numalign.kubelet.distribute_cpus import KubeletHangs
from numalign.kubelet.settings import Settings
from numalign.kubelet.static_cpus import reserved_cpus, take_cpus
from numalign.kubelet.take_cpus import CannotTake, CpuTopology, cpu_topology
from numalign.kubelet.view import KubeletView

__all__ = ["CpuManager", "check_pod_pool", "cpu_manager", "share_out"]

_ZERO_FREE_SAID_SINCE = 32


class CpuManager(msgspec.Struct, frozen=True):
    """The static policy on a machine; all sets are masks. `reserved_cores` are the reserved CPUs and their siblings,
    `sizes` the CPUs of each NUMA node by its id, `sockets` the mask of sockets of each NUMA node."""

    settings: Settings
    topology: CpuTopology
    reserved: int
    reserved_cores: int
    nodes: int
    sizes: tuple[int, ...]
    sockets: tuple[int, ...] | None
    nodes_per_socket: int
    whole_cores: bool

    @property
    def start(self) -> int:
        """The shared pool of an empty node."""
        strict = self.settings.option("strict-cpu-reservation")
        return self.topology.cpus & ~self.reserved if strict else self.topology.cpus

    def hints(self, shared: int, reusable: int, request: int) -> Hints:
        """The hints for so many CPUs, with those that containers before it leave to it."""
        available = shared & ~self.reserved
        free = self.by_node(available)
        box = Box(
            nodes=self.nodes,
            must=self._nodes_of(reusable),
            sums=((free, request - reusable.bit_count()),),
        )
        size = self._fewest(request)
        sockets = None
        if self.sockets is not None and self.nodes_per_socket:
            sockets = Sockets(self.sockets, -(-size // self.nodes_per_socket))
        return Hints(boxes=(box,) if box.nodes and box.holds(box.nodes) else (), size=size, sockets=sockets)

    def by_node(self, cpus: int) -> tuple[int, ...]:
        """How many of the CPUs each NUMA node has, by its id."""
        found = [0] * len(self.sizes)
        for node, mask in self.topology.nodes.items():
            found[node] = (mask & cpus).bit_count()
        return tuple(found)

    def check_whole_cores(self, shared: int, number: int) -> None:
        """Raises Refused where full-pcpus-only cannot be kept: it counts the free CPUs of the whole machine."""
        if not self.whole_cores:
            return
        wide = self.topology.cpus_per_core
        free = (shared & ~self.reserved_cores).bit_count()
        uneven = number % wide != 0
        if not uneven and number <= free:
            return
        if uneven or (free == 0 and self.settings.minor < _ZERO_FREE_SAID_SINCE):
            raise smt_alignment(f"requested {number} cpus not multiple cpus per core = {wide}")
        raise smt_alignment(
            f"not enough free physical CPUs: available physical CPUs = {free}, requested CPUs = {number}, "
            f"CPUs per core = {wide}"
        )

    def allocate(self, shared: int, reusable: int, number: int, nodes: int | None) -> int:
        """The CPUs that a container gets: first of the hint's NUMA nodes, the rest from anywhere.

        Raises Refused, and KubeletHangs where the kubelet would not come back.
        """
        allocatable = shared & ~self.reserved | reusable
        taken = 0
        if nodes is not None:
            aligned = allocatable & self._aligned(nodes)
            taken = self.take(aligned, min(number, aligned.bit_count()))
        return taken | self.take(allocatable & ~taken, number - taken.bit_count())

    def take(self, available: int, number: int) -> int:
        """So many of the available CPUs. Raises Refused, KubeletHangs."""
        if number == 0:
            return 0
        try:
            return take_cpus(self.settings, self.topology, CpuSet.from_mask(available), number).bits
        except KubeletHangs:
            raise
        except CannotTake as error:
            raise unexpected(error) from None

    def _aligned(self, nodes: int) -> int:
        """The CPUs of NUMA nodes; under align-by-socket of all their sockets."""
        if self.sockets is None:
            return _union(self.topology.nodes.get(node, 0) for node in ids(nodes))
        return _union(self.topology.sockets[id] for node in ids(nodes) for id in ids(self.sockets[node]))

    def _nodes_of(self, cpus: int) -> int:
        return sum(1 << node for node, mask in self.topology.nodes.items() if mask & cpus) if cpus else 0

    def _fewest(self, request: int) -> int:
        """The fewest NUMA nodes that have so many CPUs, free or not."""
        return _fewest(self.sizes, self.nodes.bit_count(), request)


@lru_cache(maxsize=1 << 12)
def _fewest(sizes: tuple[int, ...], most: int, request: int) -> int:
    total = 0
    for count, size in enumerate(sorted(sizes, reverse=True)[:most], 1):
        total += size
        if total >= request:
            return count
    return most


def cpu_manager(settings: Settings, view: KubeletView) -> CpuManager | None:
    """The static policy of a configuration; None where the policy is another."""
    if settings.cpu_policy != "static":
        return None
    topology, reserved = cpu_topology(view), reserved_cpus(settings, view).bits
    reach = max((node.id for node in view.nodes), default=-1) + 1
    sizes, sockets = [0] * reach, [0] * reach
    for node in view.nodes:
        sizes[node.id] = len(node.cpus)
        sockets[node.id] = _union(1 << id for id in node.sockets)
    return CpuManager(
        settings=settings,
        topology=topology,
        reserved=reserved,
        reserved_cores=_union(mask for mask in topology.cores.values() if mask & reserved),
        nodes=_union(1 << node for node in topology.nodes),
        sizes=tuple(sizes),
        sockets=tuple(sockets) if settings.option("align-by-socket") else None,
        nodes_per_socket=len(topology.nodes) // view.sockets if view.sockets else 0,
        whole_cores=settings.option("full-pcpus-only"),
    )


def check_pod_pool(pod: PodDemand) -> None:
    """Raises Refused where a pod with CPUs of its own leaves none to the containers that share them."""
    lasting, shared = 0, False
    for each in pod.containers:
        if each.reusable:
            if not each.cpus and lasting >= pod.cpus:
                raise empty_pool("pod has shared init containers but no cpus available for them")
        elif each.cpus:
            lasting += each.cpus
        else:
            shared = True
    if shared and lasting >= pod.cpus:
        raise empty_pool(
            "sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared containers"
        )


def share_out(manager: CpuManager, pod: PodDemand, bubble: int) -> dict[str, int]:
    """The CPUs of each container of a pod that has CPUs of its own: exclusive ones, or what others leave of them."""
    found: dict[str, int] = {}
    left, beside = bubble, 0

    def exclusive(each: ContainerDemand, pool: int) -> int:
        found[each.name] = manager.take(pool, each.cpus)
        return found[each.name]

    for each in pod.containers:
        if each.init:
            pool = bubble & ~beside
            if each.cpus:
                taken = exclusive(each, pool)
                beside |= taken if each.sidecar else 0
            elif not each.sidecar:
                found[each.name] = pool
    left = bubble & ~beside
    for each in pod.containers:
        if not each.init and each.cpus:
            left &= ~exclusive(each, left)
    return {each.name: found.get(each.name, left) for each in pod.containers}


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
