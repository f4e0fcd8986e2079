# ruff: noqa: E501 - the table below is read by its columns
"""numalign verify: each check is seen passing and failing, through the real command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.checks import CHECKS
from tests.conftest import Run

GOOD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,56,112,168"
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
"""

# check, machine, line of GOOD that is replaced, what stands there instead, severity, place, what is said, remedy
BAD = [
    ("kubelet-document", "dgx-h100", 1, "kind: Pod", "error", 2, "kind is 'Pod'", "kind: KubeletConfiguration"),
    ("kubelet-document", "dgx-h100", 0, "", "error", None, "apiVersion is missing", "kubelet.config.k8s.io/v1beta1"),
    ("kubelet-field-unknown", "dgx-h100", 4, "reservedSystemCpus: 0,56", "error", 5, "the kubelet skips it", "reservedSystemCPUs"),
    ("kubelet-field-unknown", "dgx-h100", 4, "reservedCpus: 0,56", "error", 5, "the kubelet skips it", "reservedSystemCPUs"),
    ("kubelet-field-unknown", "dgx-h100", 5, "topologyManagerPolicys: none", "error", 6, "skips it", "topologyManagerPolicy"),
    ("cpu-manager-policy", "dgx-h100", 2, "", "warning", None, "no container gets exclusive CPUs", "cpuManagerPolicy: static"),
    ("cpu-manager-policy", "dgx-h100", 2, "cpuManagerPolicy: Static", "error", 3, "which no kubelet has", "static"),
    ("cpu-manager-options", "dgx-h100", 3, "", "warning", None, "full-pcpus-only is not set", 'full-pcpus-only: "true"'),
    ("cpu-manager-options", "dgx-h100", 3, "cpuManagerPolicyOptions: {full-pcpus-only: true}", "error", 4, "not a string", '"true"'),
    ("topology-manager-policy", "dgx-h100", 5, "topologyManagerPolicy: single", "error", 6, "which no kubelet has", "single-numa-node"),
    ("topology-manager-policy", "dgx-h100", 5, "", "warning", None, "nothing is aligned", "single-numa-node"),
    ("topology-manager-policy", "dgx-h100", 5, "topologyManagerPolicy: best-effort", "info", 6, "admitted all the same", None),
    ("topology-manager-scope", "dgx-h100", 6, "topologyManagerScope: node", "error", 7, "which no kubelet has", "container"),
    ("numa-node-limit", "gb200-nvl", 4, 'reservedSystemCPUs: "0,72"', "error", None, "has 34 NUMA nodes", '"34"'),
    ("numa-node-limit", "gb200-nvl", 6, 'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "true"}', "error", 7, "not a number", '"34"'),
    ("numa-node-limit", "gb200-nvl", 6, 'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "33"}', "error", 7, "is 33", '"34"'),
    ("device-numa-nodes", "vm-all-unknown", 4, 'reservedSystemCPUs: "0,28,56,84"', "warning", 6, "8 of 8 GPUs", "virtual NUMA"),
    ("reserved-cpus-missing", "dgx-h100", 4, "", "error", None, "does not start", '"0,112"'),
    ("reserved-cpus-cgroups", "dgx-h100", 6, "systemReservedCgroup: /system", "error", 7, "does not start", 'systemReservedCgroup: ""'),
    ("reserved-cpus-list", "dgx-h100", 4, "reservedSystemCPUs: 0", "error", 5, "not a string", '"0"'),
    ("reserved-cpus-list", "dgx-h100", 4, "reservedSystemCPUs: 0;112", "error", 5, "no CPU list", "0-3,64-67"),
    ("reserved-cpus-offline", "dgx-h100", 4, "reservedSystemCPUs: 0,112,500", "error", 5, "500 is not online", '"0,112"'),
    ("reserved-cpus-everything", "dgx-h100", 4, "reservedSystemCPUs: 0-223", "error", 5, "none is left", None),
    ("reserved-cpus-split-core", "dgx-h100", 4, "reservedSystemCPUs: 0-3", "error", 5, "4 CPUs that full-pcpus-only", '"0-3,112-115"'),
    ("reserved-cpus-numa-nodes", "dgx-h100", 4, "reservedSystemCPUs: 0,112", "info", 5, "NUMA node 1 has no reserved CPU", None),
    ("reserved-cpus-numa-nodes", "dgx-h100", 4, "reservedSystemCPUs: 0-55,112-167", "warning", 5, "nothing can be aligned there", None),
]  # fmt: skip


