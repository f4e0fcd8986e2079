"""What stands in files is printed and never obeyed: names, values and differences cannot steer the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numalign.machine import Machine, encode
from tests.cli.test_width import on_terminal
from tests.conftest import Run, Tree

EVIL = "\x1b[31mX\x07\u202e\r"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]")
NAMES = ("name", "cpuModel", "kernel", "model", "driver", "netdevs", "rdma", "linkLayer", "state", "message", "uuid")
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {"full\\e[31m": "tr\\e[31mue"}
reservedSystemCPUs: "0,32"
"bad\\e[31mkey": 1
topologyManagerPolicy: "single\\e[31m"
memoryManagerPolicy: "Sta\\u202etic"
reservedMemory: [{numaNode: 0, limits: {"mem\\e[31m": 1Gi}}]
kubeReserved: {"mem\\e[31m": 1Gi}
evictionHard: {"mem\\e[31m": "1\\e[31m"}
featureGates: {"Gate\\e[31m": true}
clusterDNS: ["\\e[31m"]
"""
POD = """\
kind: Pod
apiVersion: v1
metadata: {name: "p\\e[31m", namespace: "n\\e[31m"}
spec: {containers: [{name: "c\\e[31m", resources: {limits: {cpu: "2\\e[31m", "nv\\e[31m/gpu": 1}}}]}
"""


@pytest.fixture
def folder(tmp_path: Path, machine_of: Callable[[str], Machine]) -> Path:
    """Files in which every name that is free is evil."""

    def spoilt(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoilt(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [spoilt(inner, key) for inner in value]
        return value + EVIL if isinstance(value, str) and key in NAMES else value

    document = json.loads(encode(machine_of("sriov-vfs")))
    (tmp_path / "machine.json").write_text(json.dumps(spoilt(document)))
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    (tmp_path / "plain.yaml").write_text("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n")
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        *(f"inspect -o {form}" for form in ("text", "tree", "matrix")),
        "plan",
        "plan --shares",
        "render kubelet-config",
        "render pod",
        "verify --config kubelet.yaml",
        "verify --config kubelet.yaml -o npd",
        "predict pod.yaml --config plain.yaml",
        "kubelet upgrade --from 1.30 --to 1.36 --config kubelet.yaml",
        "kubelet allocatable --config kubelet.yaml",
        f"kubelet allocatable --config a{EVIL}",
        f"checks show a{EVIL}",
        f"in{EVIL}spect",
        f"inspect --fo{EVIL}",
        f"inspect -o te{EVIL}xt",
        f"plan --option a{EVIL}=1",
    ],
)
def test_no_name_steers_the_terminal(line: str, folder: Path, run: Run) -> None:
    machine = ("--machine", "machine.json") if not line.startswith("checks") else ()
    done = run(*line.split(" "), *machine)
    assert done.stdout + done.stderr != ""
    assert STEERING.findall(done.stdout + done.stderr) == []


def test_a_difference_steers_no_terminal_and_stays_a_patch_in_a_pipe(tree: Tree, run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text(f"# {EVIL}\n")
    words = ["render", "kubelet-config", "--diff", "--out", str(tmp_path / "old.yaml"), "--root", str(tree("dgx-h100"))]
    assert f"-# {EVIL[:5]}" in run(*words).stdout
    assert STEERING.findall(on_terminal(words, 80)) == []


def test_what_begins_with_a_brace_is_told_to_be_read_as_json(run: Run, folder: Path) -> None:
    (folder / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, spec: {containers: [{resources: {limits: {memory: 1Gi}}}]}}"
    )
    done = run("predict", "pod.yaml", "--config", "plain.yaml", "--machine", "machine.json")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        "numalign: pod.yaml: it begins with a brace and so is read as JSON, in which '1Gi' is no value"
    )
