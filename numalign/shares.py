"""What a container can have beside its GPUs so that all others stay usable: by how many GPUs, on each NUMA node.

The widths are the kubelet's (pkg/kubelet/cm/cpumanager/policy_static.go, generateCPUtopologyHints): how many NUMA nodes
a request is held to need is reckoned from all CPUs of a NUMA node, whether it can be met from those that are left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import accumulate

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Machine
from numalign.reserve import gpus_on, places
from numalign.reserve_memory import MemoryReservation, MemoryWishes, reserve_memory, room
from numalign.words import nic_name, size

__all__ = ["GpuShare", "Largest", "ShareTable", "share_table"]

_MIB, _GIB = 1 << 20, 1 << 30
_TOO_FEW = "too few CPUs are left for each GPU to have some"


class GpuShare(msgspec.Struct, frozen=True, rename="camel"):
    """What goes with `gpus` GPUs of the NUMA nodes (of all where they are more than one has): CPUs, bytes of memory,
    NICs (names of those that are near; `nicCount` of them are this share's), how many such containers fit on the node,
    and how many GPUs are then left that no other of the kind can use. `fewestCPUs` is the smallest request that policy
    restricted admits with so many GPUs. `never` says why no such container is admitted; null where one is."""

    numa_nodes: CpuSet
    gpus: int
    cpus: int = msgspec.field(name="CPUs")
    fewest_cpus: int = msgspec.field(name="fewestCPUs")
    memory_bytes: int | None
    nic_count: int
    nics: tuple[str, ...]
    containers: int
    stranded_gpus: int = msgspec.field(name="strandedGPUs")
    never: str | None = None


class Largest(msgspec.Struct, frozen=True, rename="camel"):
    """One container that is admitted on an empty node: with the most GPUs that one can have, and with these the most
    CPUs. `memoryBytes` is null where the memory of its NUMA nodes is not known or there is none."""

    cpus: int = msgspec.field(name="CPUs")
    memory_bytes: int | None
    gpus: int


class ShareTable(msgspec.Struct, frozen=True, rename="camel"):
    """The shares, the largest container, and the CPU requests (`105-112`, in steps of `stepCPUs`) that fit and that
    policy restricted refuses all the same."""

    policy: str
    step: int = msgspec.field(name="stepCPUs")
    shares: tuple[GpuShare, ...]
    largest: Largest
    restricted_refuses: tuple[str, ...] = msgspec.field(name="restrictedRefusesCPUs")


class _Home(msgspec.Struct, frozen=True):
    """A NUMA node as the shares see it: `unit` CPUs and `part` bytes go with each of its GPUs."""

    id: int
    all_cpus: int
    exclusive: int
    gpus: int
    unit: int
    memory: int | None
    part: int | None
    nics: tuple[str, ...]


def share_table(
    machine: Machine, reserved: CpuSet, memory: MemoryReservation | None, policy: str, *, step: int
) -> ShareTable:
    """The table for a reservation; without one of memory as much is left out as there would be by default. Exclusive
    CPUs come in multiples of `step`: with full-pcpus-only the CPUs of a core as the kubelet reckons them."""
    held: list[int] = []
    if memory is not None:
        held = _accumulated(_memory(machine, node.id, memory) or 0 for node in machine.numa_nodes)
    else:
        with contextlib.suppress(DoesNotHold):
            memory = reserve_memory(machine, reserved, MemoryWishes())
    homes = [_home(machine, id, cpus, reserved, memory, step) for id, cpus in places(machine).items()]
    unaligned = 0 if any(home.gpus for home in homes) else sum(gpu.numa_node is None for gpu in machine.gpus)
    node = _Node(homes, policy, step, held, unaligned)
    return ShareTable(
        policy=policy,
        step=step,
        shares=(*_rows_on_one(homes), *_rows_of_more(node)),
        largest=_largest(node),
        restricted_refuses=tuple(_refused_by_restricted(homes, step)),
    )


class _Node:
    """The machine as the shares see it: its homes, and what goes for all of them.

    `held` and `held_memory` (empty without a static memory manager) are what the widest so many NUMA nodes have in all,
    CPUs and bytes, by which the kubelet reckons how many a request needs; `reach` the same of GPUs. `unaligned` is the
    number of GPUs that come without a hint, since none has a NUMA node. `best` are the CPUs and the memory of so many
    NUMA nodes with so many GPUs, by both numbers: of those with the most CPUs.
    """

    def __init__(self, homes: list[_Home], policy: str, step: int, held_memory: list[int], unaligned: int) -> None:
        self.homes, self.policy, self.step = homes, policy, step
        self.held = _accumulated(home.all_cpus for home in homes)
        self.held_memory = held_memory
        self.reach = _accumulated(home.gpus for home in homes if home.gpus)
        self.unaligned = unaligned
        self.best: dict[tuple[int, int], tuple[int, int]] = {(0, 0): (0, 0)}
        for home in homes:
            for (width, gpus), (cpus, memory) in list(self.best.items()):
                grown = (cpus + home.exclusive, memory + (home.memory or 0))
                key = (width + 1, gpus + home.gpus)
                self.best[key] = max(self.best.get(key, grown), grown)

    def room(self, width: int, gpus: int) -> tuple[int, int]:
        """The CPUs and the memory of so many NUMA nodes that have at least so many GPUs."""
        return max(found for (wide, number), found in self.best.items() if wide == width and number >= gpus)

    def fewest(self, width: int) -> int:
        """The smallest request that needs so many NUMA nodes."""
        return _above(self.held[width - 2], self.step) if width > 1 else self.step

    def least_memory(self, width: int) -> int:
        """The least bytes that need so many NUMA nodes; 0 where memory is not aligned."""
        return _above(self.held_memory[width - 2], _MIB) if width > 1 and self.held_memory else 0


def _accumulated(amounts: Iterable[int]) -> list[int]:
    """What the first one, two, … have in all, the largest first."""
    return list(accumulate(sorted(amounts, reverse=True)))


def _above(amount: int, step: int) -> int:
    return (amount // step + 1) * step


def _home(
    machine: Machine, id: int, cpus: CpuSet, reserved: CpuSet, memory: MemoryReservation | None, step: int
) -> _Home:
    gpus = gpus_on(machine, id)
    exclusive = len(cpus - reserved) // step * step
    near = {bdf for gpu in gpus if gpu.nearest_nics and gpu.nearest_nics.type != "SYS" for bdf in gpu.nearest_nics.nics}
    left = _memory(machine, id, memory)
    return _Home(
        id=id,
        all_cpus=len(cpus),
        exclusive=exclusive,
        gpus=len(gpus),
        unit=exclusive // max(len(gpus), 1) // step * step,
        memory=left,
        part=None if left is None else _rounded(left // max(len(gpus), 1)),
        nics=tuple(nic_name(nic) for nic in machine.nics if nic.bdf in near),
    )


def _rounded(memory: int) -> int:
    """Whole GiB, or MiB where that would lose much."""
    step = _GIB if memory >= 8 * _GIB else _MIB
    return memory // step * step


def _memory(machine: Machine, id: int, memory: MemoryReservation | None) -> int | None:
    """The bytes of a NUMA node that pods can have; None where they are not known, or it has none of its own."""
    node = next((node for node in machine.numa_nodes if node.id == id), None)
    if node is None or not node.memory_bytes:
        return None
    kept = memory.by_node[id].whole if memory and id in memory.by_node else 0
    return max(room(node) - kept, 0)


def _rows_on_one(homes: list[_Home]) -> list[GpuShare]:
    """The shares on one NUMA node; NUMA nodes that are alike have one row."""
    alike: dict[tuple[int, int, int | None, int], list[_Home]] = {}
    for home in homes:
        if home.gpus:
            alike.setdefault((home.gpus, home.unit, home.part, len(home.nics)), []).append(home)
    return [
        GpuShare(
            numa_nodes=CpuSet(home.id for home in group),
            gpus=number,
            cpus=unit * number,
            fewest_cpus=0,
            memory_bytes=None if part is None else part * number,
            nic_count=nics * number // gpus,
            nics=tuple(name for home in group for name in home.nics),
            containers=gpus // number * len(group),
            stranded_gpus=gpus % number * len(group),
        )
        if unit
        else _never(group, number, _TOO_FEW)
        for (gpus, unit, part, nics), group in alike.items()
        for number in range(1, gpus + 1)
    ]


def _never(homes: Sequence[_Home], gpus: int, why: str) -> GpuShare:
    return GpuShare(
        numa_nodes=CpuSet(home.id for home in homes),
        gpus=gpus,
        cpus=0,
        fewest_cpus=0,
        memory_bytes=None,
        nic_count=0,
        nics=(),
        containers=0,
        stranded_gpus=sum(home.gpus for home in homes),
        never=why,
    )


def _rows_of_more(node: _Node) -> list[GpuShare]:
    """The shares of more GPUs than a NUMA node has, for policies that let a container span several: so many CPUs for
    each GPU as the NUMA node with the least has."""
    with_gpus = [home for home in node.homes if home.gpus]
    if not with_gpus:
        return []
    numbers = range(node.reach[0] + 1, node.reach[-1] + 1)
    if node.policy == "single-numa-node":
        return [_never(with_gpus, number, "no NUMA node has so many") for number in numbers]
    return [_row_of_more(node, with_gpus, number) for number in numbers]


def _row_of_more(node: _Node, homes: list[_Home], number: int) -> GpuShare:
    """Under restricted GPUs, CPUs and aligned memory have to need equally many NUMA nodes, so a container may have to
    ask for more of them, or can have none that are enough."""
    width = next(i for i, gpus in enumerate(node.reach, 1) if gpus >= number)
    fewest = node.fewest(width)
    parts = [home.part for home in homes if home.part is not None]
    cpus = min(home.unit for home in homes) * number
    memory = min(parts) * number if len(parts) == len(homes) else None
    if node.policy == "restricted":
        most, bytes_left = node.room(width, number)
        cpus, memory = max(cpus, fewest), None if memory is None else max(memory, node.least_memory(width))
        why = f"so many need {width} NUMA nodes, and restricted wants as many for the"
        if cpus > most:
            return _never(homes, number, f"{why} CPUs: at least {fewest}, and {most} are left")
        if memory is not None and memory > bytes_left:
            return _never(homes, number, f"{why} memory: at least {size(memory)}, and {size(bytes_left)} are left")
    if not cpus:
        return _never(homes, number, _TOO_FEW)
    total = node.reach[-1]
    containers = min(total // number, sum(home.exclusive for home in homes) // cpus)
    if node.held_memory:  # memory of several NUMA nodes keeps them together, and no other such container spans them
        containers = min(containers, max(len(homes) // width, 1) * (node.reach[width - 1] // number))
    return GpuShare(
        numa_nodes=CpuSet(home.id for home in homes),
        gpus=number,
        cpus=cpus,
        fewest_cpus=fewest,
        memory_bytes=memory,
        nic_count=sum(len(home.nics) for home in homes) * number // total,
        nics=tuple(name for home in homes for name in home.nics),
        containers=containers,
        stranded_gpus=total - containers * number,
    )


def _largest(node: _Node) -> Largest:
    """Of the containers that are admitted, one with CPUs before one without, then the most GPUs, CPUs and memory."""
    homes, policy = node.homes, node.policy
    found: list[tuple[bool, int, int, int]] = [(False, 0, 0, 0)]
    for (width, gpus), (cpus, memory) in node.best.items():
        if policy == "restricted":
            if cpus < node.fewest(width) or memory < node.least_memory(width):
                continue
            gpus = gpus if width == 1 or gpus > max(node.reach[: width - 1], default=0) else 0
        elif width != (1 if policy == "single-numa-node" else len(homes)):
            continue
        found.append((cpus > 0, gpus + node.unaligned, cpus, memory))
    _, gpus, cpus, memory = max(found)
    known = all(home.memory is not None for home in homes)
    return Largest(cpus=cpus, memory_bytes=memory if known else None, gpus=gpus)


def _refused_by_restricted(homes: list[_Home], step: int) -> list[str]:
    """The requests whose width by all CPUs is less than the NUMA nodes that they need of the CPUs that are left."""
    held = _accumulated(home.all_cpus for home in homes)
    left = _accumulated(home.exclusive for home in homes)
    found: list[tuple[int, int]] = []
    for narrower, by_all, by_left in zip([0, *held], held, left, strict=False):
        first, last = _above(max(by_left, narrower), step), min(by_all, left[-1]) // step * step
        if first > last:
            continue
        if found and found[-1][1] + step == first:
            first = found.pop()[0]
        found.append((first, last))
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]
