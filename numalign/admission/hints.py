"""Topology hints: sets of NUMA nodes that a resource can be had from, described by what they must contain.

The kubelet lists every set; there are 2^34 on a GB200. Here a list is a union of boxes, and a box is every set within
its nodes that is large enough: adding a NUMA node to one never makes it too small. Sets are bit masks of NUMA node ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, groupby, product

import msgspec

__all__ = ["Box", "Distances", "Hint", "Hints", "Sockets", "Sum", "exactly", "ids", "least", "least_size", "twins"]

_SMALL = 6
"""NUMA nodes up to which looking for twins costs more than it saves."""
_MANY_COUNTS = 1 << 12
"""Choices of how many NUMA nodes of each group above which they are not all gone through."""

Fits = Callable[[int], bool]
Hopeful = Callable[[int, int, int], bool]

Sum = tuple[tuple[int, ...], int]
"""A weight for each NUMA node, by id, and what the weights of a set must sum up to."""


@lru_cache(maxsize=1 << 14)
def ids(mask: int) -> tuple[int, ...]:
    """The NUMA nodes of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


class Hint(msgspec.Struct, frozen=True):
    """A set of NUMA nodes, None for any, and whether it is preferred."""

    mask: int | None
    preferred: bool


class Box(msgspec.Struct, frozen=True):
    """Every set within `nodes` that contains `must`, reaches each of the `sums`, and touches enough of each of the
    `covers` (NUMA nodes of devices, and how many of the devices)."""

    nodes: int
    must: int = 0
    sums: tuple[Sum, ...] = ()
    covers: tuple[tuple[tuple[int, ...], int], ...] = ()

    def holds(self, mask: int) -> bool:
        """Whether a set within the nodes is one of the box's."""
        if self.must & ~mask:
            return False
        for weights, need in self.sums:
            for node in ids(mask):
                need -= weights[node]
            if need > 0:
                return False
        return all(sum(1 for device in devices if device & mask) >= need for devices, need in self.covers)

    def reachable(self, chosen: int, rest: int, more: int) -> bool:
        """False where no choice of so many more NUMA nodes of the rest makes a set of the box."""
        missing = self.must & ~chosen
        if missing & ~rest or missing.bit_count() > more:
            return False
        for weights, need in self.sums:
            have = sum(weights[node] for node in ids(chosen))
            best = sorted((weights[node] for node in ids(rest)), reverse=True)[:more]
            if have + sum(best) < need:
                return False
        both = chosen | rest
        return all(sum(1 for device in devices if device & both) >= need for devices, need in self.covers)


def exactly(mask: int) -> Box:
    """The box of one set."""
    return Box(nodes=mask, must=mask)


class Sockets(msgspec.Struct, frozen=True):
    """The option align-by-socket: a set is also preferred where its NUMA nodes are on `count` sockets."""

    of_node: tuple[int, ...]
    count: int

    def aligned(self, mask: int) -> bool:
        """Whether a set is on so many sockets."""
        found = 0
        for node in ids(mask):
            found |= self.of_node[node]
        return found.bit_count() == self.count


class Hints(msgspec.Struct, frozen=True):
    """The hints for a resource: every set of the boxes; none where nothing can be had. Sets of `size` NUMA nodes, the
    fewest on which the request could ever be met, are preferred."""

    boxes: tuple[Box, ...]
    size: int
    sockets: Sockets | None = None

    def prefers(self, mask: int) -> bool:
        """Whether the hint with this set is preferred."""
        return mask.bit_count() == self.size or (self.sockets is not None and self.sockets.aligned(mask))

    def has(self, mask: int) -> bool:
        """Whether there is a hint with this set."""
        return any(mask & ~box.nodes == 0 and box.holds(mask) for box in self.boxes)

    def __iter__(self) -> Iterator[Hint]:
        """The hints in the kubelet's order: by size, then by the ids of their NUMA nodes. Twice as many with each NUMA
        node: for few of them."""
        nodes = 0
        for box in self.boxes:
            nodes |= box.nodes
        for size in range(1, nodes.bit_count() + 1):
            for some in combinations(ids(nodes), size):
                mask = sum(1 << node for node in some)
                if self.has(mask):
                    yield Hint(mask, self.prefers(mask))

    def count(self) -> int:
        """How many hints the kubelet lists; no less, where the NUMA nodes differ in too many ways to count them."""
        return sum(_count(box) for box in self.boxes)

    def narrowest(self, within: int = 0) -> int | None:
        """The set with the fewest NUMA nodes, of equal ones that with the lowest number, that contains `within`."""
        found = []
        for box in self.boxes:
            if within & ~box.nodes:
                continue
            inside = Box(box.nodes, box.must | within, box.sums, box.covers)
            size = least_size(inside)
            mask = _of_boxes((inside,), size) if size is not None else None
            if mask is not None:
                found.append((mask.bit_count(), mask))
        return min(found)[1] if found else None

    def fewest(self) -> int:
        """The fewest NUMA nodes of any hint; 0 where there is none."""
        sizes = [least_size(box) for box in self.boxes]
        return min((size for size in sizes if size is not None), default=0)


