"""A node taken up from the kubelet's state files is the node on which the kubelet wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from numalign.admission.device import Device
from numalign.admission.node import Node
from numalign.admission.occupancy import Files, occupy, read_files, registered
from numalign.cpuset import CpuSet
from numalign.errors import CannotRead, DoesNotHold
from numalign.kubelet.devices import read_device_state
from numalign.kubelet.podresources import Allocatable, Container, Devices, Memory, Pod
from numalign.machine import Machine
from tests.nodes import checkpoint
from tests.vectors import HERE, rows, scenario_settings, view_of
from tests.vectors.admission import devices_of, pod_of_scenario

STATES = sorted(path.name for path in (HERE / "state").iterdir())
MACHINES: dict[str, Any] = json.loads((HERE / "machines.json").read_text())
SCENARIOS = {row["scenario"].get("name"): row["scenario"] for row in rows(HERE / "admission.jsonl")}
NOWHERE = msgspec.convert(
    # a map without devices, which knows no NUMA node of any
    {"gpus": (), "nics": (), **dict.fromkeys(("onlineCPUs", "offlineCPUs", "isolatedCPUs", "nohzFullCPUs"), CpuSet())}
    | dict.fromkeys(("sockets", "cores", "l3Caches", "numaNodes", "bonds", "links", "pciDevices", "warnings"), ())
    | dict.fromkeys(("name", "arch", "kernel", "kernelCommandLine", "cpuModel", "memoryBytes", "possibleCPUs"))
    | dict.fromkeys(("nvidiaDriver", "confinement")),
    Machine,
)


def files_of(name: str) -> dict[str, bytes]:
    """The state files of a scenario, by their paths below the kubelet's directory."""
    folder = HERE / "state" / name
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    found["device-plugins/kubelet_internal_checkpoint"] = found.pop("kubelet_internal_checkpoint")
    return found


def node_of(name: str, devices: list[Device] | None = None) -> Node:
    scenario = SCENARIOS[name]
    settings, view = scenario_settings(scenario["kubelet"]), view_of(MACHINES[scenario["machine"]])
    return Node(settings, view, devices_of(scenario["devices"]) if devices is None else devices, max_pods=None)


def replayed(name: str) -> Node:
    """The node after the steps of a scenario."""
    node = node_of(name)
    for step in SCENARIOS[name]["steps"]:
        if step["op"] == "admit":
            node.admit(pod_of_scenario(step["pod"]))
        elif f"default/{step['name']}" in node.state.pods:
            node.remove(f"default/{step['name']}")
    return node


def api_of(node: Node) -> Allocatable:
    """What the pod-resources API says of the devices, whose ids a checkpoint has without their NUMA nodes."""
    found = []
    for resource, known in node.managers.devices.resources.items():
        for number, device in enumerate(known.devices):
            id = f"{'GPU' if resource == 'nvidia.com/gpu' else 'nic'}-{number}"
            found.append(Devices(resource, (id,), device.numa))
    return Allocatable(tuple(found))


def active(files: Files, node: Node) -> list[Pod]:
    """What the API says of the pods on a node, whose UIDs are their names in the files."""
    found = []
    for key in node.state.pods:
        uid = key.removeprefix("default/")
        cpus = files.cpus.entries.get(uid, {}) if files.cpus else {}
        memory = (files.memory.entries or {}).get(uid) or {} if files.memory else {}
        devices = files.devices.entries.get(uid, {}) if files.devices else {}
        containers = [
            Container(
                name,
                tuple(
                    Devices(resource, ids, (numa,))
                    for resource, assignment in devices.get(name, {}).items()
                    for numa, ids in assignment.ids.items()
                ),
                cpus.get(name, CpuSet()),
                tuple(Memory(each.type, each.size, tuple(each.numa_affinity or ())) for each in memory.get(name) or ()),
            )
            for name in {**cpus, **memory, **devices}
        ]
        found.append(Pod("default", uid, tuple(containers)))
    return found


@pytest.mark.parametrize("name", STATES)
def test_a_node_taken_up_is_the_node_that_was_left(name: str) -> None:
    left = replayed(name)
    files = read_files(left.settings, left.view, files_of(name), "/var/lib/kubelet")
    offers = registered(files, NOWHERE, api_of(left))
    node = node_of(name, [device for offer in offers for device in offer.devices])
    occupy(node, files, active(files, left))
    assert (node.state.shared, node.state.memory) == (left.state.shared, left.state.memory)
    assert {id: usage.devices for id, usage in node.free().items()} == {
        id: usage.devices for id, usage in left.free().items()
    }
    assert set(node.state.pods) == set(left.state.pods)


def state_of(entries: list[tuple[str, str, dict[int, list[str]]]], ids: list[str]) -> Files:
    data = checkpoint(entries, {"nvidia.com/gpu": ids}).encode()
    return Files(None, None, read_device_state(data))


def test_numa_nodes_of_devices_come_from_the_api_the_file_or_the_map(machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of("dgx-h100")
    ids = [gpu.uuid or "" for gpu in machine.gpus]
    files = state_of([("u", "nvidia.com/gpu", {1: [ids[0]]})], [*ids, f"{ids[4]}::1", "GPU-unknown"])
    (offer,) = registered(files, machine, None)
    homes = {device.id: device.numa for device in offer.devices}
    assert homes == {
        ids[0]: (1,),
        **dict.fromkeys(ids[1:4], (0,)),
        **dict.fromkeys([*ids[4:], f"{ids[4]}::1"], (1,)),
        "GPU-unknown": None,
    }
    api = Allocatable((Devices("nvidia.com/gpu", ("GPU-unknown", ids[1]), (0, 1)),))
    (offer,) = registered(files, machine, api)
    homes = {device.id: device.numa for device in offer.devices}
    assert (homes["GPU-unknown"], homes[ids[1]], homes[ids[2]]) == ((0, 1), (0, 1), (0,))


def test_devices_that_are_held_but_not_registered_are_not_healthy() -> None:
    (offer,) = registered(state_of([("u", "nvidia.com/gpu", {0: ["a"]})], ["b"]), NOWHERE, None)
    assert {device.id: device.healthy for device in offer.devices} == {"a": False, "b": True}


def test_a_plugin_that_has_registered_nothing_has_no_healthy_device() -> None:
    (offer,) = registered(state_of([], []), NOWHERE, None)
    assert [device.healthy for device in offer.devices] == [False]


def test_files_that_contradict_each_other_are_no_state() -> None:
    files = state_of([("u", "nvidia.com/gpu", {0: ["a"]}), ("v", "nvidia.com/gpu", {0: ["a"]})], ["a"])
    devices = [device for offer in registered(files, NOWHERE, None) for device in offer.devices]
    with pytest.raises(CannotRead, match="held by another"):
        occupy(node_of("2s-16c-nosmt-7-85", devices), files, None)


def test_files_on_which_the_kubelet_does_not_start_are_no_state() -> None:
    node = node_of("2s-16c-nosmt-7-85")
    with pytest.raises(DoesNotHold, match="cpu_manager_state: the kubelet does not start on it"):
        read_files(node.settings, node.view, {"cpu_manager_state": b"{}"}, "/var/lib/kubelet")
    with pytest.raises(CannotRead, match="checkpoint is corrupted"):
        read_files(node.settings, node.view, {"device-plugins/kubelet_internal_checkpoint": b"{}"}, "/var/lib/kubelet")
