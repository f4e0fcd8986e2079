"""Pods as the API server hands them on, and those with resources of their own."""

from __future__ import annotations

from typing import Any

import pytest

from numalign.admission.decision import Decision
from numalign.admission.device import Device
from numalign.admission.memory import NOT_WHOLE, MemoryBlock
from numalign.admission.node import Node
from numalign.admission.pod import Pod, is_guaranteed, pod_level, pod_of, pod_requests
from numalign.cpuset import CpuSet
from tests.admission.test_device import GPU
from tests.admission.test_node import exclusive, node_of, pod
from tests.vectors import scenario_settings

MANAGED = {"PodLevelResourceManagers": True}


def whole(resources: dict[str, Any], *containers: dict[str, Any]) -> Pod:
    """A pod with resources of its own, and containers with these limits."""
    entries = [{"name": f"c{number}", "resources": {"limits": limits}} for number, limits in enumerate(containers)]
    return pod_of("p", {"containers": entries, "resources": resources})


def shown(amounts: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted((amounts or {}).items())}


def test_a_limit_is_the_request_where_there_is_none() -> None:
    spec = {
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"memory": "1.5Gi"}}}],
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": 1}}}],
    }
    first, second = pod_of("p", spec).containers
    assert (first.name, first.init, first.restartable, shown(first.requests)) == ("i", True, True, {"memory": "1536Mi"})
    assert first.requests["memory"].is_int64
    assert (second.init, shown(second.requests), shown(second.limits)) == (False, {"cpu": "1"}, {"cpu": "2"})


def test_pod_level_requests_are_what_the_containers_ask_for_or_the_limits() -> None:
    found = whole({"limits": {"cpu": "8", "memory": "4Gi"}}, {"cpu": "1500m"}, {"cpu": "1"})
    assert shown(found.requests) == {"cpu": "2500m", "memory": "4Gi"}
    assert pod("p", {"cpu": "1"}).requests is None
    # nothing is added where there are requests alone
    assert shown(whole({"requests": {"cpu": "4"}}, {"cpu": "1", "memory": "1Gi"}).requests) == {"cpu": "4"}


def test_empty_pod_level_resources_make_a_pod_that_runs_on_the_shared_pool() -> None:
    found = whole({}, {"cpu": "2", "memory": "1Gi"})
    assert (found.requests, found.limits, found.has_pod_level) == ({}, {}, False)
    assert exclusive(node_of("2s-8c16t", "restricted", minor=36).admit(found)) == {}
    assert [*exclusive(node_of("2s-8c16t", "restricted", minor=31).admit(found))] == ["c0"]


def test_pod_level_huge_pages_are_those_of_the_containers() -> None:
    pages = {"hugepages-2Mi": "4Mi", "memory": "1Gi"}
    found = whole({"limits": {"cpu": "8"}}, pages, pages)
    assert shown(found.limits) == {"cpu": "8", "hugepages-2Mi": "8Mi"}
    assert shown(found.requests) == {"cpu": "8", "hugepages-2Mi": "8Mi", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("minor", "gates", "guaranteed", "skipped", "managed"),
    [
        (31, {}, False, False, False),
        (32, {}, False, False, False),
        (33, {"PodLevelResources": True}, True, False, False),
        (34, {}, True, True, False),
        (36, {}, True, True, False),
        (36, MANAGED, True, False, True),
        (37, {}, True, True, False),
    ],
)
def test_versions_take_pod_level_resources_differently(
    minor: int, gates: dict[str, bool], guaranteed: bool, skipped: bool, managed: bool
) -> None:
    found = whole({"limits": {"cpu": "2", "memory": "1Gi"}}, {})
    level = pod_level(found, scenario_settings({"featureGates": gates}, minor))
    assert (is_guaranteed(found, level), level.skipped, level.managed) == (guaranteed, skipped, managed)


def test_what_a_pod_counts_for_is_its_most_at_once() -> None:
    small, large = {"cpu": "1", "memory": "1Gi"}, {"cpu": "8", "memory": "1Gi"}
    wanted = scenario_settings({})
    assert pod_requests(pod("p", small, small, init=[large]), wanted) == {"cpu": 8000, "memory": 2 << 30}
    assert pod_requests(pod("p", small, init=[large], sidecar=True), wanted) == {"cpu": 9000, "memory": 2 << 30}
    found = whole({"limits": {"cpu": "4", "memory": "4Gi"}, "requests": {"cpu": "3"}}, small)
    assert pod_requests(found, wanted) == {"cpu": 3000, "memory": 1 << 30}


def managed_node() -> Node:
    gates = {"CPUManagerPolicyAlphaOptions": True, **MANAGED}
    return node_of("2s-8c16t", "restricted", "pod", memory=False, featureGates=gates)


