"""Which CPUs to keep for the system: whole cores, as wished for, or as many as leave an even share to every GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Core, Gpu, Machine
from numalign.words import numa_nodes

__all__ = ["Choice", "Wishes", "choose", "gpus_on", "known_cpus", "managed_minimum", "places", "whole_cores"]


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


def choose(machine: Machine, wishes: Wishes, *, keep_l3: bool = False, split: bool = False) -> Choice:
    """The CPUs to reserve; with `keep_l3` out of as few L3 groups as do, so that the others stay whole; with `split`
    a list may leave siblings, as the kubelet allows it without full-pcpus-only.

    Raises DoesNotHold where the wish cannot be met, with the nearest one that can as its hint.
    """
    known = known_cpus(machine)
    if sum(bool(core.cpus.bits & known.bits) for core in machine.cores) < 2:
        raise DoesNotHold(
            f"{machine.name or 'this machine'} has one core: the static CPU manager needs one for the system and one "
            "for the pods"
        )
    if any(core.core_id is None and not core.cpu_core_ids for core in machine.cores):
        raise DoesNotHold(
            "which CPUs share a core is not known: /sys/devices/system/cpu/cpu*/topology is not all there",
            hint="numalign inspect names the files; read the host itself, or a whole snapshot of it",
        )
    if wishes.cpus is not None:
        return _as_listed(machine, wishes.cpus, split=split)
    homes = _homes(machine, wishes.on, keep_l3=keep_l3)
    if not any(homes.values()):
        others = [id for id, cores in _homes(machine, (), keep_l3=False).items() if cores]
        raise DoesNotHold(
            f"all CPUs of {numa_nodes(wishes.on)} are isolated: the system would stay on one of them",
            hint=f"--reserve-on {CpuSet(others)}; --reserved-cpus takes isolated CPUs too",
        )
    if wishes.count is not None:
        return _counted(machine, homes, wishes.count)
    if wishes.cores_per_numa is not None:
        return _per_place(machine, homes, wishes.cores_per_numa)
    return _even(machine, homes)


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


def known_cpus(machine: Machine) -> CpuSet:
    """The CPUs that the kubelet knows: those of the NUMA nodes, where there are some."""
    return CpuSet.from_mask(sum(cpus.bits for cpus in places(machine).values()))  # NUMA nodes share none


def gpus_on(machine: Machine, id: int) -> list[Gpu]:
    """The GPUs of one of the `places`. Where none has a known NUMA node the kubelet takes them as fitting anywhere
    (pkg/kubelet/cm/devicemanager, topology_hints.go): where there is one place, that is there."""
    if len(places(machine)) == 1 and all(gpu.numa_node is None for gpu in machine.gpus):
        return list(machine.gpus)
    return [gpu for gpu in machine.gpus if gpu.numa_node == id]


def _homes(machine: Machine, on: Sequence[int], *, keep_l3: bool) -> dict[int, list[Core]]:
    """The cores of each NUMA node to reserve on, in the order in which they are taken, without isolated ones, but
    where there are no others. The NUMA node with the machine's first core comes first, since interrupts land there."""
    known = places(machine)
    strange = [id for id in on if id not in known]
    if strange:
        raise DoesNotHold(
            f"this machine has no NUMA node {strange[0]} with CPUs",
            hint=f"--reserve-on takes {', '.join(map(str, known))}",
        )
    first = machine.online_cpus.first()
    firsts = {cache.id: cache.cpus.first() for cache in machine.l3_caches} if keep_l3 else {}
    isolated = machine.isolated_cpus.bits
    none_is_free = all(core.cpus.bits & isolated for core in machine.cores)

    def late(core: Core) -> tuple[int, int, int]:
        l3 = firsts.get(-1 if core.l3 is None else core.l3, 0)
        return (core.cpus.bits & isolated).bit_count(), l3, core.cpus.first()

    return {
        id: sorted((c for c in _cores_of(machine, cpus) if none_is_free or not c.cpus.bits & isolated), key=late)
        for id, cpus in sorted(known.items(), key=lambda place: (not place[1].bits >> first & 1, place[0]))
        if not on or id in on
    }


