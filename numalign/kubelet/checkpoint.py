"""The managers' state files: cpu_manager_state and memory_manager_state, read as the kubelet restores them.

Source: pkg/kubelet/cm/{cpumanager,memorymanager}/state (checkpoint.go, state_checkpoint.go) and
pkg/kubelet/checkpointmanager/checksum, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
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
    "Formats",
    "MemoryNode",
    "MemoryState",
    "MemoryTable",
    "cpu_checksum",
    "fnv",
    "go_map",
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
    """What cpu_manager_state says: the shared pool, and exclusive CPUs by pod UID and container, or of whole `pods`."""

    policy: str
    default: CpuSet
    entries: Mapping[str, Mapping[str, CpuSet]]
    pods: Mapping[str, CpuSet] = {}


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


class PodBlocks(msgspec.Struct, frozen=True):
    """Memory that a pod holds as a whole."""

    blocks: list[Block] | None = msgspec.field(default=None, name="memoryBlocks")


class MemoryState(msgspec.Struct):
    """What memory_manager_state says: the NUMA nodes, blocks by pod UID and container, and those of whole pods."""

    policy: str = msgspec.field(default="", name="policyName")
    machine: dict[int, MemoryNode] | None = msgspec.field(default=None, name="machineState")
    entries: dict[str, dict[str, list[Block] | None] | None] | None = None
    pods: dict[str, PodBlocks] | None = msgspec.field(default=None, name="podEntries")
    checksum: int = 0


class Formats(msgspec.Struct, frozen=True):
    """What a kubelet reads of its state files beside what all do: podEntries, with PodLevelResourceManagers (1.36),
    and the state as text in `data`, with a checksum of its own (1.37). An older kubelet takes the other fields. Of CPUs
    it tries the format of before 1.18 first where it is `oldest_first` (until 1.35), and last otherwise."""

    pods: bool = False
    data: bool = False
    oldest_first: bool = False


_OLDEST = Formats()


def read_cpu_state(data: bytes, formats: Formats = _OLDEST) -> CpuState:
    """The state in cpu_manager_state. Raises CannotRestore.

    The kubelet tries one format after another, and complains in the words of the last.
    """
    found = _json(data)
    pods: dict[str, CpuSet] = {}
    if formats.data and isinstance(found, dict) and isinstance(found.get("data"), str):
        found = _inner(found)
        if not _is_current(found):
            raise CannotRestore(_CORRUPT)
        pods = _pod_cpus(found) or {} if formats.pods else {}
    elif formats.pods and _is_of_pods(found):
        pods = _pod_cpus(found) or {}
    elif not isinstance(found, dict) or not _is_current(found) or not _sums(found, cpu_checksum):
        raise CannotRestore(_current_format(found) if formats.oldest_first else _old_format(found))
    default = _cpus(str(found.get("defaultCpuSet", "")), "default cpu set")
    entries: dict[str, dict[str, CpuSet]] = {}
    for pod, containers in (found.get("entries") or {}).items():
        entries[pod] = {
            name: _cpus(text, "cpuset", f' for container "{name}" in pod "{pod}"')
            for name, text in (containers or {}).items()
        }
    return CpuState(policy=str(found.get("policyName", "")), default=default, entries=entries, pods=pods)


def read_memory_state(data: bytes, formats: Formats = _OLDEST) -> MemoryState:
    """The state in memory_manager_state. Raises CannotRestore.

    A file that is not of the format with podEntries is read as of the one without, whose checksum may be missing.
    """
    found = _json(data)
    if formats.data and isinstance(found, dict) and isinstance(found.get("data"), str):
        return _memory_state(_inner(found), of_pods=formats.pods)
    if formats.pods:
        with suppress(CannotRestore):
            state = _memory_state(found, of_pods=True)
            if state.checksum == memory_checksum(state, of_pods=True):
                return state
    state = _memory_state(found, of_pods=False)
    if state.checksum and state.checksum != memory_checksum(state):
        raise CannotRestore(_CORRUPT)
    return state


def _memory_state(found: Any, *, of_pods: bool) -> MemoryState:
    fields = found
    if isinstance(found, dict) and not of_pods:
        fields = {name: value for name, value in found.items() if name != "podEntries"}
    try:
        return msgspec.convert(fields, MemoryState, str_keys=True)
    except msgspec.ValidationError as error:
        raise CannotRestore(f"json: cannot unmarshal {gojson.kind_of(found)}: {error}") from None


def cpu_checksum(state: Mapping[str, Any], pods: Mapping[str, CpuSet] | None = None) -> int:
    """The checksum that the kubelet writes into cpu_manager_state (FNV-1a over a dump of the structure); with `pods`
    that of the format which has them."""
    entries = go_map({pod: go_map(sets or {}) for pod, sets in (state.get("entries") or {}).items()})
    return fnv(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){state.get('policyName', '')} "
        f"DefaultCPUSet:(string){state.get('defaultCpuSet', '')} "
        f"Entries:(map[string]map[string]string){entries} {_pods_dump(pods)}Checksum:(checksum.Checksum)0}}"
    )


def memory_checksum(state: MemoryState, *, of_pods: bool = False) -> int:
    """The checksum that the kubelet writes into memory_manager_state; `of_pods` in the format with podEntries."""
    pods = go_map(
        {
            pod: f"{{MemoryBlocks:([]state.Block){_blocks_dump(entry.blocks)}}}"
            for pod, entry in (state.pods or {}).items()
        }
    )
    machine = (
        "<nil>"
        if state.machine is None
        else go_map({id: _node_dump(state.machine[id]) for id in sorted(state.machine)})
    )
    entries = go_map(
        {
            pod: go_map({name: _blocks_dump(blocks) for name, blocks in (containers or {}).items()})
            for pod, containers in (state.entries or {}).items()
        }
    )
    return fnv(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){state.policy} MachineState:(state.NUMANodeMap)"
        f"{machine} Entries:(state.ContainerMemoryAssignments){entries} "
        f"{f'PodEntries:(state.PodMemoryAssignments){pods} ' * of_pods}Checksum:(checksum.Checksum)0}}"
    )


def _json(data: bytes) -> Any:
    try:
        return gojson.decode(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise CannotRestore(str(error)) from None


def _inner(found: dict[str, Any]) -> dict[str, Any]:
    """The state that the format of 1.37 keeps as text."""
    text = found["data"]
    if found.get("dataChecksum") != fnv(f"(string){text}"):
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
    entries = {} if found.get("entries") is None else found["entries"]
    texts = all(isinstance(found.get(name, ""), str) for name in ("policyName", "defaultCpuSet"))
    return (
        texts
        and _is_checksum(found.get("checksum"))
        and isinstance(entries, dict)
        and all(
            isinstance(sets, dict | None) and all(isinstance(text, str) for text in (sets or {}).values())
            for sets in entries.values()
        )
    )


def _is_of_pods(found: Any) -> bool:
    """Whether the file is of the format with podEntries, in which a checksum must be there and be right."""
    if not isinstance(found, dict) or not _is_current(found):
        return False
    pods = _pod_cpus(found)
    return pods is not None and found.get("checksum") == cpu_checksum(found, pods)


def _pod_cpus(found: dict[str, Any]) -> dict[str, CpuSet] | None:
    """The CPUs of whole pods; None where they are not written as the kubelet does."""
    entries = found.get("podEntries") or {}
    try:
        return {pod: parse_cpus((entry or {}).get("cpuSet", "")) for pod, entry in entries.items()}
    except (AttributeError, TypeError, ValueError):
        return None


def _pods_dump(pods: Mapping[str, CpuSet] | None) -> str:
    if pods is None:
        return ""
    sets = {pod: go_map(dict.fromkeys(cpus, "{}")) for pod, cpus in pods.items()}
    dumps = {pod: f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}}){sets[pod]}}}}}" for pod in pods}
    return f"PodEntries:(state.PodCPUAssignments){go_map(dumps)} "


def _old_format(found: Any) -> str:
    """Why the format of before 1.18 does not fit either, in which entries are CPU lists by container id. A kubelet of
    1.36 names the key of an entry, as its Go does; encoding/json before that names the fields of structs only."""
    struct = "CPUManagerCheckpointV1"
    wrong = _wrong_head(found, struct, "map[string]string")
    if wrong is not None:
        return wrong
    for key, value in (found.get("entries") or {}).items():
        if not isinstance(value, str | None):
            return _mismatch(value, f"{struct}.entries.{key}", "string")
    return _CORRUPT


def _current_format(found: Any) -> str:
    """Why the current format, the last that a kubelet until 1.35 tries, does not fit."""
    struct = "CPUManagerCheckpoint"
    wrong = _wrong_head(found, struct, "map[string]map[string]string")
    if wrong is not None:
        return wrong
    for sets in (found.get("entries") or {}).values():
        if not isinstance(sets, dict | None):
            return _mismatch(sets, f"{struct}.entries", "map[string]string")
        for value in (sets or {}).values():
            if not isinstance(value, str | None):
                return _mismatch(value, f"{struct}.entries", "string")
    return _CORRUPT


def _wrong_head(found: Any, struct: str, entries: str) -> str | None:
    """What does not fit the types of a format before its single entries are looked at."""
    if not isinstance(found, dict):
        return f"json: cannot unmarshal {gojson.kind_of(found)} into Go value of type state.{struct}"
    for name in ("policyName", "defaultCpuSet"):
        if not isinstance(found.get(name, ""), str):
            return _mismatch(found[name], f"{struct}.{name}", "string")
    checksum = found.get("checksum")
    if not _is_checksum(checksum):
        return _mismatch(checksum, f"{struct}.checksum", "checksum.Checksum")
    if not isinstance(found.get("entries"), dict | None):
        return _mismatch(found["entries"], f"{struct}.entries", entries)
    return None


def _is_checksum(value: Any) -> bool:
    """Whether a checksum is none or of Go's type for it, 64 bits without a sign."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64
    return value is None or whole


