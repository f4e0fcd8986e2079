"""State files of an earlier kubelet, where the vectors have none of a kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from numalign.cpuset import CpuSet
from numalign.kubelet.checkpoint import (
    CannotRestore,
    Formats,
    MemoryState,
    cpu_checksum,
    memory_checksum,
    read_cpu_state,
    read_memory_state,
)
from numalign.kubelet.effective import effective
from numalign.kubelet.restart import default_memory_state, obstacles
from numalign.kubelet.settings import Settings, settings
from numalign.kubelet.view import kubelet_view
from numalign.machine import Machine

MachineOf = Callable[[str], Machine]
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
CPUS = """\
cpuManagerPolicy: static
cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}
reservedSystemCPUs: "0,56,112,168"
"""
MEMORY = """\
cpuManagerPolicy: static
reservedSystemCPUs: "0,112"
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 50Mi}}, {numaNode: 1, limits: {memory: 50Mi}}]
"""


def wanted(text: str, minor: int = 36) -> Settings:
    return settings(effective(("f.yaml", (HEADER + text).encode()), {}, {}, minor).values, minor)


def cpu_file(default: str, entries: dict[str, Any] | None = None) -> bytes:
    state = {"policyName": "static", "defaultCpuSet": default, "entries": entries or {}}
    state = {name: value for name, value in state.items() if value}
    return json.dumps({**state, "checksum": cpu_checksum(state)}).encode()


def memory_file(machine: Any, entries: Any = None) -> bytes:
    state = {"policyName": "Static", "machineState": machine, "entries": entries or {}}
    state = {name: value for name, value in state.items() if value}
    checksum = memory_checksum(msgspec.convert(state, MemoryState, str_keys=True))
    return json.dumps({**state, "checksum": checksum}).encode()


@pytest.mark.parametrize(
    ("default", "says"),
    [
        ("1-55,57-111,113-167,169-223", None),
        ("0-223", "strictly reserved"),
        ("1-55,57-111,113-167,169-222", "doesn't match"),
    ],
)
def test_strictly_reserved_cpus_are_in_no_pool(default: str, says: str | None, machine_of: MachineOf) -> None:
    files = {"cpu_manager_state": cpu_file(default)}
    found = [obstacle.message for obstacle in obstacles(wanted(CPUS), kubelet_view(machine_of("dgx-h100")), files)]
    assert found == [] if says is None else says in found[0]


def test_huge_pages_of_which_there_are_none_stand_in_the_file_all_the_same(machine_of: MachineOf) -> None:
    view = kubelet_view(machine_of("dgx-h100"))
    assert {size: pages for node in view.nodes for size, pages in node.hugepages.items()} == {1 << 30: 0, 2 << 20: 0}
    machine = msgspec.to_builtins(default_memory_state(wanted(MEMORY), view), str_keys=True)
    assert sorted(machine["0"]["memoryMap"]) == ["hugepages-1Gi", "hugepages-2Mi", "memory"]
    assert obstacles(wanted(MEMORY), view, {"memory_manager_state": memory_file(machine)}) == []


@pytest.mark.parametrize(("minor", "starts"), [(31, False), (32, True)])
def test_how_a_group_shares_its_memory_counts_until_1_31(minor: int, starts: bool, machine_of: MachineOf) -> None:
    view = kubelet_view(machine_of("dgx-h100"))
    machine = msgspec.to_builtins(default_memory_state(wanted(MEMORY), view), str_keys=True)
    half = 300 << 30
    for node in machine.values():
        node["numberOfAssignments"], node["cells"] = 1, [0, 1]
        table = node["memoryMap"]["memory"]
        table["reserved"], table["free"] = half, table["allocatable"] - half
    block = {"numaAffinity": [0, 1], "type": "memory", "size": 2 * half}
    files = {"memory_manager_state": memory_file(machine, {"pod": {"main": [block]}})}
    assert (obstacles(wanted(MEMORY, minor), view, files) == []) == starts


def test_several_entries_of_one_numa_node_are_one(machine_of: MachineOf) -> None:
    text = MEMORY.replace("]\n", ", {numaNode: 0}]\n")
    state = default_memory_state(wanted(text), kubelet_view(machine_of("dgx-h100")))
    assert state[0].memory["memory"].system_reserved == 50 << 20


@pytest.mark.parametrize(("gate", "found"), [("true", 1), ("false", 0)])
def test_without_its_gate_no_memory_manager_reads_its_file(gate: str, found: int, machine_of: MachineOf) -> None:
    text = MEMORY + f"featureGates: {{MemoryManager: {gate}}}\n"
    files = {"memory_manager_state": b'{"policyName":"None","machineState":{},"checksum":4236770233}'}
    assert len(obstacles(wanted(text, 30), kubelet_view(machine_of("dgx-h100")), files)) == found


# Written by a kubelet of 1.36 with PodLevelResourceManagers; without the gate it cannot be read.
OF_PODS = (
    b'{"policyName":"static","defaultCpuSet":"0-1,4-5","entries":{"pod-a":{"a":"2-3"}},'
    b'"podEntries":{"pod-a":{"cpuSet":"2-3,6"}},"checksum":249844406}'
)


def test_the_cpus_of_whole_pods_are_read_where_their_gate_is_on() -> None:
    state = read_cpu_state(OF_PODS, Formats(pods=True))
    assert state.pods == {"pod-a": CpuSet.parse("2-3,6")}
    with pytest.raises(CannotRestore, match=r"CPUManagerCheckpointV1\.entries"):
        read_cpu_state(OF_PODS)


@pytest.mark.parametrize(
    ("podentries", "checksum"), [('{"p":{"cpuSet":"2-3"}}', 0), ('{"p":{"cpuSet":2}}', 0), ("[]", 0), ("{}", 0)]
)
def test_pods_count_only_under_their_own_checksum(podentries: str, checksum: int) -> None:
    text = f'{{"policyName":"static","defaultCpuSet":"0","podEntries":{podentries},"checksum":{checksum}}}'
    assert read_cpu_state(text.encode(), Formats(pods=True)).pods == {}


@pytest.mark.parametrize(("gate", "says"), [("true", None), ("false", "CPUManagerCheckpointV1.entries")])
def test_the_cpus_of_whole_pods_are_not_new(gate: str, says: str | None, machine_of: MachineOf) -> None:
    text = f'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\nfeatureGates: {{PodLevelResourceManagers: {gate}}}\n'
    state: dict[str, Any] = {"policyName": "static", "defaultCpuSet": "0-1,6-223", "entries": {"u": {"c": "2-3"}}}
    pods = {"u": CpuSet.parse("2-5")}
    state |= {"podEntries": {"u": {"cpuSet": "2-5"}}, "checksum": cpu_checksum(state, pods)}
    files = {"cpu_manager_state": json.dumps(state).encode()}
    found = obstacles(wanted(text), kubelet_view(machine_of("dgx-h100")), files)
    assert found == [] if says is None else says in found[0].message


def test_the_memory_of_a_whole_pod_takes_the_place_of_its_containers(machine_of: MachineOf) -> None:
    on = MEMORY + "featureGates: {PodLevelResourceManagers: true}\n"
    view = kubelet_view(machine_of("dgx-h100"))
    machine = msgspec.to_builtins(default_memory_state(wanted(on), view), str_keys=True)
    machine["0"]["numberOfAssignments"] = 1
    machine["0"]["memoryMap"]["memory"]["reserved"] += 2 << 30
    machine["0"]["memoryMap"]["memory"]["free"] -= 2 << 30
    blocks = [{"numaAffinity": [0], "type": "memory", "size": size << 30} for size in (2, 1)]
    state = {"policyName": "Static", "machineState": machine, "entries": {"u": {"a": blocks[1:], "b": blocks[1:]}}}
    state["podEntries"] = {"u": {"memoryBlocks": blocks[:1]}}
    state["checksum"] = memory_checksum(msgspec.convert(state, MemoryState, str_keys=True), of_pods=True)
    files = {"memory_manager_state": json.dumps(state).encode()}
    assert obstacles(wanted(on), view, files) == []
    (off,) = obstacles(wanted(MEMORY), view, files)
    assert "checkpoint is corrupted" in off.message
    assert read_memory_state(files["memory_manager_state"], Formats(pods=True)).pods is not None


@pytest.mark.parametrize(
    ("content", "until_1_35", "since_1_36"),
    [
        (
            '{"policyName":"static","entries":{"p":{"c":"2"}},"checksum":1}',
            "checkpoint is corrupted",
            "V1.entries.p of",
        ),
        ('{"policyName":"static","checksum":1}', "checkpoint is corrupted", "checkpoint is corrupted"),
        (
            '{"policyName":"static","checksum":{}}',
            "cannot unmarshal object into Go struct field CPUManagerCheckpoint.checksum of type checksum.Checksum",
            "unmarshal object into Go struct field CPUManagerCheckpointV1.checksum of type checksum.Checksum",
        ),
        (
            '{"policyName":1}',
            "CPUManagerCheckpoint.policyName of type string",
            "CheckpointV1.policyName of type string",
        ),
        ('{"entries":[]}', "entries of type map[string]map[string]string,", "entries of type map[string]string,"),
        (
            '{"entries":{"p":{"c":2}}}',
            "field CPUManagerCheckpoint.entries of type string",
            "V1.entries.p of type string",
        ),
        ("[]", "of type state.CPUManagerCheckpoint,", "of type state.CPUManagerCheckpointV1,"),
    ],
)
def test_a_kubelet_complains_of_the_format_that_it_tries_last(
    content: str, until_1_35: str, since_1_36: str, machine_of: MachineOf
) -> None:
    text = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
    for minor, says in ((35, until_1_35), (36, since_1_36)):
        files = {"cpu_manager_state": content.encode()}
        (found,) = obstacles(wanted(text, minor), kubelet_view(machine_of("dgx-h100")), files)
        assert says in found.message


def fnv(text: str) -> int:
    found = 0x811C9DC5
    for byte in f"(string){text}".encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


@pytest.mark.parametrize(("minor", "policy"), [(30, "none"), (36, "none"), (37, "static")])
def test_the_state_in_data_is_read_since_1_37(minor: int, policy: str, machine_of: MachineOf) -> None:
    inner = json.dumps({"policyName": policy, "defaultCpuSet": "0-223"})
    old = {"policyName": "static", "defaultCpuSet": "0-223", "data": inner, "dataChecksum": fnv(inner), "checksum": 0}
    text = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
    files = {"cpu_manager_state": json.dumps(old).encode()}
    assert obstacles(wanted(text, minor), kubelet_view(machine_of("dgx-h100")), files) == []


@pytest.mark.parametrize("inner", ['{"entries":[]}', '{"policyName":1}', "{", "[]"])
def test_data_of_the_wrong_type_is_no_state(inner: str) -> None:
    old = {"policyName": "static", "defaultCpuSet": "0", "data": inner, "dataChecksum": fnv(inner), "checksum": 0}
    with pytest.raises(CannotRestore):
        read_cpu_state(json.dumps(old).encode(), Formats(data=True))
