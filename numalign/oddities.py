"""What is odd about a machine beside the usual one of its class, in words that hold for many nodes at once.

`numalign.compare` tells two maps of one machine apart by UUID and address. Nodes of a fleet share neither, so devices
are paired first, by address and else by kind and place; what is left of the differences is put into a few words
("GPU missing") that nodes have in common, with what is each one's own (the address) beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from numalign.compare import Difference, Kind, differences
from numalign.machine import Gpu, Machine, Nic
from numalign.words import count, short_cpu_model, short_model, size, sockets_words

__all__ = ["Oddity", "layout_name", "oddities", "threads"]

T = TypeVar("T", Gpu, Nic)


class Oddity(msgspec.Struct, frozen=True, rename="camel"):
    """Something odd in words that nodes share (`GPU missing`), and where it is on this one (`0000:c3:00.0`); `fault`:
    it looks like something broken, not like another way to set a machine up."""

    what: str
    where: tuple[str, ...] = ()
    fault: bool = False

    def __str__(self) -> str:
        return f"{self.what} ({', '.join(self.where)})" if self.where else self.what


class _Case(NamedTuple):
    """Two machines and what changes the numbers of everything else: SMT and the division into NUMA nodes."""

    usual: Machine
    machine: Machine
    smt: bool
    layout: bool


Say = Callable[[_Case, Sequence[Difference]], Iterator[Oddity]]


def oddities(usual: Machine, machine: Machine) -> tuple[Oddity, ...]:
    """What is odd about a machine beside the usual one, the weightiest first; nothing where both are alike.

    Names, serial numbers and PCI addresses that differ are not odd: they are a host's own.
    """
    usual = _anonymous(usual)
    aligned, own_names = _aligned(usual, _anonymous(machine))
    case = _Case(
        usual,
        aligned,
        smt=len(usual.cores) == len(aligned.cores) and threads(usual) != threads(aligned),
        layout=len(usual.numa_nodes) != len(aligned.numa_nodes) or layout_name(usual) != layout_name(aligned),
    )
    found: dict[Kind, list[Difference]] = {}
    for difference in differences(usual, aligned):
        found.setdefault(difference.kind, []).append(difference)
    said = list(_smt(case))
    for kind, say in _SAYINGS.items():
        said += (replace(odd, fault=odd.fault or kind in _FAULTS) for odd in say(case, found.get(kind, ())))
    return tuple(replace(odd, where=tuple(own_names.get(place, place) for place in odd.where)) for odd in said)


def threads(machine: Machine) -> int:
    """The most online siblings of a core."""
    return max((len(core.cpus) for core in machine.cores), default=0)


def layout_name(machine: Machine) -> str:
    """What the division of the sockets into NUMA nodes is called: NPS4, SNC off, `3 NUMA nodes`."""
    homes, sockets = sum(bool(node.cpus) for node in machine.numa_nodes), len(machine.sockets)
    model = machine.cpu_model or ""
    if not machine.numa_nodes:
        return "no NUMA nodes"
    if sockets and ("AMD" in model or "EPYC" in model) and (homes == 1 < sockets or homes % sockets == 0):
        return f"NPS{homes // sockets}"
    if sockets and homes % sockets == 0 and ("Intel" in model or "Xeon" in model):
        return f"SNC{homes // sockets}" if homes > sockets else "SNC off"
    return count(homes, "NUMA node")


def _anonymous(machine: Machine) -> Machine:
    """The machine without its GPUs' UUIDs: those of another host say nothing."""
    return replace(machine, gpus=tuple(replace(gpu, uuid=None) for gpu in machine.gpus))


def _aligned(usual: Machine, machine: Machine) -> tuple[Machine, dict[str, str]]:
    """The machine with its devices at the addresses of those of the usual one that they stand for; and their own."""
    own: dict[str, str] = {}
    changed = [_paired(getattr(usual, field), getattr(machine, field), own) for field in ("gpus", "nics")]
    return replace(machine, gpus=changed[0], nics=changed[1]), own


