"""What is on a node already, from the files in which the kubelet's managers keep it, and the pod-resources API.

The files name pods by UID, the API by name: they are the same where they hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from numalign.admission.device import Device
from numalign.admission.memory import MemoryBlock, MemoryUse
from numalign.admission.node import Node
from numalign.admission.offers import Offer
from numalign.cpuset import MAX_CPUS, CpuSet
from numalign.errors import CannotRead, DoesNotHold
from numalign.kubelet.checkpoint import (
    CPU_FILE,
    MEMORY_FILE,
    CannotRestore,
    CpuState,
    MemoryState,
    read_cpu_state,
    read_memory_state,
)
from numalign.kubelet.devices import NO_NUMA_NODE, DeviceState, read_device_state
from numalign.kubelet.podresources import Allocatable, Container, Pod
from numalign.kubelet.restart import formats, obstacles
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.machine import Machine
from numalign.words import few

__all__ = ["Files", "occupy", "read_files", "registered"]

DEVICE_FILE = "device-plugins/kubelet_internal_checkpoint"


class Files(NamedTuple):
    """The content of the managers' state files; None where there is none."""

    cpus: CpuState | None
    memory: MemoryState | None
    devices: DeviceState | None


class _Holding(NamedTuple):
    """What a pod holds, by its UID."""

    cpus: CpuSet
    memory: tuple[MemoryBlock, ...]
    devices: dict[str, tuple[str, ...]]


def read_files(settings: Settings, view: KubeletView, files: Mapping[str, bytes], folder: str) -> Files:
    """The state in the files. Raises DoesNotHold where the kubelet does not start on them."""
    for obstacle in obstacles(settings, view, files, folder):
        raise DoesNotHold(
            f"{obstacle.file}: the kubelet does not start on it: {obstacle.message}: {obstacle.why}",
            hint=obstacle.remedy,
        )
    try:
        cpus = read_cpu_state(files[CPU_FILE], formats(settings)) if CPU_FILE in files else None
        memory = None
        if MEMORY_FILE in files and settings.memory_policy == "Static":
            memory = read_memory_state(files[MEMORY_FILE], formats(settings))
        devices = read_device_state(files[DEVICE_FILE], settings.minor) if DEVICE_FILE in files else None
    except CannotRestore as error:
        raise CannotRead(f"{folder}: {error}") from error
    return Files(cpus if settings.cpu_policy == "static" else None, memory, devices)


def registered(files: Files, machine: Machine, api: Allocatable | None) -> list[Offer]:
    """The devices that plugins have registered. The file does not say on which NUMA nodes they are: the API does, or
    the assignments of the file, or the map, which knows GPUs by UUID and NICs by address."""
    if files.devices is None:
        return []
    homes = {gpu.uuid: gpu.numa_node for gpu in machine.gpus if gpu.uuid and gpu.numa_node_from == "numa_node"}
    homes |= {mig.uuid: gpu.numa_node for gpu in machine.gpus for mig in gpu.mig_devices if mig.uuid}
    homes |= {nic.bdf: nic.numa_node for nic in machine.nics if nic.numa_node_from == "numa_node"}
    known: dict[tuple[str, str], tuple[int, ...] | None] = {}
    taken: dict[str, list[str]] = {}
    for resource, node, id in _assigned(files.devices):
        before = known.get((resource, id)) or ()
        known[resource, id] = None if node == NO_NUMA_NODE else (*before, node)
        taken.setdefault(resource, []).append(id)
    for devices in api.devices if api else ():
        known |= {(devices.resource, id): devices.numa_nodes for id in devices.ids}
    found = []
    for resource in {**files.devices.registered, **taken}:
        healthy = set(files.devices.registered.get(resource, ()))
        rows = []
        for id in sorted({*healthy, *taken.get(resource, ())}, key=_natural):
            home = homes.get(id.partition("::")[0])
            numa = known.get((resource, id), (home,) if home is not None else None)
            numa = tuple(sorted({node for node in numa if 0 <= node < MAX_CPUS})) if numa else None
            rows.append(Device(resource, id, numa or None, healthy=id in healthy))
        found.append(Offer(resource, tuple(rows) or (Device(resource, "none", None, healthy=False),), "state"))
    return found


def _assigned(state: DeviceState) -> Iterator[tuple[str, int, str]]:
    for containers in state.entries.values():
        for resources in containers.values():
            for resource, assignment in resources.items():
                for node, ids in assignment.ids.items():
                    for id in ids:
                        yield resource, node, id


def _natural(id: str) -> tuple[int, str]:
    return len(id), id


