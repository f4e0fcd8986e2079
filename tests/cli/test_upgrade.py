"""numalign kubelet upgrade: the same configuration under two versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numalign.cli.options import OPTIONS
from numalign.kubelet.versions import NEWEST
from tests.conftest import Run, Tree
from tests.testnode import MakeNode

Judge = Callable[[str, str, str], tuple[int, dict[str, Any]]]

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-1,56-57,112-113,168-169
topologyManagerPolicy: single-numa-node
"""


@pytest.fixture
def document(run: Run, tree: Tree, tmp_path: Path) -> Judge:
    """The answer as JSON, with the exit status."""

    def of(text: str, before: str, after: str) -> tuple[int, dict[str, Any]]:
        (tmp_path / "kubelet.yaml").write_text(text)
        words = ("--config", "kubelet.yaml", "--root", tree("dgx-h100"), "-o", "json")
        done = run("kubelet", "upgrade", "--from", before, "--to", after, *words)
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    return of


def test_a_gate_that_is_gone_keeps_the_new_kubelet_from_starting(document: Judge) -> None:
    text = CONFIG + "featureGates: {MemoryManager: true}\n"
    status, found = document(text, "1.35", "1.36")
    assert (status, [one["id"] for one in found["comes"]], found["goes"]) == (1, ["feature-gate-unknown"], [])
    (gate,) = [gate for gate in found["gates"] if gate["named"]]
    assert (gate["name"], gate["before"]["locked"], gate["after"]) == ("MemoryManager", True, None)
    assert (gate["onBefore"], gate["onAfter"]) == (True, True)


def test_an_option_that_the_old_version_lacks_goes(document: Judge) -> None:
    text = CONFIG.replace('"true"}', '"true", strict-cpu-reservation: "true"}')
    status, found = document(text, "1.31", "1.35")
    assert (status, found["comes"], [one["id"] for one in found["goes"]]) == (0, [], ["policy-option-unknown"])
    assert [option for option in found["options"] if option["used"]] == [
        {
            "name": "full-pcpus-only",
            "field": "cpuManagerPolicyOptions",
            "used": True,
            "before": "beta",
            "after": "stable",
        },
        {
            "name": "strict-cpu-reservation",
            "field": "cpuManagerPolicyOptions",
            "used": True,
            "before": None,
            "after": "stable",
        },
    ]


def test_what_a_version_sets_by_itself_is_told(document: Judge) -> None:
    _, found = document(CONFIG, "1.29", "1.30")
    (value,) = found["values"]
    assert value["field"] == "evictionHard"
    added = {**json.loads(value["before"]), "imagefs.inodesFree": "5%"}
    assert json.loads(value["after"]) == added
    _, back = document(CONFIG, "1.30", "1.29")
    assert back["values"] == [{"field": "evictionHard", "before": value["after"], "after": value["before"]}]


def test_what_came_to_stay_is_no_change(document: Judge) -> None:
    """SizeMemoryBackedVolumes was on by default in 1.31, locked in 1.32, and its gate is gone since 1.35."""
    _, found = document(CONFIG, "1.31", "1.36")
    assert "SizeMemoryBackedVolumes" not in [gate["name"] for gate in found["gates"]]
    assert "KubeletPSI" in [gate["name"] for gate in found["gates"]]


def test_the_nodes_own_version_is_where_it_starts(testnode: MakeNode, run: Run) -> None:
    node = testnode("dgx-h100")
    node.kubelet(version="v1.33.2")
    node.write("var/lib/kubelet/config.yaml", CONFIG)
    done = run("kubelet", "upgrade", "--to", "1.34", "--root", node.root, env=node.environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].endswith(" · Kubernetes 1.33 to 1.34")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "name it with --from, such as --from 1.31"),
        (("--from", "1.37"), "name another with --from or --to"),
        (("--from", "1.12"), "1.27 to 1.37 are"),
    ],
)
def test_two_versions_are_needed(words: tuple[str, ...], hint: str, run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    done = run("kubelet", "upgrade", *words, "--config", "kubelet.yaml", "--root", tree("laptop"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1].strip() == hint


def test_the_help_names_the_newest_version() -> None:
    assert f"1.{NEWEST}," in OPTIONS["to_version"].help


def test_it_fits_80_columns(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    words = ("--from", "1.27", "--to", "1.37", "--config", "kubelet.yaml", "--root", tree("dgx-h100"))
    done = run("kubelet", "upgrade", *words, env={"COLUMNS": "80"})
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert set(run("kubelet", "upgrade", *words).stdout.split()) - set(done.stdout.split()) <= {
        word for word in run("kubelet", "upgrade", *words).stdout.split() if word.startswith("{")
    }
