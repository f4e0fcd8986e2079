"""What numalign decides about the scenarios of admission.jsonl and its kin.

The copies beside this file are written shorter: devices as the NUMA nodes of each (`0 0 0,1 -`, a dash without
topology), a hint as its NUMA nodes with a star where it is preferred (`0,1*`), memory as NUMA nodes and bytes, a
refusal as `reason: message`. `compact` writes a row so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numalign.admission.decision import ContainerGrant, Decision
from numalign.admission.device import Device
from numalign.admission.hints import Hint, ids
from numalign.admission.node import Node
from numalign.admission.pod import Pod, pod_of
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["admission_verdict", "compact", "devices_of", "hint_text", "places", "pod_of_scenario"]

_REMOVED = "removed"
_ANY = "any"


def compact(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of admission.jsonl, admission-podlevel.jsonl or admission-versions.jsonl, written shorter."""
    scenario, expected = row["scenario"], row["expected"]
    if not isinstance(scenario["devices"], list):
        return dict(row)
    devices: dict[str, list[str]] = {}
    for device in scenario["devices"]:
        devices.setdefault(device["resource"], []).append(places(device["numa"]) or "-")
    steps = scenario["steps"]
    answers = (
        _answer(expected, steps)
        if "steps" in expected or "startup_error" in expected
        else {version: _answer(answer, steps) for version, answer in expected.items()}
    )
    shorter = {name: " ".join(homes) for name, homes in devices.items()}
    return {"scenario": {**scenario, "devices": shorter}, "expected": answers}


def admission_verdict(
    scenario: Mapping[str, Any], settings: Settings, view: KubeletView, expected: Any
) -> tuple[Any, Any]:
    """The answer for each step of a scenario, or the error on which the kubelet does not start; and what is expected,
    with the NUMA nodes of devices left out of which the kubelet takes any."""
    for problem in problems(settings, view):
        return {"startup_error": problem.message}, expected
    node = Node(settings, view, devices_of(scenario["devices"]), max_pods=None)
    answers: list[Any] = []
    for step in scenario["steps"]:
        if step["op"] == "admit":
            answers.append(_decided(node.admit(pod_of_scenario(step["pod"])), node))
            continue
        if f"default/{step['name']}" in node.state.pods:
            node.remove(f"default/{step['name']}")
        answers.append(_REMOVED)
    return answers, [_opened(*pair) for pair in zip(expected, answers, strict=True)] if isinstance(
        expected, list
    ) else expected


def devices_of(rows: Mapping[str, str]) -> list[Device]:
    """The devices of a scenario."""
    found = []
    for resource, homes in rows.items():
        for number, home in enumerate(homes.split()):
            numa = None if home == "-" else tuple(int(node) for node in home.split(","))
            found.append(Device(resource, f"{resource}-{number}", numa))
    return found


def pod_of_scenario(row: Mapping[str, Any]) -> Pod:
    """The pod of a scenario. Its pod-level limits are its pod-level requests, whatever the containers ask for."""

    def container(entry: Mapping[str, Any]) -> dict[str, Any]:
        return {**entry, "resources": {name: entry[name] for name in ("requests", "limits") if name in entry}}

    spec: dict[str, Any] = {
        "containers": [container(entry) for entry in row["containers"]],
        "initContainers": [container(entry) for entry in row.get("initContainers", ())],
    }
    if "requests" in row or "limits" in row:
        limits = row.get("limits", {})
        spec["resources"] = {"requests": {**limits, **row.get("requests", {})}, "limits": limits}
    return pod_of(row["name"], spec)


def places(nodes: Iterable[int] | None) -> str:
    """NUMA nodes as text."""
    return ",".join(str(node) for node in sorted(nodes or ()))


def hint_text(hint: Hint) -> str:
    """A hint as text."""
    return (_ANY if hint.mask is None else places(ids(hint.mask))) + ("*" if hint.preferred else "")


def _answer(answer: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> Any:
    if "startup_error" in answer:
        return answer
    return [
        _REMOVED
        if step["op"] == "remove"
        else {name: _container(each) for name, each in found["containers"].items()}
        if found["admitted"]
        else f"{found['reason']}: {found['message']}"
        for step, found in zip(steps, answer["steps"], strict=True)
    ]


def _container(found: Mapping[str, Any]) -> dict[str, Any]:
    short: dict[str, Any] = {}
    if found["cpus"] is not None:
        short["cpus"] = found["cpus"]
    if "hint" in found:
        mask = sum(1 << node for node in found["hint"]["numa"])
        short["hint"] = hint_text(Hint(mask, found["hint"]["preferred"]))
    for resource, counts in found.get("devices", {}).items():
        homes = [home for home, count in counts.items() for _ in range(count)]
        short[resource] = " ".join(sorted("-" if home == "-1" else home for home in homes))
    for block in found.get("memory", ()):
        short[block["type"]] = f"{places(block['numa'])} {block['bytes']}"
    return short


def _decided(decision: Decision, node: Node) -> Any:
    if decision.breakdown is not None:
        return f"the kubelet breaks down: {decision.breakdown}"
    if not decision.admitted:
        return f"{decision.reason}: {decision.message}"
    return {each.name: _granted(each, node) for each in decision.containers}


def _granted(grant: ContainerGrant, node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if grant.cpus is not None:
        found["cpus"] = str(grant.cpus)
    if grant.hint is not None and grant.hint.mask is not None:
        found["hint"] = hint_text(grant.hint)
    for resource, some in grant.devices.items():
        homes = {device.id: device.numa for device in node.managers.devices.resources[resource].devices}
        found[resource] = (
            f"{_ANY} {len(some)}"
            if resource in grant.open
            else " ".join(sorted(places(homes[id]) or "-" for id in some))
        )
    for block in grant.memory:
        found[block.type] = f"{places(ids(block.nodes))} {block.size}"
    return found


def _opened(expected: Any, answer: Any) -> Any:
    """What is expected of a step, with the devices that are open in the answer only counted."""
    if not isinstance(expected, dict) or not isinstance(answer, dict):
        return expected
    return {
        name: {
            what: f"{_ANY} {len(value.split())}" if str(answer.get(name, {}).get(what, "")).startswith(_ANY) else value
            for what, value in container.items()
        }
        for name, container in expected.items()
    }