def _mismatch(value: Any, field: str, kind: str) -> str:
    said = gojson.kind_of(value)
    if said == "number" and kind != "string":
        said = f"number {gojson.number(value)}"
    return f"json: cannot unmarshal {said} into Go struct field {field} of type {kind}"


def _sums(found: dict[str, Any], checksum: Callable[[Mapping[str, Any]], int]) -> bool:
    """A checksum of 0, or none, is accepted."""
    return not found.get("checksum") or found["checksum"] == checksum(found)


def _cpus(text: str, what: str, where: str = "") -> CpuSet:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise CannotRestore(f'could not parse {what} "{text}"{where}: {error}') from None


def go_map(entries: Mapping[Any, str]) -> str:
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
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){go_map(tables)} Cells:([]int){cells}}}"
    )


def _blocks_dump(blocks: list[Block] | None) -> str:
    if blocks is None:
        return "<nil>"
    dumps = []
    for block in blocks:
        nodes = "<nil>" if block.numa_affinity is None else f"[{' '.join(map(str, block.numa_affinity))}]"
        dumps.append(f"{{NUMAAffinity:([]int){nodes} Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}")
    return f"[{' '.join(dumps)}]"


def fnv(text: str) -> int:
    """The checksum of a dump: FNV-1a, 32 bits."""
    found = _FNV_START
    for byte in text.encode():
        found = (found ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return found
