"""The memory manager's static policy: hints over groups of NUMA nodes, and what memory a container gets.

A NUMA node serves either containers that are on it alone or one group of NUMA nodes, until all of it is given back.
Source: pkg/kubelet/cm/memorymanager/policy_static.go, 1.27 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numalign.admission.demand import ContainerDemand, PodDemand
from numalign.admission.hints import Box, Hint, Hints, exactly, ids, least_size
from numalign.admission.refusal import EMPTY_POOL, KubeletPanics, Refused, empty_pool, unexpected
from numalign.kubelet.restart import default_memory_state
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = [
    "NOT_WHOLE",
    "Amount",
    "MemoryBlock",
    "MemoryManager",
    "MemoryUse",
    "after_reuse",
    "check_pod_pool",
    "memory_manager",
    "reused",
    "share_out",
]

_GROUPS_CHECKED_SINCE = 32
_PREFIX = "[memorymanager] "
NOT_WHOLE = _PREFIX + "failed to represent quantity as int64"
"""The kubelet's words for an amount that is no whole number of bytes."""

Amount = Mapping[str, int]
"""Bytes by type: memory, hugepages-2Mi …"""

Reusable = Mapping[tuple[int, str], int]
"""Bytes that init containers leave, by the mask of their NUMA nodes and the type."""


class MemoryBlock(msgspec.Struct, frozen=True):
    """Memory that a container holds on a mask of NUMA nodes, in bytes."""

    nodes: int
    type: str
    size: int


class MemoryUse(msgspec.Struct, frozen=True):
    """What is taken: of each NUMA node, by id, the number of blocks on it, the mask of the group that it is in, and the
    free bytes of each type."""

    blocks: tuple[int, ...]
    groups: tuple[int, ...]
    free: Mapping[str, tuple[int, ...]]


