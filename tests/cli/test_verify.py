"""numalign verify, as a process; tests/checks has each check."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.testnode import CONFIG as GOOD


def summary(text: str) -> str:
    """The last line but those that follow the counts, with the numbers of checks that found nothing left out."""
    (line,) = re.findall(r"^\d+ passed.*$", text, re.MULTILINE)
    return re.sub(r"\d+ (passed|not applicable|not looked at)", r"N \1", line)


@pytest.mark.parametrize(("fail_on", "status"), [("error", 0), ("warning", 1), ("info", 1)])
def test_the_exit_status_follows_fail_on(fail_on: str, status: int, run: Run, tree: Callable[[str], Path]) -> None:
    text = GOOD.replace('cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n', "")
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), "--fail-on", fail_on, stdin=text.encode())
    assert done.returncode == status


@pytest.mark.parametrize("field", ["cpuManagerPolicy: static", "topologyManagerPolicy: single-numa-node"])
def test_a_gpu_node_on_which_nothing_is_aligned_does_not_pass(
    field: str, run: Run, tree: Callable[[str], Path]
) -> None:
    text = GOOD.replace(f"{field}\n", "").replace('cpuManagerPolicyOptions: {full-pcpus-only: "true"}\n', "")
    assert run("verify", "--config", "-", "--root", tree("dgx-h100"), stdin=text.encode()).returncode == 1
    on_one_node = text.replace('"0,56,112,168"', '"0"')
    assert run("verify", "--config", "-", "--root", tree("laptop"), stdin=on_one_node.encode()).returncode == 0


def test_people_are_told_where_what_and_what_to_do(run: Run, tree: Callable[[str], Path]) -> None:
    text = GOOD.replace('"0,56,112,168"', "0-3,56,168")
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), stdin=text.encode())
    assert done.returncode == 1
    assert done.stdout.startswith(
        "error    reserved-cpus-split-core  standard input:5\n"
        "         reservedSystemCPUs 0-3,56,168 leaves their siblings 112-115: 4 CPUs that full-pcpus-only can never "
        "give out\n"
        '         write reservedSystemCPUs: "0-3,56,112-115,168"\n'
        "info     gpu-request-limit  standard input:6\n"
    )
    assert summary(done.stdout) == (
        "N passed, 1 error, 3 info, N not applicable, N not looked at; "
        "Kubernetes 1.36 (assumed: --kubernetes-version names another)"
    )
    assert done.stdout.endswith(
        "not looked at  16: no directory of a kubelet\n"
        "not looked at  5: NVML was not asked\n"
        "not looked at  4: of the system around the kubelet nothing is seen\n"
        "numalign checks show ID explains each\n"
    )


def test_the_kubelets_own_file_is_the_default(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    import shutil

    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    done = run("verify", "--root", root)
    assert (done.returncode, "config.yaml does not exist" in done.stderr) == (3, True)
    (root / "var/lib/kubelet").mkdir(parents=True)
    (root / "var/lib/kubelet/config.yaml").write_text(GOOD)
    done = run("verify", "--root", root, "--kubernetes-version", "1.35")
    assert summary(done.stdout) == "N passed, 3 info, N not applicable, N not looked at; Kubernetes 1.35"


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (b"", "", "was empty"),
        (b"- a", "", "json: cannot unmarshal array into Go value of type struct"),
        (b"a: [", ":1", "did not find expected node content"),
        (b"a: b: c", ":1", "mapping values are not allowed in this context"),
        (b"\xff\xfe", "", "no UTF-8 text"),
        (b"a: " + b"[" * 5000, ":1", "nested more than 100 deep"),
        (b"a: &x [*x]\n", ":1", "contains itself"),
        (b"b: !!python/object:os.system {}\n", "", "Object 'Kind' is missing"),
        (b"{{{", "", "invalid character '{' looking for beginning of object key string"),
    ],
)
def test_a_bad_document_gets_one_clear_finding(
    text: bytes, place: str, says: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("verify", "--config", "-", "--root", tree("laptop"), "-o", "json", stdin=text)
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["id"], finding["place"]) == (1, "config-not-loaded", f"standard input{place}")
    assert says in finding["message"]


def test_a_configuration_as_json_is_read_too(run: Run, tree: Callable[[str], Path]) -> None:
    from ruamel.yaml import YAML

    text = json.dumps(YAML(typ="safe").load(GOOD))
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), stdin=text.encode())
    assert (done.returncode, summary(done.stdout).partition(",")[2].partition(";")[0]) == (
        0,
        " 3 info, N not applicable, N not looked at",
    )


def test_drop_ins_flags_state_and_version_are_looked_at(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "kubelet.yaml").write_text(GOOD)
    (tmp_path / "conf.d/sub").mkdir(parents=True)
    (tmp_path / "conf.d/sub/40.conf").write_text(header + "systemReservedCgroup: /system\n")
    (tmp_path / "conf.d/50.yaml").write_text("no drop-in: its name does not end in .conf\n")
    (tmp_path / "state").mkdir()
    (tmp_path / "state/cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    words = ("verify", "--config", "kubelet.yaml", "--root", tree("dgx-h100"), "-o", "json")

    def errors(*more: str) -> list[tuple[str, str]]:
        report = json.loads(run(*words, *more).stdout)
        return [(finding["id"], finding["place"]) for finding in report["findings"] if finding["severity"] == "error"]

    assert errors() == []
    assert errors("--config-dir", "") == []
    assert errors("--config-dir", "conf.d") == [("reserved-cpus-cgroups", "conf.d/sub/40.conf:3")]
    assert errors("--state-dir", "state") == [("cpu-state-unusable", "state/cpu_manager_state")]
    assert errors("--kubelet-flags", "--cpu-manager-policy=dynamic") == [("cpu-policy-unknown", "--cpu-manager-policy")]
    gate = "--feature-gates=CPUManager=true"
    assert errors("--kubelet-flags", gate, "--kubernetes-version", "1.32") == []
    assert errors("--kubelet-flags", gate, "--kubernetes-version", "1.33") == [
        ("feature-gate-unknown", "--feature-gates")
    ]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--kubernetes-version", "1.99"), 2, "1.27 to 1.37"),
        (("--kubernetes-version", "new"), 2, "no version of Kubernetes"),
        (("--config-dir", "/nowhere"), 3, "/nowhere: no directory"),
        (("--state-dir", "/nowhere"), 3, "/nowhere is no directory"),
        (("--kubelet-flags", "'"), 2, "--kubelet-flags"),
        (("--state-dir", ""), 2, "--state-dir is empty"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    words: tuple[str, ...], status: int, says: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("verify", "--config", "-", "--root", tree("laptop"), *words, stdin=GOOD.encode())
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


def test_a_kubelet_without_flags_has_none(run: Run, tree: Callable[[str], Path]) -> None:
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), "--kubelet-flags", "", stdin=GOOD.encode())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_verdict_that_nobody_reads_is_no_success(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    reading, writing = os.pipe()
    os.close(reading)
    words = (sys.executable, "-m", "numalign", "verify", "--config", "-", "--root", str(tree("dgx-h100")))
    done = subprocess.run(words, input=GOOD.encode(), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_of_thousands_of_findings_of_one_check_the_first_are_shown(run: Run, tree: Callable[[str], Path]) -> None:
    text = GOOD + "maxPods: 1\n" * 5001
    words = ("verify", "--config", "-", "--root", tree("dgx-h100"))
    lines = run(*words, stdin=text.encode()).stdout.splitlines()
    assert sum(line.startswith("warning  field-repeated") for line in lines) == 50
    assert "         and 4950 more of field-repeated, which -o json has" in lines
    report = json.loads(run(*words, "-o", "json", stdin=text.encode()).stdout)
    assert sum(finding["id"] == "field-repeated" for finding in report["findings"]) == 5000


def test_where_no_policy_could_start_none_is_no_error(run: Run, tree: Callable[[str], Path]) -> None:
    text = GOOD.replace("topologyManagerPolicy: single-numa-node\n", "")
    assert text != GOOD
    for version, severity in (("1.30", "warning"), ("1.31", "error")):
        words = ("--root", tree("gb200-nvl"), "--kubernetes-version", version, "-o", "json", "--config", "-")
        report = json.loads(run("verify", *words, stdin=text.encode()).stdout)
        found = {finding["id"]: finding for finding in report["findings"]}["topology-manager-off"]
        assert (found["severity"], "1.31 and newer" in found["remedy"]) == (severity, severity == "warning")


@pytest.mark.parametrize(
    ("amount", "meant"), [("4GiB", "4Gi"), ("4 GB", "4G"), ("512kb", "512k"), ("1.5TiB", "1.5Ti"), ("many", None)]
)
def test_an_amount_as_people_write_it_is_told_as_a_quantity(
    amount: str, meant: str | None, run: Run, tree: Callable[[str], Path]
) -> None:
    text = GOOD + f'kubeReserved: {{memory: "{amount}"}}\n'
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), "-o", "json", stdin=text.encode())
    found = {finding["id"]: finding for finding in json.loads(done.stdout)["findings"]}["reservation-unusable"]
    assert found["remedy"] == (meant and f"write memory: {meant}")


def test_the_effective_configuration_of_a_snapshot_is_printed(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    import shutil

    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    (root / "var/lib/kubelet").mkdir(parents=True)
    (root / "var/lib/kubelet/config.yaml").write_text(GOOD)
    for name, words in (("node.tar.gz", ()), ("redacted.tar.gz", ("--redact",))):
        assert run("snapshot", name, "--root", root, *words).returncode == 0
    done = run("kubelet", "config", "--machine", "node.tar.gz", "-o", "json")
    assert json.loads(done.stdout)["reservedSystemCPUs"] == "0,56,112,168"
    done = run("kubelet", "config", "--machine", "redacted.tar.gz")
    assert (done.returncode, "--redact leaves it out" in done.stderr) == (3, True)
