"""verify --self: whether what a container was given is on one NUMA node."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.checks import judge_self
from numalign.checks.itself import Own
from numalign.cpuset import CpuSet
from numalign.machine import Machine
from numalign.probe.itself import Given
from tests.conftest import Run

CPUS_0, CPUS_1 = CpuSet.parse("4-7,116-119"), CpuSet.parse("60-63")
NODE_0, BOTH = CpuSet.parse("0"), CpuSet.parse("0-1")


def given(
    cpus: CpuSet | None = CPUS_0, nodes: CpuSet | None = NODE_0, minors: tuple[int, ...] = (), **devices: str
) -> Given:
    return Given(cpus, nodes, minors, (), {name: tuple(value.split(",")) for name, value in devices.items()})


def judged(machine: Machine, of: Given) -> dict[str, str]:
    """What came of each check: the severity of what it found, else its status."""
    report = judge_self(Own(machine, of))
    found = {finding.id: finding.severity for finding in report.findings}
    return {check.id.removeprefix("self-"): found.get(check.id, check.status) for check in report.checks}


@pytest.fixture
def dgx(machine_of: Callable[[str], Machine]) -> Machine:
    """A DGX H100 whose GPUs have the device files of their indices."""
    import msgspec

    machine = machine_of("dgx-h100")
    gpus = tuple(msgspec.structs.replace(gpu, minor=gpu.index, uuid=f"GPU-{gpu.index}") for gpu in machine.gpus)
    return msgspec.structs.replace(machine, gpus=gpus)


@pytest.mark.parametrize(
    ("of", "cpus", "memory", "gpus"),
    [
        (given(minors=(0, 3)), "passed", "passed", "passed"),
        (given(), "passed", "passed", "not-applicable"),
        (given(CPUS_1, CpuSet.parse("1"), (0,)), "error", "passed", "passed"),
        (given(CPUS_0 | CPUS_1, BOTH, (0,)), "error", "passed", "passed"),
        (given(CPUS_0 | CPUS_1, BOTH), "warning", "passed", "not-applicable"),
        (given(CpuSet.parse("0-223"), BOTH, (0,)), "error", "passed", "passed"),
        (given(CPUS_0 | CPUS_1, BOTH, (0, 7)), "passed", "passed", "error"),
        (given(CPUS_0, BOTH, (0,)), "passed", "info", "passed"),
        (given(CPUS_0, CpuSet.parse("1"), (0,)), "passed", "warning", "passed"),
        (given(None, None), "not-looked-at", "not-looked-at", "not-applicable"),
    ],
)
def test_cpus_memory_and_gpus_are_on_one_numa_node(dgx: Machine, of: Given, cpus: str, memory: str, gpus: str) -> None:
    assert judged(dgx, of) == {"cpus": cpus, "memory": memory, "gpus": gpus, "devices": "not-applicable"}


def test_a_nic_is_where_the_gpus_are(dgx: Machine) -> None:
    near = next(nic.bdf for nic in dgx.nics if nic.numa_node == 0)
    far = next(nic.bdf for nic in dgx.nics if nic.numa_node == 1)
    wanted = {near: "passed", far: "error", f"{near},{far}": "error", "0000:00:00.7": "warning"}
    found = {pci: judged(dgx, given(minors=(0,), PCIDEVICE_X=pci))["devices"] for pci in wanted}
    assert found == wanted


def test_a_uuid_names_a_gpu_and_its_device_files_do_not_count_then(dgx: Machine) -> None:
    of = Given(CPUS_0, NODE_0, tuple(range(8)), ("GPU-5",), {})
    assert [gpu.index for gpu in Own(dgx, of).gpus] == [5]
    assert judged(dgx, of)["cpus"] == "error"


def test_gpus_without_a_numa_node_cannot_be_judged(machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of("vm-all-unknown")
    report = judge_self(Own(machine, Given(None, None, (), ("all",), {})))
    reasons = {check.id: check.reason for check in report.checks}
    assert (reasons["self-gpus"] or "").endswith("the NUMA node is not known")


def test_the_command_looks_at_its_own_process(run: Run, tree: Callable[[str], Path]) -> None:
    one = str(min(os.sched_getaffinity(0)))  # a CPU of NUMA node 0 there, as the process of the test has it
    words = ("verify", "--self", "--root", tree("dgx-h100"), "-o", "json")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(one)})
    try:
        done = run(*words, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    finally:
        os.sched_setaffinity(0, before)
    report = json.loads(done.stdout)
    found = {check["id"]: check["status"] for check in report["checks"]}
    assert done.returncode == 1
    assert found == {
        "self-cpus": "passed",
        "self-memory": "passed",
        "self-gpus": "failed",
        "self-devices": "not-applicable",
    }
    assert (report["config"], report["kubernetesVersion"]) == (None, None)
    assert (report["container"]["cpus"], report["container"]["NUMANodes"]) == (one, "0")
    assert report["container"]["gpus"] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_people_are_told_what_the_container_was_given(run: Run, tree: Callable[[str], Path]) -> None:
    said = run("verify", "--self", "--root", tree("dgx-h100"), env={"NVIDIA_VISIBLE_DEVICES": "all"}).stdout
    allowed = str(CpuSet(os.sched_getaffinity(0)))
    assert said.startswith(f"CPUs {allowed} of NUMA 0; memory of NUMA 0; GPU 0, 1, 2, 3, 4, 5, 6, 7; no NIC by")


def test_a_configuration_is_not_judged_along_with_it(run: Run) -> None:
    done = run("verify", "--self", "--config", "k.yaml")
    assert (done.returncode, "--self looks at this container" in done.stderr) == (2, True)
