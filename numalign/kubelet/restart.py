"""Whether a kubelet can start on the state files that an earlier one left, and if not, what to do.

Source: pkg/kubelet/cm/cpumanager/policy_static.go and pkg/kubelet/cm/memorymanager/policy_static.go (validateState).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.checkpoint import (
    CPU_FILE,
    MEMORY_FILE,
    CannotRestore,
    CpuState,
    Formats,
    MemoryNode,
    MemoryState,
    MemoryTable,
    read_cpu_state,
    read_memory_state,
)
from numalign.kubelet.running import DEFAULT_FOLDER
from numalign.kubelet.settings import Settings
from numalign.kubelet.static_cpus import reserved_cpus
from numalign.kubelet.view import KubeletView
from numalign.quantity import Quantity

__all__ = ["Obstacle", "default_memory_state", "formats", "obstacles"]

_GROUP_SUMS_SINCE = 32
_DATA_SINCE = 37
_OLDEST_FIRST_UNTIL = 35


class Obstacle(msgspec.Struct, frozen=True):
    """A state file on which the kubelet does not start: its message, and what changed."""

    id: str
    file: str
    message: str
    why: str

    @property
    def remedy(self) -> str:
        """The safe procedure."""
        return f"drain the node, stop the kubelet, delete {self.file}, start the kubelet"


def obstacles(
    settings: Settings, view: KubeletView, files: Mapping[str, bytes], folder: str = DEFAULT_FOLDER
) -> list[Obstacle]:
    """What the state files (content by file name) stand in the way of; the kubelet stops at the first."""
    found = []
    if CPU_FILE in files:
        found.append(_cpu(settings, view, files[CPU_FILE], f"{folder}/{CPU_FILE}"))
    if MEMORY_FILE in files and settings.has_memory_manager:
        found.append(_memory(settings, view, files[MEMORY_FILE], f"{folder}/{MEMORY_FILE}"))
    return [obstacle for obstacle in found if obstacle is not None]


def _cpu(settings: Settings, view: KubeletView, data: bytes, path: str) -> Obstacle | None:
    wrap = "start cpu manager error: "
    try:
        state = read_cpu_state(data, formats(settings))
        if state.policy != settings.cpu_policy:
            raise CannotRestore(
                f'configured policy "{settings.cpu_policy}" differs from state checkpoint policy "{state.policy}"'
            )
    except CannotRestore as error:
        return Obstacle("cpu-state-unusable", path, wrap + _restore(str(error), "CPU", path), _why(str(error)))
    wrong = _wrong_cpu_state(settings, view, state) if settings.cpu_policy == "static" else None
    return Obstacle("cpu-state-differs", path, wrap + wrong[0], wrong[1]) if wrong else None


def _wrong_cpu_state(settings: Settings, view: KubeletView, state: CpuState) -> tuple[str, str] | None:
    """The first thing in the state that does not hold, as the kubelet says it, and what it means."""
    default, reserved = state.default, reserved_cpus(settings, view)
    if not default:
        return ("default cpuset cannot be empty", "every CPU is given out exclusively") if state.entries else None
    if settings.option("strict-cpu-reservation"):
        shared = reserved & default
        if shared:
            message = f'some of strictly reserved cpus: "{shared}" are present in defaultCpuSet: "{default}"'
            return (
                message,
                "strict-cpu-reservation was turned on, or the reserved CPUs changed, since the file was written",
            )
    elif not reserved <= default:
        message = f'not all reserved cpus: "{reserved}" are present in defaultCpuSet: "{default}"'
        return (
            message,
            f"CPUs {reserved - default} are reserved now, and were given out{_holders(state, reserved - default)}",
        )
    known = default
    for pod, containers in state.entries.items():
        for name, cpus in containers.items():
            if default.bits & cpus.bits:
                message = f'pod: {pod}, container: {name} cpuset: "{cpus}" overlaps with default cpuset "{default}"'
                return message, "the file was edited, or written by two kubelets"
            known |= cpus
    for cpus in state.pods.values():
        known |= cpus
    available = view.cpus - reserved if settings.option("strict-cpu-reservation") else view.cpus
    if known != available:
        message = f'current set of available CPUs "{available}" doesn\'t match with CPUs in state "{known}"'
        changes = [f"CPUs {available - known} are new"] if available - known else []
        changes += [f"CPUs {known - available} are gone"] if known - available else []
        return message, " and ".join(changes) + " since the file was written"
    return None


def formats(settings: Settings) -> Formats:
    """What a kubelet with these settings reads of its state files."""
    return Formats(
        pods=settings.enabled("PodLevelResourceManagers"),
        data=settings.minor >= _DATA_SINCE,
        oldest_first=settings.minor <= _OLDEST_FIRST_UNTIL,
    )


def _holders(state: CpuState, cpus: CpuSet) -> str:
    held = [
        f"{pod}/{name}" for pod, sets in state.entries.items() for name, own in sets.items() if own.bits & cpus.bits
    ] or [pod for pod, own in state.pods.items() if own.bits & cpus.bits]
    return f" to {', '.join(held)}" if held else " or kept out of the shared pool"


def _memory(settings: Settings, view: KubeletView, data: bytes, path: str) -> Obstacle | None:
    wrap = "start memory manager error: "
    try:
        state = read_memory_state(data, formats(settings))
        if state.policy != settings.memory_policy:
            raise CannotRestore(
                f'[memorymanager] configured policy "{settings.memory_policy}" differs from state checkpoint policy '
                f'"{state.policy}"'
            )
    except CannotRestore as error:
        return Obstacle("memory-state-unusable", path, wrap + _restore(str(error), "memory", path), _why(str(error)))
    if settings.memory_policy != "Static":
        return None
    wrong = _wrong_memory_state(settings, view, state)
    return Obstacle("memory-state-differs", path, wrap + wrong[0], wrong[1]) if wrong else None


def _wrong_memory_state(settings: Settings, view: KubeletView, state: MemoryState) -> tuple[str, str] | None:
    if not state.machine:
        message = "[memorymanager] machine state can not be empty when it has memory assignments"
        return (message, "the file was edited") if state.entries else None
    expected = default_memory_state(settings, view)
    for pod, containers in (state.entries or {}).items():
        whole = (state.pods or {}).get(pod)
        for name, blocks in ({"": whole.blocks} if whole and whole.blocks else containers or {}).items():
            for block in blocks or ():
                wrong = _assign(expected, block.numa_affinity or [], block.type, block.size)
                if wrong:
                    where = f"[memorymanager] (pod: {pod}, container: {name}) the memory assignment uses"
                    return (
                        f"{where} {wrong} that does not exist",
                        "NUMA nodes or huge pages went since the file was written",
                    )
    why = _difference(state.machine, expected, grouped=settings.minor >= _GROUP_SUMS_SINCE)
    return ("[memorymanager] the expected machine state is different from the real one", why) if why else None


def default_memory_state(settings: Settings, view: KubeletView) -> dict[int, MemoryNode]:
    """The memory manager's state with nothing given out."""
    reserved: dict[int, dict[str, Quantity]] = {}
    for id, limits in settings.reserved_memory:
        reserved.setdefault(id, {}).update(limits)
    found = {}
    for node in view.nodes:
        own = reserved.get(node.id, {})
        tables = {}
        huge = 0
        for size, pages in node.hugepages.items():
            name = f"hugepages-{Quantity(size, 'BinarySI')}"
            kept = own.get(name, Quantity()).whole
            tables[name] = MemoryTable(size * pages, kept, size * pages - kept, 0, size * pages - kept)
            huge += size * pages
        kept = own.get("memory", Quantity()).whole
        left = (node.memory_bytes - kept - huge) % (1 << 64)  # the kubelet computes with unsigned numbers
        tables["memory"] = MemoryTable(node.memory_bytes, kept, left, 0, left)
        found[node.id] = MemoryNode(0, tables, [node.id])
    return found


