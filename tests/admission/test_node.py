"""What holds of every node, whatever pods come and go."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.admission.decision import Decision, State
from numalign.admission.device import Device, Prefer
from numalign.admission.node import Node
from numalign.admission.pod import Pod, pod_of
from numalign.cpuset import CpuSet
from numalign.kubelet.rules import problems
from tests.vectors import HERE, scenario_settings, topology_view, view_of

MACHINES: dict[str, Any] = json.loads((HERE / "machines.json").read_text())
NAMES = ("2s-8c16t", "2s-16c-nosmt", "4n-1s-8c", "snc2-2s-12c24t", "nps4-2s-8c16t", "2s-8c16t-hp", "asym")
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"full-pcpus-only": "true"},
    {"full-pcpus-only": "true", "strict-cpu-reservation": "true"},
    {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
    {"strict-cpu-reservation": "true", "prefer-align-cpus-by-uncorecache": "true"},
    {"align-by-socket": "true"},
    {"distribute-cpus-across-cores": "true"},
)


def node_of(
    machine: str,
    policy: str,
    scope: str = "container",
    *,
    options: dict[str, str] | None = None,
    memory: bool = True,
    devices: Iterable[Device] = (),
    prefer: Mapping[str, Prefer] | None = None,
    minor: int = 36,
    max_pods: int | None = None,
    **more: Any,
) -> Node:
    """A node whose managers are static, with the siblings of its first CPU and 1 GiB of memory reserved."""
    view = view_of(MACHINES[machine])
    wanted = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": options or {},
        "reservedSystemCPUs": str(view.nodes[0].cores[0].cpus),
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
        "systemReserved": {"memory": "1Gi"},
        "memoryManagerPolicy": "Static" if memory else "None",
        **({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]} if memory else {}),
        **more,
    }
    found = scenario_settings(wanted, minor)
    assert problems(found, view) == []
    return Node(found, view, devices, prefer=prefer, max_pods=max_pods)


def pod(name: str, *containers: dict[str, str], init: Iterable[dict[str, str]] = (), sidecar: bool = False) -> Pod:
    """A pod of containers with these limits."""

    def entry(kind: str, number: int, limits: dict[str, str], **more: str) -> dict[str, Any]:
        return {"name": f"{kind}{number}", "resources": {"limits": limits}, **more}

    more = {"restartPolicy": "Always"} if sidecar else {}
    return pod_of(
        name,
        {
            "containers": [entry("c", number, limits) for number, limits in enumerate(containers)],
            "initContainers": [entry("i", number, limits, **more) for number, limits in enumerate(init)],
        },
    )


@st.composite
def limits(draw: st.DrawFn) -> dict[str, str]:
    found = {
        "cpu": draw(st.sampled_from(("1", "2", "3", "4", "6", "9", "500m"))),
        "memory": f"{draw(st.integers(1, 40))}Gi",
    }
    if draw(st.booleans()):
        found["nvidia.com/gpu"] = str(draw(st.integers(1, 3)))
    return found


@st.composite
def comings_and_goings(draw: st.DrawFn) -> list[Pod | int]:
    """Pods that come, and numbers of those that go."""
    steps: list[Pod | int] = []
    for number in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 3)) == 0:
            steps.append(draw(st.integers(0, 7)))
            continue
        containers = draw(st.lists(limits(), min_size=1, max_size=2))
        init = draw(st.lists(limits(), max_size=2))
        steps.append(pod(f"p{number}", *containers, init=init, sidecar=draw(st.booleans())))
    return steps


def gpus(node_ids: Iterable[int]) -> list[Device]:
    return [Device("nvidia.com/gpu", f"GPU-{home}-{number}", (home,)) for home in node_ids for number in range(2)]


def exclusive(decision: Decision) -> dict[str, CpuSet]:
    return {grant.name: grant.cpus for grant in decision.containers if grant.cpus is not None}


@settings(max_examples=400, deadline=None)
@given(
    machine=st.sampled_from(NAMES),
    policy=st.sampled_from(("none", "best-effort", "restricted", "single-numa-node")),
    scope=st.sampled_from(("container", "pod")),
    options=st.sampled_from(OPTIONS),
    memory=st.booleans(),
    steps=comings_and_goings(),
)
def test_what_holds_whatever_comes_and_goes(
    machine: str, policy: str, scope: str, options: dict[str, str], memory: bool, steps: list[Pod | int]
) -> None:
    if "align-by-socket" in options and policy == "single-numa-node":
        options = {}  # the kubelet does not start
    homes = [node["id"] for node in MACHINES[machine]["numa_nodes"]]
    node = node_of(machine, policy, scope, options=options, memory=memory, devices=gpus(homes))
    empty, reserved = node.state, node.settings.listed_cpus
    held: dict[str, CpuSet] = {}
    for step in steps:
        before = node.state
        if isinstance(step, int):
            if step < len(node.state.pods):
                key = list(node.state.pods)[step]
                node.remove(key)
                held.pop(key, None)
            continue
        decision = node.admit(step)
        if not decision.admitted:
            assert held_in(node) == held_in(node, before), "a refused pod holds nothing"
            assert decision.reason or decision.breakdown
            continue
        own = exclusive(decision)
        mine = CpuSet(cpu for cpus in own.values() for cpu in cpus)
        assert not any(mine & other for other in held.values()), "no CPU is given twice"
        held[decision.pod] = mine
        assert not mine & reserved, "reserved CPUs are nobody's"
        assert not CpuSet.from_mask(node.state.shared) & mine
        sizes = {each.name: each.requests["cpu"].whole for each in step.containers}
        assert {name: len(cpus) for name, cpus in own.items()} == {name: sizes[name] for name in own}
        app = [own[grant.name] for grant in decision.containers if grant.name in own and grant.name.startswith("c")]
        assert sum(map(len, app)) == len(CpuSet(cpu for cpus in app for cpu in cpus))
        if "full-pcpus-only" in options:
            for cpus in own.values():
                for core in (core.cpus for place in node.view.nodes for core in place.cores):
                    assert core & cpus in (core, CpuSet()), "whole cores"
        if policy == "single-numa-node":
            assert_on_one_numa_node(node, decision)
    shared = CpuSet.from_mask(node.state.shared)
    assert not ("strict-cpu-reservation" in options and shared & reserved)
    for key in list(node.state.pods):
        node.remove(key)
    assert node.state == empty, "removing all pods gives the empty state back"


def held_in(node: Node, state: State | None = None) -> tuple[object, ...]:
    """What is taken, whatever the NUMA nodes of a group that memory is taken from."""
    state = state or node.state
    use = state.memory
    memory = (use.blocks, {kind: sum(left) for kind, left in use.free.items()}) if use else None
    return state.shared, memory, state.devices, state.pods


def assert_on_one_numa_node(node: Node, decision: Decision) -> None:
    """Whatever a container has is on the NUMA node of its hint."""
    for grant in decision.containers:
        places = {place.id for place in node.view.nodes if grant.cpus and place.cpus & grant.cpus}
        places |= {int(id.split("-")[1]) for some in grant.devices.values() for id in some}
        if grant.hint is not None and grant.hint.mask is not None:
            assert grant.hint.mask.bit_count() == 1
            places |= {block.nodes.bit_length() - 1 for block in grant.memory if grant.cpus}
        assert len(places) <= 1, grant


def test_a_decision_tells_what_was_offered_and_what_was_free() -> None:
    node = node_of("2s-8c16t", "single-numa-node", devices=gpus((0, 0, 1)))
    assert node.admit(pod("first", {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "3"})).admitted
    decision = node.admit(pod("second", {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "3"}))
    assert (decision.reason, decision.message) == (
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    (last,) = decision.rounds
    offered = last.devices["nvidia.com/gpu"]
    assert offered is not None
    assert [(hint.mask, hint.preferred) for hint in offered] == [(0b11, False)]
    assert {id: usage.devices["nvidia.com/gpu"] for id, usage in node.free(last.before).items()} == {0: 1, 1: 2}


def test_a_copy_goes_on_by_itself() -> None:
    node = node_of("2s-8c16t", "restricted")
    other = node.copy()
    assert other.admit(pod("p", {"cpu": "2", "memory": "1Gi"})).admitted
    assert node.state.pods == {}
    with pytest.raises(ValueError, match="default/p is already on the node"):
        other.admit(pod("p", {"cpu": "2", "memory": "1Gi"}))


def test_what_the_node_cannot_hold_is_refused_after_the_managers() -> None:
    node = node_of("2s-8c16t", "none", memory=False, max_pods=2)
    decision = node.admit(pod("p", {"cpu": "31", "memory": "1Gi"}))
    missing = "not enough cpus available to satisfy request: requested=31, available=30"
    assert (decision.reason, decision.message) == (
        "UnexpectedAdmissionError",
        f"Allocate failed due to {missing}, which is unexpected",
    )
    decision = node.admit(pod("p", {"cpu": "31500m", "memory": "1Gi"}))
    assert (decision.reason, decision.message) == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 31500, used: 0, capacity: 30000",
    )
    assert node.admit(pod("a", {"memory": "1Gi"})).admitted
    assert node.admit(pod("b", {"memory": "1Gi"})).admitted
    assert node.admit(pod("c", {"memory": "1Gi"})).message == (
        "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
    )


@pytest.mark.parametrize(
    ("minor", "message"),
    [
        (31, "requested 2 cpus not multiple cpus per core = 2"),
        (32, "not enough free physical CPUs: available physical CPUs = 0, requested CPUs = 2, CPUs per core = 2"),
    ],
)
def test_a_full_node_is_said_to_be_full_since_1_32(minor: int, message: str) -> None:
    node = node_of("2s-8c16t", "none", options={"full-pcpus-only": "true"}, memory=False, minor=minor)
    assert node.admit(pod("all", {"cpu": "30", "memory": "1Gi"})).admitted
    decision = node.admit(pod("more", {"cpu": "2", "memory": "1Gi"}))
    assert (decision.reason, decision.message) == ("SMTAlignmentError", f"SMT Alignment Error: {message}")


@pytest.mark.parametrize(("minor", "admitted"), [(31, True), (32, False)])
def test_single_and_group_memory_are_kept_apart_since_1_32(minor: int, admitted: bool) -> None:
    node = node_of("2s-8c16t", "best-effort", minor=minor)
    assert node.admit(pod("single", {"cpu": "2", "memory": "1Gi"})).admitted
    # needs both NUMA nodes, of which one serves a container alone
    decision = node.admit(pod("wide", {"cpu": "20", "memory": "70Gi"}))
    assert decision.admitted is admitted
    assert admitted or decision.message == (
        "Allocate failed due to [memorymanager] preferred hint violates NUMA node allocation, which is unexpected"
    )


def test_a_refused_pod_can_take_a_numa_node_out_of_its_group() -> None:
    # the kubelet gives its memory back, and leaves the NUMA node with the cells that the pod gave it
    node = node_of("4n-1s-8c", "best-effort", devices=[Device("example.com/x", "x0", (1,))])
    size = node.view.nodes[1].memory_bytes
    assert node.admit(pod("wide", {"cpu": "1", "memory": str(size + (1 << 30))})).admitted
    before = node.state.memory
    assert before is not None
    assert before.groups[:2] == (0b11, 0b11)
    torn = pod("torn", *({"cpu": "1", "memory": "1Gi", "example.com/x": "1"} for _ in range(2)))
    assert node.admit(torn).message == (
        "Allocate failed due to requested number of devices unavailable for example.com/x. Requested: 1, Available: 0, "
        "which is unexpected"
    )
    after = node.state.memory
    assert after is not None
    assert (after.blocks, after.free) == (before.blocks, before.free)
    assert after.groups[:2] == (0b11, 0b10)


def test_what_an_open_choice_leaves_to_the_next_container_is_open_too() -> None:
    node = node_of("2s-8c16t", "none", memory=False, devices=gpus((0, 1)))
    count = len(node.managers.devices.resources["nvidia.com/gpu"].devices)
    limits = {"cpu": "1", "memory": "1Gi"}
    decision = node.admit(
        pod("p", {**limits, "nvidia.com/gpu": "1"}, {**limits, "nvidia.com/gpu": str(count - 1)}, limits)
    )
    assert [grant.open for grant in decision.containers] == [("nvidia.com/gpu",), ("nvidia.com/gpu",), ()]


def test_where_smt_is_partly_off_a_cpu_can_be_given_twice() -> None:
    # the kubelet reckons with one CPU of every core, and so takes a core of two of which one is free for a free core
    node = node_of("smt-partly-off", "none", memory=False)
    first = node.admit(pod("first", {"cpu": "3", "memory": "1Gi"}))
    second = node.admit(pod("second", {"cpu": "2", "memory": "1Gi"}))
    assert exclusive(first)["c0"] & exclusive(second)["c0"]


def test_a_refused_pod_gives_back_a_cpu_that_another_has() -> None:
    node = node_of("smt-partly-off", "none", memory=False)
    first = exclusive(node.admit(pod("first", {"cpu": "3", "memory": "1Gi"})))["c0"]
    assert not node.admit(pod("torn", {"cpu": "2", "memory": "1Gi"}, {"cpu": "99", "memory": "1Gi"})).admitted
    assert first & CpuSet.from_mask(node.state.shared)


@pytest.mark.parametrize(("minor", "own"), [(28, "1-4,17-20"), (29, "1-2,17-18")])
def test_sidecars_keep_their_cpus_since_1_29(minor: int, own: str) -> None:
    node = node_of("2s-8c16t", "none", memory=False, minor=minor)
    small = {"cpu": "4", "memory": "1Gi"}
    decision = node.admit(pod("p", {"cpu": "8", "memory": "1Gi"}, init=[small], sidecar=True))
    assert str(exclusive(decision)["i0"]) == "1-2,17-18"
    assert (len(exclusive(decision)["c0"] & CpuSet.parse("1-2,17-18")) == 4) is (minor == 28)
    assert str(exclusive(decision)["c0"] & CpuSet.parse(own)) == (own if minor == 28 else "")


def test_where_the_kubelet_hangs_that_is_said() -> None:
    # reserved CPUs split cores on several NUMA nodes, and dealing out pairs makes no progress
    view = topology_view(json.loads((HERE / "topologies.json").read_text())["8n4c2t"])
    free = CpuSet.parse("0-9,12,14-16,18-21,23-32,34,36,39,41-42,44,47-55,57-63")
    wanted = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
        "reservedSystemCPUs": str(view.cpus - free),
    }
    node = Node(scenario_settings(wanted), view, max_pods=None)
    before = node.state
    answers = [node.copy().admit(pod("p", {"cpu": str(cpus), "memory": "1Gi"})) for cpus in range(2, 54, 2)]
    assert {answer.breakdown for answer in answers} == {
        None,
        "the kubelet loops without end while it distributes CPUs over NUMA nodes",
    }
    assert node.state == before


def test_it_is_known_how_long_the_kubelet_would_take() -> None:
    devices = [
        Device(name, f"{name}-{home}", (home,)) for name in ("nvidia.com/gpu", "nvidia.com/nic") for home in range(8)
    ]
    node = node_of("nps4-2s-8c16t", "best-effort", devices=devices)
    decision = node.admit(pod("p", {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1", "nvidia.com/nic": "1"}))
    assert [each.combinations for each in decision.rounds] == [255**4]


def test_huge_pages_that_no_numa_node_has_make_the_kubelet_panic() -> None:
    node = node_of("2s-8c16t", "restricted")
    decision = node.admit(pod("p", {"cpu": "2", "memory": "1Gi", "hugepages-1Gi": "1Gi"}))
    assert (decision.admitted, decision.breakdown) == (False, "hugepages-1Gi is not known on every NUMA node")