def occupy(node: Node, files: Files, pods: Iterable[Pod] | None) -> list[str]:
    """Puts the pods of the files on an empty node, under their names where the API tells them (None: it was not asked),
    and gives what a person should know. Pods that the API does not know have ended: the kubelet takes back what they
    hold before it admits the next. Raises CannotRead where the files contradict each other."""
    known = list(pods) if pods is not None else None
    holdings = _holdings(files)
    gone: list[str] = []
    for uid, holding in holdings.items():
        names = _names_of(holding, known or ())
        if known is not None and not names:
            gone.append(uid)
        key = names[0] if len(names) == 1 and names[0] not in node.state.pods else uid
        offered = {name: some for name, some in holding.devices.items() if name in node.managers.devices.resources}
        try:
            node.adopt(key, cpus=holding.cpus, memory=holding.memory, devices=offered, requests=_requests(holding))
        except ValueError as error:
            raise CannotRead(f"the kubelet's state files contradict each other: {error}") from error
    state = node.state
    if files.cpus is not None and node.managers.cpus is not None and files.cpus.default:
        state = msgspec.structs.replace(state, shared=files.cpus.default.bits)
    if files.memory is not None and files.memory.machine and node.managers.memory is not None:
        state = msgspec.structs.replace(state, memory=_use(node, files.memory))
    node.state = state
    for uid in gone:
        node.remove(uid)
    for pod in known or ():
        if f"{pod.namespace}/{pod.name}" not in node.state.pods:
            node.adopt(f"{pod.namespace}/{pod.name}")
    return [f"given back, since their pods are gone: what {few(gone)} had"] if gone else []


def _holdings(files: Files) -> dict[str, _Holding]:
    """What each pod holds, by UID. A container that took over what an init container had holds it once."""
    uids: dict[str, None] = {}
    cpus: dict[str, CpuSet] = {}
    if files.cpus is not None:
        for uid, sets in files.cpus.entries.items():
            for own in sets.values():
                cpus[uid] = cpus.get(uid, CpuSet()) | own
        for uid, own in files.cpus.pods.items():
            cpus[uid] = cpus.get(uid, CpuSet()) | own
        uids |= dict.fromkeys(cpus)
    memory: dict[str, tuple[MemoryBlock, ...]] = {}
    if files.memory is not None:
        whole = {uid: entry.blocks for uid, entry in (files.memory.pods or {}).items() if entry.blocks}
        for uid, containers in (files.memory.entries or {}).items():
            blocks = whole.get(uid) or [block for some in (containers or {}).values() for block in some or ()]
            memory[uid] = tuple(MemoryBlock(_mask(block.numa_affinity), block.type, block.size) for block in blocks)
        uids |= dict.fromkeys(memory)
    devices: dict[str, dict[str, tuple[str, ...]]] = {}
    for uid, sharers in (files.devices.entries if files.devices else {}).items():
        own_devices = devices.setdefault(uid, {})
        for resources in sharers.values():
            for resource, assignment in resources.items():
                ids = dict.fromkeys(id for some in assignment.ids.values() for id in some)
                own_devices[resource] = tuple(dict.fromkeys((*own_devices.get(resource, ()), *ids)))
    uids |= dict.fromkeys(devices)
    return {uid: _Holding(cpus.get(uid, CpuSet()), memory.get(uid, ()), devices.get(uid, {})) for uid in uids}


def _names_of(holding: _Holding, pods: Iterable[Pod]) -> list[str]:
    """The names of the pods that may hold it, as the API tells: by their devices, their CPUs, or their memory."""
    mine = {(resource, id) for resource, ids in holding.devices.items() for id in ids}
    blocks = {(block.type, block.size, block.nodes) for block in holding.memory}
    tests: tuple[Callable[[Container], bool], ...] = (
        lambda each: any((some.resource, id) in mine for some in each.devices for id in some.ids),
        lambda each: bool(each.cpus) and each.cpus <= holding.cpus,
        lambda each: any((some.type, some.bytes, _mask(some.numa_nodes)) in blocks for some in each.memory),
    )
    pods = list(pods)
    for test in tests:
        found = [f"{pod.namespace}/{pod.name}" for pod in pods if any(map(test, pod.containers))]
        if found:
            return found
    return []


def _mask(nodes: Iterable[int] | None) -> int:
    return sum(1 << id for id in set(nodes or ()) if 0 <= id < MAX_CPUS)


def _requests(holding: _Holding) -> dict[str, int]:
    """What the pod counts for, as far as it can be known."""
    found = {"cpu": 1000 * len(holding.cpus)} if holding.cpus else {}
    for block in holding.memory:
        found[block.type] = found.get(block.type, 0) + block.size
    return found | {resource: len(ids) for resource, ids in holding.devices.items()}


def _use(node: Node, state: MemoryState) -> MemoryUse:
    """What is taken of each NUMA node, as the file has it."""
    assert node.managers.memory is not None
    machine, reach = state.machine or {}, range(node.managers.memory.nodes.bit_length())
    start = node.managers.memory.start
    return MemoryUse(
        blocks=tuple(machine[id].assignments if id in machine else 0 for id in reach),
        groups=tuple(_mask(machine[id].cells or [id]) if id in machine else 1 << id for id in reach),
        free={
            kind: tuple(
                machine[id].memory[kind].free if id in machine and kind in machine[id].memory else left[id]
                for id in reach
            )
            for kind, left in start.free.items()
        },
    )
