"""The builder of machines: what it writes is what a machine's text says, in the form in which a kernel shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import machines
from tests.machines import __main__ as command
from tests.machines import pci
from tests.machines import tree as tree_file

SMALL = """\
arch: x86_64
kernel: 6.8.0
cpuinfo: {model name: Some CPU}
numa: {0: {cpus: 0-3, memory: 1 GiB}}
threads: 2
numbering: adjacent
"""


def read(tree: tree_file.Tree, path: str) -> str:
    return tree.files[path].removesuffix("\n")


def load(name: str) -> tree_file.Tree:
    return machines.tree_of(machines.path_of(name).read_text(encoding="utf-8"), name)


def everything_below(root: Path) -> dict[str, str]:
    """Each file's text and each link's target by its path."""
    found = {}
    for directory, directories, files in os.walk(root):
        for path in (Path(directory, name) for name in (*directories, *files)):
            if path.is_symlink():
                found[str(path.relative_to(root))] = f"-> {path.readlink()}"
            elif path.is_file():
                found[str(path.relative_to(root))] = path.read_text(encoding="utf-8")
    return found


@pytest.mark.parametrize("name", machines.names())
def test_every_link_of_every_machine_leads_to_something(name: str) -> None:
    tree = load(name)
    there = {*tree.files, *tree.directories}
    for path in (*tree.files, *tree.links, *tree.directories):
        while path := path.rpartition("/")[0]:
            there.add(path)
    assert sorted(path for path, target in tree.links.items() if target not in there) == []


@pytest.mark.parametrize("name", machines.names())
def test_every_machine_says_what_it_shows(name: str) -> None:
    text = machines.path_of(name).read_text(encoding="utf-8")
    assert text.startswith("about:")
    assert name == name.lower()


@pytest.mark.parametrize("name", machines.names())
def test_a_machine_has_no_two_network_or_rdma_addresses_alike(name: str) -> None:
    tree = load(name)
    for file in ("address", "node_guid"):
        values = [text for path, text in tree.files.items() if path.endswith(f"/{file}") and "/virtual/" not in path]
        assert sorted(values) == sorted(set(values))


def test_a_tree_on_disk_holds_files_and_relative_links(tmp_path: Path) -> None:
    machines.build("dgx-h100", tmp_path)
    device = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    switch = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0"
    assert str(device.readlink()) == f"../../../devices/{switch}/0000:18:00.0"
    assert str((device / "driver").readlink()) == "../../../../../../bus/pci/drivers/mlx5_core"
    assert (tmp_path / "sys/class/net/ibp24s0/device").resolve() == device.resolve()
    assert (tmp_path / "sys/class/infiniband/mlx5_0/ports/1/state").read_text() == "4: ACTIVE\n"
    assert str((tmp_path / "sys/devices/system/node/node0/cpu0").readlink()) == "../../cpu/cpu0"


@pytest.mark.parametrize("name", ["bonded-nics", "power9-smt4"])
def test_two_builds_are_equal(name: str, tmp_path: Path) -> None:
    machines.build(name, tmp_path / "a")
    machines.build(machines.path_of(name), tmp_path / "b")
    first = everything_below(tmp_path / "a")
    assert len(first) > 100
    assert first == everything_below(tmp_path / "b")


def test_a_dgx_h100_has_its_cpus_memory_and_gpus() -> None:
    tree = load("dgx-h100")
    assert read(tree, "sys/devices/system/cpu/online") == "0-223"
    assert read(tree, "sys/devices/system/cpu/offline") == ""
    assert read(tree, "sys/devices/system/cpu/cpu17/topology/thread_siblings_list") == "17,129"
    assert read(tree, "sys/devices/system/cpu/cpu223/topology/core_id") == "55"
    assert read(tree, "sys/devices/system/cpu/cpu223/topology/package_cpus_list") == "56-111,168-223"
    assert read(tree, "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list") == "0-55,112-167"
    assert "sys/devices/system/cpu/cpu0/online" not in tree.files
    assert read(tree, "sys/devices/system/node/node1/distance") == "21 10"
    assert tree.files["sys/devices/system/node/node0/meminfo"].startswith("Node 0 MemTotal:      1056964608 kB\n")
    assert tree.files["proc/meminfo"].startswith("MemTotal:       2113929216 kB\n")
    gpus = sorted(path.split("/")[4] for path in tree.files if path.endswith("/information"))
    assert [address[5:7] for address in gpus] == ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]


def test_an_offline_cpu_has_a_directory_but_no_topology() -> None:
    tree, cpu = load("smt-part-off"), "sys/devices/system/cpu"
    assert (read(tree, f"{cpu}/online"), read(tree, f"{cpu}/offline"), read(tree, f"{cpu}/present")) == (
        "0-94",
        "95",
        "0-95",
    )
    assert [path for path in tree.files if path.startswith(f"{cpu}/cpu95/")] == [f"{cpu}/cpu95/online"]
    assert read(tree, f"{cpu}/cpu47/topology/thread_siblings_list") == "47"
    assert read(tree, "sys/devices/system/node/node1/cpulist") == "24-47,72-94"
    assert tree.links["sys/devices/system/node/node1/cpu95"] == f"{cpu}/cpu95"


def test_cores_of_several_widths_and_ids_with_holes() -> None:
    hybrid, power = load("hybrid-desktop"), load("power9-smt4")
    siblings = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    assert [read(hybrid, siblings.format(cpu)) for cpu in (0, 15, 16, 31)] == ["0-1", "14-15", "16", "31"]
    assert read(power, siblings.format(90)) == "88-91"
    assert read(power, "sys/devices/system/node/online") == "0,8,252-255"
    assert read(power, "sys/devices/system/node/has_cpu") == "0,8"
    assert read(power, "sys/devices/system/node/has_normal_memory") == "0,8"
    assert read(power, "sys/devices/system/node/node252/cpulist") == ""
    assert read(power, "sys/devices/system/node/node252/distance") == "80 80 10 80 80 80"


@pytest.mark.parametrize(
    ("cpus", "bits", "mask"),
    [
        ([0, 1], 2, "3"),
        ([0, 1], 20, "00003"),
        ([32], 64, "00000001,00000000"),
        ([159], 176, "0000,80000000,00000000,00000000,00000000,00000000"),
    ],
)
def test_a_mask_is_as_wide_as_the_kernel_prints_it(cpus: list[int], bits: int, mask: str) -> None:
    assert tree_file.format_mask(cpus, bits) == mask


def test_lists_are_read_and_written_as_the_kernel_does() -> None:
    assert tree_file.parse_list("0-3,8") == [0, 1, 2, 3, 8]
    assert tree_file.parse_list(None) == []
    assert tree_file.format_list([8, 2, 0, 1, 3]) == "0-3,8"
    assert tree_file.format_list([]) == ""


def test_unknown_numa_nodes_stay_unknown() -> None:
    devices = "sys/devices/pci0000:40/0000:40:01.1"
    assert {
        read(load("vm-all-unknown"), path) for path in load("vm-all-unknown").files if path.endswith("/numa_node")
    } == {"-1"}
    assert not [path for path in load("local-cpus-only").files if path.endswith("/numa_node")]
    beyond = load("numa-node-out-of-range")
    gpu = "sys/devices/pci0000:40/0000:40:03.1/0000:42:00.0"
    assert (read(beyond, f"{gpu}/numa_node"), read(beyond, f"{gpu}/local_cpulist")) == ("1", "")
    assert read(beyond, f"{devices}/0000:41:00.0/local_cpulist") == "0-31"


def test_a_path_keeps_what_stands_above_and_between() -> None:
    azure, wide, guest = load("azure-nd-h100-v5"), load("wide-domain"), load("vm-all-unknown")
    assert azure.links["sys/bus/pci/devices/0001:00:00.0"].startswith("sys/devices/LNXSYSTM:00/")
    assert wide.links["sys/bus/pci/devices/10001:01:00.0"] == (
        "sys/devices/pci0000:00/0000:00:0e.0/pci10001:00/10001:00:01.0/10001:01:00.0"
    )
    assert guest.links["sys/class/net/eth0"] == "sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0"


def test_virtual_functions_and_bonds_are_linked_both_ways() -> None:
    tree = load("sriov-vfs")
    pf = tree.links["sys/bus/pci/devices/0000:02:00.0"]
    last = tree.links["sys/bus/pci/devices/0000:02:01.1"]
    assert (tree.links[f"{pf}/virtfn7"], tree.links[f"{last}/physfn"]) == (last, pf)
    assert (read(tree, f"{pf}/sriov_numvfs"), read(tree, f"{pf}/sriov_totalvfs")) == ("8", "16")
    tree = load("bonded-nics")
    assert read(tree, "sys/class/net/bonding_masters") == "bond0 bond1"
    assert read(tree, "sys/devices/virtual/net/bond1/bonding/slaves") == "eno1 ens3"
    assert tree.links[tree.links["sys/class/net/ens3"] + "/master"] == "sys/devices/virtual/net/bond1"


def test_mig_minors_are_those_of_the_driver() -> None:
    # NVIDIA's MIG User Guide shows gpu0/gi1/access 12, gpu0/gi1/ci0/access 13, gpu0/gi2/access 21.
    assert (pci.mig_minor(0, 1), pci.mig_minor(0, 2)) == (12, 21)
    tree = load("mig-a100")
    assert read(tree, "proc/driver/nvidia/capabilities/gpu0/mig/gi3/ci0/access").startswith("DeviceFileMinor: 31\n")
    assert "\ngpu0/gi3/ci0/access 31\n" in tree.files["proc/driver/nvidia-caps/mig-minors"]


def test_files_are_written_as_they_stand_and_absent_ones_left_out() -> None:
    text = (
        SMALL
        + 'files: {sys/devices/system/cpu/online: "0-3\\0"}\nabsent: ["sys/devices/system/cpu/cpu*/cache", proc/1]\n'
    )
    tree = machines.tree_of(text + "caches: {L1d: 48K per core}\n", "small")
    assert tree.files["sys/devices/system/cpu/online"] == "0-3\0"
    assert not [path for path in tree.files if "/cache/" in path or path.startswith("proc/1/")]
    assert "sys/devices/system/cpu/cpu1/topology/core_id" in tree.files


def test_a_text_can_be_built_without_a_file(tmp_path: Path) -> None:
    machines.build(SMALL, tmp_path / "root")
    assert (tmp_path / "root/sys/devices/system/node/node0/cpulist").read_text() == "0-3\n"


@pytest.mark.parametrize(
    ("addition", "complaint"),
    [
        ("colour: red\n", "unknown colour"),
        ("distances: [0 3 21]\n", "no NUMA nodes 0 and 3"),
        ("pci: '00:01.0 root'\n", "no host bridge"),
        ("pci: |\n  pci0000:00\n    00:01.0 teapot\n", "no such kind"),
        ("pci: |\n  pci0000:00 nuna=0\n", "unknown nuna"),
    ],
)
def test_a_slip_in_a_text_is_refused(addition: str, complaint: str) -> None:
    with pytest.raises(tree_file.MachineError, match=complaint):
        machines.tree_of(SMALL + addition, "small")


def test_an_old_tree_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    with pytest.raises(FileExistsError, match="not empty"):
        machines.build(SMALL, tmp_path)


def test_a_name_that_no_machine_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tree_file.MachineError, match="no machine vax; there are aws-"):
        machines.build("vax", tmp_path)


def test_the_command_writes_one_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["laptop", str(tmp_path / "laptop")]) == 0
    assert (tmp_path / "laptop/proc/sys/kernel/hostname").read_text() == "laptop\n"
    assert command.main([]) == 2
    assert "laptop" in capsys.readouterr().err
