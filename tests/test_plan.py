"""The plan: for every machine and version a kubelet would start on it, and every decision has its reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold, WrongUsage
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
    assert plan.shares.largest.cpus == 98


@pytest.mark.parametrize("cores", range(1, 8))
def test_the_requests_that_restricted_refuses_are_those_that_need_more_numa_nodes_than_they_are_held_to(
    cores: int,
) -> None:
    plan = make_plan(eight_nodes(), PlanWishes(policy="restricted", reserved=Wishes(cores_per_numa=cores)))
    left = 16 - 2 * cores
    refused = {cpus for cpus in range(2, 8 * left + 1, 2) if -(-cpus // 16) < -(-cpus // left)}
    ranges = [tuple(map(int, text.split("-"))) for text in plan.shares.restricted_refuses]
    assert [cpus for ends in ranges for cpus in range(ends[0], ends[-1] + 1, 2)] == sorted(refused)
    assert plan.shares.largest.cpus == max(set(range(2, 8 * left + 1, 2)) - refused, default=0)


def test_shares_leave_every_gpu_usable(machine_of: MachineOf) -> None:
    plan = make_plan(machine_of("dgx-h100"))
    rows = {row.gpus: row for row in plan.shares.shares}
    assert [(n, row.cpus, row.nic_count, row.containers, row.stranded_gpus) for n, row in rows.items()] == [
        (1, 26, 1, 8, 0),
        (2, 52, 2, 4, 0),
        (3, 78, 3, 2, 2),
        (4, 104, 4, 2, 0),
        *((number, 0, 0, 0, 8) for number in (5, 6, 7, 8)),
    ]
    assert {row.never for row in rows.values()} == {None, "no NUMA node has so many"}
    for node in plan.numa_nodes:
        assert len(node.gpus) * rows[1].cpus <= len(node.exclusive)
    assert (plan.shares.largest.cpus, plan.shares.largest.gpus) == (104, 4)


@pytest.mark.parametrize("name", machines.names())
@pytest.mark.parametrize("per_numa", [None, 8])
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_the_containers_of_a_share_fit_on_the_node_together(
    name: str, policy: str, per_numa: int | None, machine_of: MachineOf
) -> None:
    machine = machine_of(name)
    try:
        plan = make_plan(machine, PlanWishes(policy=policy, reserved=Wishes(cores_per_numa=per_numa)))
    except DoesNotHold:
        assert per_numa is not None
        return
    exclusive = {node.numa_node: len(node.exclusive) for node in plan.numa_nodes}
    gpus = {node.numa_node: len(node.gpus) for node in plan.numa_nodes}
    for row in plan.shares.shares:
        homes = list(row.numa_nodes)
        if row.fewest_cpus == 0:
            assert all(gpus[id] // row.gpus * row.cpus <= exclusive[id] for id in homes)
        else:
            assert row.fewest_cpus <= row.cpus
            assert 0 < row.containers * row.cpus <= sum(exclusive[id] for id in homes)
        assert row.containers * row.gpus + row.stranded_gpus == sum(gpus[id] for id in homes)


def test_shares_that_restricted_refuses_are_named_with_the_reason(machine_of: MachineOf) -> None:
    wishes = PlanWishes(policy="restricted", reserved=Wishes(cores_per_numa=30))
    rows = make_plan(machine_of("dgx-h100"), wishes).shares.shares
    why = "so many need 2 NUMA nodes, and restricted wants as many for the CPUs: at least 114, and 104 are left"
    assert [(row.gpus, row.never) for row in rows] == [(n, None if n < 5 else why) for n in range(1, 9)]


def test_under_restricted_aligned_memory_needs_as_many_numa_nodes_as_the_gpus(machine_of: MachineOf) -> None:
    machine = machine_of("gpus-uneven")
    least, most = 3 * 503 << 30, 4 * 504 << 30
    for static, within in ((False, False), (True, True)):
        plan = make_plan(machine, PlanWishes(policy="restricted", static_memory=static))
        row = next(row for row in plan.shares.shares if row.gpus == 8)
        assert (least < (row.memory_bytes or 0) < most) == within


@pytest.mark.parametrize(
    ("name", "policy", "largest"),
    [
        # GPUs on NUMA nodes 0 and 2, more CPUs on the others
        ("gpus-uneven", "single-numa-node", (42, 3)),
        # all GPUs on one NUMA node: with CPUs of both restricted refuses them
        ("gpus-one-socket", "restricted", (60, 3)),
        ("gpus-one-socket", "best-effort", (122, 3)),
        # no GPU has a NUMA node, so none keeps a container from its CPUs
        ("vm-all-unknown", "single-numa-node", (54, 8)),
        ("dgx-h100", "restricted", (208, 8)),
    ],
)
def test_the_largest_container_is_one_that_fits_as_a_whole(
    name: str, policy: str, largest: tuple[int, int], machine_of: MachineOf
) -> None:
    found = make_plan(machine_of(name), PlanWishes(policy=policy)).shares.largest
    assert (found.cpus, found.gpus) == largest


def test_gpus_without_a_numa_node_are_those_of_the_only_one(machine_of: MachineOf) -> None:
    machine = machine_of("gh200")
    gpus = tuple(msgspec.structs.replace(gpu, numa_node=None) for gpu in machine.gpus)
    plan = make_plan(msgspec.structs.replace(machine, gpus=gpus))
    assert "GPU" not in plan.reason("topologyManagerPolicy")
    assert [(row.gpus, row.cpus, row.never) for row in plan.shares.shares] == [(1, 71, None)]


def test_without_full_cores_any_number_of_cpus_can_be_had(machine_of: MachineOf) -> None:
    wishes = PlanWishes(reserved=Wishes(cpus=CpuSet((0,))), options={"full-pcpus-only": "false"})
    plan = make_plan(machine_of("dgx-h100"), wishes)
    assert (plan.configuration["reservedSystemCPUs"], plan.shares.step, plan.shares.largest.cpus) == ("0", 1, 112)
    assert "the siblings 112 are given out, and share their cores" in plan.reason("reservedSystemCPUs")
    assert "share a core" in plan.reason("cpuManagerPolicyOptions.full-pcpus-only")


def test_where_whole_cores_would_leave_no_container_any_cpu_they_are_left_off() -> None:
    """Two CPUs of one core id, but no siblings to the kernel, on each NUMA node: one core of two to the kubelet."""
    plain = eight_nodes()
    cores = tuple(
        Core(cpus=CpuSet((n,)), socket=0, die=None, numa_node=n // 2, l3=None, core_id=n // 2) for n in range(8)
    )
    nodes = tuple(
        msgspec.structs.replace(node, cpus=CpuSet((2 * node.id, 2 * node.id + 1))) for node in plain.numa_nodes[:4]
    )
    machine = msgspec.structs.replace(plain, cores=cores, numa_nodes=nodes, online_cpus=CpuSet(range(8)))
    plan = make_plan(machine)
    assert plan.configuration["cpuManagerPolicyOptions"] == {"full-pcpus-only": "false"}
    assert "2 CPUs a core here (8 CPUs on 4 cores)" in plan.reason("cpuManagerPolicyOptions.full-pcpus-only")
    assert plan.shares.largest.cpus == 1
    asked = make_plan(machine, PlanWishes(options={"full-pcpus-only": "true"}))
    assert (asked.configuration["cpuManagerPolicyOptions"]["full-pcpus-only"], asked.shares.largest.cpus) == ("true", 0)


def test_cpus_that_are_in_no_numa_node_are_said_and_not_counted(machine_of: MachineOf) -> None:
    machine = machine_of("cpus-without-node")
    homeless = machine.online_cpus - CpuSet.from_mask(sum(node.cpus.bits for node in machine.numa_nodes))
    assert homeless
    reason = make_plan(machine).reason("reservedSystemCPUs")
    assert f"the kubelet does not know CPUs {homeless}, which are in no NUMA node" in reason
    assert f" of {len(machine.online_cpus) - len(homeless)} CPUs (" in reason
    with pytest.raises(DoesNotHold, match="are in no NUMA node"):
        make_plan(machine, PlanWishes(reserved=Wishes(cpus=homeless)))


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
        ({"strict-cpu-reservation": "true"}, 31, "1.31 does not have it", "--kubernetes-version 1.32"),
        ({"align-by-socket": "true"}, 36, "incompatible with CPUManager align-by-socket", "--policy restricted"),
        ({"max-allowable-numa-nodes": "4"}, 36, "should not be less than 8", "--option max-allowable-numa-nodes=8"),
        ({"full-pcpus-only": "maybe"}, 36, "bad value", "--option full-pcpus-only=true"),
        (
            {"distribute-cpus-across-cores": "true", "distribute-cpus-across-numa": "true"},
            *(36, "can not be used", "leave out --option distribute-cpus-across-cores"),
        ),
    ],
)
def test_what_the_version_or_machine_refuses_is_refused(
    options: dict[str, str], minor: int, says: str, hint: str, machine_of: MachineOf
) -> None:
    with pytest.raises(DoesNotHold) as refused:
        make_plan(machine_of("dgx-h100"), PlanWishes(options=options, minor=minor))
    assert says in refused.value.message
    assert (refused.value.hint or "").endswith(hint)
    instead, version = dict(options), minor
    match hint.split():
        case ["--option", text]:
            name, _, value = text.partition("=")
            instead[name] = value
        case ["leave", "out", "--option", name]:
            del instead[name]
        case ["--kubernetes-version", text]:
            version = int(text.removeprefix("1."))
    policy = "restricted" if "--policy" in hint else None
    make_plan(machine_of("dgx-h100"), PlanWishes(options=instead, minor=version, policy=policy))


def test_an_option_that_no_kubelet_has_is_wrong_usage(machine_of: MachineOf) -> None:
    with pytest.raises(WrongUsage) as refused:
        make_plan(machine_of("dgx-h100"), PlanWishes(options={"full-pcpus-onyl": "true"}))
    assert refused.value.hint == "did you mean --option full-pcpus-only=true?"


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


def test_memory_that_is_not_known_is_said_to_be_unknown(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    nodes = tuple(msgspec.structs.replace(node, memory_bytes=None) for node in machine.numa_nodes)
    with pytest.raises(DoesNotHold, match="no such NUMA node is known to have any"):
        make_plan(msgspec.structs.replace(machine, numa_nodes=nodes), PlanWishes(static_memory=True))


def test_a_gpu_of_a_numa_node_that_does_not_exist_is_in_no_container(machine_of: MachineOf) -> None:
    assert make_plan(machine_of("numa-node-out-of-range")).shares.largest.gpus == 0


def test_containers_whose_memory_spans_numa_nodes_share_none_of_them(machine_of: MachineOf) -> None:
    # 4 NUMA nodes with 4 GPUs each: two containers of 5 take a pair of NUMA nodes each, and a third finds 3 on both
    for static, containers in ((False, 3), (True, 2)):
        plan = make_plan(machine_of("sixty-four"), PlanWishes(policy="restricted", static_memory=static))
        row = next(row for row in plan.shares.shares if row.gpus == 5)
        assert (row.containers, row.stranded_gpus) == (containers, 16 - 5 * containers)


def test_where_siblings_are_missing_it_is_said_that_containers_can_share_a_core(machine_of: MachineOf) -> None:
    reason = make_plan(machine_of("smt-part-off")).reason("cpuManagerPolicyOptions.full-pcpus-only")
    assert reason == (
        "the kubelet reckons 1 CPU a core here (95 CPUs on 48 cores, since some siblings are missing), and gives CPUs "
        "out by that number: two containers can share a larger core"
    )
