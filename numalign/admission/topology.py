"""The topology manager: how the hints of all providers become one, and whether a policy admits it.

The kubelet tries every combination of hints. What it finds does not depend on the order: a preferred hint is a set
that all lists have and prefer, the narrowest; without one it is, of all intersections of one set of each list, the one
whose size is nearest to B from below (else the smallest above), B being the most that any list needs at least. So it is
enough to look for the least such set of a size, whose other NUMA nodes are each left out by a list that can do without.
Source: pkg/kubelet/cm/topologymanager (policy.go, policy_*.go, numa_info.go), 1.27 to 1.37.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from numalign.admission.hints import Box, Distances, Hint, Hints, ids, least, twins
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["ProviderHints", "Topology", "decide", "merge", "topology"]

ProviderHints = Mapping[str, Hints | None]
"""A provider's hints by resource; None where it has no preference."""

_ANY = Hint(None, preferred=True)
_ROUNDING = 1e-9


class Topology(msgspec.Struct, frozen=True):
    """The policy and scope, the mask of all NUMA nodes, and their distances under prefer-closest-numa-nodes."""

    policy: str
    scope: str
    nodes: int
    distances: Distances | None


def topology(settings: Settings, view: KubeletView) -> Topology:
    """The topology manager of a configuration on a machine. A distance that the machine does not have is 0."""
    closest = settings.topology_option("prefer-closest-numa-nodes")
    wanted = closest and settings.topology_policy not in ("none", "single-numa-node")
    return Topology(
        policy=settings.topology_policy,
        scope=settings.topology_scope,
        nodes=sum(1 << node.id for node in view.nodes),
        distances=distances({node.id: node.distances or () for node in view.nodes}) if wanted else None,
    )


def distances(rows: Mapping[int, Sequence[int]]) -> Distances:
    """Distances of rows by NUMA node id. The kubelet takes the id for the position in a row."""
    reach = range(max(rows) + 1)
    way = [[rows[a][b] if a in rows and b < len(rows[a]) else 0 for b in reach] for a in reach]
    return Distances(
        own=tuple(way[a][a] for a in reach),
        pairs=tuple(tuple(way[a][b] + way[b][a] for b in reach) for a in reach),
    )


def decide(manager: Topology, providers: Sequence[ProviderHints]) -> tuple[Hint, bool]:
    """The merged hint, and whether the policy admits it."""
    lists = [hints for provider in providers for hints in (provider.values() if provider else (None,))]
    if manager.policy == "single-numa-node":
        hint = _merge_single(lists, manager.nodes)
        return hint, hint.preferred
    hint = merge(lists, manager.nodes, manager.distances)
    return hint, hint.preferred or manager.policy == "best-effort"


def _merge_single(lists: Sequence[Hints | None], nodes: int) -> Hint:
    """The lowest NUMA node that all lists have and prefer; any where it is the only one, or nobody cares."""
    common = nodes
    for hints in lists:
        if hints is None:
            continue
        if hints.size != 1:
            return Hint(None, preferred=False)
        common = sum(1 << node for node in ids(common) if hints.has(1 << node))
    if not common:
        return Hint(None, preferred=False)
    if all(hints is None for hints in lists):
        return _ANY
    lowest = common & -common
    return _ANY if lowest == nodes else Hint(lowest, preferred=True)


def merge(lists: Sequence[Hints | None], nodes: int, distances: Distances | None = None) -> Hint:
    """The best hint of all combinations of one hint of each list; None is a list without a preference."""
    possible = [hints for hints in lists if hints is not None and hints.boxes]
    refused = any(hints is not None and not hints.boxes for hints in lists)
    if not possible:
        return Hint(nodes, preferred=not refused)
    if not refused:
        mask = _preferred(possible, distances)
        if mask is not None:
            return Hint(mask, preferred=True)
    mask = _intersection(possible, distances)
    return Hint(nodes if mask is None else mask, preferred=False)


def _preferred(lists: Sequence[Hints], distances: Distances | None) -> int | None:
    """The least set that all lists have and prefer. Lists for several resources can be one and the same."""
    lists = list({id(hints): hints for hints in lists}.values())
    fixed = {hints.size for hints in lists if hints.sockets is None}
    by_socket = next((hints for hints in lists if hints.sockets is not None), None)
    if len(fixed) > 1:
        return None
    widest = max(box.nodes.bit_count() for hints in lists for box in hints.boxes)
    for size in fixed or range(1, widest + 1):
        found = []
        for boxes, pool in _combinations(lists):
            mask = _in_all(boxes, pool, size, by_socket, distances)
            if mask is not None:
                found.append(mask)
        if found:
            return _best(found, distances)
    return None


def _in_all(
    boxes: Sequence[Box], pool: int, size: int, by_socket: Hints | None, distances: Distances | None
) -> int | None:
    """The least set of so many NUMA nodes that is in each of the boxes, and that align-by-socket prefers."""

    def fits(mask: int) -> bool:
        return all(box.holds(mask) for box in boxes) and (by_socket is None or by_socket.prefers(mask))

    def hopeful(chosen: int, rest: int, more: int) -> bool:
        return all(box.reachable(chosen, rest, more) for box in boxes)

    sockets = by_socket.sockets if by_socket is not None else None
    return least(pool, size, fits, hopeful, twins(pool, boxes, distances, sockets), distances)


