"""numalign predict on nodes with odd memory, many NUMA nodes, devices that nothing aligns; and what pods cost."""

from __future__ import annotations

import pytest

from tests.cli.predicting import GIB, P5, STATIC, TWO, Predict, static_state
from tests.nodes import configuration, container, machine, pod


def test_a_static_memory_manager_without_reserved_memory_starts_no_kubelet(predict: Predict) -> None:
    config = configuration(memoryManagerPolicy="Static", kubeReserved={"memory": "893Mi"})
    found = predict(TWO, config, pod("p", container(cpu=1)))
    assert (found.status, found.error.splitlines()[0]) == (
        1,
        (
            'numalign: kubelet.yaml: the kubelet does not start: the total amount "0" of type "memory" is not '
            "equal to the "
            'value "993Mi" determined by Node Allocatable feature'
        ),
    )


def test_memory_that_moved_at_a_reboot_keeps_the_kubelet_down(predict: Predict) -> None:
    state = static_state({0: 0, 1: 0}, {}, more=1 << 20)
    found = predict(TWO, configuration(**STATIC), pod("p", container(cpu=1)), state=state)
    message, hint = found.error.splitlines()
    assert (found.status, hint.strip()) == (
        1,
        "drain the node, stop the kubelet, delete state/memory_manager_state, start the kubelet",
    )
    assert message == (
        "numalign: state/memory_manager_state: the kubelet does not start on it: start memory manager error: "
        "[memorymanager] the expected machine state is different from the real one: total memory of NUMA node 0 is "
        "68719476736 bytes now and 68720525312 in the file (-1048576)"
    )


def test_groups_that_contradict_each_other_keep_the_kubelet_down(predict: Predict) -> None:
    state = static_state({0: 1, 1: 0}, {"small": ([0, 1], 1)}, nodes={0: {"cells": [0]}})
    found = predict(TWO, configuration(**STATIC), pod("p", container(cpu=1)), state=state)
    assert (found.status, "assignments or groups in the file contradict its entries" in found.error) == (1, True)


def test_huge_pages_are_no_memory_for_pods(predict: Predict) -> None:
    node = TWO.replace("memory: 64 GiB", "memory: 64 GiB, hugepages: {1048576kB: 10/10}")
    found = predict(node, configuration(**STATIC), pod("p", container(cpu=1, memory="55Gi")))
    assert (found.status, found.outcomes(), found.advice()[0]) == (1, ["never"], "fits now with memory: 54Gi")
    assert [each["memory"]["memory"] // GIB for each in predict(
        node, configuration(**STATIC), pod("p", container(cpu=1, memory="50Gi"))
    ).pod()["left"]] == [3, 54]  # fmt: skip


def test_without_a_memory_manager_memory_is_not_bound(predict: Predict) -> None:
    vm = {"name": "vm", "resources": {"limits": {"cpu": 2, "memory": "1Gi", "hugepages-2Mi": "4Gi"}}}
    node = TWO.replace("memory: 64 GiB", "memory: 64 GiB, hugepages: {2048kB: 4096/4096}")
    found = predict(node, configuration("best-effort"), pod("p", vm))
    assert (found.pod()["containers"][0]["memory"], [note["id"] for note in found.document["notes"]]) == (
        [],
        ["memory-not-aligned"],
    )


def test_more_than_eight_numa_nodes_need_an_option(predict: Predict) -> None:
    found = predict("gh200", configuration(), pod("p", container(cpu=4, gpu=1)))
    assert (found.status, found.error.splitlines()[0]) == (
        1,
        "numalign: kubelet.yaml: the kubelet does not start: unsupported on machines with more than 8 NUMA Nodes",
    )
    for value, says in (("true", "unable to convert policy option"), ("16", "")):
        options = {"max-allowable-numa-nodes": value}
        found = predict("gh200", configuration(topologyManagerPolicyOptions=options), pod("p", container(cpu=4, gpu=1)))
        assert (found.status, says in found.error) == (int(value == "true"), True)