class MemoryManager(msgspec.Struct, frozen=True):
    """The static policy on a machine: the bytes that pods can have of each NUMA node, by type and id."""

    nodes: int
    allocatable: Mapping[str, tuple[int, ...]]
    missing: Mapping[str, int]
    checks_groups: bool
    sizes: dict[tuple[tuple[str, int], ...], int]

    @property
    def start(self) -> MemoryUse:
        """The state of an empty node."""
        reach = self.nodes.bit_length()
        return MemoryUse(
            blocks=(0,) * reach, groups=tuple(1 << node for node in range(reach)), free=dict(self.allocatable)
        )

    def hints(self, use: MemoryUse, wanted: Amount, reusable: Reusable) -> dict[str, Hints]:
        """The hints, the same for each type; empty where the memory is nowhere to be had, which the topology manager
        takes for no preference. Raises KubeletPanics where a NUMA node does not know a type."""
        self._check_types(wanted)
        boxes = self._boxes(use, wanted, reusable)
        hints = Hints(boxes=boxes, size=self._fewest(wanted))
        return dict.fromkeys(wanted, hints) if boxes else {}

    def allocate(self, use: MemoryUse, wanted: Amount, reusable: Reusable, hint: Hint) -> int:
        """The NUMA nodes on which a request is booked: those of the hint, or more where they have too little.
        Raises Refused, KubeletPanics."""
        mask, preferred = hint.mask, hint.preferred
        if mask is None:
            known = self.hints(use, wanted, reusable)
            if not known:
                raise _failed("failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
            mask = self._best(known, 0)
            if mask is None:
                raise KubeletPanics("a Guaranteed container without a memory request")
            if preferred and not known["memory"].prefers(mask):
                raise _failed("failed to find the default preferred hint")
            preferred = known["memory"].prefers(mask)
        self._check_types(wanted)
        if any(sum(use.free[kind][node] for node in ids(mask)) < size for kind, size in wanted.items()):
            known = self.hints(use, wanted, reusable)
            larger = self._best(known, mask)
            if larger is None:
                raise _failed("failed to find NUMA nodes to extend the current topology hint")
            if preferred and not known["memory"].prefers(larger):
                raise _failed("failed to find the extended preferred hint")
            mask = larger
        if self.checks_groups and self._violates(use, mask):
            raise _failed("preferred hint violates NUMA node allocation")
        return mask

    def book(self, use: MemoryUse, nodes: int, amounts: Amount) -> MemoryUse:
        """The state with a block of each type on the NUMA nodes, filled from the lowest on."""
        blocks, groups = list(use.blocks), list(use.groups)
        free = dict(use.free)
        for kind, size in amounts.items():
            left = list(free[kind])
            for node in ids(nodes):
                blocks[node] += 1
                groups[node] = nodes
                taken = min(left[node], size)
                left[node], size = left[node] - taken, size - taken
            free[kind] = tuple(left)
        return MemoryUse(tuple(blocks), tuple(groups), free)

    def release(self, use: MemoryUse, held: Iterable[MemoryBlock]) -> MemoryUse:
        """The state without blocks, given back from the lowest NUMA node on."""
        blocks, groups = list(use.blocks), list(use.groups)
        free = {kind: list(left) for kind, left in use.free.items()}
        for block in held:
            size = block.size
            for node in ids(block.nodes):
                blocks[node] -= 1
                if blocks[node] == 0:
                    groups[node] = 1 << node
                given = min(self.allocatable[block.type][node] - free[block.type][node], size)
                free[block.type][node] += given
                size -= given
        return MemoryUse(tuple(blocks), tuple(groups), {kind: tuple(left) for kind, left in free.items()})

    def _check_types(self, wanted: Amount) -> None:
        for kind in wanted:
            if kind not in self.allocatable or self.missing.get(kind):
                raise KubeletPanics(f"{kind} is not known on every NUMA node")

    def _boxes(self, use: MemoryUse, wanted: Amount, reusable: Reusable) -> tuple[Box, ...]:
        """Single NUMA nodes in use, the groups there are, sets on which init containers left memory, and all sets of
        NUMA nodes that are not in use."""
        if not wanted:
            return ()
        unused = sum(1 << node for node in ids(self.nodes) if use.blocks[node] == 0)
        special = {mask for mask, _ in reusable}
        single: set[int] = set()
        for node in ids(self.nodes & ~unused):
            single |= {1 << node, use.groups[node]}
        found = [
            exactly(mask)
            for mask in sorted(single | special)
            if self._can_group(use, mask) and self._suffices(use, wanted, reusable, mask)
        ]
        sums = tuple((weights[kind], size) for kind, size in wanted.items() for weights in (self.allocatable, use.free))
        if all(use.free[kind] == self.allocatable[kind] for kind in wanted):
            sums = sums[::2]
        rest = Box(nodes=unused, sums=sums)
        return (*found, rest) if unused and rest.holds(unused) else tuple(found)

    def _can_group(self, use: MemoryUse, mask: int) -> bool:
        """Whether the NUMA nodes serve nobody else alone, or in another group."""
        if mask.bit_count() == 1:
            return use.groups[mask.bit_length() - 1].bit_count() == 1
        return all(use.blocks[node] == 0 or use.groups[node] == mask for node in ids(mask))

    def _suffices(self, use: MemoryUse, wanted: Amount, reusable: Reusable, mask: int) -> bool:
        inside = ids(mask)
        for kind, size in wanted.items():
            free = sum(use.free[kind][node] for node in inside) + reusable.get((mask, kind), 0)
            if free < size or sum(self.allocatable[kind][node] for node in inside) < size:
                return False
        return True

    def _fewest(self, wanted: Amount) -> int:
        """The fewest NUMA nodes that pods could have so much of."""
        key = tuple(wanted.items())
        if key not in self.sizes:
            box = Box(self.nodes, sums=tuple((self.allocatable[kind], size) for kind, size in key))
            self.sizes[key] = least_size(box) or self.nodes.bit_count()
        return self.sizes[key]

    def _best(self, known: Mapping[str, Hints], within: int) -> int | None:
        hints = known.get("memory")
        return hints.narrowest(within) if hints else None

    def _violates(self, use: MemoryUse, mask: int) -> bool:
        return mask.bit_count() > 1 and any(use.blocks[node] and use.groups[node] != mask for node in ids(mask))


def memory_manager(settings: Settings, view: KubeletView) -> MemoryManager | None:
    """The static policy of a configuration; None where the policy is another."""
    if settings.memory_policy != "Static":
        return None
    tables = {id: node.memory for id, node in default_memory_state(settings, view).items()}
    kinds = sorted({kind for table in tables.values() for kind in table})
    reach = range(max(tables, default=-1) + 1)
    return MemoryManager(
        nodes=sum(1 << id for id in tables),
        allocatable={
            kind: tuple(tables[id][kind].allocatable if kind in tables.get(id, {}) else 0 for id in reach)
            for kind in kinds
        },
        missing={kind: sum(kind not in table for table in tables.values()) for kind in kinds},
        checks_groups=settings.minor >= _GROUPS_CHECKED_SINCE,
        sizes={},
    )


def after_reuse(
    reusable: Reusable, container: ContainerDemand, nodes: int, wanted: Amount
) -> dict[tuple[int, str], int]:
    """What init containers leave once a container has its memory."""
    found = dict(reusable)
    for kind, size in wanted.items():
        key = (nodes, kind)
        if container.reusable:
            found[key] = max(found.get(key, 0), size)
        elif key in found:
            found[key] = max(found[key] - size, 0)
    return found


def reused(
    held: Mapping[str, tuple[MemoryBlock, ...]], before: Iterable[ContainerDemand], blocks: tuple[MemoryBlock, ...]
) -> dict[str, tuple[MemoryBlock, ...]]:
    """The blocks of the plain init containers before a container, less what its blocks take over of them."""
    found = dict(held)
    before = list(before)
    for block in blocks:
        size = block.size
        for each in before:
            if size == 0 or not each.reusable:
                continue
            kept = []
            for own in found.get(each.name, ()):
                over = min(own.size, size) if (own.type, own.nodes) == (block.type, block.nodes) else 0
                size -= over
                kept.append(MemoryBlock(own.nodes, own.type, own.size - over))
            if each.name in found:
                found[each.name] = tuple(kept)
    return found


def check_pod_pool(pod: PodDemand) -> None:
    """Raises Refused where a pod with memory of its own leaves none to the containers that share it."""
    budget, lasting, shared = pod.memory or {}, dict[str, int](), False
    for each in pod.containers:
        if each.memory is None:
            raise Refused(EMPTY_POOL, NOT_WHOLE)
        if each.reusable:
            for kind, size in budget.items():
                if not each.memory and lasting.get(kind, 0) >= size:
                    raise empty_pool(f"pod has shared init containers but no {kind} available for them")
        elif each.memory:
            for kind, size in each.memory.items():
                lasting[kind] = lasting.get(kind, 0) + size
        else:
            shared = True
    for kind, size in budget.items():
        if shared and lasting.get(kind, 0) >= size:
            what = f"sum of exclusive container {kind} requests equals pod budget"
            raise empty_pool(f"{what}, leaving no memory for shared containers")


def share_out(pod: PodDemand, nodes: int) -> dict[str, tuple[MemoryBlock, ...]]:
    """The blocks of each container of a pod that has memory of its own: what it asks for, or what others leave."""

    def blocks(amounts: Amount) -> tuple[MemoryBlock, ...]:
        return tuple(MemoryBlock(nodes, kind, size) for kind, size in amounts.items() if size > 0)

    left = dict(pod.memory or {})
    found: dict[str, tuple[MemoryBlock, ...]] = {}
    for each in pod.containers:
        own = each.memory or {}
        if each.reusable:
            found[each.name] = blocks(own or left)
        elif own:
            found[each.name] = blocks(own)
            for kind, size in own.items():
                left[kind] = left.get(kind, 0) - size
    rest = blocks(left)
    return {each.name: found.get(each.name, rest) for each in pod.containers}


def _failed(message: str) -> Refused:
    return unexpected(_PREFIX + message)