class Distances(msgspec.Struct, frozen=True):
    """The distances between NUMA nodes by id, both ways summed up; of a set the sum over all pairs counts, a NUMA node
    with itself included, since the kubelet compares averages of sets of one size."""

    own: tuple[int, ...]
    pairs: tuple[tuple[int, ...], ...]

    def added(self, node: int, chosen: int) -> int:
        """By how much a NUMA node makes the sum of a set larger."""
        row = self.pairs[node]
        return self.own[node] + sum(row[other] for other in ids(chosen))

    def of(self, mask: int) -> int:
        """The sum of a set."""
        total, done = 0, 0
        for node in ids(mask):
            total += self.added(node, done)
            done |= 1 << node
        return total

    def interchangeable(self, a: int, b: int, nodes: int) -> bool:
        """Whether two NUMA nodes are equally far from themselves and from all others."""
        one, other = self.pairs[a], self.pairs[b]
        return self.own[a] == self.own[b] and all(one[c] == other[c] for c in ids(nodes) if c not in (a, b))

    def alike(self, nodes: int) -> list[int]:
        """Groups of interchangeable NUMA nodes, as masks: how far a set is depends on how many it has of each."""
        groups: list[int] = []
        for node in ids(nodes):
            for number, group in enumerate(groups):
                if self.interchangeable(node, group.bit_length() - 1, nodes):
                    groups[number] |= 1 << node
                    break
            else:
                groups.append(1 << node)
        return groups

    def of_counts(self, groups: Sequence[int], counts: Sequence[int]) -> int:
        """The sum of a set with so many NUMA nodes of each of such groups."""
        total = 0
        for number, (group, count) in enumerate(zip(groups, counts, strict=True)):
            first, *others = ids(group)
            inside = self.pairs[first][others[0]] if others else 0
            total += count * self.own[first] + count * (count - 1) // 2 * inside
            for other, more in zip(groups[:number], counts[:number], strict=True):
                total += count * more * self.pairs[first][ids(other)[0]]
        return total

    def bound(self, chosen: int, rest: int, more: int) -> int:
        """What so many more NUMA nodes of the rest add at least."""
        inside = ids(rest)
        nearest = sorted(self.added(node, chosen) for node in inside)[:more]
        closest = min((self.pairs[a][b] for a in inside for b in inside if a != b), default=0)
        return sum(nearest) + more * (more - 1) // 2 * closest


def twins(pool: int, boxes: Sequence[Box], distances: Distances | None, sockets: Sockets | None = None) -> list[int]:
    """For each NUMA node the higher ones that could take its place in any set: the lowest of them are the choice."""
    higher = [0] * pool.bit_length()
    if pool.bit_count() <= _SMALL:
        return higher
    groups: dict[object, list[list[int]]] = {}
    for node in reversed(ids(pool)):
        key = (tuple(_place(box, node) for box in boxes), sockets.of_node[node] if sockets else 0)
        for group in groups.setdefault(key, []):
            if distances is None or distances.interchangeable(node, group[0], pool):
                higher[node] = sum(1 << other for other in group)
                group.append(node)
                break
        else:
            groups[key].append([node])
    return higher


def _place(box: Box, node: int) -> object:
    covers = tuple(tuple(device >> node & 1 for device in devices) for devices, _ in box.covers)
    return box.must >> node & 1, tuple(weights[node] for weights, _ in box.sums), covers


def least(
    pool: int, size: int, fits: Fits, hopeful: Hopeful, higher: Sequence[int], distances: Distances | None = None
) -> int | None:
    """The set of so many NUMA nodes of the pool that fits and is least: nearest by the distances, then lowest by its
    number. `hopeful` says of chosen nodes, of those not decided and of how many more whether any such set can fit;
    `higher` are the twins, which come only after their lower ones.
    """
    if distances is None:
        return _lowest([pool], (size,), fits, hopeful, higher)
    groups = distances.alike(pool)
    if math.prod(group.bit_count() + 1 for group in groups) > _MANY_COUNTS:
        return _nearest(pool, size, fits, hopeful, higher, distances)
    counts = _counts([group.bit_count() for group in groups], size)
    by_far = sorted((distances.of_counts(groups, each), each) for each in counts)
    for _, equal in groupby(by_far, key=lambda pair: pair[0]):
        found = [_lowest(groups, each, fits, hopeful, higher) for _, each in equal]
        masks = [mask for mask in found if mask is not None]
        if masks:
            return min(masks)
    return None