def test_cpus_are_of_the_numa_nodes_that_have_some(predict: Predict) -> None:
    options = {"max-allowable-numa-nodes": "16"}
    config = configuration(topologyManagerPolicyOptions=options)
    found = predict("gh200", config, pod("p", container(cpu=71, gpu=1)))
    assert (found.status, found.pod()["containers"][0]["numaNodes"]) == (0, {"0": "1-71"})
    assert [each["cpus"] for each in found.pod()["left"]] == [0] * 9


def test_memory_of_a_gpu_is_told_where_a_pod_gets_it(predict: Predict) -> None:
    config = configuration("best-effort", topologyManagerPolicyOptions={"max-allowable-numa-nodes": "16"}, **STATIC)
    pods = pod("a", container(cpu=1, memory="470Gi")) + pod("b", container(cpu="500m", memory="90Gi"))
    found = predict("gh200", config, pods)
    assert found.remarks()["memory-of-gpu"] == (
        "main: memory of NUMA node 1 without CPUs, which is most often a GPU's own"
    )


@pytest.mark.parametrize(("policy", "hours"), [("single-numa-node", 19), ("best-effort", 31)])
def test_a_kubelet_that_would_compute_for_hours_is_told(policy: str, hours: int, predict: Predict) -> None:
    config = configuration(policy, topologyManagerPolicyOptions={"max-allowable-numa-nodes": "36"}, **STATIC)
    found = predict("gb200-nvl", config, pod("p", container(cpu=4, gpu=1)))
    assert (found.status, found.pod()["outcome"], found.pod()["because"]) == (
        1,
        "stalls",
        [f"the kubelet would compute for about {hours} hours before it decides"],
    )
    assert found.advice() == ["memoryManagerPolicy: None spares the kubelet most of it"]


def test_resource_claims_are_not_covered_and_that_is_said(predict: Predict) -> None:
    claimed = container(cpu=2)
    claimed["resources"]["claims"] = [{"name": "gpu"}]
    found = predict(TWO, configuration(), pod("p", claimed, resourceClaims=[{"name": "gpu"}]))
    assert (found.status, found.remarks()["claims-not-covered"]) == (
        0,
        "resourceClaims (gpu) are not covered: the topology manager does not see devices of DRA drivers",
    )


def test_the_table_says_what_each_provider_has_on_each_numa_node(predict: Predict) -> None:
    config = configuration(**STATIC)
    pods = pod("a", container(cpu=7, memory="60Gi")) + pod("p", container(cpu=4, memory="8Gi", gpu=1))
    found = predict(machine(["0-7", "8-15"], "0", memory="64 GiB"), config, pods)
    assert found.text.split("\n\n")[1:4] == [
        (
            "p   refused, not now   TopologyAffinityError\n"
            "  Pod was rejected: Resources cannot be allocated with Topology locality"
        ),
        (
            "  container main     needs                              NUMA 0             NUMA 1\n"
            "  nvidia.com/gpu         1                              1 free  0 free, 1 too few\n"
            "  cpu                    4                   0 free, 4 too few             8 free\n"
            "  memory          8.00 GiB  3.00 GiB free, 5.00 GiB too little      64.0 GiB free"
        ),
        (
            "  No NUMA node has all of it; 1 nvidia.com/gpu: NUMA node 0; 4 CPUs: NUMA node 1; 8.00 GiB of "
            "memory: NUMA "
            "node 1\n"
            "  CPUs on NUMA node 0: pod a holds 7\n"
            "  Memory on NUMA node 0: pod a holds 60.0 GiB\n"
            "  Fits when pod a ends"
        ),
    ]


@pytest.mark.parametrize(("policy", "numa"), [("none", {"0": 2}), ("best-effort", {"0": 2})])
def test_gpus_linked_through_the_sockets_alone_go_by_numa_node(
    policy: str, numa: dict[str, int], predict: Predict
) -> None:
    node = machine(["0-7", "8-15"], "0101", kind="rtx4090")
    found = predict(node, configuration(policy), pod("p", container(cpu=2, gpu=2)))
    assert found.pod()["containers"][0]["devices"][0]["numaNodes"] == numa


