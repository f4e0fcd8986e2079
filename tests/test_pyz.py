"""numalign.pyz, the single file, does in an empty environment what the command does, or says what keeps it from it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from numalign import __version__
from release import pyz
from release.numalign_pyz import run as runner
from release.numalign_pyz.start import unfit
from release.wheels import PYTHONS
from tests.conftest import Run
from tests.kubelet.pod_resources_server import Answers
from tests.testnode import GPUS, MakeNode

Packed = Callable[..., "subprocess.CompletedProcess[str]"]
GOOD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,56,112,168"
topologyManagerPolicy: single-numa-node
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: llama}
spec: {containers: [{name: main, resources: {limits: {cpu: 4, memory: 4Gi, nvidia.com/gpu: 8}}}]}
"""


def pythons(wanted: Callable[[int], bool]) -> list[str]:
    """The Pythons 3 on the PATH whose minor version is wanted, and the one that runs the tests."""
    found = {sys.version_info[1]: sys.executable}
    for minor in range(6, 20):
        program = shutil.which(f"python3.{minor}")
        if program and minor not in found:
            words = [program, "-c", "import sys; print(sys.executable)"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found[minor] = done.stdout.strip()
    return [program for minor, program in sorted(found.items()) if wanted(minor)]


FITTING = pythons(lambda minor: (3, minor) in PYTHONS)
OLDER = pythons(lambda minor: (3, minor) < PYTHONS[0])


def shown(program: str) -> str:
    return Path(program).name


@pytest.fixture(scope="session")
def program(dist: Path) -> Path:
    return dist / "numalign.pyz"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of this module unpack it that do not look at the unpacking."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def packed(program: Path, cache: Path, tmp_path: Path) -> Packed:
    """Runs the file with an empty environment, in isolated mode, away from the checkout."""

    def start(
        *words: str | Path, python: str = sys.executable, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [python, "-I", program, *words],
            env={runner.CACHE: str(cache), **(env or {})},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done

    return start


@pytest.mark.parametrize("python", FITTING, ids=shown)
def test_it_says_what_the_command_says(
    python: str, packed: Packed, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    root = tree("dgx-h100")
    (tmp_path / "kubelet.yaml").write_text(GOOD)
    (tmp_path / "pod.yaml").write_text(POD)
    assert packed("snapshot", "node.tar.gz", "--root", root, python=python).returncode == 0
    for line in (
        "inspect --machine node.tar.gz",
        f"inspect -o matrix --root {root}",
        f"render kubelet-config --root {root}",
        f"render kubelet-config --target eks-nodeadm --root {root}",
        f"verify --config kubelet.yaml --root {root}",
        f"predict pod.yaml --config kubelet.yaml --root {root}",
        "checks show reserved-cpus-split-core",
        "verify --help",
        "inspect --nothing",
    ):
        here, there = run(*shlex.split(line)), packed(*shlex.split(line), python=python)
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr), line


def test_nvml_and_the_pod_resources_api_are_asked(packed: Packed, testnode: MakeNode) -> None:
    node = testnode()
    node.kubelet()
    node.cpu_state({}, "0-223")
    node.checkpoint({"nvidia.com/gpu": GPUS})
    node.listen("device-plugins/nvidia-gpu.sock")
    with node.pod_resources(Answers(())):
        verdict = node.verify(packed, "--pods")
    assert verdict.status("gpu-lost") == verdict.status("gpu-only-in-nvml") == "passed"
    assert verdict.status("pod-resources-silent") == verdict.status("pod-not-aligned") == "passed"
    seen = json.loads(packed("inspect", "-o", "json", "--root", node.root, env=node.environment).stdout)
    assert [gpu["uuid"] for gpu in seen["gpus"]] == list(GPUS)


@pytest.mark.skipif(not OLDER, reason="no Python before 3.10 is on the PATH; the next test says what it would be told")
def test_an_older_python_is_told(packed: Packed) -> None:
    newest = "{}.{}".format(*PYTHONS[-1])
    for python in OLDER:
        done = packed("--version", python=python)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"numalign.pyz: it needs Python 3.10 to {newest}, and this is Python 3.")
        assert done.stderr.count("\n") == 1


def test_a_python_that_does_not_fit_is_told(tmp_path: Path) -> None:
    have = "{}.{}".format(*sys.version_info[:2])
    for pythons, machine, says in (
        ([(3, 98), (3, 99)], os.uname().machine, f"it needs Python 3.98 to 3.99, and this is Python {have}: run it as"),
        ([(2, 7)], os.uname().machine, f"it needs Python 2.7 to 2.7, and this is Python {have}: install one of them"),
        ([(3, 99)], "sparc", f"it is made for Linux on sparc, and this is Linux on {os.uname().machine}"),
    ):
        file = tmp_path / "numalign.pyz"
        file.write_bytes(pyz.pack({python: [] for python in pythons}, machine))
        (tmp_path / "python3.99").write_text("")
        (tmp_path / "python3.99").chmod(0o755)
        done = subprocess.run(
            [sys.executable, file], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"numalign.pyz: {says}")
        assert done.stderr.count("\n") == 1


def test_this_python_fits() -> None:
    assert unfit(PYTHONS, os.uname().machine) is None  # type: ignore[no-untyped-call]


def unpacked(cache: Path) -> dict[str, bytes]:
    """What is below the one folder of a cache, without what Python wrote."""
    (folder,) = cache.iterdir()
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_first_runs_at_once_do_not_disturb_each_other(program: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    processes = [
        subprocess.Popen(
            [sys.executable, "-I", str(program), "checks", "list"],
            env={runner.CACHE: str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(outputs) == 1
    assert "Traceback" not in outputs.pop()
    assert [name for name in unpacked(cache) if name.endswith(".tmp")] == []


def test_only_its_user_can_write_what_it_unpacks(packed: Packed, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert packed("--version", env={runner.CACHE: str(cache)}).returncode == 0
    (folder,) = cache.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (cache, folder)] == [0o700, 0o700]
    assert {path.stat().st_mode & 0o022 for path in folder.rglob("*")} == {0}


def test_a_half_unpacked_folder_is_completed(packed: Packed, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert packed("--version", env={runner.CACHE: str(cache)}).returncode == 0
    whole = unpacked(cache)
    (folder,) = cache.iterdir()
    shutil.rmtree(folder / "msgspec")
    (folder / "numalign/machine.py").write_bytes(b"")
    (folder / "numalign/links.py").unlink()
    assert packed("--version", env={runner.CACHE: str(cache)}).stdout.startswith("numalign ")
    assert unpacked(cache) == whole


def test_a_place_that_others_can_write_to_is_refused(packed: Packed, tmp_path: Path) -> None:
    open_one = tmp_path / "open"
    (open_one / "cache").mkdir(parents=True)
    open_one.chmod(0o777)
    done = packed("--version", env={runner.CACHE: str(open_one / "cache")})
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        3,
        "",
        [
            f"numalign.pyz: cannot unpack itself: others can write to {open_one}",
            f"              {runner.CACHE} names a directory to use",
        ],
    )
    open_one.chmod(0o1777)  # as /tmp: nobody can put another in its place
    assert packed("--version", env={runner.CACHE: str(open_one / "cache")}).returncode == 0
    (folder,) = (open_one / "cache").iterdir()
    folder.chmod(0o770)
    assert f"others can write to {folder}" in packed("--version", env={runner.CACHE: str(open_one / "cache")}).stderr


def test_root_never_unpacks_below_the_home_of_a_user() -> None:
    environment = {"HOME": "/home/ann", "XDG_CACHE_HOME": "/home/ann/.c"}
    assert runner.caches(environment, 0) == ["/var/cache/numalign"]
    assert runner.caches(environment, 1000) == ["/home/ann/.c/numalign", "/home/ann/.cache/numalign"]
    assert runner.caches({"HOME": "", "XDG_CACHE_HOME": "relative"}, 1000) == []
    assert runner.caches({**environment, runner.CACHE: "/srv"}, 0) == ["/srv"]


WITHOUT_A_PLACE = """\
import sys
sys.path.insert(0, {program!r})
from numalign_pyz import run
run.caches = lambda environment, user: ["/proc/numalign"]
run.run("0", "0")
"""


def test_without_a_place_to_keep_it_runs_all_the_same_and_leaves_nothing(
    program: Path, tmp_path: Path, tree: Callable[[str], Path]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_A_PLACE.format(program=str(program)))
    (tmp_path / "kubelet.yaml").write_text(GOOD.replace("single-numa-node", "none"))
    place = tmp_path / "tmp"
    place.mkdir()
    words = [sys.executable, script, "verify", "--config", "kubelet.yaml", "--root", str(tree("dgx-h100"))]
    options = {"env": {"TMPDIR": str(place)}, "cwd": tmp_path}
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr, "topology-manager-off" in done.stdout) == (1, "", True)
    assert list(place.iterdir()) == []
    for seconds in (0, 2):  # while it is unpacked, and while it waits
        waits = subprocess.Popen([*words, "--wait", "100s"], stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        while not list(place.glob("numalign-*/*/*")):
            assert waits.poll() is None
            time.sleep(0.01)
        time.sleep(seconds)
        waits.send_signal(signal.SIGTERM)
        assert waits.wait() == -signal.SIGTERM
        assert list(place.iterdir()) == []


def test_what_older_files_unpacked_is_removed_when_nobody_used_it_for_a_month(packed: Packed, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    month = 31 * 24 * 3600
    for name, age in (("0.0.1-aa-cp310", month), ("0.0.2-bb-cp310", 0), ("other", month)):
        (cache / name).mkdir(parents=True)
        (cache / name / ".lock").touch()
        os.utime(cache / name / ".lock", (time.time() - age,) * 2)
    cache.chmod(0o700)
    assert packed("--version", env={runner.CACHE: str(cache)}).returncode == 0
    left = {path.name for path in cache.iterdir() if not path.name.startswith(f"{__version__}-")}
    assert left == {"0.0.2-bb-cp310", "other"}


def test_it_holds_the_wheels_of_the_lock_and_the_same_wheels_give_the_same_bytes(program: Path, dist: Path) -> None:
    with zipfile.ZipFile(program) as archive:
        assert archive.testzip() is None
        stored = {info.filename for info in archive.infolist() if info.filename.endswith(".whl")}
        (own,) = (name for name in stored if "/numalign-" in name)
        (wheel,) = dist.glob("*.whl")
        assert archive.read(own) == wheel.read_bytes()
    packs = [pyz.pack({(3, 12): [wheel], (3, 10): [wheel]}, "x86_64") for _ in range(2)]
    assert packs[0] == packs[1]
    assert program.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    assert os.access(program, os.X_OK)


if shutil.which("strace"):

    def test_nothing_is_asked_over_a_network(program: Path, cache: Path, tmp_path: Path, testnode: MakeNode) -> None:
        node = testnode()
        node.kubelet()
        with node.pod_resources(Answers(())):
            trace = tmp_path / "trace"
            tracer = ["strace", "-f", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace)]
            subprocess.run(
                [*tracer, sys.executable, str(program), "verify", "--pods"],
                env={runner.CACHE: str(cache), "NUMALIGN_ROOT": str(node.root), **node.environment},
                capture_output=True,
                check=False,
            )
        calls = trace.read_text()
        assert "AF_UNIX" in calls  # the kubelet's socket
        assert [line for line in calls.splitlines() if "AF_INET" in line] == []
