"""What the tests share: machines built from their text, and the real command run as a process."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

from numalign.machine import Machine
from numalign.probe import probe
from numalign.probe.host import Host
from tests import machines, nvml_stub
from tests.testnode import MakeNode, Testnode, build_kubelet

settings.register_profile("numalign", deadline=None)  # how long something takes is for benchmarks/
settings.load_profile("numalign")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Tree = Callable[[str], Path]
Golden = Callable[[str, str], str]

CHECKOUT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """The root directory of a machine of tests/fixtures/sysfs, built once a session; not to be changed."""
    built: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in built:
            root = tmp_path_factory.mktemp(name)
            machines.build(name, root)
            built[name] = root
        return built[name]

    return get


@pytest.fixture(scope="session")
def machine_of(tree: Tree) -> Callable[[str], Machine]:
    """The map of a machine of tests/fixtures/sysfs."""
    return lambda name: probe(Host(str(tree(name))))


@pytest.fixture
def golden() -> Golden:
    """The text of a golden file; NUMALIGN_GOLDEN=write writes it anew, to be read before it is committed."""

    def get(name: str, now: str) -> str:
        if os.environ.get("NUMALIGN_GOLDEN") == "write":
            GOLDEN.mkdir(exist_ok=True)
            (GOLDEN / name).write_text(now)
        return (GOLDEN / name).read_text()

    return get


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `numalign WORDS…` as a process, away from the checkout, without a terminal."""

    def numalign(
        *words: str | Path, stdin: bytes | None = None, env: Mapping[str, str] | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key not in ("NUMALIGN_ROOT", "COLUMNS")}
        done = subprocess.run(
            [sys.executable, "-m", "numalign", *map(str, words)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            cwd=tmp_path,
            env={**environment, "PYTHONUTF8": "1", **(env or {})},
            timeout=timeout,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode()
        )

    return numalign


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of the stand-in NVML library, and the program that looks like a kubelet, compiled once a session."""
    folder = tmp_path_factory.mktemp("stand-ins")
    return nvml_stub.build(folder), build_kubelet(folder)


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what `make build` builds, once for all processes that run tests; not to be changed."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with open(folder / "dist.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = folder / "dist"
        if not target.exists():
            making = tmp_path_factory.mktemp("dist")
            subprocess.run([sys.executable, "-m", "release", str(making)], check=True, cwd=CHECKOUT)
            making.rename(target)
    return target


@pytest.fixture
def testnode(tree: Tree, tmp_path: Path, stand_ins: tuple[Path, Path]) -> Iterator[MakeNode]:
    """Makes nodes to verify (tests/testnode), by default with the hardware of a DGX H100."""
    nodes: list[Testnode] = []

    def make(machine: str = "dgx-h100") -> Testnode:
        root = tmp_path / f"node-{len(nodes)}" / "root"
        shutil.copytree(tree(machine), root, symlinks=True)
        nodes.append(Testnode(root, *stand_ins))
        return nodes[-1]

    yield make
    for node in nodes:
        node.end()
