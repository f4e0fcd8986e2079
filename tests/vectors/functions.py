"""Single functions of the managers: what the kubelet's return, as functions.json has it, and what numalign's do.

functions.jsonl beside this file holds the same, written shorter: lists of hints as text (see admission.py), of long
ones the number and a checksum. CPUs that are taken are in take-cpus.jsonl.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from numalign.admission.cpu import cpu_manager
from numalign.admission.hints import Box, Hint, Hints, exactly, ids
from numalign.admission.memory import MemoryBlock, MemoryUse, memory_manager
from numalign.admission.refusal import Refused
from numalign.admission.topology import Topology, decide, distances
from numalign.cpuset import CpuSet
from numalign.kubelet.checkpoint import cpu_checksum, memory_checksum, read_memory_state
from numalign.kubelet.restart import obstacles
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.quantity import Quantity
from tests.vectors.admission import hint_text, places

__all__ = ["function_verdict", "rows_of_functions"]

_SettingsOf = Callable[[Mapping[str, Any]], Settings]
_SPELT_OUT = 16
_NOT_READ = ("kubelet_internal_checkpoint", "cpu v2 nil entries")
_POLICIES = ("best-effort", "restricted", "single-numa-node")
_UNEXPECTED = ("Allocate failed due to ", ", which is unexpected")


def rows_of_functions(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of functions.json, one for each call or sequence of calls, as functions.jsonl and take-cpus.jsonl have
    them. Left out are the checkpoint of the device manager, which numalign does not read, and the checksum of a state
    with no map of entries at all, which is never read from a file."""
    for row in found["take_packed"]:
        options = {"distribute-cpus-across-cores": "true"} if row["strategy"] == "spread" else {}
        options |= {"prefer-align-cpus-by-uncorecache": "true"} if row["prefer_uncore"] else {}
        yield _taken(row, row["topo"], {"options": options}, row["error"], row["result"])
    for row in found["take_distributed"]:
        yield _taken(row, row["topo"], _distributed(row), row["error"], row["result"])
    for row in found["distributed_slice_aliasing_examples"]:
        yield _taken(row, f"{row['NN']}n{row['C']}c2t", _distributed(row), "", row["real_kubelet"])
    for row in found["distributed_hang_examples_v1_36_2"]:
        scenario = _taken(row, f"{row['NN']}n{row['C']}c2t", _distributed(row), "", "")["scenario"]
        yield {"scenario": scenario, "expected": {"hangs": True}}
    yield from map(_merge_row, found["merge"])
    yield from map(_cpu_row, found["cpu_static_sequences"])
    yield from (_memory_row(row, found["topologies"]) for row in found["memory_static_sequences"])
    for row in found["checkpoints"]:
        if "bytes" in row and row["file"] not in _NOT_READ:
            yield {"scenario": {"checksum": row["bytes"]}, "expected": True}
    for row in found["checkpoint_restore_cases_v1_36_2_gate_off"]:
        scenario = {key: row[key] for key in ("file", "content", "configured_policy") if key in row}
        yield {"scenario": {"restore": scenario}, "expected": row["error_core"]}


def function_verdict(
    row: Mapping[str, Any], views: Mapping[str, KubeletView], settings: _SettingsOf, machine: KubeletView
) -> Any:
    """What numalign returns for a row."""
    scenario = row["scenario"]
    if "merge" in scenario:
        return _merged(scenario)
    if "cpus" in scenario:
        return _cpu_steps(scenario, views[scenario["cpus"]], settings)
    if "memory" in scenario:
        return _memory_steps(scenario, settings)
    if "checksum" in scenario:
        return _checks(scenario["checksum"])
    return _restored(scenario["restore"], row["expected"], settings, machine)


def _taken(row: Mapping[str, Any], topology: str, rest: Mapping[str, Any], error: str, result: str) -> dict[str, Any]:
    scenario = {"topology": topology, "available": row["available"], "number": row["n"], **rest}
    return {"scenario": scenario, "expected": {"error": error} if error else {"cpus": result}}


def _distributed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"options": {"distribute-cpus-across-numa": "true"}, "group": row["group"]}


def _merge_row(row: Mapping[str, Any]) -> dict[str, Any]:
    lists = [
        provider and {name: None if hints is None else _spelt(_hints_of(hints)) for name, hints in provider.items()}
        for provider in row["providers"]
    ]
    scenario = {"merge": lists, "nodes": row["numa_nodes"]}
    if row["prefer_closest"]:
        scenario["distances"] = row["distances"]
    expected = {}
    for policy in _POLICIES:
        mask = row[policy]["mask"]
        hint = Hint(None if mask is None else sum(1 << node for node in mask), row[policy]["preferred"])
        expected[policy] = f"{hint_text(hint)} {'admitted' if row[policy]['admit'] else 'refused'}"
    return {"scenario": scenario, "expected": expected}


