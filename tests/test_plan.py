"""The plan: for every machine and version a kubelet would start on it, and every decision has its reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.kubelet.document import typed
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import reservation
from numalign.kubelet.settings import settings as settings_of
from numalign.kubelet.versions import NEWEST, OLDEST
from numalign.kubelet.view import kubelet_view
from numalign.machine import Core, Hugepages, L3Cache, Machine, NumaNode, Socket
from numalign.plan import Plan, PlanWishes, make_plan
from numalign.quantity import Quantity
from numalign.reserve import Wishes, whole_cores
from numalign.reserve_memory import MemoryWishes
from tests import machines

MachineOf = Callable[[str], Machine]
VERSIONS = range(OLDEST, NEWEST + 1)


def starts(machine: Machine, plan: Plan, minor: int) -> bool:
    return not problems(settings_of(typed(plan.configuration, minor), minor), kubelet_view(machine))


@pytest.mark.parametrize("name", machines.names())
def test_by_default_every_version_starts_on_every_machine(name: str, machine_of: MachineOf) -> None:
    machine = machine_of(name)
    for minor in VERSIONS:
        plan = make_plan(machine, PlanWishes(minor=minor))
        assert starts(machine, plan, minor)
        decided = {decision.field for decision in plan.decisions if decision.value is not None}
        for field, value in plan.configuration.items():
            assert {field, *(f"{field}.{name}" for name in value if isinstance(value, dict))} & decided, field
        assert all(decision.reason for decision in plan.decisions)


@pytest.mark.parametrize("name", machines.names())
def test_memory_sums_meet_the_kubelets_equation(name: str, machine_of: MachineOf) -> None:
    machine = machine_of(name)
    for minor in (OLDEST, 32, NEWEST):
        if len(machine.numa_nodes) >= 16 or not machine.numa_nodes:
            with pytest.raises(DoesNotHold):
                make_plan(machine, PlanWishes(minor=minor, static_memory=True))
            continue
        plan = make_plan(machine, PlanWishes(minor=minor, static_memory=True))
        wanted = settings_of(typed(plan.configuration, minor), minor)
        total = sum((limits["memory"] for _, limits in wanted.reserved_memory), Quantity())
        assert total == reservation(wanted, kubelet_view(machine))["memory"]
        nodes = {node.id: node for node in machine.numa_nodes}
        for id, limits in wanted.reserved_memory:
            huge = sum(pages.size * (pages.total or 0) for pages in nodes[id].hugepages)
            assert nodes[id].cpus
            assert limits["memory"].whole + huge < (nodes[id].memory_bytes or 0)


CORES = st.integers(1, 12)


@st.composite
def any_machine(draw: st.DrawFn) -> Machine:
    """Sockets of NUMA nodes of cores of threads; some CPUs isolated, some NUMA nodes bare, some huge pages."""
    threads = draw(st.sampled_from((1, 2, 4)))
    sizes = draw(st.lists(CORES, min_size=1, max_size=8))
    total = sum(sizes)
    interleaved = draw(st.booleans())
    cores, nodes, caches, first = [], [], [], 0
    for id, size in enumerate(sizes):
        own = CpuSet()
        for number in range(first, first + size):
            cpus = CpuSet(number + total * t if interleaved else number * threads + t for t in range(threads))
            group = number // 4
            cores.append(Core(cpus=cpus, socket=id // 2, die=None, numa_node=id, l3=group, core_id=number))
            own |= cpus
        first += size
        memory = draw(st.integers(4, 64)) << 30
        pages = draw(st.integers(0, 2))
        huge = (Hugepages(size=1 << 30, total=pages, free=pages),)
        nodes.append(NumaNode(id=id, cpus=own, memory_bytes=memory, hugepages=huge, distances={}))
    nodes += [
        NumaNode(id=len(sizes) + id, cpus=CpuSet(), memory_bytes=memory, hugepages=(), distances={})
        for id, memory in enumerate(draw(st.lists(st.sampled_from((0, 1 << 30)), max_size=2)))
    ]
    every = CpuSet.from_mask(sum(core.cpus.bits for core in cores))
    for group in {core.l3 for core in cores if core.l3 is not None}:
        bits = sum(core.cpus.bits for core in cores if core.l3 == group)
        caches.append(L3Cache(id=group, cpus=CpuSet.from_mask(bits), size_bytes=None, kernel_id=None))
    sockets = sorted({core.socket for core in cores if core.socket is not None})
    isolated = draw(st.sampled_from(cores)).cpus if draw(st.booleans()) else CpuSet()
    return Machine(
        name="any", arch=None, kernel=None, kernel_command_line=None, cpu_model=None,
        memory_bytes=sum(node.memory_bytes or 0 for node in nodes), online_cpus=every, offline_cpus=CpuSet(),
        possible_cpus=None, isolated_cpus=isolated, nohz_full_cpus=CpuSet(),
        sockets=tuple(
            Socket(id=id, cpus=CpuSet.from_mask(sum(core.cpus.bits for core in cores if core.socket == id)))
            for id in sockets
        ),
        cores=tuple(cores), l3_caches=tuple(caches), numa_nodes=tuple(nodes), nvidia_driver=None, gpus=(), nics=(),
        bonds=(), links=(), pci_devices=(), confinement=None, warnings=(),
    )  # fmt: skip


OPTIONS = ("full-pcpus-only", "strict-cpu-reservation", "distribute-cpus-across-numa", "prefer-closest-numa-nodes",
           "align-by-socket", "prefer-align-cpus-by-uncorecache", "max-allowable-numa-nodes")  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(
    machine=any_machine(),
    minor=st.sampled_from(VERSIONS),
    count=st.none() | st.integers(1, 60),
    per_numa=st.none() | st.integers(1, 4),
    on=st.lists(st.integers(0, 7), max_size=2, unique=True),
    policy=st.sampled_from((None, "none", "best-effort", "restricted", "single-numa-node")),
    options=st.dictionaries(st.sampled_from(OPTIONS), st.sampled_from(("true", "false", "9")), max_size=2),
    static_memory=st.booleans(),
)
def test_any_wish_on_any_machine_is_met_as_asked_or_refused(
    machine: Machine,
    minor: int,
    count: int | None,
    per_numa: int | None,
    on: list[int],
    policy: str | None,
    options: dict[str, str],
    static_memory: bool,
) -> None:
    reserved = Wishes(count=count, cores_per_numa=None if count is not None else per_numa, on=tuple(on))
    wishes = PlanWishes(reserved=reserved, policy=policy, options=options, static_memory=static_memory, minor=minor)
    plan = None
    with contextlib.suppress(DoesNotHold):
        plan = make_plan(machine, wishes)
    if plan is None:
        plain = PlanWishes(minor=minor)
        assert wishes != plain or len(machine.cores) == 1
        return
    cpus = CpuSet.parse(plan.configuration["reservedSystemCPUs"])
    assert cpus
    assert whole_cores(machine, cpus) == cpus != machine.online_cpus
    assert count is None or len(cpus) == count
    assert policy is None or plan.configuration["topologyManagerPolicy"] == policy
    written = {
        **plan.configuration["cpuManagerPolicyOptions"],
        **plan.configuration.get("topologyManagerPolicyOptions", {}),
    }
    assert options.items() <= written.items()
    assert starts(machine, plan, minor)


def eight_nodes() -> Machine:
    """A machine of 8 NUMA nodes of 16 CPUs, as in a report of requests that restricted refuses."""
    cores = [
        Core(cpus=CpuSet((n, n + 64)), socket=n // 32, die=None, numa_node=n // 8, l3=n // 8, core_id=n)
        for n in range(64)
    ]
    node_cpus = [CpuSet.from_mask(sum(core.cpus.bits for core in cores if core.numa_node == id)) for id in range(8)]
    return Machine(
        name="eight", arch=None, kernel=None, kernel_command_line=None, cpu_model=None, memory_bytes=512 << 30,
        online_cpus=CpuSet(range(128)), offline_cpus=CpuSet(), possible_cpus=None, isolated_cpus=CpuSet(),
        nohz_full_cpus=CpuSet(), sockets=(), cores=tuple(cores), l3_caches=(),
        numa_nodes=tuple(
            NumaNode(id=id, cpus=cpus, memory_bytes=64 << 30, hugepages=(), distances={})
            for id, cpus in enumerate(node_cpus)
        ),
        nvidia_driver=None, gpus=(), nics=(), bonds=(), links=(), pci_devices=(), confinement=None, warnings=(),
    )  # fmt: skip


def test_requests_that_restricted_refuses_although_they_fit_are_named() -> None:
    plan = make_plan(eight_nodes(), PlanWishes(policy="restricted"))
    assert plan.configuration["reservedSystemCPUs"] == "0,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120"
    # 14 of 16 CPUs are left on each NUMA node: 7 of them have 98, and hold 112 by the kubelet's reckoning
    assert plan.shares.restricted_refuses == ("16", "30-32", "44-48", "58-64", "72-80", "86-96", "100-112")
    assert plan.shares.largest.cpus == 112


def test_shares_leave_every_gpu_usable(machine_of: MachineOf) -> None:
    plan = make_plan(machine_of("dgx-h100"))
    rows = {row.gpus: row for row in plan.shares.shares}
    assert [(n, row.cpus, row.nic_count, row.containers, row.stranded_gpus) for n, row in rows.items()] == [
        (1, 26, 1, 8, 0),
        (2, 52, 2, 4, 0),
        (3, 78, 3, 2, 2),
        (4, 104, 4, 2, 0),
    ]
    for node in plan.numa_nodes:
        assert len(node.gpus) * rows[1].cpus <= len(node.exclusive)
    assert (plan.shares.largest.cpus, plan.shares.largest.gpus) == (104, 4)


@pytest.mark.parametrize("name", machines.names())
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_the_containers_of_a_share_fit_on_the_node_together(name: str, policy: str, machine_of: MachineOf) -> None:
    machine = machine_of(name)
    plan = make_plan(machine, PlanWishes(policy=policy))
    exclusive = {node.numa_node: len(node.exclusive) for node in plan.numa_nodes}
    gpus = {node.numa_node: len(node.gpus) for node in plan.numa_nodes}
    for row in plan.shares.shares:
        homes = list(row.numa_nodes)
        if row.fewest_cpus == 0:
            assert all(gpus[id] // row.gpus * row.cpus <= exclusive[id] for id in homes)
        else:
            assert row.fewest_cpus <= row.cpus <= sum(exclusive[id] for id in homes)
        assert row.containers * row.gpus + row.stranded_gpus == sum(gpus[id] for id in homes)


def test_options_open_the_gates_that_they_need(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    wishes = PlanWishes(policy="restricted", options={"align-by-socket": "true"}, minor=33)
    plan = make_plan(machine, wishes)
    assert plan.configuration["featureGates"] == {"CPUManagerPolicyAlphaOptions": True}
    assert plan.reason("featureGates.CPUManagerPolicyAlphaOptions") == (
        "opens align-by-socket, which is alpha in Kubernetes 1.33"
    )
    assert "featureGates" not in make_plan(machine).configuration


@pytest.mark.parametrize(
    ("options", "minor", "says", "hint"),
    [
        ({"strict-cpu-reservation": "true"}, 31, "1.31 does not have it", "1.32 and newer"),
        ({"full-pcpus-onyl": "true"}, 36, "no kubelet has such an option", "did you mean full-pcpus-only?"),
        ({"align-by-socket": "true"}, 36, "incompatible with CPUManager align-by-socket", "restricted"),
        ({"max-allowable-numa-nodes": "4"}, 36, "should not be less than 8", "max-allowable-numa-nodes"),
    ],
)
def test_what_the_version_or_machine_refuses_is_refused(
    options: dict[str, str], minor: int, says: str, hint: str, machine_of: MachineOf
) -> None:
    with pytest.raises(DoesNotHold) as refused:
        make_plan(machine_of("dgx-h100"), PlanWishes(options=options, minor=minor))
    assert says in refused.value.message
    assert hint in (refused.value.hint or "")


def test_many_numa_nodes_need_an_option_that_old_versions_do_not_have(machine_of: MachineOf) -> None:
    machine = machine_of("gb200-nvl")
    new, old = (make_plan(machine, PlanWishes(minor=minor)).configuration for minor in (31, 30))
    assert new["topologyManagerPolicyOptions"] == {"max-allowable-numa-nodes": "34"}
    assert (old["topologyManagerPolicy"], "topologyManagerPolicyOptions" in old) == ("none", False)
    with pytest.raises(DoesNotHold):
        make_plan(machine, PlanWishes(minor=30, policy="restricted"))
    with pytest.raises(DoesNotHold, match="34 NUMA nodes"):
        make_plan(machine, PlanWishes(static_memory=True))


def test_cores_of_one_l3_group_are_reserved_before_the_next() -> None:
    plain = eight_nodes()
    cores = [msgspec.structs.replace(c, l3=c.cpus.first() // 8 * 2 + c.cpus.first() % 2) for c in plain.cores]
    bits = [sum(core.cpus.bits for core in cores if core.l3 == id) for id in range(16)]
    caches = [L3Cache(id=id, cpus=CpuSet.from_mask(b), size_bytes=None, kernel_id=None) for id, b in enumerate(bits)]
    machine = msgspec.structs.replace(plain, cores=tuple(cores), l3_caches=tuple(caches))
    plan = make_plan(machine, PlanWishes(reserved=Wishes(cores_per_numa=2)))
    assert plan.configuration["cpuManagerPolicyOptions"]["prefer-align-cpus-by-uncorecache"] == "true"
    assert plan.configuration["reservedSystemCPUs"].startswith("0,2,8,10,")
    assert (
        "prefer-align-cpus-by-uncorecache"
        not in make_plan(machine, PlanWishes(minor=33)).configuration["cpuManagerPolicyOptions"]
    )


def test_amounts_that_are_asked_for_are_kept(machine_of: MachineOf) -> None:
    memory = MemoryWishes(kube=Quantity.parse("3Gi"), system=Quantity.parse("0"), eviction=Quantity.parse("1Gi"))
    plan = make_plan(machine_of("dgx-h100"), PlanWishes(static_memory=True, memory=memory))
    assert plan.configuration["reservedMemory"] == [
        {"numaNode": 0, "limits": {"memory": "2Gi"}},
        {"numaNode": 1, "limits": {"memory": "2Gi"}},
    ]
    on_one = PlanWishes(static_memory=True, memory=memory, reserved=Wishes(on=(1,)))
    assert make_plan(machine_of("dgx-h100"), on_one).configuration["reservedMemory"] == [
        {"numaNode": 1, "limits": {"memory": "4Gi"}}
    ]
