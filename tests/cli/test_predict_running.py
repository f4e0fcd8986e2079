"""numalign predict --running: beside what the state files and the pod-resources API tell."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from numalign.cpuset import CpuSet
from numalign.kubelet.podresources import Allocatable, Container, Devices, Pod
from tests import machines
from tests.conftest import Run
from tests.kubelet.pod_resources_server import Answers, serve
from tests.nodes import checkpoint, configuration, container, cpu_state, machine, pod

FILES = {
    "cpu_manager_state": cpu_state("0-15", {"uid-a": "1-4", "uid-b": "8-10"}),
    "device-plugins/kubelet_internal_checkpoint": checkpoint(
        [("uid-a", "nvidia.com/gpu", {0: ["GPU-0"]}), ("uid-b", "nvidia.com/gpu", {1: ["GPU-1"]})],
        {"nvidia.com/gpu": ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]},
    ),
}
POD = pod("p", container(cpu=6, gpu=1))
TRAINER = Pod(
    "ml",
    "trainer",
    (Container("main", (Devices("nvidia.com/gpu", ("GPU-0",), (0,)),), CpuSet.parse("1-4")),),
)
SHARED = Pod("kube-system", "dns", (Container("dns"),))


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bare")
    machines.build(machine(["0-7", "8-15"], "0101"), root)
    return root


@pytest.fixture
def host(bare: Path, tmp_path: Path) -> Path:
    """A host with the kubelet's configuration and state files."""
    root = tmp_path / "host"
    shutil.copytree(bare, root, symlinks=True)
    folder = root / "var/lib/kubelet"
    (folder / "device-plugins").mkdir(parents=True)
    (folder / "pod-resources").mkdir()
    (folder / "config.yaml").write_text(configuration())
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return root


@contextmanager
def answering(host: Path, answers: Answers) -> Iterator[None]:
    """A pod-resources API of the host; a socket's own path has to be short."""
    with TemporaryDirectory() as folder:
        (host / "var/lib/kubelet/pod-resources/kubelet.sock").symlink_to(f"{folder}/s")
        with serve(f"{folder}/s", answers):
            yield


@contextmanager
def address_in_root(host: Path) -> Iterator[str]:
    """A short way to the socket's place below the root, which no link may leave."""
    folder = os.open(host / "var/lib/kubelet/pod-resources", os.O_PATH)
    try:
        yield f"/proc/self/fd/{folder}/kubelet.sock"
    finally:
        os.close(folder)


def test_pods_have_their_names_where_the_api_answers(run: Run, host: Path) -> None:
    answers = Answers(pods=(TRAINER, SHARED), allocatable=Allocatable((Devices("nvidia.com/gpu", ("GPU-2",), (1,)),)))
    with answering(host, answers):
        done = run("predict", "-", "--running", "--root", host, "-o", "json", stdin=POD.encode())
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert found["occupancy"] == {
        "source": f"{host}/var/lib/kubelet",
        "pods": ["ml/trainer", "kube-system/dns"],
        "notes": ["given back, since their pods are gone: what uid-b had"],
    }
    assert found["resources"] == [
        {"resource": "nvidia.com/gpu", "numaNodes": {"0": 1, "1": 3}, "saidBy": "state", "unhealthy": 0}
    ]
    assert found["pods"][0]["containers"][0]["numaNodes"] == {"1": "8-10,12-14"}


def test_without_the_api_they_are_named_by_their_uids(run: Run, host: Path) -> None:
    done = run("predict", "-", "--running", "--root", host, stdin=POD.encode())
    assert done.returncode == 1
    assert "  CPUs on NUMA node 0: pod uid-a holds 4\n" in done.stdout
    assert "  Fits when any of these pods ends: uid-a, uid-b\n" in done.stdout
    assert f"beside 2 pods of {host}/var/lib/kubelet: uid-a, uid-b\n" in done.stdout
    assert "pods are named by their UIDs, since the pod-resources API does not answer: " in done.stdout


def test_a_snapshot_has_what_runs(run: Run, host: Path, tmp_path: Path) -> None:
    assert run("snapshot", "node.tar.gz", "--root", host).returncode == 0
    done = run("predict", "-", "--running", "--machine", "node.tar.gz", "-o", "json", stdin=POD.encode())
    found = json.loads(done.stdout)
    assert (found["pods"][0]["verdict"], found["occupancy"]["pods"]) == ("not-now", ["uid-a", "uid-b"])
    assert found["occupancy"]["notes"] == [
        "pods are named by their UIDs, since the snapshot holds no answer of the pod-resources API"
    ]


def test_a_snapshot_has_the_answers_of_the_api_too(run: Run, host: Path, tmp_path: Path) -> None:
    """A tree with this host's boot id is taken for the running host, whose API a snapshot asks."""
    boot = host / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile("/proc/sys/kernel/random/boot_id", boot)
    answers = Answers(pods=(TRAINER, SHARED), allocatable=Allocatable((Devices("nvidia.com/gpu", ("GPU-2",), (1,)),)))
    with address_in_root(host) as address, serve(address, answers):
        assert run("snapshot", "node.tar.gz", "--root", host).returncode == 0
    done = run("predict", "-", "--running", "--machine", "node.tar.gz", "-o", "json", stdin=POD.encode())
    assert json.loads(done.stdout)["occupancy"]["pods"] == ["ml/trainer", "kube-system/dns"]


def test_a_pod_that_runs_is_not_predicted_again(run: Run, host: Path) -> None:
    again = json.dumps({**json.loads(POD.removeprefix("---\n")), "metadata": {"name": "trainer", "namespace": "ml"}})
    with answering(host, Answers(pods=(TRAINER,))):
        done = run("predict", "-", "--running", "--root", host, stdin=again.encode())
    assert (done.returncode, done.stdout.split("\n")[:2]) == (
        1,
        [
            "trainer   the API server does not take it",
            '  pods "trainer" already exists: it runs on the node, and is part of what is taken there',
        ],
    )


def test_topology_can_be_taken_from_registered_devices_and_their_number_holds(run: Run, host: Path) -> None:
    def resources(spec: str) -> list[dict[str, object]]:
        words = ("--running", "--root", host, "-o", "json", "--device", f"nvidia.com/gpu={spec}")
        document = json.loads(run("predict", "-", *words, stdin=POD.encode()).stdout)
        overruled = any("nvidia.com/gpu does not count" in note for note in document["occupancy"]["notes"])
        assert overruled == (spec == "9@0")
        found: list[dict[str, object]] = document["resources"]
        return found

    registered = {"resource": "nvidia.com/gpu", "numaNodes": {"0": 2, "1": 2}, "saidBy": "state", "unhealthy": 0}
    assert resources("9@0") == [registered]
    assert resources("@-") == [{**registered, "numaNodes": {"-": 4}, "saidBy": "option"}]
    assert resources("none") == []


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (lambda folder: (folder / "cpu_manager_state").write_text("{}"), 1, "does not start on it"),
        (
            lambda folder: (folder / "device-plugins/kubelet_internal_checkpoint").write_text("[]"),
            3,
            "checkpoint is corrupted",
        ),
        (lambda folder: [(folder / name).unlink() for name in FILES], 3, "no state file of a kubelet"),
    ],
)
def test_state_that_cannot_be_taken_gets_one_clear_line(
    change: Callable[[Path], object], status: int, says: str, run: Run, host: Path
) -> None:
    change(host / "var/lib/kubelet")
    done = run("predict", "-", "--running", "--root", host, stdin=POD.encode())
    assert (done.returncode, done.stdout, says in done.stderr) == (status, "", True), done.stderr
