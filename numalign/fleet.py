"""A fleet: nodes of equal topology in classes, and those that are odd beside the class they are nearest to.

Nodes come one after another and only one machine of each kind is kept, packed, so that memory grows with the kinds and
not with the nodes.
"""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from numalign.fingerprint import fingerprint
from numalign.machine import Gpu, Machine, Nic, decode, encode
from numalign.oddities import Oddity, layout_name, oddities
from numalign.words import short_model

__all__ = [
    "Class",
    "ClassOfNodes",
    "Configuration",
    "Devices",
    "Fleet",
    "Gathering",
    "Kind",
    "Odd",
    "OddKind",
    "OddNode",
    "PodFit",
    "Shape",
    "Sight",
    "Twice",
    "Unread",
    "divide",
    "letters",
    "node_name",
    "odd_ones",
    "shape",
    "sight",
]

_FEW_OF_MANY = 20
"""A topology that fewer than one in so many nodes of the same hardware have is odd, and no class of its own."""
_FEW = 3
"""Nor is one that fewer nodes than these have."""
_FEW_OF_FAULTY = 3
"""And one that looks like a fault is odd where fewer than one in so many have it."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MEMORY_STEPS = 9
"""Bits that are kept of an amount of memory to tell kinds apart: steps of 0.2 to 0.4 %, finer than a difference."""


class Devices(msgspec.Struct, frozen=True, rename="camel"):
    """How many GPUs or NICs (physical functions) of a model a machine has."""

    model: str
    count: int


class Shape(msgspec.Struct, frozen=True, rename="camel"):
    """What the nodes of a class are; `numaLayout` is what the division into NUMA nodes is called (NPS4, SNC2)."""

    arch: str | None
    cpu_model: str | None
    sockets: int
    cores: int
    cpus: int = msgspec.field(name="CPUs")
    numa_nodes: int
    numa_layout: str = msgspec.field(name="numaLayout")
    memory_bytes: int | None
    gpus: tuple[Devices, ...]
    nics: tuple[Devices, ...] = msgspec.field(name="NICs")
    nvidia_driver: str | None


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """A class's configuration: the fields (null where none can be made, `reason` says why), the file that it was
    written to, the nodes of the class that need other values, with the fields that are others, and what makes it
    achieve less than it says."""

    fields: Mapping[str, Any] | None
    file: str | None = None
    reason: str | None = None
    differs: Mapping[str, tuple[str, ...]] = {}
    warnings: tuple[str, ...] = ()


class PodFit(msgspec.Struct, frozen=True, rename="camel"):
    """How many of a pod fit on an empty node (`each`) and on all `nodes`; `reason` is why none does, or no more."""

    pod: str
    each: int
    nodes: int
    total: int
    reason: str | None


class ClassOfNodes(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes of one topology. `like` is the class of the same hardware that it is nearest to, `differences` what is not
    as there."""

    name: str
    fingerprint: str
    nodes: int
    names: tuple[str, ...]
    shape: Shape
    like: str | None = None
    differences: tuple[Oddity, ...] = ()
    configuration: Configuration | None = None
    pods: tuple[PodFit, ...] = ()


class OddNode(msgspec.Struct, frozen=True, rename="camel"):
    """A node that is odd, the file that it was read from, and where it is odd (addresses, CPU lists), if somewhere."""

    name: str
    source: str
    where: tuple[str, ...]


