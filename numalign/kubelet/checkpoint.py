"""The managers' state files: cpu_manager_state and memory_manager_state, read as the kubelet restores them.

Source: pkg/kubelet/cm/{cpumanager,memorymanager}/state (checkpoint.go, state_checkpoint.go) and
pkg/kubelet/checkpointmanager/checksum, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet import gojson
from numalign.kubelet.settings import parse_cpus

__all__ = [
    "CPU_FILE",
    "MEMORY_FILE",
    "Block",
    "CannotRestore",
    "CpuState",
    "MemoryNode",
    "MemoryState",
    "MemoryTable",
    "cpu_checksum",
    "memory_checksum",
    "read_cpu_state",
    "read_memory_state",
]

CPU_FILE = "cpu_manager_state"
MEMORY_FILE = "memory_manager_state"
_CORRUPT = "checkpoint is corrupted"
_FNV_START, _FNV_PRIME = 0x811C9DC5, 0x01000193


class CannotRestore(Exception):
    """The kubelet cannot take the file up again; the message is its own."""


class CpuState(msgspec.Struct, frozen=True):
    """What cpu_manager_state says: the shared pool, and exclusive CPUs by pod UID and container."""

    policy: str
    default: CpuSet
    entries: Mapping[str, Mapping[str, CpuSet]]


class MemoryTable(msgspec.Struct):
    """Bytes of one type of memory on a NUMA node."""

    total: int = 0
    system_reserved: int = msgspec.field(default=0, name="systemReserved")
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


class MemoryNode(msgspec.Struct):
    """A NUMA node of memory_manager_state; `cells` is the group of NUMA nodes that it is in."""

    assignments: int = msgspec.field(default=0, name="numberOfAssignments")
    memory: dict[str, MemoryTable] = msgspec.field(default_factory=dict, name="memoryMap")
    cells: list[int] | None = None


class Block(msgspec.Struct, frozen=True):
    """Memory that a container holds: the NUMA nodes, the type, the bytes."""

    numa_affinity: list[int] | None = msgspec.field(default=None, name="numaAffinity")
    type: str = ""
    size: int = 0


class MemoryState(msgspec.Struct):
    """What memory_manager_state says: the NUMA nodes, and blocks by pod UID and container."""

    policy: str = msgspec.field(default="", name="policyName")
    machine: dict[int, MemoryNode] | None = msgspec.field(default=None, name="machineState")
    entries: dict[str, dict[str, list[Block] | None] | None] | None = None
    checksum: int = 0


def read_cpu_state(data: bytes) -> CpuState:
    """The state in cpu_manager_state. Raises CannotRestore.

    The kubelet tries the current format, then that of before 1.18, and complains in the words of the latter. From 1.37
    on the state stands as text in `data`, with a checksum of its own.
    """
    found = _json(data)
    if isinstance(found, dict) and isinstance(found.get("data"), str):
        found = _inner(found)
    elif not isinstance(found, dict) or not _is_current(found) or not _sums(found, cpu_checksum):
        raise CannotRestore(_old_format(found))
    default = _cpus(str(found.get("defaultCpuSet", "")), "default cpu set")
    entries: dict[str, dict[str, CpuSet]] = {}
    for pod, containers in (found.get("entries") or {}).items():
        entries[pod] = {
            name: _cpus(text, "cpuset", f' for container "{name}" in pod "{pod}"')
            for name, text in (containers or {}).items()
        }
    return CpuState(policy=str(found.get("policyName", "")), default=default, entries=entries)


def read_memory_state(data: bytes) -> MemoryState:
    """The state in memory_manager_state. Raises CannotRestore."""
    found = _json(data)
    inner = isinstance(found, dict) and isinstance(found.get("data"), str)
    try:
        state = msgspec.convert(_inner(found) if inner else found, MemoryState, str_keys=True)
    except msgspec.ValidationError as error:
        raise CannotRestore(f"json: cannot unmarshal {gojson.kind_of(found)}: {error}") from None
    if not inner and state.checksum and state.checksum != memory_checksum(state):
        raise CannotRestore(_CORRUPT)
    return state


def cpu_checksum(state: Mapping[str, Any]) -> int:
    """The checksum that the kubelet writes into cpu_manager_state (FNV-1a over a dump of the structure)."""
    entries = _go_map({pod: _go_map(sets or {}) for pod, sets in (state.get("entries") or {}).items()})
    return _fnv(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){state.get('policyName', '')} "
        f"DefaultCPUSet:(string){state.get('defaultCpuSet', '')} "
        f"Entries:(map[string]map[string]string){entries} Checksum:(checksum.Checksum)0}}"
    )


def memory_checksum(state: MemoryState) -> int:
    """The checksum that the kubelet writes into memory_manager_state."""
    machine = (
        "<nil>"
        if state.machine is None
        else _go_map({id: _node_dump(state.machine[id]) for id in sorted(state.machine)})
    )
    entries = _go_map(
        {
            pod: _go_map({name: _blocks_dump(blocks) for name, blocks in (containers or {}).items()})
            for pod, containers in (state.entries or {}).items()
        }
    )
    return _fnv(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){state.policy} MachineState:(state.NUMANodeMap)"
        f"{machine} Entries:(state.ContainerMemoryAssignments){entries} Checksum:(checksum.Checksum)0}}"
    )


def _json(data: bytes) -> Any:
    try:
        return gojson.decode(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise CannotRestore(str(error)) from None


def _inner(found: dict[str, Any]) -> dict[str, Any]:
    """The state that the format of 1.37 keeps as text."""
    text = found["data"]
    if found.get("dataChecksum") != _fnv(f"(string){text}"):
        raise CannotRestore(_CORRUPT)
    try:
        inner = gojson.decode(text)
    except ValueError as error:
        raise CannotRestore(str(error)) from None
    if not isinstance(inner, dict):
        raise CannotRestore(_CORRUPT)
    return inner


def _is_current(found: dict[str, Any]) -> bool:
    """Whether the types are those of the current format: entries by pod and container."""
    entries = found.get("entries") or {}
    texts = all(isinstance(found.get(name, ""), str) for name in ("policyName", "defaultCpuSet"))
    return (
        texts
        and isinstance(entries, dict)
        and all(
            isinstance(sets, dict | None) and all(isinstance(text, str) for text in (sets or {}).values())
            for sets in entries.values()
        )
    )


def _old_format(found: Any) -> str:
    """Why the format of before 1.18 does not fit either, in which entries are CPU lists by container id."""
    if not isinstance(found, dict):
        return f"json: cannot unmarshal {gojson.kind_of(found)} into Go value of type state.CPUManagerCheckpointV1"
    for name in ("policyName", "defaultCpuSet"):
        if not isinstance(found.get(name, ""), str):
            return _mismatch(found[name], name)
    entries = found.get("entries") or {}
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(value, str | None):
            return _mismatch(value, f"entries.{key}")
    return _CORRUPT


def _mismatch(value: Any, field: str) -> str:
    struct = "Go struct field CPUManagerCheckpointV1"
    return f"json: cannot unmarshal {gojson.kind_of(value)} into {struct}.{field} of type string"


def _sums(found: dict[str, Any], checksum: Callable[[Mapping[str, Any]], int]) -> bool:
    """A checksum of 0, or none, is accepted."""
    return not found.get("checksum") or found["checksum"] == checksum(found)


def _cpus(text: str, what: str, where: str = "") -> CpuSet:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise CannotRestore(f'could not parse {what} "{text}"{where}: {error}') from None


def _go_map(entries: Mapping[Any, str]) -> str:
    """A map as Go's dump prints it: `map[key:value key:value]`, keys sorted."""
    keys = sorted(entries, key=lambda key: (0, key, "") if isinstance(key, int) else (1, 0, str(key)))
    return f"map[{' '.join(f'{key}:{entries[key]}' for key in keys)}]"


def _node_dump(node: MemoryNode) -> str:
    tables = {
        name: f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
        for name, table in node.memory.items()
    }
    cells = "<nil>" if node.cells is None else f"[{' '.join(map(str, node.cells))}]"
    return (
        f"<*>{{NumberOfAssignments:(int){node.assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){_go_map(tables)} Cells:([]int){cells}}}"
    )


def _blocks_dump(blocks: list[Block] | None) -> str:
    if blocks is None:
        return "<nil>"
    dumps = []
    for block in blocks:
        nodes = "<nil>" if block.numa_affinity is None else f"[{' '.join(map(str, block.numa_affinity))}]"
        dumps.append(f"{{NUMAAffinity:([]int){nodes} Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}")
    return f"[{' '.join(dumps)}]"


def _fnv(text: str) -> int:
    found = _FNV_START
    for byte in text.encode():
        found = (found ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return found
