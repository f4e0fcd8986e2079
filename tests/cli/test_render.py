"""numalign render kubelet-config: right for every machine, and verified against it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from numalign.checks.hardware import WARNINGS
from numalign.cli.files import write_file
from numalign.cpuset import CpuSet
from numalign.machine import Machine
from numalign.reserve import whole_cores
from tests import machines
from tests.conftest import Run


@pytest.mark.parametrize("name", machines.names())
def test_the_default_passes_verify_on_every_machine(
    name: str, run: Run, tree: Callable[[str], Path], machine_of: Callable[[str], Machine], tmp_path: Path
) -> None:
    machine = machine_of(name)
    done = run("render", "kubelet-config", "--root", tree(name), "--out", tmp_path / "kubelet.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    document = YAML(typ="safe").load(tmp_path / "kubelet.yaml")
    reserved = CpuSet.parse(document["reservedSystemCPUs"])
    assert whole_cores(machine, reserved) == reserved <= machine.online_cpus
    assert all(node.cpus.bits & reserved.bits for node in machine.numa_nodes if node.cpus)
    report = run("verify", "--config", tmp_path / "kubelet.yaml", "--root", tree(name), "-o", "json")
    found = {finding["id"] for finding in json.loads(report.stdout)["findings"] if finding["severity"] == "error"}
    assert (report.returncode, found - set(WARNINGS)) == (int(bool(found)), set())


def test_the_reserved_cpus_can_be_said(run: Run, tree: Callable[[str], Path]) -> None:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), "--reserved-cpus", "0-1,112-113")
    assert YAML(typ="safe").load(done.stdout)["reservedSystemCPUs"] == "0-1,112-113"


@pytest.mark.parametrize(
    ("wish", "reserved"),
    [
        (("--reserved-cpu-count", "4"), "0,56,112,168"),
        (("--reserved-cpu-count", "2"), "0,112"),
        (("--reserved-cpu-count", "4", "--reserve-on", "1"), "56-57,168-169"),
        (("--reserved-cores-per-numa", "2"), "0-1,56-57,112-113,168-169"),
        (("--reserve-on", "1"), "56-59,168-171"),
        ((), "0-3,56-59,112-115,168-171"),
    ],
)
def test_a_wish_is_met_in_whole_cores(
    wish: tuple[str, ...], reserved: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), *wish)
    assert (done.returncode, done.stderr) == (0, "")
    assert YAML(typ="safe").load(done.stdout)["reservedSystemCPUs"] == reserved


@pytest.mark.parametrize(
    ("wish", "status", "says"),
    [
        (("--reserved-cpu-count", "5"), 1, "--reserved-cpu-count 4 or 6"),
        (("--reserved-cpu-count", "0"), 1, "--reserved-cpu-count 2"),
        (("--reserved-cpu-count", "1"), 1, "--reserved-cpu-count 2"),
        (("--reserved-cpu-count", "500"), 1, "--reserved-cpu-count 222"),
        (("--reserved-cores-per-numa", "99"), 1, "--reserved-cores-per-numa 55"),
        (("--reserve-on", "7"), 1, "--reserve-on takes 0, 1"),
        (("--reserved-cpu-count", "two"), 2, "a whole number from 0"),
        (("--reserve-on", "a"), 2, "--reserve-on a"),
        (("--reserved-cpu-count", "2", "--reserved-cpus", "0,112"), 2, "exclude each other"),
        (("--reserved-cpus", "0,112", "--reserve-on", "0"), 2, "exclude each other"),
    ],
)
def test_a_wish_that_cannot_be_met_says_what_can(
    wish: tuple[str, ...], status: int, says: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), *wish)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("wish", "status", "says", "hint"),
    [
        ("0-3", 1, "leave their siblings 112-115", "--reserved-cpus 0-3,112-115"),
        ("0,112,999", 1, "there are no CPUs 999 on this machine: it has 0-223", "--reserved-cpus 0,112"),
        ("0-223", 1, "all 224 CPUs would be reserved", "--reserved-cpus 0-3,56-59,112-115,168-171"),
        ("0-999", 1, "there are no CPUs 224-999", "--reserved-cpus 0-3,56-59,112-115,168-171"),
        ("", 2, "--reserved-cpus is empty", "script"),
        ("a-b", 2, "--reserved-cpus a-b", "a list such as"),
    ],
)
def test_an_impossible_wish_names_the_nearest_possible_one(
    wish: str, status: int, says: str, hint: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), "--reserved-cpus", wish)
    assert (done.returncode, done.stdout) == (status, "")
    first, second = done.stderr.splitlines()
    assert says in first
    assert hint in second


def test_isolated_cpus_are_not_reserved_by_chance(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    document = json.loads(run("inspect", "--root", tree("server-2s"), "-o", "json").stdout)
    document["isolatedCPUs"] = document["cores"][0]["cpus"]
    done = run("render", "kubelet-config", "--machine", "-", stdin=json.dumps(document).encode())
    reserved = CpuSet.parse(YAML(typ="safe").load(done.stdout)["reservedSystemCPUs"])
    assert not reserved.bits & CpuSet.parse(document["isolatedCPUs"]).bits


def test_a_machine_whose_gpus_have_no_numa_node_is_warned_about(run: Run, tree: Callable[[str], Path]) -> None:
    done = run("render", "kubelet-config", "--root", tree("vm-all-unknown"))
    assert done.returncode == 0
    assert "gpu-numa-unknown" in done.stderr
    assert "all 8 GPUs without a known NUMA node" in " ".join(done.stdout.replace("\n# ", " ").split())


def test_a_machine_of_one_core_has_none_to_give(run: Run, tree: Callable[[str], Path]) -> None:
    document = json.loads(run("inspect", "--root", tree("laptop"), "-o", "json").stdout)
    core = document["cores"][0]
    document.update(onlineCPUs=core["cpus"], cores=[core], sockets=[{"id": 0, "cpus": core["cpus"]}])
    document["numaNodes"][0]["cpus"] = core["cpus"]
    done = run("render", "kubelet-config", "--machine", "-", stdin=json.dumps(document).encode())
    assert (done.returncode, done.stdout) == (1, "")
    assert "laptop has one core" in done.stderr


def test_names_from_the_machine_stay_in_their_comment(run: Run, tree: Callable[[str], Path]) -> None:
    document = json.loads(run("inspect", "--root", tree("laptop"), "-o", "json").stdout)
    document["name"] = document["cpuModel"] = "x\nmemoryManagerPolicy: Static\r\u2028evil: {{ 7 * 7 }}"
    done = run("render", "kubelet-config", "--machine", "-", stdin=json.dumps(document).encode())
    rendered = YAML(typ="safe").load(done.stdout)
    assert "memoryManagerPolicy" not in rendered
    assert "evil" not in rendered
    assert "{{ 7 * 7 }}" in done.stdout


def test_an_existing_file_keeps_its_mode_and_is_replaced_whole(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    target = tmp_path / "kubelet.yaml"
    target.write_text("old\n" * 1000)
    target.chmod(0o600)
    (tmp_path / "link").symlink_to(target)
    done = run("render", "kubelet-config", "--root", tree("laptop"), "--out", tmp_path / "link")
    assert done.returncode == 0
    assert target.read_text().startswith("# KubeletConfiguration for laptop")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kubelet.yaml", "link"]


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / f".numalign-{os.getpid()}.tmp").write_text("half")
    write_file(str(tmp_path / "out"), b"whole")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        f".numalign-{os.getpid()}.tmp": "half",
        "out": "whole",
    }