def _paired(usual: Iterable[T], devices: Iterable[T], own: dict[str, str]) -> tuple[T, ...]:
    """The devices, with those that have another address at that of an equal one of the usual machine's."""
    devices, theirs = tuple(devices), {device.bdf for device in usual}
    free: dict[object, list[str]] = {}
    here = {device.bdf for device in devices}
    for device in usual:
        if device.bdf not in here and _counts(device):
            free.setdefault(_sort(device), []).append(device.bdf)
    found = []
    for device in devices:
        places = free.get(_sort(device), [])
        if device.bdf in theirs or not places or not _counts(device):
            found.append(device)
            continue
        place = places.pop(0)
        own[place] = device.bdf
        found.append(replace(device, bdf=place))
    return tuple(found)


def _counts(device: Gpu | Nic) -> bool:
    """Virtual functions come and go."""
    return isinstance(device, Gpu) or device.physical_function is None


def _sort(device: Gpu | Nic) -> object:
    return device.vendor_id, device.device_id, device.numa_node


# -- what is said of the differences of a kind


def _place(subject: str) -> str:
    """The address in a difference's subject: `GPU 0000:1b:00.0`, `NIC mlx5_0 (0000:1b:00.0)`."""
    return subject.rpartition(" ")[2].strip("()")


def _noun(difference: Difference) -> str:
    return difference.subject.partition(" ")[0]


def _by_words(
    found: Sequence[Difference], words: Callable[[Difference], str], many: Callable[[str, int], str]
) -> Iterator[Oddity]:
    """One oddity for all differences of which the same can be said; `many` adds how many they are."""
    groups: dict[str, list[str]] = {}
    for difference in found:
        groups.setdefault(words(difference), []).append(_place(difference.subject))
    for text, places in groups.items():
        yield Oddity(many(text, len(places)), tuple(places))


def _smt(case: _Case) -> Iterator[Oddity]:
    if case.smt:
        names = {1: "off", 2: "on"}
        was, now = (names.get(threads(one), f"with {threads(one)} CPUs a core") for one in (case.usual, case.machine))
        yield Oddity(f"SMT {now} instead of {was}")


