"""What a kubelet that runs was asked, and who holds what by its word or, where it gave none, by its state files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.checkpoint import CPU_FILE, MEMORY_FILE, CannotRestore, Formats, read_cpu_state, read_memory_state
from numalign.kubelet.devices import NO_NUMA_NODE, DeviceState, read_device_state
from numalign.kubelet.podresources import Allocatable, Devices, Memory, Method, Pods
from numalign.probe.kubelet import DEVICE_STATE, State

__all__ = [
    "NOT_ASKED",
    "Held",
    "Resources",
    "Silence",
    "device_state",
    "grouped",
    "held_by_api",
    "held_by_state",
    "unusable",
]


class Silence(msgspec.Struct, frozen=True):
    """Why a call has no answer; `remedy` says what to do, where something can be done."""

    reason: str
    remedy: str | None = None


class Resources(msgspec.Struct, frozen=True):
    """What the node's kubelet was asked.

    `running`: its process was found. `pods` and `allocatable` are its answers at `socket`; `silence` says why there is
    none. `pod_uids` are the pods that have cgroups (None: they cannot be seen); `dead_sockets` are the sockets of
    device plugins on which nobody listens (None: that cannot be told). `about_pods`: somebody asks about pods.
    """

    running: bool = False
    about_pods: bool = False
    socket: str = ""
    pods: Pods | None = None
    allocatable: Allocatable | None = None
    silence: Mapping[Method, Silence] = {}
    pod_uids: frozenset[str] | None = None
    dead_sockets: tuple[str, ...] | None = None


NOT_ASKED = Resources()


class Held(msgspec.Struct, frozen=True):
    """A container that holds something of its own: how a person names its pod and it, and where that is said."""

    pod: str
    container: str
    place: str
    cpus: CpuSet = CpuSet()
    devices: tuple[Devices, ...] = ()
    memory: tuple[Memory, ...] = ()

    @property
    def name(self) -> str:
        """The pod and the container."""
        return f"{self.pod}, container{'s' if ', ' in self.container else ''} {self.container}"

    def with_(self, other: Held) -> Held:
        """Two containers of a pod as one."""
        return Held(
            self.pod,
            f"{self.container}, {other.container}",
            self.place,
            self.cpus | other.cpus,
            (*self.devices, *other.devices),
            (*self.memory, *other.memory),
        )


def held_by_api(pods: Pods, socket: str) -> tuple[Held, ...]:
    """Who holds what, as the kubelet itself says."""
    return tuple(
        Held(f"pod {pod.namespace}/{pod.name}", one.name, socket, one.cpus, one.devices, one.memory)
        for pod in pods.pods
        for one in pod.containers
        if one.cpus or one.devices or one.memory
    )


def held_by_state(state: State, formats: Formats) -> tuple[Held, ...]:
    """Who holds what by the state files, in which pods have UIDs. A file that cannot be taken says nothing."""
    found: dict[tuple[str, str], Held] = {}

    def add(pod: str, container: str, file: str, **more: object) -> None:
        before = found.get((pod, container)) or Held(f"pod {pod}", container, state.place(file))
        found[pod, container] = msgspec.structs.replace(before, **more)

    for pod, container, cpus in _cpu_entries(state, formats):
        add(pod, container, CPU_FILE, cpus=cpus)
    devices = device_state(state)
    for pod, containers in devices.entries.items() if isinstance(devices, DeviceState) else ():
        for container, resources in containers.items():
            own = tuple(group for resource, assigned in resources.items() for group in grouped(resource, assigned.ids))
            add(pod, container, DEVICE_STATE, devices=own)
    for pod, container, memory in _memory_entries(state, formats):
        add(pod, container, MEMORY_FILE, memory=memory)
    return tuple(found.values())


def unusable(state: State, formats: Formats) -> str | None:
    """The first of the state files that a kubelet cannot take, if any."""
    if isinstance(device_state(state), str):
        return DEVICE_STATE
    for name, read in ((CPU_FILE, read_cpu_state), (MEMORY_FILE, read_memory_state)):
        with suppress(CannotRestore):
            if name in state.files:
                read(state.files[name], formats)
            continue
        return name
    return None


def grouped(resource: str, by_node: Mapping[int, Iterable[str]]) -> Iterator[Devices]:
    """Devices that are kept by NUMA node, grouped by all their NUMA nodes: one of two nodes is under both."""
    nodes: dict[str, list[int]] = {}
    for numa_node, ids in by_node.items():
        for id in ids:
            nodes.setdefault(id, []).extend([numa_node] if numa_node != NO_NUMA_NODE else [])
    for group in dict.fromkeys(map(tuple, nodes.values())):
        yield Devices(resource, tuple(id for id in nodes if tuple(nodes[id]) == group), group or None)


def _cpu_entries(state: State, formats: Formats) -> Iterator[tuple[str, str, CpuSet]]:
    try:
        entries = read_cpu_state(state.files[CPU_FILE], formats).entries if CPU_FILE in state.files else {}
    except CannotRestore:
        return
    for pod, containers in entries.items():
        for container, cpus in containers.items():
            if cpus:
                yield pod, container, cpus


def _memory_entries(state: State, formats: Formats) -> Iterator[tuple[str, str, tuple[Memory, ...]]]:
    try:
        entries = read_memory_state(state.files[MEMORY_FILE], formats).entries if MEMORY_FILE in state.files else {}
    except CannotRestore:
        return
    for pod, containers in (entries or {}).items():
        for container, blocks in (containers or {}).items():
            if blocks:
                yield (
                    pod,
                    container,
                    tuple(Memory(one.type, one.size, _nodes(one.numa_affinity)) for one in blocks),
                )


def _nodes(ids: Iterable[int] | None) -> tuple[int, ...] | None:
    return tuple(sorted(ids)) if ids else None


def device_state(state: State) -> DeviceState | str | None:
    """What kubelet_internal_checkpoint says; why a kubelet cannot take it; None where there is none."""
    data = state.files.get(DEVICE_STATE)
    return None if data is None else _device_state(data)


@lru_cache(maxsize=1)
def _device_state(data: bytes) -> DeviceState | str:
    try:
        return read_device_state(data)
    except CannotRestore as error:
        return str(error)
