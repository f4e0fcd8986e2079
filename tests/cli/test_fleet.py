"""numalign fleet: classes, odd ones out with the exact difference, a configuration for each class, pods that fit."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from numalign.cpuset import CpuSet
from numalign.machine import Machine, encode
from tests import fleets
from tests.conftest import Run, Tree

SCHEMA = Path(__file__).parents[2] / "docs/schema/fleet.json"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec: {containers: [{name: main, resources: {limits: {cpu: 48, memory: 400Gi, nvidia.com/gpu: 4}}}]}
"""
WHOLE = POD.replace("gpu: 4", "gpu: 8")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet of docs/fleet.md: 64 nodes, six of them odd."""
    folder = tmp_path_factory.mktemp("fleet") / "nodes"
    fleets.write_nodes(folder)
    return folder


def answer(run: Run, *words: str | Path) -> dict[str, Any]:
    done = run("fleet", *words, "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    return found


def odd(found: dict[str, Any]) -> list[tuple[str, list[str], list[str]]]:
    """What is odd, which nodes are, and where on them."""
    listed = found["odd"]
    return [
        (
            ", ".join(each["what"]),
            [node["name"] for node in each["names"]],
            sorted({where for node in each["names"] for where in node["where"]}),
        )
        for each in listed
    ]


def test_the_odd_ones_are_told_with_the_exact_difference(run: Run, nodes: Path) -> None:
    found = answer(run, nodes)
    assert odd(found) == [
        ("SNC2 instead of SNC off", ["gpu-023", "gpu-024", "gpu-025"], []),
        ("NIC without NUMA node", ["gpu-031"], ["0000:18:00.0"]),
        ("GPU missing", ["gpu-017"], ["0000:c3:00.0"]),
        ("NVIDIA driver 550.54.15 instead of 570.124.06", ["gpu-040"], []),
    ]
    one = found["classes"][0]
    assert (one["name"], one["nodes"], len(one["names"])) == ("a", 59, 59)


Change = Callable[[Machine], Machine]


def offline(machine: Machine) -> Machine:
    """The second thread of its first core is offline."""
    gone = CpuSet((112,))
    return replace(
        machine,
        online_cpus=machine.online_cpus - gone,
        offline_cpus=gone,
        cores=tuple(replace(core, cpus=core.cpus - gone) for core in machine.cores),
        numa_nodes=tuple(replace(node, cpus=node.cpus - gone) for node in machine.numa_nodes),
        sockets=tuple(replace(socket, cpus=socket.cpus - gone) for socket in machine.sockets),
        l3_caches=tuple(replace(cache, cpus=cache.cpus - gone) for cache in machine.l3_caches),
    )


def less_memory(machine: Machine) -> Machine:
    """A quarter of the memory of its second NUMA node is missing."""
    first, second = machine.numa_nodes
    return replace(machine, numa_nodes=(first, replace(second, memory_bytes=(second.memory_bytes or 0) * 3 // 4)))


@pytest.mark.parametrize(
    ("change", "said"),
    [(offline, "1 CPU offline"), (less_memory, "memory smaller"), (fleets.without_gpu, "GPU missing")],
)
def test_one_of_ten_is_found(
    change: Change, said: str, run: Run, machine_of: Callable[[str], Machine], tmp_path: Path
) -> None:
    fleets.write_fleet(tmp_path / "ten", machine_of("dgx-h100"), 10, {7: change})
    ((what, names, _),) = odd(answer(run, "ten"))
    assert names == ["gpu-007"]
    assert said in what


def test_the_configuration_of_a_class_is_what_render_writes_for_its_nodes(
    run: Run, nodes: Path, tmp_path: Path
) -> None:
    words = ("--memory-manager", "static", "--policy", "restricted", "--target", "kubelet")
    assert run("fleet", nodes, "--out-dir", "kubelet", *words).returncode == 0
    rendered = run("render", "kubelet-config", "--machine", nodes / "gpu-050.json", *words).stdout
    assert plain((tmp_path / "kubelet/a.yaml").read_text()) == plain(rendered)


def plain(text: str) -> list[str]:
    """The lines of a document without its comments."""
    return [line.partition(" #")[0].rstrip() for line in text.splitlines() if not line.startswith("#")]


def test_a_drop_in_has_the_ending_that_the_kubelet_reads(run: Run, nodes: Path, tmp_path: Path) -> None:
    assert run("fleet", nodes, "--out-dir", "out", "--target", "drop-in").returncode == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.conf"]


def test_pods_are_counted_on_each_class_and_in_all(run: Run, nodes: Path, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    found = answer(run, nodes, "--pod", "pod.yaml")
    pod = found["pods"][0]
    assert (pod["nodes"], pod["total"]) == (64, 121)
    one = run("predict", "pod.yaml", "--count", "--config", "a.yaml", "--machine", nodes / "gpu-001.json", "-o", "json")
    assert one.returncode == 3  # there is no configuration yet
    run("fleet", nodes, "--out-dir", ".")
    one = run("predict", "pod.yaml", "--count", "--config", "a.yaml", "--machine", nodes / "gpu-001.json", "-o", "json")
    assert json.loads(one.stdout)["pods"][0]["count"] == 2


def test_a_pod_that_fits_nowhere_makes_the_status_1(run: Run, nodes: Path, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(WHOLE)
    done = run("fleet", nodes, "--pod", "pod.yaml")
    assert done.returncode == 1
    assert "8 nvidia.com/gpu are never on one NUMA node" in done.stdout


@pytest.mark.parametrize(("what", "status"), [("odd", 1), ("any", 1), ("unread", 0)])
def test_fail_on_says_what_makes_the_status_1(what: str, status: int, run: Run, nodes: Path) -> None:
    assert run("fleet", nodes, "--fail-on", what).returncode == status


def test_snapshots_and_documents_are_read_together(run: Run, tree: Tree, tmp_path: Path) -> None:
    for name in ("dgx-h100", "server-2s"):
        run("snapshot", f"{name}.tar.gz", "--root", tree(name))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/one.json").write_text(run("inspect", "-o", "json", "--root", tree("dgx-h100")).stdout)
    (tmp_path / "docs/two.yaml").write_text(run("inspect", "-o", "yaml", "--root", tree("laptop")).stdout)
    found = answer(run, "docs", "dgx-h100.tar.gz", "server-2s.tar.gz")
    assert found["nodes"] == 3  # the DGX came twice
    assert [each["name"] for each in found["twice"]] == ["dgx-h100"]


def test_what_cannot_be_read_is_named_and_does_not_stop_the_rest(run: Run, tree: Tree, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    good = run("inspect", "-o", "json", "--root", tree("laptop")).stdout
    (folder / "good.json").write_text(good)
    (folder / "half.json").write_text(good[: len(good) // 2])
    (folder / "kubelet.yaml").write_text("kind: KubeletConfiguration\n")
    (folder / "bad\x1b[31m.json").write_text("\x00\xff")
    (folder / "empty.json").touch()
    (folder / "broken.tar.gz").write_bytes(b"\x1f\x8b" + b"\x00" * 40)
    (folder / "dangling.json").symlink_to("nowhere")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "zero.json").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.json")
    with tarfile.open(folder / "other.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("../../etc/passwd")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"root"))
    done = run("fleet", folder)
    assert done.returncode == 0
    assert done.stdout.startswith("1 node · 1 class")
    named = [line for line in done.stderr.splitlines() if line.startswith("not read  ")]
    assert len(named) == len(done.stderr.splitlines())
    for name in ("half.json", "kubelet.yaml", "empty.json", "broken.tar.gz", "other.tar.gz", "pipe.json", "zero.json"):
        assert any(f"mixed/{name}: " in line for line in named), name
    assert "\x1b" not in done.stdout + done.stderr
    assert run("fleet", folder, "--fail-on", "unread").returncode == 1


def test_nothing_to_read_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("fleet", "empty").returncode == 3
    assert run("fleet", "nowhere").returncode == 3
    assert run("fleet").returncode == 2


def test_documents_come_from_standard_input(run: Run, machine_of: Callable[[str], Machine]) -> None:
    machine = machine_of("laptop")
    lines = b"".join(json.dumps(json.loads(encode(replace(machine, name=f"n{i}")))).encode() + b"\n" for i in range(3))
    done = run("fleet", "-", stdin=lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 nodes · 1 class · all alike")


def test_the_page_has_a_picture_of_each_class_and_escapes_names(
    run: Run, machine_of: Callable[[str], Machine], tmp_path: Path
) -> None:
    nasty = "<script>alert(1)</script>"
    for name in ("laptop", "dgx-h100"):
        (tmp_path / f"{name}.json").write_bytes(encode(replace(machine_of(name), name=f"{name}{nasty}")))
    done = run("fleet", "laptop.json", "dgx-h100.json", "-o", "html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("<svg ") == 3  # the patterns, and a picture of each class
    assert "<script" not in done.stdout
    assert "&lt;script&gt;" in done.stdout


def test_it_runs_in_little_memory(nodes: Path, machine_of: Callable[[str], Machine], tmp_path: Path) -> None:
    """Of a kind of node one is kept: many more nodes take hardly more memory."""
    fleets.write_fleet(tmp_path / "many", machine_of("dgx-h100"), 600, {})
    code = (
        "import resource, sys; from numalign.cli import run; run(['fleet', sys.argv[1]]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    peaks = []
    for folder in (nodes, tmp_path / "many"):
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
        peaks.append(int(done.stderr.splitlines()[-1]))
    assert peaks[1] < peaks[0] + 20_000