def _cores_of(machine: Machine, cpus: CpuSet) -> list[Core]:
    return [core for core in machine.cores if core.cpus.bits & cpus.bits]


def _taken(cores: Iterable[Core]) -> CpuSet:
    bits = 0
    for core in cores:
        bits |= core.cpus.bits
    return CpuSet.from_mask(bits)


def _as_listed(machine: Machine, reserved: CpuSet, *, split: bool) -> Choice:
    known, hint = known_cpus(machine), f"--reserved-cpus {_nearest(machine, reserved)}"
    if not reserved:
        raise DoesNotHold("no CPUs would be reserved, and the static CPU manager does not start without any", hint=hint)
    if not reserved <= known:
        raise DoesNotHold(_not_known(machine, reserved, known), hint=hint)
    siblings = whole_cores(machine, reserved) - reserved
    if siblings and not split:
        raise DoesNotHold(
            f"CPUs {reserved} leave their siblings {siblings}, which full-pcpus-only can then never give out",
            hint=hint,
        )
    if reserved == known:
        raise DoesNotHold(f"all {len(known)} CPUs would be reserved, and pods need at least one core", hint=hint)
    if siblings:
        return Choice(
            reserved,
            f"as asked for; the siblings {siblings} are given out, and share their cores with the system",
        )
    return Choice(reserved, "as asked for, whole cores")


def _not_known(machine: Machine, reserved: CpuSet, known: CpuSet) -> str:
    """Why some of the CPUs cannot be reserved."""
    homeless, offline = reserved & (machine.online_cpus - known), reserved & machine.offline_cpus
    if absent := reserved - machine.online_cpus - machine.offline_cpus:
        return f"there are no CPUs {absent} on this machine: it has {machine.online_cpus | machine.offline_cpus}"
    if offline:
        return f"CPUs {offline} are offline (online: {machine.online_cpus})"
    return f"CPUs {homeless} are in no NUMA node, and the kubelet does not know them (it knows {known})"


def _nearest(machine: Machine, wanted: CpuSet) -> CpuSet:
    """The whole cores that can be reserved and come nearest to `wanted`: its own; where they are none or all, those
    that are reserved where nothing is asked for."""
    known = known_cpus(machine)
    near = whole_cores(machine, wanted & known) & known
    return near if near and near != known else _even(machine, _homes(machine, (), keep_l3=False)).cpus


def _counted(machine: Machine, homes: dict[int, list[Core]], count: int) -> Choice:
    """So many CPUs, a core at a time in turn from each NUMA node."""
    below = taken = CpuSet()
    known = known_cpus(machine)
    for core in _turns(homes):
        below, taken = taken, taken | core.cpus
        if len(taken) >= count or taken == known:
            break
    if len(taken) == count and taken and taken != known:
        return Choice(taken, f"{count} CPUs as asked for, whole cores from each NUMA node in turn")
    near = [str(len(cpus)) for cpus in (below, taken) if cpus and cpus != known]
    if taken == known and len(taken) <= count:
        why = f"all {len(taken)} CPUs would be reserved, and pods need at least one core"
    elif len(taken) < count:
        why, near = f"{count} CPUs cannot be reserved there: there are {len(taken)}", near[-1:]
        why += " that are not isolated" if _hides_isolated(machine, homes) else ""
    elif not count:
        why = "no CPUs would be reserved, and the static CPU manager does not start without any"
    else:
        why = f"{count} CPUs are no whole cores" if count > 1 else "1 CPU is no whole core"
    raise DoesNotHold(why, hint=f"--reserved-cpu-count {' or '.join(near)}")


def _turns(homes: dict[int, list[Core]]) -> Iterator[Core]:
    """The cores, one of each NUMA node in turn."""
    for turn in range(max(map(len, homes.values()))):
        for cores in homes.values():
            yield from cores[turn : turn + 1]


