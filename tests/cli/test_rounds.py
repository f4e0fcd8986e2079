"""verify --every answers again and again, until it is told to end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.testnode import CONFIG, KUBELET

Start = Callable[..., "subprocess.Popen[str]"]
PATIENCE = 60


@pytest.fixture
def root(tree: Callable[[str], Path], tmp_path: Path) -> Path:
    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    (root / KUBELET).mkdir(parents=True)
    (root / KUBELET / "config.yaml").write_text(CONFIG)
    return root


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts `numalign verify` of the root with these words."""
    started: list[subprocess.Popen[str]] = []

    def verify(*words: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "numalign", "verify", "--root", str(root), *map(str, words)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield verify
    for process in started:
        process.kill()
        process.communicate()


def write(root: Path, text: str) -> None:
    """The kubelet's configuration, whole at once."""
    (root / KUBELET / "new").write_text(text)
    (root / KUBELET / "new").rename(root / KUBELET / "config.yaml")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_file_follows_the_node_until_it_is_told_to_end(start: Start, root: Path, tmp_path: Path) -> None:
    file = tmp_path / "numalign.prom"

    def says(line: str) -> bool:
        return file.exists() and line in file.read_text().splitlines()

    process = start("--every", "1s", "-o", "prometheus", "--out", file)
    until(lambda: says("numalign_verify_success 1"))
    write(root, CONFIG.replace("single-numa-node", "none"))
    until(lambda: says("numalign_verify_success 0"))
    (root / KUBELET / "config.yaml").unlink()  # 3: nothing can be said, and the file is left as it is
    assert process.stderr is not None
    assert "no kubelet configuration" in process.stderr.readline()
    assert says("numalign_verify_success 0")
    write(root, CONFIG)
    until(lambda: says("numalign_verify_success 1"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert [name for name in os.listdir(tmp_path) if name.startswith(".numalign-")] == []


def test_the_process_that_waits_does_not_grow(start: Start) -> None:
    process = start("--every", "1s", "-o", "json")

    def peak() -> int:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    assert process.stdout is not None

    def round_() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "}\n":
                return
        raise AssertionError("it ended")

    round_()
    first = peak()
    for _ in range(2):
        round_()
    assert peak() == first


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_the_middle_of_a_round_too(start: Start, root: Path, number: signal.Signals) -> None:
    os.mkfifo(root / "etc-fifo")
    process = start("--every", "1h", "--kubelet-flags", "", "--config", root / "etc-fifo")  # reads for ever
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: children.read_text() != "")
    process.send_signal(number)
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--every", "soon"), "--every soon is no duration"),
        (("--every", "0.5s"), "--every 0.5s is below a second"),
        (("--every", "5m", "--config", "-"), "standard input is the same each time"),
        (("--every", "5m", "--only", "gpu-lots"), "there is no check gpu-lots"),
    ],
)
def test_wrong_usage_is_told_once(run: Run, root: Path, words: tuple[str, ...], says: str) -> None:
    done = run("verify", "--root", root, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_a_machine_out_of_a_file_is_looked_at_once(run: Run) -> None:
    done = run("verify", "--machine", "m.json", "--every", "5m")
    assert (done.returncode, "--machine is the same each time" in done.stderr) == (2, True)