def test_cpus_of_a_pod_that_cannot_be_shared_out_are_lost() -> None:
    # the kubelet looks for what gone pods hold among the CPUs of containers, of which there are none
    node = managed_node()
    before = node.state.shared
    limits = {"cpu": "4", "memory": "1Gi"}
    broken = whole({"limits": limits, "requests": limits}, {"cpu": "6", "memory": "1Gi"})
    assert node.admit(broken).message == (
        "Allocate failed due to not enough cpus available to satisfy request: requested=6, available=4, which is "
        "unexpected"
    )
    assert (before & ~node.state.shared).bit_count() == 4


def test_a_pod_shares_its_own_cpus_out() -> None:
    node = managed_node()
    empty = node.state
    limits = {"cpu": "6", "memory": "4Gi"}
    decision: Decision = node.admit(
        whole({"limits": limits, "requests": limits}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "500m"})
    )
    assert {name: str(cpus) for name, cpus in exclusive(decision).items()} == {"c0": "1,17", "c1": "2-3,18-19"}
    node.remove("default/p")
    assert node.state == empty


@pytest.mark.parametrize(
    ("policy", "scope", "reason", "message"),
    [
        (
            "best-effort",
            "container",
            "UnexpectedAdmissionError",
            f"Allocate failed due to {NOT_WHOLE}, which is unexpected",
        ),
        ("best-effort", "pod", "EmptyPodSharedPoolError", NOT_WHOLE),
        (
            "restricted",
            "pod",
            "TopologyAffinityError",
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager",
        ),
    ],
)
def test_memory_that_is_no_whole_number_of_bytes_is_refused(policy: str, scope: str, reason: str, message: str) -> None:
    node = node_of("2s-8c16t", policy, scope, featureGates={"CPUManagerPolicyAlphaOptions": True, **MANAGED})
    limits = {"cpu": "2", "memory": "1Gi"}
    decision = node.admit(whole({"limits": limits, "requests": limits}, {"cpu": "1", "memory": "1500m"}))
    assert (decision.reason, decision.message) == (reason, message)


def test_a_running_pod_is_taken_up() -> None:
    node = node_of("2s-8c16t", "restricted", devices=[Device(GPU, "a", (0,)), Device(GPU, "b", (1,))])
    empty = node.state
    node.adopt(
        "default/old",
        cpus=CpuSet.parse("1,17"),
        memory=[MemoryBlock(0b1, "memory", 1 << 30)],
        devices={GPU: ["a"]},
        requests={"cpu": 2000},
    )
    usage = node.free()[0]
    assert (usage.cpus, usage.devices, usage.memory["memory"]) == (12, {GPU: 0}, 62 << 30)
    with pytest.raises(ValueError, match="CPUs 17 that pod default/new holds are not in the shared pool"):
        node.adopt("default/new", cpus=CpuSet.parse("17-18"))
    with pytest.raises(ValueError, match=f"devices of {GPU} that pod default/new holds are held by another"):
        node.adopt("default/new", devices={GPU: ["a"]})
    with pytest.raises(ValueError, match=f"default/new holds c of {GPU}, which no plugin offers"):
        node.adopt("default/new", devices={GPU: ["c"]})
    with pytest.raises(ValueError, match="default/new holds memory on NUMA nodes that have none"):
        node.adopt("default/new", memory=[MemoryBlock(0b100, "memory", 1)])
    node.remove("default/old")
    assert node.state == empty


@pytest.mark.parametrize(
    ("minor", "gates", "spec", "labels", "reason", "message"),
    [
        (
            30,
            {"SidecarContainers": False},
            {"initContainers": [{"name": "i", "restartPolicy": "Always"}]},
            {},
            "InitContainerRestartPolicyForbidden",
            'Init container "i" may not have a non-default restartPolicy',
        ),
        (
            36,
            {},
            {"os": {"name": "windows"}},
            {},
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            28,
            {},
            {},
            {"kubernetes.io/os": "windows"},
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
        (
            34,
            {"PodLevelResources": False},
            {"resources": {"limits": {"cpu": "1"}}},
            {},
            "PodLevelResourcesNotSupported",
            "PodLevelResources feature gate is disabled",
        ),
    ],
)
def test_kinds_of_pods_that_are_refused(
    minor: int, gates: dict[str, bool], spec: dict[str, Any], labels: dict[str, str], reason: str, message: str
) -> None:
    gates = {"CPUManagerPolicyAlphaOptions": True, **gates}
    node = node_of("2s-8c16t", "restricted", minor=minor, featureGates=gates, max_pods=110)
    decision = node.admit(pod_of("p", {"containers": [{"name": "c"}], **spec}, labels=labels))
    assert (decision.admitted, decision.reason, decision.message) == (False, reason, message)
