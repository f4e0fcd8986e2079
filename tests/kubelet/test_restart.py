"""State files of an earlier kubelet, where the vectors have none of a kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from numalign.kubelet.checkpoint import MemoryState, cpu_checksum, memory_checksum
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