def _assign(machine: dict[int, MemoryNode], nodes: list[int], kind: str, size: int) -> str | None:
    """Gives memory out, filling the NUMA nodes one after another; says what is missing where that cannot be."""
    for id in nodes:
        if id not in machine:
            return "the NUMA"
        node = machine[id]
        node.assignments += 1
        node.cells = nodes
        table = node.memory.get(kind)
        if table is None:
            return "memory resource"
        taken = min(size, table.free)
        table.reserved += taken
        table.free -= taken
        size -= taken
    return None


def _difference(have: dict[int, MemoryNode], want: dict[int, MemoryNode], *, grouped: bool) -> str | None:
    """The first difference that the kubelet minds, in words; of a group of NUMA nodes only the sums count where it is
    `grouped`, each NUMA node's own amounts before."""
    if set(have) != set(want):
        return f"the file has NUMA nodes {_ids(have)}, the machine {_ids(want)}"
    for id in sorted(have):
        one, other = have[id], want[id]
        if one.assignments != other.assignments or sorted(one.cells or ()) != sorted(other.cells or ()):
            return f"on NUMA node {id} the assignments or groups in the file contradict its entries"
        if set(one.memory) != set(other.memory):
            return f"NUMA node {id} has other huge pages than in the file"
        for name, table in one.memory.items():
            now = other.memory[name]
            for field, what in (("total", "total"), ("system_reserved", "reserved"), ("allocatable", "allocatable")):
                before, after = getattr(table, field), getattr(now, field)
                if before != after:
                    moved = f"{after} bytes now and {before} in the file ({after - before:+})"
                    return f"{what} {name} of NUMA node {id} is {moved}"
            group = [node for node in one.cells or () if node in have] if grouped else [id]
            for field in ("free", "reserved"):
                if _sum(have, group, name, field) != _sum(want, group, name, field):
                    return f"{field} {name} of NUMA nodes {group} contradicts the file's entries"
    return None


def _sum(machine: Mapping[int, MemoryNode], group: list[int], name: str, field: str) -> int:
    return sum(getattr(machine[id].memory[name], field) for id in group if name in machine[id].memory)


def _ids(machine: Mapping[int, MemoryNode]) -> str:
    return str(CpuSet(id for id in machine if 0 <= id < 1 << 16)) or "none"


def _restore(message: str, manager: str, path: str) -> str:
    return (
        f"could not restore state from checkpoint: {message}, please drain this node and delete the {manager} manager "
        f'checkpoint file "{path}" before restarting Kubelet'
    )


def _why(message: str) -> str:
    return "the policy changed since the file was written" if "differs from state" in message else "the file is damaged"