def _merged(scenario: Mapping[str, Any]) -> dict[str, str]:
    nodes = (1 << scenario["nodes"]) - 1
    providers = [
        {name: None if text is None else _list_of(text) for name, text in (provider or {}).items()}
        for provider in scenario["merge"]
    ]
    far = distances(dict(enumerate(scenario["distances"]))) if "distances" in scenario else None
    found = {}
    for policy in _POLICIES:
        hint, admitted = decide(Topology(policy, "container", nodes, far), providers)
        found[policy] = f"{hint_text(hint)} {'admitted' if admitted else 'refused'}"
    return found


def _cpu_row(row: Mapping[str, Any]) -> dict[str, Any]:
    steps, expected = [], []
    for step in row["steps"]:
        if step["op"] == "remove":
            steps.append({"remove": step["pod"]})
            expected.append({"shared": step["default"]})
            continue
        nodes = step["affinity_given"]
        steps.append({"pod": step["pod"], "number": step["cpus"], "nodes": None if nodes is None else places(nodes)})
        result = {"error": step["error"]} if step["error"] else {"cpus": step["result"]}
        hints = _shown(_hints_of((step["hints"] or {}).get("cpu", ())))
        expected.append({"hints": hints, **result, "shared": step["default"]})
    scenario = {"cpus": row["topo"], "reserved": row["num_reserved"], "options": row["options"], "steps": steps}
    answer = {"exclusive": row["allocatable"], "shared": row["default_initial"], "steps": expected}
    return {"scenario": scenario, "expected": answer}


def _cpu_steps(scenario: Mapping[str, Any], view: KubeletView, settings: _SettingsOf) -> dict[str, Any]:
    manager = cpu_manager(
        settings(
            {
                "cpuManagerPolicy": "static",
                "cpuManagerPolicyOptions": scenario["options"],
                "kubeReserved": {"cpu": str(scenario["reserved"])},
            }
        ),
        view,
    )
    assert manager is not None
    shared, held, steps = manager.start, dict[str, int](), list[dict[str, str]]()
    for step in scenario["steps"]:
        if "remove" in step:
            shared |= held.pop(step["remove"], 0)
            steps.append({"shared": _cpus(shared)})
            continue
        found = {"hints": _shown(manager.hints(shared, 0, step["number"]))}
        nodes = None if step["nodes"] is None else _mask(step["nodes"])
        try:
            manager.check_whole_cores(shared, step["number"])
            held[step["pod"]] = manager.allocate(shared, 0, step["number"], nodes)
            shared &= ~held[step["pod"]]
            found["cpus"] = _cpus(held[step["pod"]])
        except Refused as refused:
            found["error"] = _core(refused.message)
        steps.append({**found, "shared": _cpus(shared)})
    exclusive = _cpus(manager.topology.cpus & ~manager.reserved)
    return {"exclusive": exclusive, "shared": _cpus(manager.start), "steps": steps}


def _memory_row(row: Mapping[str, Any], topologies: Mapping[str, Any]) -> dict[str, Any]:
    nodes = [
        [node["memory"], {f"{size}Ki": pages for size, pages in node["hugepages_kib_to_pages"].items()}]
        for node in topologies[row["topo"]]["nodes"]
    ]
    steps, expected = [], []
    for step in row["steps"]:
        given = step["affinity_given"]
        hint = Hint(None, False) if given is None else Hint(sum(1 << n for n in given["mask"]), given["preferred"])
        wanted = {**step["hugepages"], "memory": f"{step['memory_gi']}Gi"}
        steps.append({"wanted": wanted, "hint": hint_text(hint)})
        blocks = {block["type"]: f"{places(block['numaAffinity'])} {block['size']}" for block in step.get("blocks", ())}
        known = {kind: _shown(_hints_of(hints)) for kind, hints in (step["hints"] or {}).items()}
        expected.append({"hints": known, **({"error": step["error"]} if step["error"] else {"blocks": blocks})})
    last = [
        [
            state["numberOfAssignments"],
            places(state["cells"]),
            {kind: table["free"] for kind, table in sorted(state["memoryMap"].items())},
        ]
        for _, state in sorted(row["final_state"].items())
    ]
    return {
        "scenario": {"memory": nodes, "reserved": row["reserved"], "steps": steps},
        "expected": {"steps": expected, "state": last},
    }