def test_a_resource_can_be_said_to_have_no_topology(predict: Predict) -> None:
    """VFs on NUMA node 0 alone, CPUs free on NUMA node 1 alone: sriov-network-operator#435."""
    pods = pod("a", container(cpu=7)) + pod("p", container(cpu=4, vf=1))
    refused = predict(TWO, configuration(), pods, "--device", "example.com/vf=8@0")
    assert refused.outcomes() == ["admitted", "not-now"]
    found = predict(TWO, configuration(), pods, "--device", "example.com/vf=8@-")
    assert (found.outcomes(), list(found.pod()["containers"][0]["numaNodes"])) == (["admitted"] * 2, ["1"])
    assert "example.com/vf gives no hint" in found.remarks()["no-topology"]


def test_strict_reservation_can_leave_no_cpu_for_other_pods(predict: Predict) -> None:
    config = configuration(cpuManagerPolicyOptions={"strict-cpu-reservation": "true"})
    found = predict(machine(["0-7"]), config, pod("p", container(cpu=7)))
    assert found.remarks()["shared-pool-empty"].startswith("no CPU is left for pods without exclusive CPUs")


def test_gpus_left_with_too_few_cpus_are_told(predict: Predict) -> None:
    config = configuration(reserved="0,24,48,72")
    found = predict(P5, config, pod("wide", container(cpu=40, gpu=1)) + pod("cpus", container(cpu=46)))
    assert found.remarks(0)["gpus-stranded"] == (
        "NUMA node 0 has 3 GPUs and 6 CPUs left: 3 without the 40 CPUs that a GPU of this pod has"
    )
    assert found.remarks(1)["gpus-stranded"] == (
        "NUMA node 1 has 4 GPUs and 0 CPUs left: 4 without the 1 CPU that a core has"
    )
    fair = predict(P5, config, pod("fair", container(cpu=11, gpu=1)))
    assert "gpus-stranded" not in fair.remarks()


def test_gpus_left_without_nics_are_told(predict: Predict) -> None:
    pods = pod("p", container(cpu=2, gpu=1, vf=2))
    found = predict(P5, configuration(), pods, "--device", "example.com/vf=4@0,8@1")
    assert found.remarks()["gpus-stranded"] == (
        "NUMA node 0 has 3 GPUs and 2 example.com/vf left: 2 without the 2 example.com/vf that a GPU of this pod has"
    )


def test_gpu_and_nic_apart_are_told(predict: Predict) -> None:
    node = machine(["0-7", "8-15"], "1")
    found = predict(
        node, configuration("best-effort"), pod("p", container(cpu=2, gpu=1, vf=1)), "--device", "example.com/vf=1@0"
    )
    assert found.remarks()["devices-apart"] == "main: example.com/vf on NUMA node 0, nvidia.com/gpu on NUMA node 1"


def test_cores_shared_with_others_are_told(predict: Predict) -> None:
    found = predict(TWO, configuration(), pod("p", container(cpu=3)))
    assert found.remarks()["cores-split"] == "main: 1 core shared with others, which run on CPUs 0"


def test_memory_on_several_numa_nodes_is_told(predict: Predict) -> None:
    found = predict(TWO, configuration("restricted", **STATIC), pod("p", container(cpu=10, memory="100Gi")))
    assert found.remarks()["memory-spans-numa-nodes"] == (
        "main: 100.0 GiB of memory is on NUMA nodes 0-1, which serve only this group until all of it is given back"
    )


def test_a_looser_policy_or_another_scope_is_named_where_it_takes_the_pod(predict: Predict) -> None:
    pods = pod("p", container("x", cpu=6), container("y", cpu=6))
    found = predict(TWO, configuration(topologyManagerScope="pod"), pods)
    assert "topologyManagerScope: container would take it" in found.advice()
    assert "topologyManagerPolicy: restricted would take it" in found.advice()
