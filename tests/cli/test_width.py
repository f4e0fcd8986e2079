"""What is printed fits the terminal: no line is wider, and nothing that a person reads as one word is broken."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest
from msgspec import structs

from numalign.cpuset import CpuSet
from numalign.machine import Machine, encode
from tests.conftest import Golden, Run

Tree = Callable[[str], Path]
MACHINES = ("dgx-h100", "laptop", "dgx-a100-nps4", "gb200-nvl", "vm-all-unknown", "sriov-vfs", "sixty-four", "mig-a100")
COMMANDS = ("inspect", "inspect -o tree", "plan", "plan --shares", "kubelet config", "kubelet allocatable", "verify")
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true", prefer-align-cpus-by-uncorecache: "true"}
reservedSystemCPUs: 0-1
memoryManagerPolicy: Static
kubeReserved: {memory: 1Gi}
reservedMemory: [{numaNode: 0, limits: {memory: 1124Mi}}]
topologyManagerPolicy: single-numa-node
topologyManagerPolicyOptions: {max-allowable-numa-nodes: "64"}
"""


def printed(run: Run, words: str, root: Path, columns: int, tmp_path: Path) -> str:
    line = words.split()
    if line[0] in ("kubelet", "verify"):
        (tmp_path / "kubelet.yaml").write_text(CONFIG)
        line += ["--config", "kubelet.yaml"]
    return run(*line, "--root", root, env={"COLUMNS": str(columns)}).stdout


def words_of(text: str) -> set[str]:
    """What a person reads as a word, wherever it stands; a list is read number by number."""
    return {word.strip("():") for word in re.split(r"[\s,]+", text)} - {"field", "value", "from"}


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("name", MACHINES)
def test_it_fits_80_columns_and_breaks_no_word(name: str, words: str, run: Run, tree: Tree, tmp_path: Path) -> None:
    narrow, wide = (printed(run, words, tree(name), columns, tmp_path) for columns in (80, 400))
    assert wide != ""
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    assert words_of(wide) - words_of(narrow) == set()


@pytest.mark.parametrize("words", ["checks list", "checks show cpu-options-gate", "kubelet features"])
def test_what_needs_no_machine_fits(words: str, run: Run) -> None:
    narrow, wide = (run(*words.split(), env={"COLUMNS": columns}).stdout for columns in ("80", "400"))
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    assert narrow.split() == wide.split()
    assert run(*words.split()).stdout == wide


@pytest.mark.parametrize("words", ["inspect", "inspect -o tree", "inspect -o matrix", "plan", "plan --shares"])
def test_lists_of_cpus_that_are_wider_than_the_terminal_break_after_commas(
    words: str, run: Run, machine_of: Callable[[str], Machine], tmp_path: Path
) -> None:
    """A host whose CPUs are numbered in turns has every second one on a NUMA node."""
    machine = machine_of("dgx-h100")
    turns = (CpuSet(range(0, 224, 2)), CpuSet(range(1, 224, 2)))
    nodes = tuple(structs.replace(node, cpus=cpus) for node, cpus in zip(machine.numa_nodes, turns, strict=True))
    cores = tuple(
        structs.replace(core, cpus=CpuSet((cpu, cpu + 112)), numa_node=cpu % 2, socket=cpu % 2, l3=cpu % 2)
        for cpu, core in enumerate(machine.cores)
    )
    sockets = tuple(structs.replace(socket, cpus=cpus) for socket, cpus in zip(machine.sockets, turns, strict=True))
    changed = structs.replace(machine, numa_nodes=nodes, cores=cores, sockets=sockets)
    (tmp_path / "machine.json").write_bytes(encode(changed))
    narrow, wide = (
        run(*words.split(), "--machine", "machine.json", env={"COLUMNS": columns}).stdout for columns in ("80", "800")
    )
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    assert words_of(wide) - words_of(narrow) <= {"CPU", "Affinity", *re.findall(r"(?:GPU|NIC)\d+", wide)}


