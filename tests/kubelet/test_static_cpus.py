"""The CPUs that the static policy takes and reserves, beyond the vectors: versions, hardware, whole configurations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.checks import judge
from numalign.checks.finding import Finding, Node
from numalign.cpuset import CpuSet
from numalign.kubelet.allocatable import allocatable
from numalign.kubelet.checkpoint import CPU_FILE, cpu_checksum
from numalign.kubelet.distribute_cpus import take_distributed
from numalign.kubelet.effective import effective
from numalign.kubelet.restart import obstacles
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import Settings, settings
from numalign.kubelet.static_cpus import reserved_cpus
from numalign.kubelet.take_cpus import CannotTake, CpuTopology, cpu_topology, take_packed
from numalign.kubelet.view import kubelet_view
from numalign.machine import Machine
from tests.conftest import Run, Tree
from tests.vectors import topology_view

MachineOf = Callable[[str], Machine]
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
WHOLE = 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n'
ACROSS_NUMA = 'cpuManagerPolicyOptions: {full-pcpus-only: "true", distribute-cpus-across-numa: "true"}\n'


def wanted(text: str, minor: int = 36) -> Settings:
    return settings(effective(("f.yaml", (HEADER + text).encode()), {}, {}, minor).values, minor)


def findings(machine: Machine, text: str) -> dict[str, Finding]:
    document = effective(("f.yaml", (HEADER + text).encode()), {}, {}, 36)
    return {finding.id: finding for finding in judge(Node(machine), document, 36).findings}


def topology(*cpus: tuple[int, int, int, int, int]) -> CpuTopology:
    """A topology of rows of CPU, core, uncore cache, NUMA node and socket."""
    return cpu_topology(topology_view([list(row) for row in cpus]))


def four_uncores() -> CpuTopology:
    """One socket of four uncore caches, two cores of two CPUs each."""
    return topology(*((core + 8 * thread, core, core // 2, 0, 0) for core in range(8) for thread in range(2)))


@pytest.mark.parametrize(
    ("minor", "message"),
    [
        (28, "not enough cpus available to satisfy request"),
        (29, "not enough cpus available to satisfy request: requested=3, available=2"),
    ],
)
def test_too_few_cpus_are_numbered_since_1_29(minor: int, message: str) -> None:
    with pytest.raises(CannotTake) as refused:
        take_packed(four_uncores(), CpuSet((0, 1)), 3, minor)
    assert str(refused.value) == message


@pytest.mark.parametrize(("minor", "taken"), [(33, "1-2,10"), (34, "2-3,10")])
def test_an_odd_number_is_sought_in_one_uncore_cache_since_1_34(minor: int, taken: str) -> None:
    # of cache 0 one CPU is free, of cache 1 all four
    available = CpuSet.parse("1,2-3,10-11")
    assert str(take_packed(four_uncores(), available, 3, minor, by_uncore=True)) == taken


def test_an_uncore_cache_in_two_numa_nodes_counts_twice() -> None:
    # by the source of 1.36: takeFullUncore goes over the caches of each NUMA node, and subtracts the shared one again
    cpus = topology(*((cpu, cpu, (cpu + 1) // 2 % 4, cpu // 2, 0) for cpu in range(8)))
    assert str(take_packed(cpus, CpuSet.parse("1-2,4,7"), 4, 36, by_uncore=True)) == "1-2"


@given(
    nodes=st.integers(1, 4),
    cores=st.integers(1, 6),
    threads=st.integers(1, 2),
    bits=st.integers(0, (1 << 48) - 1),
    part=st.floats(0, 1),
    options=st.fixed_dictionaries({}, optional={"spread": st.just(True), "by_uncore": st.just(True)}),
)
def test_as_many_as_asked_for_are_taken_of_those_available(
    nodes: int, cores: int, threads: int, bits: int, part: float, options: Mapping[str, bool]
) -> None:
    count = nodes * cores
    cpus = topology(
        *(
            (core + thread * count, core, core // 2, core // cores, 0)
            for core in range(count)
            for thread in range(threads)
        )
    )
    if cores % 2 and nodes > 1:
        options = {"spread": True}  # the caches would lie in two NUMA nodes
    available = CpuSet.from_mask(bits & cpus.cpus)
    number = round(part * len(available))
    taken = take_packed(cpus, available, number, 36, **options)
    assert taken <= available
    assert len(taken) == number


def test_a_distribution_over_many_numa_nodes_does_not_take_minutes() -> None:
    # 16 NUMA nodes of 16 cores: 8008 choices of ten nodes, and up to 1023 ways to give the remainder for each
    cpus = topology(
        *((core + 256 * thread, core, core // 16, core // 16, 0) for core in range(256) for thread in (0, 1))
    )
    taken = take_distributed(cpus, CpuSet.from_mask(cpus.cpus), 302, 2, 36)
    assert sorted((mask & taken.bits).bit_count() for mask in cpus.nodes.values()) == [0] * 6 + [30] * 9 + [32]


@pytest.mark.parametrize(
    ("text", "reserved"),
    [
        ('kubeReserved: {cpu: "2"}', "0,112"),
        ("kubeReserved: {cpu: 500m}", "0"),
        ("kubeReserved: {cpu: 1500m}\nsystemReserved: {cpu: 600m}", "0-1,112"),
        ('kubeReserved: {cpu: "112"}', "0-55,112-167"),
        ('kubeReserved: {cpu: "4"}\n' + ACROSS_NUMA, "0-1,112-113"),
        ('kubeReserved: {cpu: "224"}', "0-223"),
        ('kubeReserved: {cpu: "225"}', ""),
        ('kubeReserved: {cpu: "-1"}', ""),
        ("kubeReserved: {cpu: x}", ""),
        ("", ""),
        ('kubeReserved: {cpu: "2"}\nreservedSystemCPUs: "5"', "5"),
        ('kubeReserved: {cpu: "2"}\nreservedSystemCPUs: "5-"', ""),
    ],
)
def test_reserved_cpus_are_listed_or_counted(text: str, reserved: str, machine_of: MachineOf) -> None:
    view = kubelet_view(machine_of("dgx-h100"))
    assert str(reserved_cpus(wanted(text), view)) == reserved


def test_without_a_static_policy_no_number_of_cpus_is_taken(machine_of: MachineOf) -> None:
    text = HEADER.replace("static", "none") + 'kubeReserved: {cpu: "2"}'
    found = settings(effective(("f.yaml", text.encode()), {}, {}, 36).values, 36)
    assert str(reserved_cpus(found, kubelet_view(machine_of("dgx-h100")))) == ""


@pytest.mark.parametrize(
    ("name", "uncores"),
    [("dgx-h100", {0: 112, 1: 112}), ("sparse-node-ids", dict.fromkeys(range(8), 8)), ("no-node-dir", {0: 26})],
)
def test_an_l3_of_a_part_of_a_numa_node_is_an_uncore_cache(
    name: str, uncores: dict[int, int], machine_of: MachineOf
) -> None:
    found = cpu_topology(kubelet_view(machine_of(name))).uncores
    assert {id: mask.bit_count() for id, mask in found.items()} == uncores


def test_pools_are_known_where_cpus_are_counted(machine_of: MachineOf) -> None:
    view = kubelet_view(machine_of("dgx-h100"))
    found = allocatable(wanted('kubeReserved: {cpu: "2"}\n' + WHOLE), view)
    assert [str(pool.exclusive) for pool in found.numa_nodes] == ["1-55,113-167", "56-111,168-223"]
    assert [str(pool.shared) for pool in found.numa_nodes] == ["0-55,112-167", "56-111,168-223"]
    strict = 'cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}\n'
    found = allocatable(wanted('kubeReserved: {cpu: "2"}\n' + strict), view)
    assert [str(pool.shared) for pool in found.numa_nodes] == ["1-55,113-167", "56-111,168-223"]


def test_the_command_prints_the_pools_of_counted_cpus(run: Run, tree: Tree) -> None:
    words = ("kubelet", "allocatable", "--config", "-", "--root", tree("dgx-h100"))
    text = run(*words, stdin=(HEADER + 'kubeReserved: {cpu: "2"}\n').encode()).stdout
    assert "1-55,113-167" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kubeReserved: {cpu: "2"}', 'not all reserved cpus: "0,112" are present in defaultCpuSet: "1-223"'),
        (
            'kubeReserved: {cpu: "4"}\ncpuManagerPolicyOptions: {strict-cpu-reservation: "true"}',
            'some of strictly reserved cpus: "1,112-113" are present in defaultCpuSet: "1-223"',
        ),
    ],
)
def test_a_state_is_judged_by_the_counted_cpus(text: str, message: str, machine_of: MachineOf) -> None:
    content = {"policyName": "static", "defaultCpuSet": "1-223", "entries": {"p": {"c": "0"}}}
    files = {CPU_FILE: json.dumps({**content, "checksum": cpu_checksum(content)}).encode()}
    (found,) = obstacles(wanted(text), kubelet_view(machine_of("dgx-h100")), files)
    assert found.message == f"start cpu manager error: {message}"


def test_a_state_without_the_counted_cpus_is_right_where_they_are_strictly_reserved(machine_of: MachineOf) -> None:
    content = {"policyName": "static", "defaultCpuSet": "1-111,113-223"}
    files = {CPU_FILE: json.dumps({**content, "checksum": cpu_checksum(content)}).encode()}
    strict = 'kubeReserved: {cpu: "2"}\ncpuManagerPolicyOptions: {strict-cpu-reservation: "true"}'
    assert obstacles(wanted(strict), kubelet_view(machine_of("dgx-h100")), files) == []


def test_a_number_of_cpus_that_is_all_leaves_none(machine_of: MachineOf) -> None:
    found = findings(machine_of("dgx-h100"), 'kubeReserved: {cpu: "200"}\nsystemReserved: {cpu: "24"}\n' + WHOLE)
    finding = found["reserved-cpus-everything"]
    assert finding.message == (
        "kubeReserved.cpu 200 and systemReserved.cpu 24 (CPUs 0-223) are all CPUs: none is left for exclusive use"
    )
    assert (finding.severity, finding.place) == ("error", "f.yaml:4")


def test_a_number_of_cpus_can_take_a_whole_numa_node(machine_of: MachineOf) -> None:
    found = findings(machine_of("dgx-h100"), 'kubeReserved: {cpu: "112"}\n' + WHOLE)
    assert found["reserved-cpus-numa-nodes"].message == (
        "all CPUs of NUMA node 0 are reserved by kubeReserved.cpu 112 (CPUs 0-55,112-167): nothing can be aligned "
        "there, but it has 4 GPUs"
    )
    assert "reserved-cpus-numa-nodes" not in findings(machine_of("dgx-h100"), 'kubeReserved: {cpu: "2"}\n' + WHOLE)


def test_an_odd_number_of_cpus_splits_a_core(machine_of: MachineOf) -> None:
    found = findings(machine_of("dgx-h100"), "kubeReserved: {cpu: 500m}\n" + WHOLE)["reserved-cpus-split-core"]
    assert found.message.startswith("kubeReserved.cpu 500m (CPU 0) leaves its sibling 112: 1 CPU that full-pcpus-only")
    assert (found.severity, found.remedy) == ("warning", 'write reservedSystemCPUs: "0,112"')
    assert "reserved-cpus-split-core" not in findings(machine_of("dgx-h100"), 'kubeReserved: {cpu: "2"}\n' + WHOLE)


def test_an_odd_number_of_cpus_can_hang_the_distribution(machine_of: MachineOf) -> None:
    found = findings(machine_of("dgx-h100"), "kubeReserved: {cpu: 500m}\n" + ACROSS_NUMA)["distribute-hangs"]
    assert found.remedy == 'write reservedSystemCPUs: "0,112"'


def test_a_reservation_beyond_the_cpus_is_the_kubelets_message(machine_of: MachineOf) -> None:
    found = problems(wanted('kubeReserved: {cpu: "225"}'), kubelet_view(machine_of("dgx-h100")))
    assert found[0].message == (
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
        "(size of  did not equal 225)"
    )


def test_cpus_that_are_counted_can_be_too_many_as_well(machine_of: MachineOf) -> None:
    found = findings(machine_of("server-2s"), "kubeReserved: {cpu: '20'}\n")["reserved-cpus-most"]
    assert (found.severity, found.place) == ("warning", "f.yaml:4")
    assert found.message.startswith("83 % of the CPUs are reserved by kubeReserved.cpu 20 (CPUs ")
    assert "reserved-cpus-most" not in findings(machine_of("server-2s"), "kubeReserved: {cpu: '12'}\n")


def test_isolated_cpus_are_held_against_those_that_are_counted(machine_of: MachineOf) -> None:
    machine = msgspec.structs.replace(machine_of("server-2s"), isolated_cpus=CpuSet((0, 12)))
    document = effective(("f.yaml", (HEADER + "kubeReserved: {cpu: '2'}\n").encode()), {}, {}, 36)
    (found,) = [one for one in judge(Node(machine), document, 36).findings if one.id == "isolated-cpus"]
    assert found.message.startswith("CPUs 0,12 are isolated from the scheduler and reserved for the system")


def test_offline_siblings_are_told_with_what_they_lead_to(machine_of: MachineOf) -> None:
    text = WHOLE + 'reservedSystemCPUs: "0"\n'
    found = findings(machine_of("smt-part-off"), text)["cpus-per-core"]
    assert "siblings that are offline, and each of the" in found.message
