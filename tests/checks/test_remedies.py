"""What to write: in the flag where the value is from one, and nothing that the version does not have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from numalign.checks import judge
from numalign.checks.finding import Node
from numalign.kubelet.effective import effective
from numalign.kubelet.flags import parse_flags
from numalign.machine import Machine

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
STATIC = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0,56,112,168"\ntopologyManagerPolicy: single-numa-node\n'
MachineOf = Callable[[str], Machine]


def remedies(machine: Machine, id: str, text: str, flags: str = "", minor: int = 36) -> list[str | None]:
    document = effective(("f.yaml", (HEADER + text).encode()), {}, parse_flags(flags), minor)
    found = judge(Node(machine), document, minor).findings
    return [finding.remedy for finding in found if finding.id == id]


@pytest.mark.parametrize(
    ("id", "flags", "remedy"),
    [
        (
            "reserved-cpus-split-core",
            "--cpu-manager-policy=static --reserved-cpus=0-1",
            "write --reserved-cpus=0-1,112-113",
        ),
        (
            "topology-policy-unknown",
            "--topology-manager-policy=Restricted",
            "write --topology-manager-policy=restricted",
        ),
        ("topology-scope-unknown", "--topology-manager-scope=Pod", "write --topology-manager-scope=pod"),
        (
            "policy-option-unknown",
            "--cpu-manager-policy=static --reserved-cpus=0,112 --cpu-manager-policy-options=full-pcpu-only=true",
            "write --cpu-manager-policy-options=full-pcpus-only=true",
        ),
        (
            "feature-gate-dependency",
            "--feature-gates=PodLevelResourceManagers=true,PodLevelResources=false",
            "write --feature-gates=PodLevelResourceManagers=false too",
        ),
        (
            "enforce-without-qos-cgroups",
            "--cgroups-per-qos=false",
            "write --cgroups-per-qos=true",
        ),
    ],
)
def test_a_remedy_names_the_flag_that_a_value_is_from(id: str, flags: str, remedy: str, machine_of: MachineOf) -> None:
    assert remedy in remedies(machine_of("dgx-h100"), id, "", flags)


def test_a_remedy_for_a_field_of_the_file_stays_one_beside_flags(machine_of: MachineOf) -> None:
    text = "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n"
    found = remedies(machine_of("dgx-h100"), "reserved-cpus-split-core", text, "--topology-manager-scope=pod")
    assert found == ['write reservedSystemCPUs: "0-1,112-113"']


@pytest.mark.parametrize(
    ("scope", "hint"), [("Pod", "pod"), ("pods", "pod"), ("Container", "container"), ("x", "container")]
)
def test_a_misspelt_scope_gets_the_nearest_one(scope: str, hint: str, machine_of: MachineOf) -> None:
    found = remedies(machine_of("dgx-h100"), "topology-scope-unknown", f"topologyManagerScope: {scope}")
    assert found == [f"write topologyManagerScope: {hint}"]


def test_only_gates_of_the_version_are_named(machine_of: MachineOf) -> None:
    gates = "featureGates: {MemoryManagr: true, TopologyManagerPolicyOption: true}"
    found = remedies(machine_of("dgx-h100"), "feature-gate-not-judged", gates, minor=37)
    assert found == [None, "did you mean TopologyManagerPolicyOptions?"]
    (said,) = remedies(machine_of("dgx-h100"), "feature-gate-unknown", "featureGates: {MemoryManagr: true}")
    assert said == "take MemoryManagr out: Kubernetes 1.36 does not have it"


@pytest.mark.parametrize(
    ("minor", "remedy"), [(31, "take strict-cpu-reservations out"), (32, 'write strict-cpu-reservation: "true"')]
)
def test_only_options_of_the_version_are_named(minor: int, remedy: str, machine_of: MachineOf) -> None:
    text = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0,112"\n'
    text += 'cpuManagerPolicyOptions: {strict-cpu-reservations: "true"}'
    assert remedies(machine_of("dgx-h100"), "policy-option-unknown", text, minor=minor) == [remedy]


@pytest.mark.parametrize(
    ("kept", "written"),
    [
        (
            "kubeReserved: {memory: 1Gi}",
            "[{numaNode: 0, limits: {memory: 562Mi}}, {numaNode: 1, limits: {memory: 562Mi}}]",
        ),
        ("reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]", "[{numaNode: 1, limits: {memory: 100Mi}}]"),
        ('evictionHard: {memory.available: "3"}', "[{numaNode: 0, limits: {memory: 3}}]"),
    ],
)
def test_a_sum_of_reserved_memory_is_given_as_a_list_to_copy(kept: str, written: str, machine_of: MachineOf) -> None:
    base = f"{STATIC}memoryManagerPolicy: Static\n{kept}\n"
    (remedy,) = remedies(machine_of("dgx-h100"), "reserved-memory-sum", base, "")
    assert remedy is not None
    assert remedy.startswith(f"write reservedMemory: {written}: in all ")
    unfixed = "\n".join(line for line in base.splitlines() if not line.startswith("reservedMemory"))
    assert remedies(machine_of("dgx-h100"), "reserved-memory-sum", f"{unfixed}\nreservedMemory: {written}\n", "") == []


def test_align_by_socket_can_also_be_taken_out(machine_of: MachineOf) -> None:
    base = (
        'cpuManagerPolicy: static\ncpuManagerPolicyOptions: {align-by-socket: "true"}\nreservedSystemCPUs: "0,56"\n'
        "topologyManagerPolicy: single-numa-node\nfeatureGates: {CPUManagerPolicyAlphaOptions: true}\n"
    )
    assert remedies(machine_of("dgx-h100"), "align-by-socket", base, "") == [
        "take align-by-socket out, or write topologyManagerPolicy: restricted"
    ]