@pytest.mark.parametrize("name", ["sixty-four", "sriov-vfs", "dgx-h100"])
def test_a_matrix_that_is_too_wide_takes_devices_together_that_are_alike(
    name: str, run: Run, tree: Tree, golden: Golden
) -> None:
    narrow = run("inspect", "-o", "matrix", "--root", tree(name), env={"COLUMNS": "80"}).stdout
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    assert narrow == golden(f"{name}.matrix-80.txt", narrow)


def test_a_matrix_that_fits_has_a_row_for_each_device(run: Run, tree: Tree) -> None:
    wide = run("inspect", "-o", "matrix", "--root", tree("sriov-vfs"), env={"COLUMNS": "120"}).stdout
    assert wide == run("inspect", "-o", "matrix", "--root", tree("sriov-vfs")).stdout
    assert len(re.findall(r"^NIC\d+ ", wide, re.MULTILINE)) == 11


def on_terminal(words: list[str], columns: int, **environment: str) -> str:
    """What a command writes to a terminal so wide, on both of its streams."""
    leader, follower = pty.openpty()
    ioctl(follower, TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "numalign", *words],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**kept, "TERM": "xterm", "PYTHONUTF8": "1", **environment},
    )
    os.close(follower)
    written = b""
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        if not data:
            break
        written += data
    os.close(leader)
    process.wait()
    return written.decode().replace("\r\n", "\n")


def test_the_terminals_width_and_colours_hold(tree: Tree) -> None:
    coloured = on_terminal(["inspect", "--root", str(tree("gb200-nvl"))], 80)
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line for line in plain.splitlines() if len(line) > 80 or line != line.rstrip()] == []
    for quiet in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_terminal(["inspect", "--root", str(tree("gb200-nvl"))], 80, **quiet) == plain
    assert "\x1b[1mExamples:" in on_terminal(["inspect", "--help"], 80)
    assert "\x1b" not in on_terminal(["inspect", "--help"], 80, NO_COLOR="1")


def test_a_terminal_without_unicode_gets_none(tree: Tree) -> None:
    root = ["--root", str(tree("dgx-h100"))]
    own = (["verify", "--help"], ["checks", "list"], ["checks", "show", "shared-cores"])
    for words in (["inspect", *root], ["inspect", "-o", "tree", *root], ["plan", "--shares", *root], *own):
        written = on_terminal(words, 80, PYTHONUTF8="0", LC_ALL="C", PYTHONCOERCECLOCALE="0")
        assert written.isascii()
        assert words in own or "?" not in written


PODS = """\
kind: Pod
apiVersion: v1
metadata: {name: mixed}
spec:
  initContainers:
    - {name: prepare, resources: {limits: {cpu: 2, memory: 2Gi}}}
  containers:
    - {name: inference-server, resources: {limits: {cpu: 10, memory: 20Gi, nvidia.com/gpu: 1}}}
    - {name: side-car-with-a-name, resources: {limits: {cpu: 2, memory: 1Gi}}}
---
kind: Pod
apiVersion: v1
metadata: {name: large}
spec: {containers: [{name: main, resources: {limits: {cpu: 60, memory: 900Gi, nvidia.com/gpu: 8}}}]}
"""


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort"])
@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100-nps4", "gb200-nvl", "sixty-four"])
def test_a_prediction_fits_80_columns(name: str, policy: str, run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(PODS)
    rendered = ("render", "kubelet-config", "--policy", policy, "--out", "kubelet.yaml", "--root", tree(name))
    assert run(*rendered).returncode == 0
    words = ("predict", "pods.yaml", "--config", "kubelet.yaml", "--root", tree(name), "--count")
    narrow, wide = (run(*words, env={"COLUMNS": columns}).stdout for columns in ("80", "400"))
    assert [line for line in narrow.splitlines() if len(line) > 80] == []
    broken = {word for word in words_of(wide) - words_of(narrow) if not re.fullmatch(r"[\d–]+|free|too|few|NUMA", word)}
    assert broken <= {"container", "devices", "cores", "CPUs", "hint", "L3"}
