"""numalign kubelet: what people see of what a kubelet makes of a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run, Tree

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0,56,112,168
memoryManagerPolicy: Static
"""
MEMORY = """\
kubeReserved: {{memory: {0}}}
evictionHard: {{memory.available: 24Mi}}
reservedMemory: [{{numaNode: 0, limits: {{memory: {1}}}}}]
"""


@pytest.mark.parametrize(
    ("kube", "total", "row", "pools"),
    [
        ("1000Mi", "1Gi", ("2016Gi", "1Gi", "2015Gi"), ("1007Gi", "1008Gi")),
        ("1Gi", "1048Mi", ("2064384Mi", "1048Mi", "2063336Mi"), ("1031144Mi", "1032192Mi")),
        ("1000Ki", "25576Ki", ("2113929216Ki", "25576Ki", "2113903640Ki"), ("1056939032Ki", "1056964608Ki")),
    ],
)
def test_amounts_that_are_to_be_compared_have_one_unit(
    kube: str, total: str, row: tuple[str, ...], pools: tuple[str, ...], run: Run, tree: Callable[[str], Path],
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "kubelet.yaml").write_text(CONFIG + MEMORY.format(kube, total))
    done = run("kubelet", "allocatable", "--config", "kubelet.yaml", "--root", tree("dgx-h100"))
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["memory", *row] in lines
    assert tuple(line[-1] for line in lines[-2:]) == pools


def test_parts_of_cpus_are_thousandths_in_the_whole_row(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    config = CONFIG.splitlines(keepends=True)[:2]
    (tmp_path / "kubelet.yaml").write_text("".join([*config, "kubeReserved: {cpu: 630m}\n"]))
    done = run("kubelet", "allocatable", "--config", "kubelet.yaml", "--root", tree("dgx-h100"))
    assert ["cpu", "224000m", "630m", "223370m"] in [line.split() for line in done.stdout.splitlines()]


def test_no_name_of_an_option_is_broken_on_a_narrow_terminal(run: Run) -> None:
    lines = run("kubelet", "features", env={"COLUMNS": "80"}).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines if "align-by-socket" in line or "max-allowable-numa-nodes" in line] == [
        ["align-by-socket", "alpha", "CPUManagerPolicyAlphaOptions"],
        ["max-allowable-numa-nodes", "stable"],
    ]


def test_a_document_of_another_kind_is_told_how_to_begin(run: Run, tree: Tree, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\n")
    done = run("verify", "--config", str(file), "--root", tree("dgx-h100"), "--only", "config-not-loaded", "-o", "json")
    assert [finding["remedy"] for finding in json.loads(done.stdout)["findings"]] == [
        "begin it with apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"
    ]
