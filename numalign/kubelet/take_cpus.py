"""The CPUs that the CPU manager takes when it packs: whole NUMA nodes and sockets, whole cores, then single CPUs.

Best fit: of several that would do it takes the one with the fewest available CPUs, then the one with the lowest id.
Source: pkg/kubelet/cm/cpumanager/cpu_assignment.go (takeByTopologyNUMAPacked) and topology/topology.go, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.view import KubeletView

__all__ = ["CannotTake", "CpuTopology", "cpu_topology", "node_order", "not_enough", "take_packed"]

_NUMBERS_SINCE = 29
_ODD_IN_UNCORE_SINCE = 34

Groups = Mapping[int, int]
"""CPU masks by id."""


class CannotTake(Exception):
    """The CPUs cannot be taken; its text is the kubelet's message."""


class CpuTopology(msgspec.Struct, frozen=True):
    """The CPU manager's groups of CPUs, as masks by id: a core's id is its lowest CPU, and an uncore cache is an L3
    that less than the whole of a NUMA node shares."""

    cpus: int
    nodes: Groups
    sockets: Groups
    uncores: Groups
    cores: Groups

    @property
    def cpus_per_core(self) -> int:
        """The average, rounded down, that the kubelet takes for every core's."""
        return _average(self.cpus, self.cores)

    @property
    def numa_first(self) -> bool:
        """Whether NUMA nodes are made of sockets, and not sockets of NUMA nodes."""
        return len(self.sockets) >= len(self.nodes)


def cpu_topology(view: KubeletView) -> CpuTopology:
    """The groups of a view. NUMA nodes without CPUs are none to the CPU manager."""
    nodes: dict[int, int] = {}
    sockets: dict[int, int] = {}
    uncores: dict[int, int] = {}
    cores: dict[int, int] = {}
    for node in view.nodes:
        for core in node.cores:
            ids = (node.id, core.socket, core.uncore, core.cpus.first())
            for groups, id in zip((nodes, sockets, uncores, cores), ids, strict=True):
                groups[id] = groups.get(id, 0) | core.cpus.bits
    return CpuTopology(view.cpus.bits, nodes, sockets, uncores, cores)


def take_packed(
    topology: CpuTopology, available: CpuSet, number: int, minor: int, *, spread: bool = False, by_uncore: bool = False
) -> CpuSet:
    """So many of the available CPUs; `spread` is the option distribute-cpus-across-cores, `by_uncore` is
    prefer-align-cpus-by-uncorecache.

    Raises CannotTake where there are too few. The kubelet counts an uncore cache that lies in two NUMA nodes for each
    of them, and can so take fewer than asked for.
    """
    hand = _Hand(topology, available.bits & topology.cpus, number)
    if number > hand.free.bit_count():
        raise not_enough(number, available, minor)
    steps = (
        (_take_outer, True),
        (_take_inner, True),
        (_take_uncores if minor >= _ODD_IN_UNCORE_SINCE else _take_even_uncores, by_uncore),
        (_take_cores, not spread),
        (_take_by_number if spread else _take_by_core, True),
    )
    for step, wanted in steps:
        if wanted and hand.need > 0:
            step(hand)
    if hand.need > 0:
        raise CannotTake("failed to allocate cpus")
    return CpuSet.from_mask(hand.taken)


def not_enough(number: int, available: CpuSet, minor: int) -> CannotTake:
    """The kubelet's refusal; up to 1.28 it says no numbers."""
    numbers = f": requested={number}, available={len(available)}" if minor >= _NUMBERS_SINCE else ""
    return CannotTake(f"not enough cpus available to satisfy request{numbers}")


def node_order(topology: CpuTopology, free: int) -> list[int]:
    """The NUMA nodes with a free CPU, in the order in which the kubelet turns to them."""
    if topology.numa_first:
        return _order(topology.nodes, free)
    return _nested(topology.sockets, _order(topology.sockets, free), topology.nodes, free)


