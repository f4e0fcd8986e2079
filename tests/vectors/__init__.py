"""What a real kubelet decided, and whether numalign decides the same: `python -m tests.vectors FILE`.

The files beside this one were read off the kubelet of Kubernetes 1.36.2: kubelet-config.jsonl (documents and what the
kubelet makes of them), state.jsonl (state files left from before on machines of machines.json, and whether it starts),
state/ (state files with genuine checksums), take-cpus.jsonl (the CPUs that the static CPU policy takes or reserves on a
machine of topologies.json, whose rows are CPU, core, uncore cache, NUMA node and socket), admission.jsonl and
admission-podlevel.jsonl (pods on machines of machines.json), admission-versions.jsonl (the same in several versions),
functions.jsonl (hints, merge, sequences of allocations, checkpoints).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numalign.cpuset import CpuSet
from numalign.kubelet.distribute_cpus import KubeletHangs, take_distributed
from numalign.kubelet.document import Refused, decode
from numalign.kubelet.restart import obstacles
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import Settings, settings
from numalign.kubelet.static_cpus import reserved_cpus, take_cpus
from numalign.kubelet.take_cpus import CannotTake, cpu_topology
from numalign.kubelet.versions import parse_version
from numalign.kubelet.view import KubeletView, ViewCore, ViewNode
from numalign.quantity import Quantity
from tests.vectors.admission import admission_verdict, compact
from tests.vectors.functions import function_verdict, rows_of_functions

__all__ = ["HERE", "MACHINE", "differences", "rows", "scenario_settings", "short_rows", "topology_view", "view_of"]

HERE = Path(__file__).parent
MINOR = 36

MACHINE = KubeletView(
    # the machine of kubelet-config.jsonl: 2 sockets of 8 cores and 16 CPUs, 64 GiB and four 1 GiB pages each
    nodes=tuple(
        ViewNode(
            id=node,
            memory_bytes=64 << 30,
            cores=tuple(ViewCore(CpuSet((first, first + 16)), node, node) for first in range(8 * node, 8 * node + 8)),
            sockets=frozenset((node,)),
            hugepages={1 << 30: 4},
            distances=None,
        )
        for node in range(2)
    ),
    memory_bytes=128 << 30,
)


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of one JSON object a line."""
    with path.open() as file:
        for line in file:
            yield json.loads(line)


def view_of(machine: Mapping[str, Any]) -> KubeletView:
    """The view of a machine as machines.json describes it."""
    nodes = []
    for node in machine["numa_nodes"]:
        cpus = [
            (cpu["cpu"], cpu["core"], cpu["l3"], cpu["socket"]) for cpu in machine["cpus"] if cpu["numa"] == node["id"]
        ]
        nodes.append(
            ViewNode(
                id=node["id"],
                memory_bytes=node["memory_bytes"],
                cores=_cores(cpus),
                sockets=frozenset(socket for *_, socket in cpus),
                hugepages={Quantity.parse(size).whole: pages for size, pages in node.get("hugepages", {}).items()},
                distances=tuple(node["distances"]),
            )
        )
    return KubeletView(nodes=tuple(nodes), memory_bytes=sum(node.memory_bytes for node in nodes))


def topology_view(cpus: list[list[int]]) -> KubeletView:
    """The view of a machine of topologies.json, which has no memory."""
    nodes = []
    for id in sorted({row[3] for row in cpus}):
        own = [(cpu, core, uncore, socket) for cpu, core, uncore, node, socket in cpus if node == id]
        nodes.append(ViewNode(id, 0, _cores(own), frozenset(socket for *_, socket in own), {}, None))
    return KubeletView(nodes=tuple(nodes), memory_bytes=0)


def _cores(cpus: list[tuple[int, int, int, int]]) -> tuple[ViewCore, ...]:
    """The cores of a NUMA node's CPUs, each with its core, L3 and socket."""
    cores: dict[tuple[int, int, int], int] = {}
    for cpu, core, cache, socket in cpus:
        key = (socket, core, cache)
        cores[key] = cores.get(key, 0) | 1 << cpu
    return tuple(ViewCore(CpuSet.from_mask(bits), socket, cache) for (socket, _, cache), bits in cores.items())


def config_verdict(row: Mapping[str, Any]) -> dict[str, Any]:
    """What numalign makes of a document, in the words of kubelet-config.jsonl."""
    try:
        document = decode(row["yaml"].encode(), "config.yaml", MINOR)
    except Refused as refused:
        return {"ok": False, "stage": refused.stage, "error": refused.message}
    found = problems(settings(document.values, MINOR), MACHINE)
    if found:
        return {"ok": False, "stage": found[0].stage, "error": found[0].message}
    if not document.ignored:
        return {"ok": True}
    repeated = [
        f'\n  line {field.line}: key "{field.field}" already set in map' for field in document.ignored if field.repeated
    ]
    said = ["yaml: unmarshal errors:" + "".join(repeated)] if repeated else []
    said += [f'unknown field "{field.field}"' for field in document.ignored if not field.repeated]
    return {"ok": True, "ignored_by_lenient_decoding": "strict decoding error: " + ", ".join(said)}