class Odd(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that are odd in the same way beside a class (`like`), which is that of `ofNodes` nodes, these included.

    `topology`: whether what decides about the configuration is other, so that they are in no class; otherwise they are
    nodes of that class. `sameConfiguration`: whether what is made for the class suits them too (null: not looked at, or
    none can be made).
    """

    like: str
    nodes: int
    of_nodes: int
    topology: bool
    what: tuple[str, ...]
    names: tuple[OddNode, ...]
    same_configuration: bool | None = None
    pods: tuple[PodFit, ...] = ()

    def __str__(self) -> str:
        return ", ".join(self.what)


class Unread(msgspec.Struct, frozen=True, rename="camel"):
    """Something that could not be read, and why."""

    source: str
    reason: str


class Twice(msgspec.Struct, frozen=True, rename="camel"):
    """A name that came more than once: from where, and whether it was one node (then the last counts)."""

    name: str
    sources: tuple[str, ...]
    same_node: bool


class Fleet(msgspec.Struct, frozen=True, rename="camel"):
    """The nodes of a fleet: classes, odd ones out, and what could not be read."""

    api_version: str
    kind: Literal["Fleet"]
    kubernetes_version: str
    nodes: int
    classes: tuple[ClassOfNodes, ...]
    odd: tuple[Odd, ...]
    unread: tuple[Unread, ...]
    twice: tuple[Twice, ...]
    pods: tuple[PodFit, ...] = ()
    notes: tuple[str, ...] = ()


class Sight(msgspec.Struct, frozen=True, array_like=True):
    """What is taken down of one machine: its name, where it was read, the fingerprint of its topology, what else tells
    kinds of machines apart, what tells hosts apart, and the machine, packed, where its kind was not seen before."""

    name: str | None
    source: str
    topology: str
    kind: bytes
    host: tuple[int, ...]
    packed: bytes | None


def sight(machine: Machine, source: str, document: bytes | None, seen: set[tuple[str, bytes]]) -> Sight:
    """What is taken down of a machine; `document` is its JSON, where it was read from such, and `seen` the kinds that
    were sent already."""
    kind = fingerprint(machine), _kind(machine)
    packed = None
    if kind not in seen:
        seen.add(kind)
        packed = zlib.compress(document or encode(machine), 1)
    uuids = tuple(sorted(_number(gpu.uuid.encode()) for gpu in machine.gpus if gpu.uuid))
    host = uuids or (_number(document or encode(machine)),)
    return Sight(machine.name, source, *kind, host, packed)


def _number(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


def _kind(machine: Machine) -> bytes:
    """A digest of what `oddities` looks at beside the topology."""
    content = [
        machine.cpu_model,
        machine.nvidia_driver and machine.nvidia_driver.version,
        str(machine.offline_cpus),
        [_rounded(node.memory_bytes) for node in machine.numa_nodes],
        [[*_device(gpu), gpu.mig_enabled, len(gpu.mig_devices)] for gpu in machine.gpus],
        [_device(nic) for nic in machine.nics if nic.physical_function is None],
    ]
    return hashlib.blake2b(msgspec.json.encode(content), digest_size=8).digest()


def _device(device: Gpu | Nic) -> list[Any]:
    """An address is a host's own, but where something is odd it has to be told."""
    link = device.pcie
    kind = (device.bdf, device.vendor_id, device.device_id, device.driver, device.numa_node)
    return [*kind, link.width, link.max_width, link.max_speed]


def _rounded(bytes: int | None) -> int | None:
    shift = max((bytes or 0).bit_length() - _MEMORY_STEPS, 0)
    return None if bytes is None else bytes >> shift << shift


# -- gathering


class Kind:
    """Nodes between which nothing tells but what is a host's own; one machine of them is kept, packed."""

    __slots__ = ("nodes", "packed", "topology")

    def __init__(self, topology: str, packed: bytes) -> None:
        self.topology = topology
        self.packed = packed
        self.nodes: list[Sight] = []

    def machine(self) -> Machine:
        """The machine that stands for them."""
        return decode(zlib.decompress(self.packed))


class Gathering:
    """The nodes that were seen, by kind."""

    def __init__(self) -> None:
        self._packed: dict[tuple[str, bytes], bytes] = {}
        self._sights: list[Sight] = []

    def add(self, one: Sight) -> None:
        """Takes a node down."""
        if one.packed is not None:
            self._packed.setdefault((one.topology, one.kind), one.packed)
        self._sights.append(msgspec.structs.replace(one, packed=None))

    def __len__(self) -> int:
        return len(self._sights)

    def twice(self) -> tuple[list[Twice], set[int]]:
        """The names that came more than once, and the places of the sights that a later one of the same node
        replaces."""
        by_name: dict[str, list[int]] = {}
        for place, one in enumerate(self._sights):
            if one.name is not None:
                by_name.setdefault(one.name, []).append(place)
        found, replaced = [], set()
        for name, places in by_name.items():
            if len(places) < 2:
                continue
            older = _replaced(self._sights, places)
            replaced |= older
            sources = tuple(self._sights[place].source for place in places)
            found.append(Twice(name, sources, same_node=len(older) == len(places) - 1))
        return found, replaced

    def kinds(self, without: set[int]) -> list[Kind]:
        """The kinds with their nodes, in the order in which they were seen; nodes at the places `without` are left
        out."""
        kinds: dict[tuple[str, bytes], Kind] = {}
        for place, one in enumerate(self._sights):
            if place not in without:
                key = (one.topology, one.kind)
                if key not in kinds:
                    kinds[key] = Kind(one.topology, self._packed[key])
                kinds[key].nodes.append(one)
        return list(kinds.values())


def _replaced(sights: Sequence[Sight], places: Sequence[int]) -> set[int]:
    """Of sights of one name, those of which a later one is of the same host: they share a GPU, or all they say."""
    later: set[int] = set()
    older = set()
    for place in reversed(places):
        if later & set(sights[place].host):
            older.add(place)
        later |= set(sights[place].host)
    return older


# -- dividing


class Class:
    """A class: its name, the kinds of its nodes, the largest first, and a machine of that."""

    def __init__(self, kinds: list[Kind]) -> None:
        self.name = ""
        self.kinds = sorted(kinds, key=lambda kind: -len(kind.nodes))
        self.machine = self.kinds[0].machine()
        self.nodes = sum(len(kind.nodes) for kind in kinds)
        self.like: Class | None = None
        self.differences: tuple[Oddity, ...] = ()

    @property
    def topology(self) -> str:
        """The fingerprint."""
        return self.kinds[0].topology

    def sights(self) -> Iterator[Sight]:
        """All of its nodes."""
        return (one for kind in self.kinds for one in kind.nodes)


class OddKind(NamedTuple):
    """A kind of nodes that is odd beside a class, and how; `topology`: it is not in the class."""

    kind: Kind
    like: Class
    topology: bool
    how: tuple[Oddity, ...]


def divide(kinds: Iterable[Kind], class_from: int | None = None) -> tuple[list[Class], list[OddKind]]:
    """The classes by size, named, and the odd kinds.

    The most frequent topology of a hardware is a class. Another one of the same hardware is a class of its own where at
    least 3 nodes have it, and 1 in 20 of the two together, 1 in 3 where it looks like a fault; or where `class_from`
    nodes have it, if given. Nodes of another hardware are a class of their own, however few.
    """
    by_topology: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_topology.setdefault(kind.topology, []).append(kind)
    groups = sorted((Class(each) for each in by_topology.values()), key=lambda one: (-one.nodes, _poverty(one.machine)))
    classes: dict[object, list[Class]] = {}
    strays: list[tuple[Class, Class]] = []
    for group in groups:
        same = classes.setdefault((group.machine.arch, group.machine.cpu_model), [])
        near = [(oddities(one.machine, group.machine), one) for one in same if _alike(one.machine, group.machine)]
        if near:
            differences, like = min(near, key=lambda pair: (_weight(pair[0]), -pair[1].nodes))
            if not _class_of_its_own(group, like, differences, class_from):
                strays.append((group, like))
                continue
            group.like, group.differences = like, differences
        same.append(group)
    found = sorted((one for same in classes.values() for one in same), key=lambda one: -one.nodes)
    for one, name in zip(found, letters(), strict=False):
        one.name = name
    return found, [*_odd_topologies(strays), *_odd_within(found)]


def _class_of_its_own(group: Class, like: Class, differences: Sequence[Oddity], class_from: int | None) -> bool:
    if class_from is not None:
        return group.nodes >= class_from
    share = _FEW_OF_FAULTY if any(one.fault for one in differences) else _FEW_OF_MANY
    return group.nodes >= _FEW and group.nodes * share >= group.nodes + like.nodes


def _odd_topologies(strays: Iterable[tuple[Class, Class]]) -> Iterator[OddKind]:
    for group, like in strays:
        for kind in group.kinds:
            how = oddities(like.machine, kind.machine()) or (Oddity("another topology", (kind.topology,)),)
            yield OddKind(kind, like, True, how)


def _odd_within(classes: Iterable[Class]) -> Iterator[OddKind]:
    """The kinds of a class that are not as its largest, in what does not decide about the configuration."""
    for one in classes:
        for kind in one.kinds[1:]:
            how = oddities(one.machine, kind.machine())
            if how:
                yield OddKind(kind, one, False, how)


def _poverty(machine: Machine) -> tuple[int, ...]:
    """Of two topologies that equally many nodes have the one with more in it is taken for whole."""
    return (-len(machine.gpus), -len(machine.nics), -len(machine.online_cpus), -(machine.memory_bytes or 0))


def _alike(a: Machine, b: Machine) -> bool:
    """Whether two machines of one CPU model look like the same hardware, set up differently or with something lost."""
    kinds = [{(gpu.vendor_id, gpu.device_id) for gpu in machine.gpus} for machine in (a, b)]
    if all(kinds) and not kinds[0] & kinds[1]:
        return False
    known = [len(machine.online_cpus | machine.offline_cpus) for machine in (a, b)]
    return len(a.cores) == len(b.cores) or known[0] == known[1]


def _weight(differences: Sequence[Oddity]) -> tuple[int, int]:
    return len(differences), sum(len(one.where) for one in differences)


def letters() -> Iterator[str]:
    """a, b … z, aa, ab … for ever.

    >>> from itertools import islice
    >>> list(islice(letters(), 25, 29))
    ['z', 'aa', 'ab', 'ac']
    """
    return ("".join(word) for length in itertools.count(1) for word in itertools.product(_LETTERS, repeat=length))


# -- the document's parts


def shape(machine: Machine) -> Shape:
    """What the nodes of a class are."""
    return Shape(
        arch=machine.arch,
        cpu_model=machine.cpu_model,
        sockets=len(machine.sockets),
        cores=len(machine.cores),
        cpus=len(machine.online_cpus),
        numa_nodes=len(machine.numa_nodes),
        numa_layout=layout_name(machine),
        memory_bytes=machine.memory_bytes,
        gpus=_models(machine.gpus),
        nics=_models(nic for nic in machine.nics if nic.physical_function is None),
        nvidia_driver=machine.nvidia_driver.version if machine.nvidia_driver else None,
    )


def _models(devices: Iterable[Gpu | Nic]) -> tuple[Devices, ...]:
    names = (short_model(one.model) if one.model else f"{one.vendor_id}:{one.device_id}" for one in devices)
    return tuple(Devices(*pair) for pair in Counter(names).most_common())


def odd_ones(kinds: Iterable[OddKind], all_nodes: Mapping[str, int]) -> Iterator[tuple[Odd, list[OddKind]]]:
    """The odd kinds of which the same can be said, together, the most frequent first; `all_nodes` are those that have
    a class's hardware, by its name."""
    groups: dict[tuple[str, bool, tuple[str, ...]], list[OddKind]] = {}
    for one in kinds:
        groups.setdefault((one.like.name, one.topology, tuple(odd.what for odd in one.how)), []).append(one)
    for (like, topology, what), members in sorted(
        groups.items(), key=lambda item: (not item[0][1], -sum(len(one.kind.nodes) for one in item[1]))
    ):
        nodes = tuple(
            OddNode(node_name(sight), sight.source, tuple(place for odd in one.how for place in odd.where))
            for one in members
            for sight in one.kind.nodes
        )
        total = all_nodes[like] if topology else members[0].like.nodes
        yield Odd(like, len(nodes), total, topology, what, nodes), members


def node_name(one: Sight) -> str:
    """A node's name, else that of its file."""
    return one.name or one.source