def _counts(most: Sequence[int], total: int) -> list[tuple[int, ...]]:
    """Every way to take so many in all from groups of these sizes."""
    if not most:
        return [()] if total == 0 else []
    first, rest = most[0], most[1:]
    lowest = max(0, total - sum(rest))
    return [(count, *more) for count in range(lowest, min(first, total) + 1) for more in _counts(rest, total - count)]


def _lowest(
    groups: Sequence[int], counts: Sequence[int], fits: Fits, hopeful: Hopeful, higher: Sequence[int]
) -> int | None:
    """The lowest set that fits with so many NUMA nodes of each group."""
    group_of = {node: number for number, group in enumerate(groups) for node in ids(group)}
    left = list(counts)

    def walk(chosen: int, rest: int, more: int) -> int | None:
        """The first in the order of their numbers: the highest NUMA node left out is tried before it is taken."""
        if more == 0:
            return chosen if fits(chosen) else None
        if rest.bit_count() < more or not hopeful(chosen, rest, more):
            return None
        top = rest.bit_length() - 1
        group = group_of[top]
        rest ^= 1 << top
        if not higher[top] & chosen and (rest & groups[group]).bit_count() >= left[group]:
            found = walk(chosen, rest, more)
            if found is not None:
                return found
        left[group] -= 1
        found = walk(chosen | 1 << top, rest & ~groups[group] if left[group] == 0 else rest, more - 1)
        left[group] += 1
        return found

    pool = sum(group for group, count in zip(groups, counts, strict=True) if count)
    return walk(0, pool, sum(counts))


def _nearest(
    pool: int, size: int, fits: Fits, hopeful: Hopeful, higher: Sequence[int], distances: Distances
) -> int | None:
    """The nearest set that fits, where the distances are too irregular to go by counts."""
    best: list[int] = []
    near = [0]

    def walk(chosen: int, rest: int, more: int, far: int) -> None:
        """Sets in the order of their numbers, so that of equally near ones the first stays."""
        if more == 0:
            if not (best and far >= near[0]) and fits(chosen):
                best[:], near[0] = [chosen], far
            return
        if rest.bit_count() < more or not hopeful(chosen, rest, more):
            return
        if best and far + distances.bound(chosen, rest, more) >= near[0]:
            return
        top = rest.bit_length() - 1
        rest ^= 1 << top
        if not higher[top] & chosen:
            walk(chosen, rest, more, far)
        walk(chosen | 1 << top, rest, more - 1, far + distances.added(top, chosen))

    walk(0, pool, size, 0)
    return best[0] if best else None


def least_size(box: Box) -> int | None:
    """The fewest NUMA nodes of a set of the box; None where it has no set."""
    if not box.nodes or not box.holds(box.nodes):
        return None
    size = max(1, box.must.bit_count())
    for weights, need in box.sums:
        inside = sum(weights[node] for node in ids(box.must))
        count = box.must.bit_count()
        for weight in sorted((weights[node] for node in ids(box.nodes & ~box.must)), reverse=True):
            if inside >= need:
                break
            inside, count = inside + weight, count + 1
        size = max(size, count)
    if len(box.sums) <= 1 and not box.covers:
        return size
    while _of_boxes((box,), size) is None:
        size += 1
    return size


def _count(box: Box) -> int:
    """How many sets a box has, by how many NUMA nodes of each kind are in them."""
    kinds: dict[object, list[int]] = {}
    for node in ids(box.nodes):
        kinds.setdefault(_place(box, node), []).append(node)
    groups = list(kinds.values())
    if math.prod(len(group) + 1 for group in groups) > _MANY_COUNTS:
        return (1 << box.nodes.bit_count()) - 1
    total = 0
    for counts in product(*(range(len(group) + 1) for group in groups)):
        lowest = [node for group, count in zip(groups, counts, strict=True) for node in group[:count]]
        if lowest and box.holds(sum(1 << node for node in lowest)):
            total += math.prod(math.comb(len(group), count) for group, count in zip(groups, counts, strict=True))
    return total


def _of_boxes(boxes: tuple[Box, ...], size: int) -> int | None:
    (box,) = boxes
    return least(box.nodes, size, box.holds, box.reachable, twins(box.nodes, boxes, None))
