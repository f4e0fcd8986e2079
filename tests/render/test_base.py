"""--base, --diff and --check: a document that is there keeps all that is not the plan's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import Run

Tree = Callable[[str], Path]

BASE = """\
# our kubelet
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS:
    - 10.96.0.10   # coredns
authentication: {anonymous: {enabled: false}}
kubeReserved:
  cpu: "2"
  memory: 3Gi # measured
cpuManagerPolicy: 'none'
evictionHard:
  memory.available: 5%
  nodefs.available: "10%"
reservedMemory:
    - {numaNode: 0, limits: {memory: 1Gi}}
# what follows is old
maxPods: 50
# the end
"""


def render(run: Run, tree: Tree, *words: str | Path) -> tuple[int, str, str]:
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), *words)
    return done.returncode, done.stdout, done.stderr


def test_what_is_not_the_plans_stays_as_it_is(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE)
    status, text, _ = render(run, tree, "--base", "base.yaml", "--memory-manager", "static")
    assert status == 0
    lines = text.splitlines()
    for line in BASE.splitlines():
        changed = ("cpuManagerPolicy:", "  memory.available:", "    - {numaNode: 0")
        assert line in lines or line.startswith(changed)
    document = YAML(typ="safe").load(text)
    assert document["kubeReserved"] == {"cpu": "2", "memory": "3Gi"}
    assert document["evictionHard"] == {"memory.available": "100Mi", "nodefs.available": "10%"}
    assert document["reservedMemory"] == [
        {"numaNode": 0, "limits": {"memory": "2098Mi"}},
        {"numaNode": 1, "limits": {"memory": "2098Mi"}},
    ]
    (tmp_path / "merged.yaml").write_text(text)
    verified = run("verify", "--config", "merged.yaml", "--root", tree("dgx-h100"))
    assert verified.returncode == 0, verified.stdout


def test_merging_twice_changes_nothing_more(run: Run, tree: Tree, tmp_path: Path) -> None:
    target = tmp_path / "kubelet.yaml"
    target.write_text(BASE)
    words = ("--base", target, "--memory-manager", "static")
    assert render(run, tree, *words, "--out", target)[0] == 0
    once, when = target.read_bytes(), target.stat()
    assert render(run, tree, *words, "--out", target)[0] == 0
    assert (target.read_bytes(), target.stat().st_ino, target.stat().st_mtime_ns) == (
        once,
        when.st_ino,
        when.st_mtime_ns,
    )
    assert render(run, tree, *words, "--check") == (0, "", "")


def test_comments_behind_the_memory_stay_at_the_end_too(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(BASE.replace("# what follows is old\nmaxPods: 50\n", ""))
    status, text, _ = render(run, tree, "--base", "base.yaml", "--memory-manager", "static")
    assert (status, text.count("# the end\n")) == (0, 1)


def test_json_stays_json_and_line_ends_stay(run: Run, tree: Tree, tmp_path: Path) -> None:
    header = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    (tmp_path / "base.json").write_text(json.dumps({**header, "maxPods": 50}, indent=4) + "\n")
    text = render(run, tree, "--base", "base.json")[1]
    assert json.loads(text)["maxPods"] == 50
    assert text.startswith('{\n    "apiVersion"')
    (tmp_path / "dos.yaml").write_bytes(BASE.replace("\n", "\r\n").encode())
    done = run("render", "kubelet-config", "--root", tree("dgx-h100"), "--base", "dos.yaml", "--out", "out.yaml")
    assert done.returncode == 0
    data = (tmp_path / "out.yaml").read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n")
    assert b"\r\r" not in data
    assert render(run, tree, "--base", "out.yaml", "--check") == (0, "", "")


def test_diff_shows_and_check_says_and_neither_writes(run: Run, tree: Tree, tmp_path: Path) -> None:
    target = tmp_path / "kubelet.yaml"
    target.write_text(BASE)
    status, text, _ = render(run, tree, "--base", target, "--diff")
    assert status == 0
    assert "-cpuManagerPolicy: 'none'\n+cpuManagerPolicy: 'static'\n" in text
    assert render(run, tree, "--base", target, "--check") == (1, "", "")
    assert render(run, tree, "--base", target, "--check", "--diff")[0] == 1
    assert target.read_text() == BASE
    assert render(run, tree, "--out", tmp_path / "new.yaml", "--check")[0] == 1
    assert not (tmp_path / "new.yaml").exists()
    assert render(run, tree, "--out", tmp_path / "new.yaml")[0] == 0
    assert render(run, tree, "--out", tmp_path / "new.yaml", "--check", "--diff") == (0, "", "")


@pytest.mark.parametrize(
    ("text", "words", "status", "says"),
    [
        ("a: 1\n", (), 1, "base.yaml: the kubelet does not load it"),
        (BASE + "systemReservedCgroup: /system\n", (), 1, "would not start on the result"),
        (BASE + "cpuManagerPolicyOptions: {distribute-cpus-across-cores: 'true'}\n", (), 1, "would not start"),
        (BASE + "maxPods: 1\nmaxPods: 2\n", (), 1, "base.yaml"),
        (BASE, ("--target", "talos"), 2, "--base is for a KubeletConfiguration"),
        (BASE, ("--template", "base.yaml"), 2, "--base is for a KubeletConfiguration"),
    ],
)
def test_what_cannot_be_merged_is_refused(
    text: str, words: tuple[str, ...], status: int, says: str, run: Run, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "base.yaml").write_text(text)
    found, printed, told = render(run, tree, "--base", "base.yaml", *words)
    assert (found, printed) == (status, "")
    assert says in told


def test_there_has_to_be_a_file_to_compare_with(run: Run, tree: Tree) -> None:
    assert render(run, tree, "--check")[0] == 2
