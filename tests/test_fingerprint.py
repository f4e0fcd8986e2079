"""A fingerprint tells configurations apart, not hosts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from numalign.cpuset import CpuSet
from numalign.fingerprint import fingerprint
from numalign.machine import Machine, decode
from tests import machines
from tests.conftest import Run

replace = msgspec.structs.replace
Change = Callable[[Machine], Machine]


def changed_first(field: str, **values: object) -> Change:
    """The machine with values of the first of its cores, NUMA nodes, GPUs … changed."""

    def change(machine: Machine) -> Machine:
        first, *rest = getattr(machine, field)
        return replace(machine, **{field: (replace(first, **values), *rest)})

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda machine: replace(machine, name="another", kernel="7.0", kernel_command_line="quiet", warnings=()),
        lambda machine: replace(machine, cpu_model=None, nvidia_driver=None, pci_devices=(), links=(), bonds=()),
        lambda machine: replace(machine, memory_bytes=(machine.memory_bytes or 0) - (1 << 30)),
        changed_first("gpus", bdf="0001:00:00.0", uuid="GPU-1", model="another name", index=99, driver=None),
        changed_first("nics", bdf="0001:00:00.0", netdevs=("eth9",), system_image_guid="1", state="down"),
        changed_first("numa_nodes", memory_bytes=(1008 << 30) - 12345678),
    ],
)
def test_what_is_a_hosts_own_does_not_change_it(change: Change, machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of("dgx-h100")
    assert fingerprint(change(machine)) == fingerprint(machine)


@pytest.mark.parametrize(
    "change",
    [
        lambda machine: replace(machine, isolated_cpus=CpuSet([1])),
        lambda machine: replace(machine, gpus=machine.gpus[1:]),
        lambda machine: replace(machine, nics=machine.nics[1:]),
        lambda machine: replace(machine, cores=machine.cores[1:]),
        changed_first("gpus", numa_node=1),
        changed_first("gpus", numa_node=None),
        changed_first("gpus", device_id="2331"),
        changed_first("nics", numa_node=1),
        changed_first("numa_nodes", memory_bytes=504 << 30),
        changed_first("numa_nodes", distances={0: 10, 1: 32}),
        changed_first("cores", l3=1),
        changed_first("cores", numa_node=1),
    ],
)
def test_what_decides_about_the_configuration_changes_it(change: Change, machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of("dgx-h100")
    assert fingerprint(change(machine)) != fingerprint(machine)


def test_machines_with_one_fingerprint_differ_in_nothing_that_decides(machine_of: Callable[[str], Machine]) -> None:
    found: dict[str, list[str]] = {}
    for name in machines.names():
        found.setdefault(fingerprint(machine_of(name)), []).append(name)
    assert all(re.fullmatch("[0-9a-f]{16}", text) for text in found)
    # the same server with other BDFs, with a tainted kernel, and seen from a confined process
    alike = ["confined", "renumbered-after", "renumbered-before", "tainted"]
    assert [names for names in found.values() if len(names) > 1] == [alike]


def test_virtual_functions_do_not_count(machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of("sriov-vfs")
    physical = tuple(nic for nic in machine.nics if nic.physical_function is None)
    assert len(physical) < len(machine.nics)
    assert fingerprint(replace(machine, nics=physical)) == fingerprint(machine)


def test_a_redacted_snapshot_has_that_of_its_host(
    run: Run, tree: Callable[[str], Path], tmp_path: Path, machine_of: Callable[[str], Machine]
) -> None:
    run("snapshot", "node.tar.gz", "--redact", "--root", tree("dgx-h100"))
    document = decode(run("inspect", "--machine", "node.tar.gz", "-o", "json").stdout)
    assert fingerprint(document) == fingerprint(machine_of("dgx-h100"))
