"""What odd machines tell: each of tests/fixtures/sysfs has its warnings, and the facts for which it is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Bond, Gpu, Hugepages, Machine, MigDevice, NearestNics, Nic, NvidiaDriver
from numalign.probe import NAMES_RECORD, names, probe, udev
from numalign.probe.host import Host
from numalign.reserve import Wishes, choose
from tests import machines

WARNINGS: dict[str, list[str]] = {
    "aws-p5-48xlarge": [],
    "azure-nd-h100-v5": [],
    "bluefield-near-gpu": [],
    "bonded-nics": ["bond-spans-numa-nodes"],
    "broken-core-ids": ["core-ids-not-believable"],
    "confined": ["reader-confined"],
    "cpus-without-node": ["cpus-without-numa-node"],
    "dgx-a100-nps4": [],
    "dgx-h100": [],
    "gb200-nvl": ["many-numa-nodes"],
    "gh200": ["many-numa-nodes"],
    "gpu-far-from-nic": [],
    "gpus-one-socket": ["gpus-on-one-numa-node", "gpu-without-near-nic"],
    "gpus-uneven": [],
    "hbm-flat": ["many-numa-nodes"],
    "hybrid-desktop": ["threads-per-core-uneven"],
    "laptop": [],
    "link-degraded": ["gpu-link-degraded", "nic-link-degraded"],
    "local-cpus-only": ["gpu-numa-unknown", "nic-numa-unknown", "gpu-without-near-nic"],
    "mig-a100": ["gpu-without-near-nic"],
    "no-driver": ["gpu-no-driver", "gpu-other-driver", "gpu-without-near-nic"],
    "no-node-dir": ["no-numa-directory", "gpu-numa-unknown", "nic-numa-unknown"],
    "node-zero-lie": ["gpus-on-one-numa-node"],
    "numa-node-out-of-range": ["numa-node-does-not-exist"],
    "pf-without-rdma": ["nic-without-rdma"],
    "power9-smt4": [],
    "renumbered-after": [],
    "renumbered-before": [],
    "server-2s": [],
    "sixty-four": [],
    "smt-part-off": ["threads-per-core-uneven", "gpu-without-near-nic"],
    "socket-direct": ["nic-socket-direct"],
    "sparse-node-ids": [],
    "sriov-vfs": [],
    "tainted": ["kernel-firmware-workaround"],
    "two-packages-one-node": ["numa-off"],
    "vfio-gpu": ["gpus-on-one-numa-node", "gpu-no-driver", "gpu-other-driver", "gpu-without-near-nic"],
    "vm-all-unknown": ["gpu-numa-unknown", "nic-numa-unknown"],
    "vm-some-unknown": ["nic-numa-unknown"],
    "wide-domain": ["gpu-without-near-nic"],
}

MachineOf = Callable[[str], Machine]


def message(machine: Machine, id: str) -> str:
    (found,) = [warning.message for warning in machine.warnings if warning.id == id]
    return found


def gpu_at(machine: Machine, bdf: str) -> Gpu:
    (found,) = [gpu for gpu in machine.gpus if gpu.bdf == bdf]
    return found


def nic_at(machine: Machine, bdf: str) -> Nic:
    (found,) = [nic for nic in machine.nics if nic.bdf == bdf]
    return found


@pytest.mark.parametrize("name", machines.names())
def test_a_machine_has_its_warnings_and_no_others(name: str, machine_of: MachineOf) -> None:
    assert [warning.id for warning in machine_of(name).warnings] == WARNINGS[name]


def test_a_dgx_pairs_each_gpu_with_the_nic_behind_its_switch(machine_of: MachineOf) -> None:
    machine = machine_of("dgx-h100")
    assert {gpu.nearest_nics and gpu.nearest_nics.type for gpu in machine.gpus} == {"PXB"}
    pairs = [
        (gpu.numa_node, nic_at(machine, gpu.nearest_nics.nics[0]).rdma) for gpu in machine.gpus if gpu.nearest_nics
    ]
    assert pairs == [(0, (f"mlx5_{i}",)) for i in (0, 3, 4, 5)] + [(1, (f"mlx5_{i}",)) for i in (6, 9, 10, 11)]
    assert machine.nvidia_driver == NvidiaDriver(version="570.124.06", nvml="off")


def test_gpus_of_nps4_are_on_the_nodes_of_their_quarter(machine_of: MachineOf) -> None:
    assert [gpu.numa_node for gpu in machine_of("dgx-a100-nps4").gpus] == [3, 3, 1, 1, 7, 7, 5, 5]


def test_minus_one_is_unknown_and_never_node_zero(machine_of: MachineOf) -> None:
    machine = machine_of("vm-all-unknown")
    assert {device.numa_node for device in machine.devices()} == {None}
    assert "all 8 GPUs" in message(machine, "gpu-numa-unknown")
    assert [gpu.numa_node for gpu in machine_of("vm-some-unknown").gpus if gpu.numa_node is None] == []


def test_devices_that_all_claim_node_zero_are_doubted(machine_of: MachineOf) -> None:
    assert "the firmware may not know better" in message(machine_of("node-zero-lie"), "gpus-on-one-numa-node")
    assert "may not know" not in message(machine_of("gpus-one-socket"), "gpus-on-one-numa-node")


def test_uneven_gpu_counts_are_as_they_are(machine_of: MachineOf) -> None:
    machine = machine_of("gpus-uneven")
    assert [sum(gpu.numa_node == node.id for gpu in machine.gpus) for node in machine.numa_nodes] == [3, 1, 3, 1]


def test_local_cpus_tell_the_node_only_where_they_are_exactly_one_nodes(machine_of: MachineOf) -> None:
    gpus = machine_of("local-cpus-only").gpus
    assert [(gpu.numa_node, gpu.numa_node_from) for gpu in gpus] == [(1, "local_cpulist"), (None, None)]


def test_a_gpu_for_passthrough_is_shown_with_its_driver_and_group(machine_of: MachineOf) -> None:
    first, second = machine_of("vfio-gpu").gpus
    assert (first.driver, first.iommu_group, first.numa_node) == ("vfio-pci", 94, 1)
    assert (second.driver, second.uuid) == (None, None)


def test_gpus_without_a_driver_are_on_the_map(machine_of: MachineOf) -> None:
    machine = machine_of("no-driver")
    assert [gpu.driver for gpu in machine.gpus] == [None, "nouveau", None]
    assert machine.nvidia_driver == NvidiaDriver(version=None, nvml="off")


def test_mig_devices_belong_to_their_gpu(machine_of: MachineOf) -> None:
    first, second = machine_of("mig-a100").gpus
    assert first.mig_devices == tuple(
        MigDevice(uuid=None, name=None, memory_bytes=None, gpu_instance=instance, compute_instance=0)
        for instance in (3, 4, 5, 6)
    )
    assert (first.mig_enabled, first.numa_node, second.mig_enabled, second.mig_devices) == (True, 3, None, ())


def test_nodes_of_gpu_memory_are_known_by_the_driver(machine_of: MachineOf) -> None:
    machine = machine_of("gb200-nvl")
    assert [gpu.memory_numa_node for gpu in machine.gpus] == [2, 10, 18, 26]
    bare = [node for node in machine.numa_nodes if not node.cpus]
    assert (len(machine.numa_nodes), len(bare)) == (34, 32)


def test_node_ids_may_have_holes(machine_of: MachineOf) -> None:
    machine = machine_of("sparse-node-ids")
    assert [(node.id, node.distances) for node in machine.numa_nodes] == [(0, {0: 10, 2: 32}), (2, {0: 32, 2: 10})]
    assert [node.id for node in machine_of("power9-smt4").numa_nodes] == [0, 8, 252, 253, 254, 255]


def test_threads_per_core_are_as_they_really_are(machine_of: MachineOf) -> None:
    def threads(name: str) -> dict[int, int]:
        sizes = [len(core.cpus) for core in machine_of(name).cores]
        return {size: sizes.count(size) for size in sorted(set(sizes))}

    assert threads("hybrid-desktop") == {1: 16, 2: 8}
    assert threads("power9-smt4") == {4: 44}
    assert threads("smt-part-off") == {1: 1, 2: 47}
    assert str(machine_of("smt-part-off").offline_cpus) == "95"
    assert "95 CPUs / 48 cores = 1" in message(machine_of("smt-part-off"), "threads-per-core-uneven")
    assert threads("broken-core-ids") == {1: 14}


def test_cores_with_equal_ids_in_two_sockets_are_two_cores(machine_of: MachineOf) -> None:
    machine = machine_of("two-packages-one-node")
    assert (len(machine.cores), len(machine.sockets)) == (32, 2)
    ids = [core.core_id for core in machine.cores]
    assert len(set(ids)) < len(ids)


def test_l3_groups_and_hugepages_are_read(machine_of: MachineOf) -> None:
    a100 = machine_of("dgx-a100-nps4")
    assert (len(a100.l3_caches), {len(cache.cpus) for cache in a100.l3_caches}) == (32, {8})
    node = machine_of("server-2s").numa_nodes
    assert [pages for pages in node[0].hugepages if pages.total] != [
        pages for pages in node[1].hugepages if pages.total
    ]
    assert Hugepages(size=1 << 30, total=8, free=5) in node[0].hugepages
    assert machine_of("server-2s").isolated_cpus


def test_no_numa_directory_is_not_one_numa_node(machine_of: MachineOf) -> None:
    machine = machine_of("no-node-dir")
    assert (machine.numa_nodes, {core.numa_node for core in machine.cores}) == ((), {None})


def test_domains_keep_all_their_digits(machine_of: MachineOf) -> None:
    assert [gpu.bdf for gpu in machine_of("wide-domain").gpus] == [
        "0000:07:00.0",
        "0001:00:00.0",
        "cfdd:00:00.0",
        "10000:01:00.0",
    ]


def test_bonds_and_their_members_are_named(machine_of: MachineOf) -> None:
    machine = machine_of("bonded-nics")
    assert [bond.name for bond in machine.bonds] == ["bond0", "bond1"]
    assert machine.bonds[1] == Bond(name="bond1", netdevs=("eno1", "ens3"), nics=machine.bonds[1].nics)
    assert {nic_at(machine, bdf).numa_node for bdf in machine.bonds[1].nics} == {0, 1}
    assert ("mlx5_bond_0",) in {nic.rdma for nic in machine.nics}


def test_virtual_functions_are_under_their_physical_function(machine_of: MachineOf) -> None:
    machine = machine_of("sriov-vfs")
    physical = [nic for nic in machine.nics if nic.sriov and nic.sriov.configured]
    assert [nic.sriov and nic.sriov.configured for nic in physical] == [8]
    virtual = [nic for nic in machine.nics if nic.physical_function]
    assert {nic.physical_function for nic in virtual} <= {nic.bdf for nic in physical}
    near = {bdf for gpu in machine.gpus if gpu.nearest_nics for bdf in gpu.nearest_nics.nics}
    assert near.isdisjoint({nic.bdf for nic in virtual})


def test_virtual_functions_of_a_gpu_are_no_gpus(tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = changed(tree, "no-driver", tmp_path / "root")
    first, second, third = probe(Host(str(root))).gpus
    (root / "sys/bus/pci/devices" / second.bdf).resolve().joinpath("physfn").symlink_to(f"../{first.bdf}")
    machine = probe(Host(str(root)))
    assert [(gpu.index, gpu.bdf) for gpu in machine.gpus] == [(0, first.bdf), (1, third.bdf)]
    assert second.bdf in {device.bdf for device in machine.pci_devices}


@pytest.mark.parametrize("width", ["0", "63", "255"])
def test_a_link_has_no_width_that_pcie_does_not_have(width: str, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = changed(tree, "laptop", tmp_path / "root")
    for file in root.rglob("current_link_width"):
        file.write_text(f"{width}\n")
    machine = probe(Host(str(root)))
    assert {device.pcie.width for device in machine.devices()} == {None}
    assert machine.warnings == ()


@pytest.mark.parametrize(("option", "warnings"), [("", []), (" numa=off", ["numa-off"])])
def test_a_guest_with_a_socket_for_each_cpu_has_numa_on(
    option: str, warnings: list[str], tree: Callable[[str], Path], tmp_path: Path
) -> None:
    root = changed(tree, "broken-core-ids", tmp_path / "root")
    for folder in (root / "sys/devices/system/cpu").glob("cpu*/topology"):
        cpu = folder.parent.name.removeprefix("cpu")
        shutil.rmtree(folder)
        folder.mkdir()
        told = {"core_id": "0", "core_cpus_list": cpu, "physical_package_id": cpu, "package_cpus_list": cpu}
        for name, text in told.items():
            (folder / name).write_text(f"{text}\n")
    (root / "proc/cmdline").write_text(f"quiet{option}\n")
    machine = probe(Host(str(root)))
    assert (len(machine.sockets), len(machine.cores), len(machine.numa_nodes)) == (14, 14, 1)
    assert [warning.id for warning in machine.warnings] == warnings


def test_directories_that_no_kernel_names_so_are_no_numa_nodes_and_cpus(
    tree: Callable[[str], Path], machine_of: MachineOf, tmp_path: Path
) -> None:
    root = changed(tree, "server-2s", tmp_path / "root")
    for name in ("node/node01", "node/node0²", "cpu/cpu01", "cpu/cpu٣"):
        (root / "sys/devices/system" / name).mkdir()
    assert probe(Host(str(root))) == machine_of("server-2s")


def test_a_gpu_on_another_root_port_is_not_near_its_nic(machine_of: MachineOf) -> None:
    machine = machine_of("gpu-far-from-nic")
    assert gpu_at(machine, "0000:03:00.0").nearest_nics == NearestNics(type="PIX", nics=("0000:04:00.0",))
    far = gpu_at(machine, "0000:21:00.0").nearest_nics
    assert far is not None
    assert (far.type, len(far.nics)) == ("NODE", 2)


def test_a_confined_reader_is_told_what_it_may_use(machine_of: MachineOf) -> None:
    confinement = machine_of("confined").confinement
    assert confinement is not None
    assert (confinement.cpus, confinement.container) == (CpuSet(range(64, 72)), True)


def test_names_come_from_the_table_and_else_from_what_was_recorded(tmp_path: Path) -> None:
    machines.build("laptop", tmp_path)
    (nic,) = probe(Host(str(tmp_path))).nics
    known = (nic.vendor_id, nic.device_id) in names.KNOWN
    (tmp_path / "numalign").mkdir()
    (tmp_path / NAMES_RECORD).write_bytes(names.encode({(nic.vendor_id, nic.device_id): "Recorded NIC"}))
    (again,) = probe(Host(str(tmp_path))).nics
    assert (nic.model, again.model, known) == (None, "Recorded NIC", False)


@pytest.mark.skipif(
    not Path("/usr/lib/udev/hwdb.bin").exists(), reason="udev's hardware database is not installed on this machine"
)
def test_the_hardware_database_is_asked_through_pyudev() -> None:
    found = udev.lookup({("10de", "2330"), ("15b3", "1021"), ("ffff", "fffe")})
    assert found == {("10de", "2330"): "GH100 [H100 SXM5 80GB]", ("15b3", "1021"): "MT2910 Family [ConnectX-7]"}


def test_memory_that_no_numa_node_has_is_said(tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(tree("server-2s"), root, symlinks=True)
    (root / "sys/devices/system/node/node1/meminfo").write_text("Node 1 MemTotal:       1048576 kB\n")
    machine = probe(Host(str(root)))
    assert [warning.id for warning in machine.warnings] == ["memory-not-in-numa-nodes"]
    assert "the machine has 93.7 GiB, its NUMA nodes 47.5 GiB in all" in message(machine, "memory-not-in-numa-nodes")


def changed(tree: Callable[[str], Path], name: str, root: Path) -> Path:
    shutil.copytree(tree(name), root, symlinks=True)
    return root


def test_siblings_are_told_by_the_other_cpu_where_ones_own_file_is_missing(
    tree: Callable[[str], Path], tmp_path: Path
) -> None:
    root = changed(tree, "dgx-h100", tmp_path / "root")
    shutil.rmtree(root / "sys/devices/system/cpu/cpu0/topology")
    machine = probe(Host(str(root)))
    assert machine.cores[0].cpus == CpuSet((0, 112))
    assert {warning.id for warning in machine.warnings} == {"file-missing"}


def test_without_any_topology_no_cores_are_made_up(tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = changed(tree, "server-2s", tmp_path / "root")
    for folder in (root / "sys/devices/system/cpu").glob("cpu*/topology"):
        shutil.rmtree(folder)
    machine = probe(Host(str(root)))
    assert "core-ids-not-believable" not in {warning.id for warning in machine.warnings}
    assert any(warning.subject == "/sys/devices/system/cpu/cpu0/topology/core_id" for warning in machine.warnings)
    with pytest.raises(DoesNotHold, match="which CPUs share a core is not known"):
        choose(machine, Wishes())


@pytest.mark.parametrize(
    "path",
    ["proc/meminfo", "sys/devices/system/node/node0/meminfo", "sys/devices/system/node/node0/distance",
     "sys/devices/system/cpu/cpu0/topology/core_id", "sys/bus/pci/devices"],
)  # fmt: skip
def test_a_file_that_every_host_has_is_missed(path: str, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = changed(tree, "server-2s", tmp_path / "root")
    if (root / path).is_dir():
        shutil.rmtree(root / path)
    else:
        (root / path).unlink()
    missing = [warning.subject for warning in probe(Host(str(root))).warnings if warning.id == "file-missing"]
    assert missing == [f"/{path}"]


def test_a_guid_of_zeros_makes_no_two_nics_one_card(tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = changed(tree, "socket-direct", tmp_path / "root")
    for file in root.rglob("sys_image_guid"):
        file.write_text("0000:0000:0000:0000\n")
    machine = probe(Host(str(root)))
    assert {nic.system_image_guid for nic in machine.nics} == {None}
    assert "nic-socket-direct" not in {warning.id for warning in machine.warnings}
