"""What numalign decides about the scenarios of admission.jsonl and its kin, in the words of these files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numalign.admission.decision import ContainerGrant, Decision
from numalign.admission.device import Device
from numalign.admission.hints import ids
from numalign.admission.node import Node
from numalign.admission.pod import Pod, pod_of
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["admission_verdict", "devices_of", "pod_of_scenario"]


def admission_verdict(scenario: Mapping[str, Any], settings: Settings, view: KubeletView) -> dict[str, Any]:
    """The answer for each step of a scenario, or the error on which the kubelet does not start."""
    for problem in problems(settings, view):
        return {"startup_error": problem.message}
    devices = devices_of(scenario["devices"])
    node = Node(settings, view, devices, max_pods=None)
    homes = {device.id: device.numa for device in devices}
    answers = []
    for step in scenario["steps"]:
        if step["op"] == "admit":
            answers.append(_answer(node.admit(pod_of_scenario(step["pod"])), homes))
        else:
            key = f"default/{step['name']}"
            if key in node.state.pods:
                node.remove(key)
            answers.append({"admitted": True})
    return {"steps": answers}


def devices_of(rows: Iterable[Mapping[str, Any]]) -> list[Device]:
    """The devices of a scenario."""
    return [
        Device(row["resource"], row["id"], None if row["numa"] is None else tuple(row["numa"])) for row in rows
    ]


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


def _answer(decision: Decision, homes: Mapping[str, tuple[int, ...] | None]) -> dict[str, Any]:
    if decision.breakdown is not None:
        return {"breakdown": decision.breakdown}
    if not decision.admitted:
        return {"admitted": False, "reason": decision.reason, "message": decision.message}
    return {"admitted": True, "containers": {each.name: _grant(each, homes) for each in decision.containers}}


def _grant(grant: ContainerGrant, homes: Mapping[str, tuple[int, ...] | None]) -> dict[str, Any]:
    found: dict[str, Any] = {"cpus": None if grant.cpus is None else str(grant.cpus)}
    devices: dict[str, dict[str, int]] = {}
    for resource, some in grant.devices.items():
        counts = devices.setdefault(resource, {})
        for id in some:
            place = ",".join(str(node) for node in sorted(homes[id] or ())) or "-1"
            counts[place] = counts.get(place, 0) + 1
    if devices:
        found["devices"] = devices
    if grant.memory:
        found["memory"] = [
            {"numa": list(ids(block.nodes)), "type": block.type, "bytes": block.size} for block in grant.memory
        ]
    if grant.hint is not None and grant.hint.mask is not None:
        found["hint"] = {"numa": list(ids(grant.hint.mask)), "preferred": grant.hint.preferred}
    return found