def _cpu_model(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    for difference in found:
        yield Oddity(f"{short_cpu_model(difference.now)} instead of {short_cpu_model(difference.before)}")


def _offline(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    if found and not case.smt:
        offline = case.machine.offline_cpus - case.usual.offline_cpus
        sockets = [each.id for each in case.usual.sockets if each.cpus <= offline]
        if sockets:
            yield Oddity(f"{sockets_words(sockets)} offline", (f"CPUs {offline}",))
        else:
            yield Oddity(f"{count(len(offline), 'CPU')} offline", (str(offline),))


def _cpus(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    if found and not case.smt:
        was, now = case.usual, case.machine
        if len(was.cores) != len(now.cores):
            yield Oddity(f"{len(now.cores)} cores instead of {len(was.cores)}")
        elif len(was.online_cpus) != len(now.online_cpus):
            yield Oddity(f"{len(now.online_cpus)} CPUs instead of {len(was.online_cpus)}")
        else:
            yield Oddity("CPUs numbered otherwise")


def _isolated(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    for difference in found:
        yield Oddity(f"isolated CPUs {difference.now} instead of {difference.before}")


def _layout(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    names = [layout_name(one) for one in (case.usual, case.machine)]
    if names[0] != names[1]:
        yield Oddity(f"{names[1]} instead of {names[0]}")
    elif case.layout:
        numbers = [len(one.numa_nodes) for one in (case.usual, case.machine)]
        yield Oddity(f"{count(numbers[1], 'NUMA node')} instead of {numbers[0]}")
    elif found and not case.smt:
        yield Oddity("CPUs divided otherwise among the NUMA nodes")
    if found or case.layout:
        yield from _total(case)


def _total(case: _Case) -> Iterator[Oddity]:
    """Where the NUMA nodes are others, only all memory together can be compared."""
    was, now = (sum(node.memory_bytes or 0 for node in one.numa_nodes) for one in (case.usual, case.machine))
    if was and now and abs(now - was) > was // 50:
        words = f"memory {'smaller' if now < was else 'larger'}"
        yield Oddity(words, (f"{size(now)} instead of {size(was)}",), fault=now < was)


def _memory(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    has = {node.id: node.memory_bytes or 0 for node in case.machine.numa_nodes}
    had = {node.id: node.memory_bytes or 0 for node in case.usual.numa_nodes}
    for word, sign in (("smaller", -1), ("larger", 1)):
        places = []
        for difference in found:
            id = int(difference.subject.rpartition(" ")[2])
            if (has[id] - had[id]) * sign > 0:
                places.append(f"{difference.subject}: {difference.now} instead of {difference.before}")
        if places:
            yield Oddity(f"memory {word}", tuple(places), fault=sign < 0)


def _distances(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    if found and not case.layout:
        yield Oddity("other NUMA distances", tuple(f"{one.now} instead of {one.before}" for one in found))


def _l3(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    for difference in found:
        same = difference.now == difference.before
        yield Oddity("other L3 groups" if same else f"{difference.now} instead of {difference.before}")


def _huge_pages(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    groups: dict[str, list[str]] = {}
    for difference in found:
        groups.setdefault(f"huge pages {difference.now} instead of {difference.before}", []).append(difference.subject)
    for words, places in groups.items():
        yield Oddity(words, tuple(places))


def _gone(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    totals = {"GPU": len(case.usual.gpus), "NIC": sum(map(_counts, case.usual.nics))}

    def missing(noun: str, number: int) -> str:
        return f"{'all ' if number == totals[noun] > 1 else ''}{_several(noun, number)} missing"

    yield from _by_words(found, _noun, missing)


def _new(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    yield from _by_words(found, _noun, lambda noun, number: f"{count(number, noun)} more")


def _model(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    yield from _by_words(
        found,
        lambda one: f"{short_model(one.now)} instead of {short_model(one.before)}",
        lambda words, number: f"{number} × {words}" if number > 1 else words,
    )


def _numa_node(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    """A device's NUMA node; where the NUMA nodes are others, all numbers are, and only one that is unknown counts."""
    lost = [one for one in found if one.now.endswith("unknown")]
    yield from _by_words(lost, _noun, lambda noun, number: f"{_several(noun, number)} without NUMA node")
    if not case.layout:
        got = [one for one in found if one.before.endswith("unknown")]
        yield from _by_words(got, lambda one: f"{_noun(one)} on {one.now} instead of unknown", lambda words, _: words)
        moved = [one for one in found if one not in lost and one not in got]
        yield from _by_words(
            moved,
            lambda one: f"{_noun(one)} on {one.now} instead of {one.before.rpartition(' ')[2]}",
            lambda words, _: words,
        )


def _several(noun: str, number: int) -> str:
    return noun if number == 1 else f"{number} {noun}s"


def _driver(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    for difference in found:
        was, now = difference.before, difference.now
        yield Oddity("no NVIDIA driver" if now == "none" else f"NVIDIA driver {now} instead of {was}")


def _link(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    yield from _by_words(
        found, lambda one: f"{_noun(one)} link of {one.now} instead of {one.before}", lambda words, _: words
    )


def _device_driver(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    def words(one: Difference) -> str:
        was, now = (text.partition(" ")[2] for text in (one.before, one.now))
        return f"no {_noun(one)} driver" if now == "none" else f"{_noun(one)} driver {now} instead of {was}"

    yield from _by_words(found, words, lambda text, _: text)


def _mig(case: _Case, found: Sequence[Difference]) -> Iterator[Oddity]:
    yield from _by_words(found, lambda one: f"{one.now} instead of {one.before}", lambda words, _: words)


_FAULTS: frozenset[Kind] = frozenset({"cpus-offline", "gpu-gone", "nic-gone", "numa-node", "link", "device-driver"})
"""What looks like something broken."""
_SAYINGS: dict[Kind, Say] = {
    # a kind of difference -> what is said of all of that kind, in this order; the kinds that need UUIDs never come
    "cpu-model": _cpu_model,
    "numa-layout": _layout,
    "cpus-offline": _offline,
    "cpus": _cpus,
    "gpu-gone": _gone,
    "nic-gone": _gone,
    "gpu-new": _new,
    "nic-new": _new,
    "model": _model,
    "numa-node": _numa_node,
    "memory": _memory,
    "cpus-isolated": _isolated,
    "huge-pages": _huge_pages,
    "numa-distances": _distances,
    "l3": _l3,
    "driver": _driver,
    "device-driver": _device_driver,
    "link": _link,
    "mig": _mig,
}
