"""What a container can have beside its GPUs so that all others stay usable: by how many GPUs, on each NUMA node.

The widths are the kubelet's (pkg/kubelet/cm/cpumanager/policy_static.go, generateCPUtopologyHints): how many NUMA nodes
a request is held to need is reckoned from all CPUs of a NUMA node, whether it can be met from those that are left.
"""

from __future__ import annotations

import contextlib
from itertools import accumulate

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Machine
from numalign.reserve import places
from numalign.reserve_memory import MemoryReservation, MemoryWishes, reserve_memory, room
from numalign.words import nic_name

__all__ = ["GpuShare", "Largest", "ShareTable", "share_table"]

_MIB, _GIB = 1 << 20, 1 << 30


class GpuShare(msgspec.Struct, frozen=True, rename="camel"):
    """What goes with `gpus` GPUs of the NUMA nodes (of all where they are more than one has): CPUs, bytes of memory,
    NICs (names of those that are near; `nicCount` of them are this share's), how many such containers fit on the node,
    and how many GPUs are then left that no other of the kind can use. `fewestCPUs` is the smallest request that policy
    restricted admits with so many GPUs."""

    numa_nodes: CpuSet
    gpus: int
    cpus: int = msgspec.field(name="CPUs")
    fewest_cpus: int = msgspec.field(name="fewestCPUs")
    memory_bytes: int | None
    nic_count: int
    nics: tuple[str, ...]
    containers: int
    stranded_gpus: int = msgspec.field(name="strandedGPUs")


class Largest(msgspec.Struct, frozen=True, rename="camel"):
    """The most of each that a single container can ever have."""

    cpus: int = msgspec.field(name="CPUs")
    memory_bytes: int | None
    gpus: int


class ShareTable(msgspec.Struct, frozen=True, rename="camel"):
    """The shares, the largest request, and the CPU requests (`105-112`, step `cpusPerCore`) that fit and that policy
    restricted refuses all the same."""

    policy: str
    cpus_per_core: int = msgspec.field(name="CPUsPerCore")
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
    machine: Machine, reserved: CpuSet, memory: MemoryReservation | None, policy: str, *, per_core: int
) -> ShareTable:
    """The table for a reservation; without one of memory as much is left out as there would be by default. `per_core`
    is the CPUs of a core as the kubelet reckons them."""
    if memory is None:
        with contextlib.suppress(DoesNotHold):
            memory = reserve_memory(machine, reserved, MemoryWishes())
    homes = [_home(machine, id, cpus, reserved, memory, per_core) for id, cpus in places(machine).items()]
    rows = _rows_on_one(homes)
    if policy != "single-numa-node":
        rows += _rows_over_several(homes, per_core, policy)
    most = max if policy == "single-numa-node" else sum
    memories = [home.memory for home in homes if home.memory is not None]
    return ShareTable(
        policy=policy,
        cpus_per_core=per_core,
        shares=tuple(rows),
        largest=Largest(
            cpus=most([home.exclusive for home in homes]),
            memory_bytes=most(memories) if len(memories) == len(homes) else None,
            gpus=most([home.gpus for home in homes]),
        ),
        restricted_refuses=tuple(_refused_by_restricted(homes, per_core)),
    )


def _home(
    machine: Machine, id: int, cpus: CpuSet, reserved: CpuSet, memory: MemoryReservation | None, per_core: int
) -> _Home:
    gpus = [gpu for gpu in machine.gpus if gpu.numa_node == id]
    exclusive = len(cpus - reserved) // per_core * per_core
    near = {bdf for gpu in gpus if gpu.nearest_nics and gpu.nearest_nics.type != "SYS" for bdf in gpu.nearest_nics.nics}
    left = _memory(machine, id, memory)
    return _Home(
        id=id,
        all_cpus=len(cpus),
        exclusive=exclusive,
        gpus=len(gpus),
        unit=exclusive // max(len(gpus), 1) // per_core * per_core,
        memory=left,
        part=None if left is None else _rounded(left // max(len(gpus), 1)),
        nics=tuple(nic_name(nic) for nic in machine.nics if nic.bdf in near),
    )


def _rounded(memory: int) -> int:
    """Whole GiB, or MiB where that would lose much."""
    step = _GIB if memory >= 8 * _GIB else _MIB
    return memory // step * step


def _memory(machine: Machine, id: int, memory: MemoryReservation | None) -> int | None:
    """The bytes of a NUMA node that pods can have."""
    node = next((node for node in machine.numa_nodes if node.id == id), None)
    if node is None or node.memory_bytes is None:
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
        for (gpus, unit, part, nics), group in alike.items()
        for number in range(1, gpus + 1)
    ]


def _rows_over_several(homes: list[_Home], per_core: int, policy: str) -> list[GpuShare]:
    """The shares of more GPUs than a NUMA node has, for policies that let a container span several: so many CPUs for
    each GPU as the NUMA node with the least has. Under restricted GPUs and CPUs have to need equally many NUMA nodes,
    so a container may have to ask for more CPUs, or can have none that are enough."""
    with_gpus = sorted((home for home in homes if home.gpus), key=lambda home: -home.gpus)
    if len(with_gpus) < 2:
        return []
    reach = list(accumulate(home.gpus for home in with_gpus))
    all_cpus = list(accumulate(sorted((home.all_cpus for home in homes), reverse=True)))
    unit = min(home.unit for home in with_gpus)
    parts = [home.part for home in with_gpus if home.part is not None]
    rows = []
    for number in range(reach[0] + 1, reach[-1] + 1):
        width = next(i for i, gpus in enumerate(reach) if gpus >= number) + 1
        fewest = (all_cpus[width - 2] // per_core + 1) * per_core
        cpus = max(unit * number, fewest) if policy == "restricted" else unit * number
        if cpus > sum(home.exclusive for home in with_gpus[:width]):
            continue
        rows.append(
            GpuShare(
                numa_nodes=CpuSet(home.id for home in with_gpus),
                gpus=number,
                cpus=cpus,
                fewest_cpus=fewest,
                memory_bytes=min(parts) * number if len(parts) == len(with_gpus) else None,
                nic_count=sum(len(home.nics) for home in with_gpus) * number // reach[-1],
                nics=tuple(name for home in with_gpus for name in home.nics),
                containers=reach[-1] // number,
                stranded_gpus=reach[-1] % number,
            )
        )
    return rows


def _refused_by_restricted(homes: list[_Home], per_core: int) -> list[str]:
    """The requests whose width by all CPUs is less than the NUMA nodes that they need of the CPUs that are left."""
    held = list(accumulate(sorted((home.all_cpus for home in homes), reverse=True)))
    left = list(accumulate(sorted((home.exclusive for home in homes), reverse=True)))
    found = []
    for by_all, by_left in zip(held, left, strict=True):
        first, last = by_left + per_core, min(by_all, left[-1]) // per_core * per_core
        if first <= last:
            found.append(str(first) if first == last else f"{first}-{last}")
    return found