def found(stdout: str, check: str) -> list[dict[str, str]]:
    return [finding for finding in json.loads(stdout)["findings"] if finding["id"] == check]


@pytest.mark.parametrize(("check", "machine", "line", "text", "severity", "place", "says", "remedy"), BAD)
def test_each_check_passes_and_fails(
    check: str,
    machine: str,
    line: int,
    text: str,
    severity: str,
    place: int | None,
    says: str,
    remedy: str | None,
    run: Run,
    tree: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    good = run("verify", "--config", "-", "--root", tree("dgx-h100"), "-o", "json", stdin=GOOD.encode())
    assert (good.returncode, found(good.stdout, check)) == (0, [])
    lines = GOOD.splitlines()
    lines[line] = text
    (tmp_path / "bad.yaml").write_text("\n".join(lines))
    done = run("verify", "--config", tmp_path / "bad.yaml", "--root", tree(machine), "-o", "json")
    (finding,) = found(done.stdout, check)
    where = str(tmp_path / "bad.yaml") + (f":{place}" if place else "")
    assert (finding["severity"], finding["place"]) == (severity, where)
    assert says in finding["message"]
    assert remedy in finding["remedy"] if remedy else finding["remedy"] is None
    assert done.returncode == (1 if severity == "error" or '"error"' in done.stdout else 0)


def test_every_check_is_tried() -> None:
    assert {row[0] for row in BAD} == {check.id for check in CHECKS}


@pytest.mark.parametrize(("fail_on", "status"), [("error", 0), ("warning", 1), ("info", 1)])
def test_the_exit_status_follows_fail_on(fail_on: str, status: int, run: Run, tree: Callable[[str], Path]) -> None:
    text = GOOD.replace("topologyManagerPolicy: single-numa-node\n", "")
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), "--fail-on", fail_on, stdin=text.encode())
    assert done.returncode == status


def test_people_are_told_where_what_and_what_to_do(run: Run, tree: Callable[[str], Path]) -> None:
    text = GOOD.replace('"0,56,112,168"', "0-3,56,168")
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), stdin=text.encode())
    assert done.returncode == 1
    assert done.stdout == (
        "error    reserved-cpus-split-core  standard input:5\n"
        "         reservedSystemCPUs 0-3,56,168 leaves their siblings 112-115: 4 CPUs that full-pcpus-only can never "
        "give out\n"
        '         write reservedSystemCPUs: "0-3,56,112-115,168"\n'
        "\n"
        "14 checks passed, 1 error\n"
    )


def test_the_kubelets_own_file_is_the_default(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    done = run("verify", "--root", root)
    assert (done.returncode, "config.yaml does not exist" in done.stderr) == (3, True)
    (root / "var/lib/kubelet").mkdir(parents=True)
    (root / "var/lib/kubelet/config.yaml").write_text(GOOD)
    assert run("verify", "--root", root).stdout == "15 checks passed\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "not a mapping"),
        (b"- a", "not a mapping"),
        (b"a: [", "standard input:1:5: "),
        (b"a: 1\na: 2\n", "standard input:2:1: "),
        (b"\xff\xfe", "no UTF-8 text"),
        (b"a: " + b"[" * 5000, "nested 5000 deep"),
        (b"a: &x [*x]\nb: !!python/object:os.system {}\n", None),
        (b"a: &a [1,1]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: &d [*c,*c]\n", None),
    ],
)
def test_a_bad_document_gets_one_clear_line(
    text: bytes, says: str | None, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("verify", "--config", "-", "--root", tree("laptop"), stdin=text)
    if says is None:
        assert done.returncode == 1
    else:
        assert (done.returncode, done.stdout, says in done.stderr) == (3, "", True)


def test_a_configuration_as_json_is_read_too(run: Run, tree: Callable[[str], Path]) -> None:
    from ruamel.yaml import YAML

    text = json.dumps(YAML(typ="safe").load(GOOD))
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), stdin=text.encode())
    assert (done.returncode, done.stdout) == (0, "15 checks passed\n")
