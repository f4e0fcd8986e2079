"""Checks of memory, where their pages have no document for a case."""

from __future__ import annotations

from collections.abc import Callable

from numalign.checks import judge
from numalign.checks.finding import Node
from numalign.kubelet.effective import effective
from numalign.machine import Machine

STATIC = b"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0,112"
topologyManagerPolicy: single-numa-node
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 5Gi}}]
featureGates: {MemoryManager: false}
"""


def test_a_memory_manager_without_its_gate_is_told(machine_of: Callable[[str], Machine]) -> None:
    report = judge(Node(machine_of("dgx-h100")), effective(("f.yaml", STATIC), {}, {}, 30), 30)
    (found,) = [finding for finding in report.findings if finding.id == "memory-manager-off"]
    assert (found.severity, found.place) == ("warning", "f.yaml:8")
    assert found.message.startswith("feature gate MemoryManager is off")
    assert [finding for finding in report.findings if finding.severity == "error"] == []
