"""Which CPUs to keep for the system: whole cores, as wished for, or as many as leave an even share to every GPU."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Core, Machine

__all__ = ["Choice", "Wishes", "choose", "managed_minimum", "places", "whole_cores"]


class Wishes(msgspec.Struct, frozen=True):
    """What a person asks for; at most one of `cpus`, `count` (CPUs) and `cores_per_numa` is set, `on` names the NUMA
    nodes to keep to. With none of them the number follows from the machine."""

    cpus: CpuSet | None = None
    count: int | None = None
    cores_per_numa: int | None = None
    on: tuple[int, ...] = ()


class Choice(msgspec.Struct, frozen=True):
    """The reserved CPUs and why these."""

    cpus: CpuSet
    reason: str


def choose(machine: Machine, wishes: Wishes) -> Choice:
    """The CPUs to reserve. Raises DoesNotHold, with the nearest possible wish, where the wish cannot be met."""
    if wishes.cpus is not None:
        choice = Choice(_as_listed(machine, wishes.cpus), "as asked for, whole cores")
    else:
        homes = _homes(machine, wishes.on)
        if wishes.count is not None:
            choice = _counted(machine, homes, wishes.count)
        elif wishes.cores_per_numa is not None:
            choice = _per_place(machine, homes, wishes.cores_per_numa)
        else:
            choice = _even(machine, homes)
    if machine.online_cpus <= choice.cpus:
        raise DoesNotHold(
            f"{machine.name or 'this machine'} would reserve all {len(choice.cpus)} CPUs",
            hint="the static CPU manager needs CPUs beside the reserved ones: leave at least one core to the pods",
        )
    return choice


def managed_minimum(cpus: int) -> int:
    """The thousandths of a CPU that managed platforms (GKE, EKS) keep for the system on a node of so many CPUs.

    6 % of the first CPU, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest, rounded up.

    >>> managed_minimum(4), managed_minimum(224)
    (80, 630)
    """
    ten_thousandths = 600 * min(cpus, 1) + 100 * min(max(cpus - 1, 0), 1) + 50 * min(max(cpus - 2, 0), 2)
    ten_thousandths += 25 * max(cpus - 4, 0)
    return -(-ten_thousandths // 10)


def whole_cores(machine: Machine, cpus: CpuSet) -> CpuSet:
    """The CPUs of every core that has one of `cpus`."""
    bits = 0
    for core in machine.cores:
        if core.cpus.bits & cpus.bits:
            bits |= core.cpus.bits
    return CpuSet.from_mask(bits)


def places(machine: Machine) -> dict[int, CpuSet]:
    """The CPUs of each NUMA node that has some; of each socket where there are no NUMA nodes, as the kubelet does."""
    if machine.numa_nodes:
        return {node.id: node.cpus for node in machine.numa_nodes if node.cpus}
    if machine.sockets:
        return {socket.id: socket.cpus for socket in machine.sockets}
    return {0: machine.online_cpus}


def _homes(machine: Machine, on: Sequence[int]) -> dict[int, list[Core]]:
    """The cores of each NUMA node to reserve on, in the order in which they are taken: isolated ones last."""
    known = places(machine)
    strange = [id for id in on if id not in known]
    if strange:
        raise DoesNotHold(
            f"NUMA node {strange[0]} has no CPUs on this machine",
            hint=f"--reserve-on takes {', '.join(map(str, known))}",
        )

    def late(core: Core) -> tuple[bool, int]:
        return bool(core.cpus.bits & machine.isolated_cpus.bits), core.cpus.first()

    return {
        id: sorted((core for core in machine.cores if core.cpus.bits & cpus.bits), key=late)
        for id, cpus in known.items()
        if not on or id in on
    }


def _taken(cores: Sequence[Core]) -> CpuSet:
    bits = 0
    for core in cores:
        bits |= core.cpus.bits
    return CpuSet.from_mask(bits)


def _as_listed(machine: Machine, reserved: CpuSet) -> CpuSet:
    online = machine.online_cpus
    if not reserved:
        raise DoesNotHold("no CPUs would be reserved", hint="the static CPU manager does not start without any")
    if not reserved <= online:
        kept = whole_cores(machine, reserved & online)
        raise DoesNotHold(
            f"CPUs {reserved - online} are not online (online: {online})",
            hint=f"--reserved-cpus {kept}" if kept else None,
        )
    whole = whole_cores(machine, reserved)
    if whole != reserved:
        raise DoesNotHold(
            f"CPUs {reserved} leave their siblings {whole - reserved}, which full-pcpus-only can then never give out",
            hint=f"--reserved-cpus {whole}",
        )
    return reserved


def _counted(machine: Machine, homes: dict[int, list[Core]], count: int) -> Choice:
    """So many CPUs, a core at a time in turn from each NUMA node."""
    most = max(map(len, homes.values()))
    turns = [core for turn in range(most) for cores in homes.values() for core in cores[turn : turn + 1]]
    taken: list[Core] = []
    have = 0
    for core in turns:
        if have >= count:
            break
        taken.append(core)
        have += len(core.cpus)
    if have < count:
        raise DoesNotHold(f"{count} CPUs cannot be reserved: there are {have} to choose from")
    if have != count or not taken:
        below = have - len(taken[-1].cpus) if taken else 0
        near = [str(number) for number in (below, have) if number > 0] or [str(len(turns[0].cpus))]
        raise DoesNotHold(f"{count} CPUs are no whole cores", hint=f"--reserved-cpu-count {' or '.join(near)}")
    return Choice(_taken(taken), f"{count} CPUs as asked for, whole cores from each NUMA node in turn")


def _per_place(machine: Machine, homes: dict[int, list[Core]], number: int) -> Choice:
    least = min(map(len, homes.values()))
    if not 1 <= number <= least:
        raise DoesNotHold(
            f"{number} cores cannot be reserved on each NUMA node: the smallest has {least}",
            hint=f"--reserved-cores-per-numa {max(1, min(number, least - 1))}" if least > 1 else None,
        )
    cpus = _taken([core for cores in homes.values() for core in cores[:number]])
    return Choice(cpus, f"{_cores(number)} on each NUMA node as asked for, siblings included")


def _even(machine: Machine, homes: dict[int, list[Core]]) -> Choice:
    """At least the managed platforms' share and a core on each NUMA node; then so many more that the cores that are
    left divide evenly among its GPUs, where that leaves at least one for each."""
    minimum = managed_minimum(len(machine.online_cpus))
    needed = _at_least(homes, minimum)
    taken: list[Core] = []
    notes = []
    for id, cores in homes.items():
        gpus = sum(gpu.numa_node == id for gpu in machine.gpus)
        number = needed[id]
        left = len(cores) - number
        if gpus and left >= gpus and left % gpus:
            number += left % gpus
            notes.append(f"{len(cores) - number} cores on NUMA node {id} divide evenly among {gpus} GPUs")
        taken += cores[:number]
    cpus = _taken(taken)
    if cpus == machine.online_cpus:  # so small a machine that a core on each NUMA node is all of it
        return Choice(cpus, "")
    count = len(machine.online_cpus)
    first = f"at least {minimum}m, as managed platforms keep on {count} CPUs, and a core on each NUMA node"
    return Choice(cpus, "; ".join([first, *notes]))


def _at_least(homes: dict[int, list[Core]], minimum: int) -> dict[int, int]:
    """How many cores of each NUMA node come to at least `minimum` thousandths, one on each at the least."""
    needed = dict.fromkeys(homes, 1)
    while True:
        have = sum(len(core.cpus) for id, number in needed.items() for core in homes[id][:number])
        if 1000 * have >= minimum:
            return needed
        open_ = [id for id, number in needed.items() if number < len(homes[id])]
        if not open_:
            return needed
        needed[min(open_, key=needed.__getitem__)] += 1


def _cores(number: int) -> str:
    return f"{number} core{'' if number == 1 else 's'}"