class _Hand:
    """What is free, what is taken, and how many are still needed."""

    __slots__ = ("free", "need", "taken", "topology")

    def __init__(self, topology: CpuTopology, free: int, need: int) -> None:
        self.topology = topology
        self.free = free
        self.need = need
        self.taken = 0

    def take(self, mask: int) -> None:
        """Takes CPUs, and counts those that were taken before once more, as the kubelet does."""
        self.taken |= mask
        self.free &= ~mask
        self.need -= mask.bit_count()

    def take_whole(self, groups: Groups, order: Iterable[int], size: int = 0) -> None:
        """Takes the groups that are wholly free while so many are needed; `size` stands for the size of each."""
        sizes = ((id, (groups[id] & self.free).bit_count(), groups[id].bit_count()) for id in order)
        for id, whole in [(id, whole) for id, free, whole in sizes if free == (size or whole)]:
            if self.need >= whole:
                self.take(groups[id])

    def take_singly(self, masks: Iterable[int]) -> None:
        """Takes the free CPUs of the masks, one after another, ascending in each."""
        for mask in masks:
            for cpu in CpuSet.from_mask(mask & self.free):
                self.take(1 << cpu)
                if self.need < 1:
                    return


def _take_outer(hand: _Hand) -> None:
    (_take_nodes if hand.topology.numa_first else _take_sockets)(hand)


def _take_inner(hand: _Hand) -> None:
    (_take_sockets if hand.topology.numa_first else _take_nodes)(hand)


def _take_nodes(hand: _Hand) -> None:
    hand.take_whole(hand.topology.nodes, node_order(hand.topology, hand.free))


def _take_sockets(hand: _Hand) -> None:
    topology = hand.topology
    hand.take_whole(topology.sockets, _socket_order(topology, hand.free), _average(topology.cpus, topology.sockets))


def _take_cores(hand: _Hand) -> None:
    hand.take_whole(hand.topology.cores, _core_order(hand.topology, hand.free), hand.topology.cpus_per_core)


def _take_by_core(hand: _Hand) -> None:
    hand.take_singly([hand.topology.cores[id] for id in _core_order(hand.topology, hand.free)])


def _take_by_number(hand: _Hand) -> None:
    hand.take_singly([hand.topology.sockets[id] for id in _socket_order(hand.topology, hand.free)])


def _take_uncores(hand: _Hand, *, odd: bool = True) -> None:
    """Whole uncore caches, then all that is left out of one. Where no cache has it, nothing is taken for the rest."""
    topology = hand.topology
    for id in _uncore_order(topology, hand.free):
        if hand.need >= _average(topology.cpus, topology.uncores):
            hand.take_whole(topology.uncores, _uncore_order(topology, hand.free))
        if hand.need > 0:
            part = _part_of_uncore(hand, id, odd=odd)
            if part.bit_count() == hand.need:
                hand.take(part)
        if hand.need < 1:
            return


def _take_even_uncores(hand: _Hand) -> None:
    """Up to 1.33 an odd number of CPUs was not sought in one cache: it was divided into whole cores, rounded down."""
    _take_uncores(hand, odd=False)


def _part_of_uncore(hand: _Hand, id: int, *, odd: bool) -> int:
    """The free CPUs of as many of the cache's cores as are needed, lowest first, however few of each are free."""
    topology, wide = hand.topology, hand.topology.cpus_per_core
    inside = sorted(core for core, mask in topology.cores.items() if mask & topology.uncores[id] & hand.free)
    found = 0
    for core in inside[: -(-hand.need // wide) if odd else hand.need // wide]:
        found |= topology.cores[core] & hand.free
    if odd and wide > 1 and hand.need % 2 and found.bit_count() > hand.need:
        found ^= 1 << found.bit_length() - 1
    return found


def _socket_order(topology: CpuTopology, free: int) -> list[int]:
    if not topology.numa_first:
        return _order(topology.sockets, free)
    return _nested(topology.nodes, _order(topology.nodes, free), topology.sockets, free)


def _uncore_order(topology: CpuTopology, free: int) -> list[int]:
    return _nested(topology.nodes, node_order(topology, free), topology.uncores, free)


def _core_order(topology: CpuTopology, free: int) -> list[int]:
    """Cores lie in the smaller of NUMA node and socket."""
    if topology.numa_first:
        return _nested(topology.sockets, _socket_order(topology, free), topology.cores, free)
    return _nested(topology.nodes, node_order(topology, free), topology.cores, free)


def _nested(outer: Groups, order: Iterable[int], inner: Groups, free: int) -> list[int]:
    """The inner groups of each outer one in turn; one that lies in two comes twice."""
    return [id for place in order for id in _order(inner, free, outer[place])]


def _order(groups: Groups, free: int, within: int = -1) -> list[int]:
    """The groups with a free CPU within a mask: those with the fewest free CPUs first, then by id."""
    counted = [((mask & free).bit_count(), id) for id, mask in groups.items() if mask & free & within]
    return [id for _, id in sorted(counted)]


def _average(cpus: int, groups: Groups) -> int:
    return cpus.bit_count() // len(groups) if groups else 0
