"""What differs between two maps is told exactly, and what one of them does not know is no difference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from numalign.compare import Difference, differences
from numalign.cpuset import CpuSet
from numalign.machine import Machine, MigDevice, NvidiaDriver

Get = Callable[[str], Machine]


@pytest.fixture
def dgx(machine_of: Get) -> Machine:
    return machine_of("dgx-h100")


def with_gpu(machine: Machine, index: int, **changes: object) -> Machine:
    """The machine with one of its GPUs changed."""
    gpus = tuple(replace(gpu, **changes) if gpu.index == index else gpu for gpu in machine.gpus)
    return replace(machine, gpus=gpus)


def test_a_machine_is_as_itself(machine_of: Get) -> None:
    for name in ("dgx-h100", "gb200-nvl", "mig-a100", "vm-all-unknown", "sriov-vfs", "laptop", "no-node-dir"):
        assert differences(machine_of(name), machine_of(name)) == ()


def test_gpus_that_moved_are_told_by_uuid(machine_of: Get) -> None:
    found = differences(machine_of("renumbered-before"), machine_of("renumbered-after"))
    assert [(one.kind, one.subject, one.before, one.now) for one in found] == [
        (
            "gpu-moved",
            f"GPU 5f0c1f0a-6d1b-4c0e-9a51-0d5a3c7e1a0{number}".replace("GPU ", "GPU GPU-"),
            f"{place.format(before)}, NUMA node {node}",
            f"{place.format(after)}, NUMA node {node}",
        )
        for number, before, after, node in ((1, "01", "02", 0), (2, "81", "82", 1))
        for place in (found[0].before.partition("0000:")[0] + "0000:{}:00.0",)
    ]


def test_gpus_that_are_gone_new_or_replaced_are_told(dgx: Machine) -> None:
    less = replace(dgx, gpus=dgx.gpus[:3] + dgx.gpus[4:])
    (gone,) = differences(dgx, less)
    assert (gone.kind, gone.subject, gone.now) == ("gpu-gone", f"GPU {dgx.gpus[3].uuid}", "it is not there")
    assert gone.before.endswith("0000:61:00.0, NUMA node 0")
    (new,) = differences(less, dgx)
    assert (new.kind, new.before) == ("gpu-new", "it was not there")
    other = "GPU-11111111-0000-4000-8000-000000000000"
    one = replace(dgx, gpus=dgx.gpus[:1])
    assert differences(one, with_gpu(one, 0, uuid=other)) == (
        Difference("gpu-replaced", "GPU 0000:1b:00.0", str(dgx.gpus[0].uuid), other),
    )
    assert [one.kind for one in differences(dgx, with_gpu(dgx, 3, uuid=other))] == ["gpu-gone", "gpu-new"]
    redacted = with_gpu(one, 0, uuid="GPU-00000000-0000-0000-0000-000000000001")
    assert differences(redacted, one) == differences(with_gpu(one, 0, uuid=None), one) == ()


def test_another_numa_layout_is_one_difference(machine_of: Get, dgx: Machine) -> None:
    first, *rest = dgx.numa_nodes
    half = CpuSet.parse("0-27,112-139")
    nodes = (replace(first, cpus=half), *rest, replace(first, id=2, cpus=first.cpus - half))
    assert differences(dgx, replace(dgx, numa_nodes=nodes)) == (
        Difference("numa-layout", "NUMA nodes", "2 NUMA nodes", "3 NUMA nodes"),
    )
    nps4 = machine_of("dgx-a100-nps4")
    flat = tuple(
        replace(node, id=node.id // 4, cpus=CpuSet(cpu for one in nps4.numa_nodes[part : part + 4] for cpu in one.cpus))
        for part, node in ((0, nps4.numa_nodes[0]), (4, nps4.numa_nodes[4]))
    )
    (layout,) = (one for one in differences(replace(nps4, numa_nodes=flat), nps4) if one.kind == "numa-layout")
    assert (layout.before, layout.now) == ("2 NUMA nodes", "8 NUMA nodes, 4 a socket")


def test_cpus_that_went_offline_are_told(dgx: Machine) -> None:
    off = CpuSet.parse("112-223")
    now = replace(dgx, online_cpus=dgx.online_cpus - off, offline_cpus=off)
    assert differences(dgx, now) == (Difference("cpus-offline", "CPUs", "0-223 online", "112-223 offline"),)
    assert differences(now, dgx) == (Difference("cpus", "CPUs", "0-111 online", "0-223 online"),)


@pytest.mark.parametrize(("share", "told"), [(0.995, False), (1.005, False), (0.94, True), (1.2, True)])
def test_memory_counts_beyond_a_small_tolerance(share: float, told: bool, dgx: Machine) -> None:
    first, second = dgx.numa_nodes
    less = replace(second, memory_bytes=int((second.memory_bytes or 0) * share))
    found = differences(dgx, replace(dgx, numa_nodes=(first, less)))
    assert [(one.kind, one.subject) for one in found] == ([("memory", "NUMA node 1")] if told else [])


def test_links_numa_nodes_mig_and_driver_are_compared(dgx: Machine) -> None:
    narrow = replace(dgx.gpus[2].pcie, width=8, speed=2.5)
    mig = MigDevice(uuid=None, name=None, memory_bytes=None, gpu_instance=0, compute_instance=0)
    now = with_gpu(with_gpu(dgx, 2, pcie=narrow, numa_node=None), 1, mig_enabled=True, mig_devices=(mig,))
    now = replace(now, nvidia_driver=NvidiaDriver(version="580.1", nvml="ok"))
    nic = dgx.nics[0]
    now = replace(now, nics=(replace(nic, pcie=replace(nic.pcie, max_speed=16.0)), *now.nics[2:]))
    assert [(one.kind, one.subject.partition(" ")[0], one.before, one.now) for one in differences(dgx, now)] == [
        ("mig", "GPU", "MIG off", "1 MIG device"),
        ("numa-node", "GPU", "NUMA node 0", "NUMA node unknown"),
        ("link", "GPU", "16 lanes", "8 lanes"),
        ("nic-gone", "NIC", "ConnectX-7 at 0000:29:00.0, NUMA node 0", "it is not there"),
        ("link", "NIC", "32 GT/s at most", "16 GT/s at most"),
        ("driver", "NVIDIA", "570.124.06", "580.1"),
    ]


def test_virtual_functions_come_and_go(machine_of: Get) -> None:
    machine = machine_of("sriov-vfs")
    physical = tuple(nic for nic in machine.nics if nic.physical_function is None)
    assert differences(machine, replace(machine, nics=physical)) == ()