def scenario_settings(kubelet: Mapping[str, Any], minor: int = MINOR) -> Settings:
    """The settings of a scenario: its fields are those of a KubeletConfiguration, but for the eviction threshold."""
    document = {name: value for name, value in kubelet.items() if name != "evictionHardMemory"}
    document["evictionHard"] = (
        {"memory.available": kubelet["evictionHardMemory"]} if "evictionHardMemory" in kubelet else {}
    )
    text = json.dumps({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **document})
    return settings(decode(text.encode(), "scenario", minor).values, minor)


def state_verdict(row: Mapping[str, Any], machines: Mapping[str, Any]) -> dict[str, Any]:
    """Whether a kubelet starts on a scenario's state files, in the words of state.jsonl."""
    scenario = row["scenario"]
    machine = scenario["machine"]
    view = view_of(machines[machine] if isinstance(machine, str) else machine)
    wanted = scenario_settings(scenario["kubelet"])
    for message in [problem.message for problem in problems(wanted, view)]:
        return {"startup_error": message}
    files = {name: text.encode() for name, text in scenario["state"].items()}
    for obstacle in obstacles(wanted, view, files):
        return {"startup_error": obstacle.message}
    return {"starts": True}


def taken_verdict(row: Mapping[str, Any], topologies: Mapping[str, Any]) -> dict[str, Any]:
    """The CPUs that the static policy takes or reserves, in the words of take-cpus.jsonl."""
    scenario = row["scenario"]
    view = topology_view(topologies[scenario["topology"]])
    reserved = {"kubeReserved": {"cpu": str(scenario["reserved"])}} if "reserved" in scenario else {}
    wanted = scenario_settings(
        {"cpuManagerPolicy": "static", "cpuManagerPolicyOptions": scenario["options"], **reserved}
    )
    if reserved:
        return {"cpus": str(reserved_cpus(wanted, view))}
    topology, available = cpu_topology(view), CpuSet.parse(scenario["available"])
    try:
        if "group" in scenario:
            taken = take_distributed(topology, available, scenario["number"], scenario["group"], MINOR)
        else:
            taken = take_cpus(wanted, topology, available, scenario["number"])
    except KubeletHangs:
        return {"hangs": True}
    except CannotTake as error:
        return {"error": str(error)}
    return {"cpus": str(taken)}


def decided(row: Mapping[str, Any], machines: Mapping[str, Any]) -> tuple[Any, Any]:
    """What numalign decides about the pods of a scenario, and what is expected; by version where there are several."""
    scenario, expected = row["scenario"], row["expected"]
    view = view_of(machines[scenario["machine"]])
    if isinstance(expected, list) or "startup_error" in expected:
        return admission_verdict(scenario, scenario_settings(scenario["kubelet"]), view, expected)
    have, wanted = {}, {}
    for version, answer in expected.items():
        found = scenario_settings(scenario["kubelet"], parse_version(version))
        have[version], wanted[version] = admission_verdict(scenario, found, view, answer)
    return have, wanted


def verdict(row: Mapping[str, Any], machines: Mapping[str, Any], topologies: Mapping[str, Any]) -> tuple[Any, Any]:
    """What numalign makes of a row, and what is expected."""
    if "yaml" in row:
        return config_verdict(row), row["expected"]
    scenario = row["scenario"]
    if "topology" in scenario:
        return taken_verdict(row, topologies), row["expected"]
    if "state" in scenario:
        return state_verdict(row, machines), row["expected"]
    if "steps" in scenario and "machine" in scenario:
        return decided(row, machines)
    views = {name: topology_view(cpus) for name, cpus in topologies.items() if name == scenario.get("cpus")}
    return function_verdict(row, views, scenario_settings, MACHINE), row["expected"]


def short_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, those of pods and of functions.json written shorter, as the copies here are."""
    if path.name == "functions.json":
        yield from rows_of_functions(json.loads(path.read_text()))
        return
    for row in rows(path):
        yield compact(row) if "devices" in row.get("scenario", {}) and "state" not in row["scenario"] else row


def differences(path: Path, machines: Path | None = None) -> tuple[int, list[str]]:
    """How many rows a file has, and a paragraph for each on which numalign and the kubelet differ."""
    known: dict[str, Any] = json.loads((machines or path.parent / "machines.json").read_text())
    topologies: dict[str, Any] = json.loads((HERE / "topologies.json").read_text())
    total, wrong = 0, []
    for row in short_rows(path):
        total += 1
        have, expected = verdict(row, known, topologies)
        if have != expected:
            name = row.get("name") or row["scenario"].get("name") or f"row {total}"
            wrong.append(f"{name}\n  numalign: {have}\n  kubelet:  {expected}")
    return total, wrong