def _per_place(machine: Machine, homes: dict[int, list[Core]], number: int) -> Choice:
    most = there = min(map(len, homes.values()))
    if _taken(core for cores in homes.values() for core in cores[:there]) == known_cpus(machine):
        most -= 1  # pods need a core, too
    if not 1 <= number <= most:
        tight = [id for id, cores in homes.items() if len(cores) == there]
        wide = CpuSet(id for id, cores in homes.items() if len(cores) > number > 0)
        hint = (
            f"--reserve-on {wide} --reserved-cores-per-numa {number}"
            if wide
            else f"--reserved-cpu-count {len(next(_turns(homes)).cpus)}"
        )
        raise DoesNotHold(
            f"{_cores(number)} cannot be reserved on each NUMA node: "
            + (f"at most {_cores(most)} can" if number else "the static CPU manager does not start without any")
            + (", since pods need at least one" if 0 < most < there and most < number else "")
            + (f", since others of {numa_nodes(tight)} are isolated" if _hides_isolated(machine, tight) else ""),
            hint=f"--reserved-cores-per-numa {min(max(1, number), most)}" if most else hint,
        )
    cpus = _taken(core for cores in homes.values() for core in cores[:number])
    return Choice(cpus, f"{_cores(number)} on {_each(machine, homes)} as asked for, siblings included")


def _hides_isolated(machine: Machine, ids: Iterable[int]) -> bool:
    """Whether some of these NUMA nodes' CPUs are isolated."""
    return any(places(machine)[id].bits & machine.isolated_cpus.bits for id in ids)


def _each(machine: Machine, ids: Iterable[int]) -> str:
    """`each NUMA node` where these are all, else `NUMA node 1` or `each of NUMA nodes 0,2`."""
    listed = CpuSet(ids)
    if len(listed) == len(places(machine)):
        return "each NUMA node"
    return f"each of {numa_nodes(listed)}" if len(listed) > 1 else numa_nodes(listed)


def _even(machine: Machine, homes: dict[int, list[Core]]) -> Choice:
    """At least the managed platforms' share and a core on each NUMA node that has one; then so many more that the cores
    that are left divide evenly among its GPUs, where that leaves at least one for each."""
    homes = {id: cores for id, cores in homes.items() if cores}
    known = known_cpus(machine)
    minimum = managed_minimum(len(known))
    needed = _at_least(homes, minimum)
    taken: list[Core] = []
    even: dict[tuple[int, int], list[int]] = {}
    for id, cores in homes.items():
        gpus = len(gpus_on(machine, id))
        number = needed[id]
        left = len(_cores_of(machine, places(machine)[id])) - number
        if gpus and left >= gpus and left % gpus and number + left % gpus <= len(cores):
            number += left % gpus
            even.setdefault((left // gpus * gpus, gpus), []).append(id)
        taken += cores[:number]
    cpus = _taken(taken)
    asked = f"at least {minimum}m, as GKE and EKS keep on {len(known)} CPUs"
    if cpus == known:
        return _fewest(machine, homes, minimum, asked)
    notes = [
        f"{number} cores on {numa_nodes(ids)} divide evenly among {gpus} GPUs" for (number, gpus), ids in even.items()
    ]
    if _hides_isolated(machine, places(machine)):
        notes.append("some isolated, since no core is without" if cpus & machine.isolated_cpus else "no isolated ones")
    return Choice(cpus, "; ".join([f"{asked}, and a core on {_each(machine, homes)}", *notes]))


def _fewest(machine: Machine, homes: dict[int, list[Core]], minimum: int, asked: str) -> Choice:
    """On a machine so small that a core on each NUMA node is all of it, or all of what may be reserved on."""
    taken, known = CpuSet(), known_cpus(machine)
    for core in _turns(homes):
        if taken and (1000 * len(taken) >= minimum or taken | core.cpus == known):
            break
        taken |= core.cpus
    return Choice(taken, f"{asked}; a core on each NUMA node would be all of them")


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