def _intersection(lists: Sequence[Hints], distances: Distances | None) -> int | None:
    """The best of the sets that one set of each list have in common; None where all are empty."""
    wanted = max(hints.fewest() for hints in lists)
    choices = [_Choice(boxes, pool, distances) for boxes, pool in _combinations(lists)]
    widest = max((choice.pool.bit_count() for choice in choices), default=0)
    for size in (*range(min(wanted, widest), 0, -1), *range(wanted + 1, widest + 1)):
        found = [mask for choice in choices for mask in [choice.least(size)] if mask is not None]
        if found:
            return _best(found, distances)
    return None


def _best(masks: Sequence[int], distances: Distances | None) -> int:
    return min(masks, key=lambda mask: (distances.of(mask) if distances else 0, mask))


def _combinations(lists: Sequence[Hints]) -> Iterator[tuple[tuple[Box, ...], int]]:
    """A box of each list and the NUMA nodes that these have in common, where they have any."""

    def extend(start: int, boxes: tuple[Box, ...], pool: int) -> Iterator[tuple[tuple[Box, ...], int]]:
        if start == len(lists):
            yield boxes, pool
            return
        for box in lists[start].boxes:
            if box.nodes & pool:
                yield from extend(start + 1, (*boxes, box), box.nodes & pool)

    return extend(0, (), -1)


class _Choice:
    """The intersections of one set of each box. NUMA nodes that are not in one must each be missing from one of the
    sets; those that a box does not have anyway are outside the pool."""

    def __init__(self, boxes: tuple[Box, ...], pool: int, distances: Distances | None) -> None:
        self.boxes = boxes
        self.pool = pool
        self.distances = distances
        self.higher = twins(pool, boxes, distances)
        self.known: dict[int, bool] = {}
        slacks = [_slacks(box) for box in boxes]
        self.prices = {node: min(_price(*pair, node) for pair in zip(boxes, slacks, strict=True)) for node in ids(pool)}

    def least(self, size: int) -> int | None:
        """The least intersection of so many NUMA nodes."""
        if self.pool.bit_count() < size:
            return None

        def hopeful(chosen: int, rest: int, more: int) -> bool:
            return self.affordable(chosen, rest, more) and self.spared(self.pool & ~(chosen | rest))

        def fits(mask: int) -> bool:
            return self.spared(self.pool & ~mask)

        return least(self.pool, size, fits, hopeful, self.higher, self.distances)

    def affordable(self, chosen: int, rest: int, more: int) -> bool:
        """False where so many NUMA nodes have to go that the boxes together cannot do without them."""
        spent = sum(self.prices[node] for node in ids(self.pool & ~(chosen | rest)))
        cheapest = sorted(self.prices[node] for node in ids(rest))[: rest.bit_count() - more]
        return spent + sum(cheapest) <= len(self.boxes) + _ROUNDING

    def spared(self, gone: int) -> bool:
        """Whether each of these NUMA nodes can be missing from one of the sets."""
        found = self.known.get(gone)
        if found is None:
            found = any(box.holds(box.nodes & ~gone) for box in self.boxes) or self._shared_out(gone)
            self.known[gone] = found
        return found

    def _shared_out(self, gone: int) -> bool:
        """Whether several boxes can do without them, each without some."""
        able = tuple(box for box in self.boxes if gone & ~box.must)
        if len(able) < 2:
            return False
        order = sorted(ids(gone), key=lambda node: -max(_weight(box, node) for box in able))
        failed: set[tuple[int, tuple[object, ...]]] = set()

        def give(position: int, left: tuple[int, ...]) -> bool:
            if position == len(order):
                return True
            state = (position, tuple(_rest(box, mask) for box, mask in zip(able, left, strict=True)))
            if state in failed:
                return False
            node = 1 << order[position]
            for index, box in enumerate(able):
                mask = left[index] & ~node
                if box.holds(mask) and give(position + 1, (*left[:index], mask, *left[index + 1 :])):
                    return True
            failed.add(state)
            return False

        return give(0, tuple(box.nodes for box in able))


def _slacks(box: Box) -> list[int]:
    """What a box has of each sum beyond what it needs."""
    return [sum(weights[node] for node in ids(box.nodes)) - need for weights, need in box.sums]


def _price(box: Box, slacks: Sequence[int], node: int) -> float:
    """The part of what a box can do without that a NUMA node takes, at least: those of the NUMA nodes that it does
    without sum up to no more than 1."""
    if box.must >> node & 1:
        return math.inf
    if box.covers or not slacks:
        return 0.0
    parts = [
        (weights[node] / slack if slack > 0 else math.inf) if weights[node] else 0.0
        for (weights, _), slack in zip(box.sums, slacks, strict=True)
    ]
    return math.inf if math.inf in parts else sum(parts) / len(parts)


def _weight(box: Box, node: int) -> float:
    """The part of what a box needs that a NUMA node has."""
    return max((weights[node] / need for weights, need in box.sums if need > 0), default=0.0)


def _rest(box: Box, mask: int) -> object:
    """What decides about leaving more NUMA nodes out of a set."""
    if box.covers:
        return mask
    return tuple(sum(weights[node] for node in ids(mask)) for weights, _ in box.sums)
