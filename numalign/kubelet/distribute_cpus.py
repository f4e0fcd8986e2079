"""The CPUs that the CPU manager takes when it distributes them evenly over NUMA nodes.

Source: pkg/kubelet/cm/cpumanager/cpu_assignment.go (takeByTopologyNUMADistributed, KEP-2902), 1.27 to 1.37.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.take_cpus import CannotTake, CpuTopology, node_order, not_enough, take_packed

__all__ = ["KubeletHangs", "take_distributed"]

_EMPTY = -1


class KubeletHangs(CannotTake):
    """The kubelet does not come back: its loop makes no progress (up to 1.37, kubernetes/kubernetes#140730)."""

    def __init__(self) -> None:
        super().__init__("the kubelet loops without end while it distributes CPUs over NUMA nodes")


class _Slice(msgspec.Struct, frozen=True, gc=False):
    """A Go slice: the first `length` items of an array that other slices may write to."""

    array: list[int]
    length: int

    def append(self, item: int) -> _Slice:
        """Go's append: in place where the array has room (its size doubles otherwise)."""
        array = self.array
        if self.length == len(array):
            array = [*array, *[_EMPTY] * max(len(array), 1)]
        array[self.length] = item
        return _Slice(array, self.length + 1)

    def items(self) -> list[int]:
        """What the slice holds now."""
        return self.array[: self.length]


class _Plan(msgspec.Struct, frozen=True, gc=False):
    """NUMA nodes that get the same number of CPUs, those that give the remainder, as positions among the nodes as they
    were when the plan was made, and how uneven what is left would be. The kubelet remembers both as slices into arrays
    that it goes on writing to, and so do we."""

    balance: float
    nodes: _Slice
    made_for: list[int]
    givers: _Slice


def take_distributed(
    topology: CpuTopology, available: CpuSet, number: int, group: int, minor: int, *, spread: bool = False
) -> CpuSet:
    """So many of the available CPUs, evenly over as few NUMA nodes as will do, in groups of `group` CPUs of a node;
    packed where they cannot be divided so.

    Raises CannotTake where there are too few, KubeletHangs where the kubelet would not come back.
    """
    packed = number % group != 0
    free = available.bits & topology.cpus
    if not packed and 0 < number <= free.bit_count():
        order = node_order(topology, free)
        sizes = {node: (topology.nodes[node] & free).bit_count() for node in order}
        for count in _node_counts(topology, len(order), number, group):
            plan = _best_plan(order, sizes, count, number, group)
            if plan is not None:
                return _carry_out(topology, free, number, group, minor, plan, spread=spread)
    elif not packed and number > 0:
        raise not_enough(number, available, minor)
    return take_packed(topology, available, number, minor, spread=spread)


def _node_counts(topology: CpuTopology, usable: int, number: int, group: int) -> range:
    """Over how many NUMA nodes the groups can be distributed, by the size of the machine."""
    groups = -(-topology.cpus.bit_count() // group)
    per_node = -(-groups // len(topology.nodes))
    wanted = -(-number // group)
    return range(-(-wanted // per_node), min(wanted, usable) + 1)


def _best_plan(order: list[int], sizes: Mapping[int, int], count: int, number: int, group: int) -> _Plan | None:
    """The plan that leaves the NUMA nodes most even, the first of several."""
    share = _share(number, count, group)
    best = None
    known: dict[tuple[int, ...], tuple[float, _Slice]] = {}  # alike nodes in alike places come out alike
    for nodes in _choices(order, count):
        if best is not None and best.balance == 0:
            break
        chosen = nodes.items()
        have = tuple(sizes[node] for node in chosen)
        if sum(size // group * group for size in have) < number or min(have) < share:
            continue
        if have not in known:
            others = [size for node, size in sizes.items() if node not in chosen]
            left = [size - share for size in have]
            known[have] = _best_givers(left, others, number - share * count, group)
        balance, givers = known[have]
        if balance < (best.balance if best else math.inf):
            best = _Plan(balance, nodes, chosen, givers)
    return best


def _best_givers(left: list[int], others: list[int], remainder: int, group: int) -> tuple[float, _Slice]:
    """Which of the nodes, by position, best give the remainder, and how uneven all nodes are then; infinitely so where
    none can."""
    if not remainder:
        return _balance([*left, *others]), _Slice([], 0)
    able = [position for position, size in enumerate(left) if size >= group]
    best, givers = math.inf, _Slice([], 0)
    for count in range(len(able), 0, -1):
        for subset in _choices(able, count):
            some = subset.items()
            if sum(left[position] for position in some) < remainder:
                continue
            balance = _balance([*_after(left, some, remainder, group), *others])
            if balance < best:
                best, givers = balance, subset
    return best, givers


def _after(left: list[int], givers: list[int], remainder: int, group: int) -> list[int]:
    """What is left when the givers in turn gave a group until the remainder was met."""
    after = list(left)
    for position in _rounds(givers, remainder // group, after.__getitem__, group):
        after[position] -= group
    return after


def _carry_out(
    topology: CpuTopology, free: int, number: int, group: int, minor: int, plan: _Plan, *, spread: bool
) -> CpuSet:
    """The CPUs that a plan takes: each node's share packed, then the remainder a group at a time."""
    nodes = plan.nodes.items()
    givers = [plan.made_for[position] for position in plan.givers.items()]
    share = _share(number, len(nodes), group)
    taken, missing = 0, number

    def left(node: int) -> CpuSet:
        return CpuSet.from_mask(topology.nodes[node] & free & ~taken)

    def take(node: int, amount: int) -> None:
        nonlocal taken, missing
        try:
            got = take_packed(topology, left(node), amount, minor, spread=spread)
        except CannotTake:
            return  # the kubelet overlooks it here, and finds its sum wrong in the end
        taken |= got.bits
        missing -= len(got)

    for node in nodes:
        take(node, share)
    for node in _rounds(givers, (number - share * len(nodes)) // group, lambda node: len(left(node)), group):
        take(node, group)
    if missing:
        much = "not enough" if missing > 0 else "too many"
        raise CannotTake(f"accounting error, {much} CPUs allocated, remaining: {missing}")
    return CpuSet.from_mask(taken)


def _rounds(nodes: list[int], groups: int, left: Callable[[int], int], group: int) -> Iterator[int]:
    """The nodes in turn, those that have a group left when their turn comes, for so many groups in all.

    Raises KubeletHangs where a whole round yields nothing.
    """
    while groups:
        before = groups
        for node in nodes:
            if groups and left(node) >= group:
                groups -= 1
                yield node
        if groups == before:
            raise KubeletHangs


def _share(number: int, nodes: int, group: int) -> int:
    """What each node gets of an even distribution, in whole groups."""
    return number // nodes // group * group


def _choices(items: list[int], count: int) -> Iterator[_Slice]:
    """Every choice of so many items, in order, built by appending: those of one beginning can share an array."""

    def extend(begin: _Slice, start: int) -> Iterator[_Slice]:
        if begin.length == count:
            yield begin
            return
        for position in range(start, len(items) - (count - begin.length) + 1):
            yield from extend(begin.append(items[position]), position + 1)

    return extend(_Slice([], 0), 0)


def _balance(values: Iterable[int]) -> float:
    return _deviation(tuple(sorted(values)))


@lru_cache(maxsize=1 << 12)
def _deviation(values: tuple[int, ...]) -> float:
    """The standard deviation with the kubelet's rounding, of its mean too, to thousandths."""
    mean = _thousandths(sum(values) / len(values))
    return _thousandths(math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)))


def _thousandths(value: float) -> float:
    return math.floor(value * 1000 + 0.5) / 1000