def _memory_steps(scenario: Mapping[str, Any], settings: _SettingsOf) -> dict[str, Any]:
    from tests.vectors import view_of  # which reads this module

    machine = {
        "numa_nodes": [
            {"id": id, "memory_bytes": size, "distances": [], "hugepages": pages}
            for id, (size, pages) in enumerate(scenario["memory"])
        ],
        "cpus": [],
    }
    reserved = [
        {"numaNode": int(id), "limits": {kind: str(size) for kind, size in limits.items()}}
        for id, limits in scenario["reserved"].items()
    ]
    view = view_of(machine)
    manager = memory_manager(settings({"memoryManagerPolicy": "Static", "reservedMemory": reserved}), view)
    assert manager is not None
    use, steps = manager.start, []
    for step in scenario["steps"]:
        wanted = {kind: _bytes(text) for kind, text in sorted(step["wanted"].items())}
        known = {kind: _shown(hints) for kind, hints in manager.hints(use, wanted, {}).items()}
        try:
            nodes = manager.allocate(use, wanted, {}, _hint_of(step["hint"]))
        except Refused as refused:
            steps.append({"hints": known, "error": _core(refused.message)})
            continue
        use = manager.book(use, nodes, wanted)
        blocks = [MemoryBlock(nodes, kind, size) for kind, size in wanted.items()]
        steps.append({"hints": known, "blocks": {each.type: f"{places(ids(nodes))} {each.size}" for each in blocks}})
    return {"steps": steps, "state": [_memory_state(use, node.id) for node in view.nodes]}


def _memory_state(use: MemoryUse, node: int) -> list[Any]:
    return [use.blocks[node], places(ids(use.groups[node])), {kind: row[node] for kind, row in use.free.items()}]


def _checks(text: str) -> bool:
    if "machineState" in text:
        state = read_memory_state(text.encode())
        return memory_checksum(state) == state.checksum
    found = msgspec.json.decode(text)
    pods = {pod: CpuSet.parse(own["cpuSet"]) for pod, own in found.get("podEntries", {}).items()}
    return bool(cpu_checksum(found, pods or None) == found["checksum"])


def _restored(
    scenario: Mapping[str, Any], expected: str | None, settings: _SettingsOf, machine: KubeletView
) -> str | None:
    """What is expected, where the kubelet's complaint about the file itself has it; what it is otherwise. Whether a
    complaint names the key of an entry depends on the Go that a kubelet is built with; here it does not."""
    policies = {"cpuManagerPolicy": "static", "memoryManagerPolicy": "Static", "kubeReserved": {"cpu": "1"}}
    if scenario["file"] == "cpu_manager_state":
        policies["cpuManagerPolicy"] = scenario.get("configured_policy", "static")
    files = {scenario["file"]: scenario["content"].encode()}
    found = [each.message for each in obstacles(settings(policies), machine, files) if each.id.endswith("unusable")]
    if not found:
        return None
    message = re.sub(r"(CheckpointV1\.entries)\.\S+", r"\1", found[0])
    return expected if expected is not None and expected in message else message


def _hints_of(rows: Iterable[Mapping[str, Any]]) -> list[Hint]:
    return [Hint(sum(1 << node for node in row["mask"]), row["preferred"]) for row in rows]


def _spelt(hints: Iterable[Hint]) -> str:
    return " ".join(map(hint_text, hints))


def _shown(hints: Iterable[Hint]) -> str:
    found = list(hints)
    text = _spelt(found)
    return text if len(found) <= _SPELT_OUT else f"{len(found)} hints {zlib.crc32(text.encode()):08x}"


def _list_of(text: str) -> Hints:
    """The list of hints of a text, whose preferred ones are all of one size."""
    hints = [_hint_of(word) for word in text.split()]
    boxes: tuple[Box, ...] = tuple(exactly(hint.mask) for hint in hints if hint.mask is not None)
    sizes = {hint.mask.bit_count() for hint in hints if hint.preferred and hint.mask is not None}
    found = Hints(boxes, sizes.pop() if sizes else 0)
    assert sorted(map(hint_text, found)) == sorted(text.split())
    return found


def _hint_of(word: str) -> Hint:
    nodes = word.rstrip("*")
    return Hint(None if nodes == "any" else _mask(nodes), word.endswith("*"))


def _mask(nodes: str) -> int:
    return CpuSet.parse(nodes).bits


def _cpus(mask: int) -> str:
    return str(CpuSet.from_mask(mask))


def _bytes(text: str) -> int:
    return Quantity.parse(text).whole


def _core(message: str) -> str:
    before, after = _UNEXPECTED
    return message.removeprefix(before).removesuffix(after)
