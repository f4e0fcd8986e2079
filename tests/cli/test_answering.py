"""Which checks verify answers about: --only, --ignore, --fail-on, and a policy file."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import JUnitXml

from numalign.checks.policy import NO_POLICY, VerifyPolicy, policy_schema, read_policy
from numalign.cli.answering import Policy
from numalign.errors import CannotRead
from tests.conftest import Run

OLD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-3
topologyManagerPolicys: single-numa-node
"""
POLICY = "apiVersion: numalign/v1\nkind: VerifyPolicy\n"
ERRORS = ["field-ignored", "topology-manager-off", "reserved-cpus-split-core"]
Report = Callable[..., tuple[int, list[tuple[str, str]], set[str]]]


@pytest.fixture
def report(run: Run, tree: Callable[[str], Path]) -> Report:
    """The exit status of `verify -o json` on OLD, each finding's id and severity, and the ids of the checks."""

    def get(*words: str | Path) -> tuple[int, list[tuple[str, str]], set[str]]:
        done = run("verify", "--config", "-", "--root", tree("dgx-h100"), "-o", "json", *words, stdin=OLD.encode())
        assert done.returncode < 2, done.stderr
        found = json.loads(done.stdout)
        findings = [(finding["id"], finding["severity"]) for finding in found["findings"]]
        return done.returncode, findings, {outcome["id"] for outcome in found["checks"]}

    return get


def test_only_makes_the_checks_that_are_named(report: Report) -> None:
    assert report("--only", "gpu-lost,field-ignored") == (
        1, [("field-ignored", "error")], {"gpu-lost", "field-ignored"}
    )  # fmt: skip
    status, findings, checks = report("--only", "gpu-*", "--only=nic-*")
    assert (status, findings) == (0, [])
    assert {id.partition("-")[0] for id in checks} == {"gpu", "nic"}


def test_checks_of_the_machine_need_no_configuration(run: Run, tree: Callable[[str], Path]) -> None:
    words = ("verify", "--root", tree("dgx-h100"), "--expect-gpus", "9", "-o", "json")
    assert run(*words).returncode == 3  # nothing is there to judge
    done = run(*words, "--only", "gpu-lost,expected-*")
    found = json.loads(done.stdout)
    assert (done.returncode, [finding["id"] for finding in found["findings"]]) == (1, ["expected-gpus"])
    assert found["config"] is None
    assert run(*words, "--only", "expected-gpus,field-ignored").returncode == 3


def test_a_policys_expectations_hold(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY + "only: [expected-gpus]\nexpect: {gpus: 9}\n")
    words = ("verify", "--root", tree("dgx-h100"), "--policy-file", tmp_path / "policy.yaml")
    assert (run(*words).returncode, run(*words, "--expect-gpus", "8").returncode) == (1, 0)


def test_what_is_ignored_does_not_count_and_is_not_shown(report: Report) -> None:
    everything = report()
    assert [id for id, severity in everything[1] if severity == "error"] == ERRORS
    status, findings, checks = report("--ignore", ",".join(ERRORS[:2]), "--ignore", ERRORS[2])
    assert (status, [severity for _, severity in findings if severity == "error"]) == (0, [])
    assert everything[2] - checks == set(ERRORS)
    assert report("--only", "field-*", "--ignore", "field-ignored")[2] == {"field-repeated"}


def test_the_checks_of_a_container_are_chosen_too(run: Run, tree: Callable[[str], Path]) -> None:
    words = ("verify", "--self", "--root", tree("dgx-h100"), "-o", "json")
    everything = [outcome["id"] for outcome in json.loads(run(*words).stdout)["checks"]]
    left = json.loads(run(*words, "--ignore", everything[0]).stdout)["checks"]
    assert [outcome["id"] for outcome in left] == everything[1:]
    for output in ("junit", "sarif", "prometheus", "nfd", "npd"):
        done = run(*words[:-1], output)
        assert (done.returncode in (0, 1), done.stderr) == (True, "")


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (("--only", "gpu-lots"), "--only: there is no check gpu-lots", "did you mean gpu-lost?"),
        (("--ignore", "gpu-lost,zzz*"), "--ignore: there is no check zzz*", "numalign checks list has them"),
        (("--ignore", "gpu-lost,"), "--ignore: there is no check without a name", "numalign checks list has them"),
        (("--ignore", "*"), "no check is left", "--only and --ignore, or the policy, leave all of them out"),
        (("--only", "gpu-lost", "--ignore", "gpu-*"), "no check is left", "--only and --ignore"),
        (("--wait", "soon"), "--wait soon is no duration", "--wait 120s or --wait 2m"),
        (("--wait", "1s", "--timeout", "0"), "--timeout 0 leaves no time", "--timeout 60s"),
        (("--timeout", "-1"), "--timeout -1 is no duration", "--timeout 120s or --timeout 2m"),
    ],
)
def test_a_mistake_is_a_usage_error(
    words: tuple[str, ...], says: str, hint: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("verify", "--config", "-", "--root", tree("dgx-h100"), *words, stdin=OLD.encode())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"numalign: {says}"
    assert done.stderr.splitlines()[1].strip().startswith(hint)


def test_a_policy_says_what_counts_and_options_win(report: Report, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        POLICY + "ignore: [field-ignored, gpu-*]\nfailOn: warning\nseverities:\n"
        "  topology-*: warning\n  topology-manager-off: info\n  reserved-cpus-split-core: warning\n"
    )
    status, findings, checks = report("--policy-file", policy)
    assert status == 1
    assert findings[0] == ("reserved-cpus-split-core", "warning")
    assert ("topology-manager-off", "info") in findings
    assert not {"field-ignored", "gpu-lost"} & checks
    assert report("--policy-file", policy, "--fail-on", "error")[0] == 0
    status, findings, checks = report("--policy-file", policy, "--ignore", "topology-*")
    assert ("field-ignored", "error") in findings
    assert "gpu-lost" in checks
    policy.write_text(POLICY + "only: [field-ignored]\n")
    assert report("--policy-file", policy)[2] == {"field-ignored"}
    assert report("--policy-file", policy, "--only", "gpu-lost")[2] == {"gpu-lost"}


def test_the_hosts_own_policy_holds_and_is_named(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(tree("laptop"), root, symlinks=True)
    (root / "etc/numalign").mkdir(parents=True)
    (root / "etc/numalign/verify.yaml").write_text(POLICY + "only: [field-ignored]\n")
    words = ("verify", "--config", "-", "--kubernetes-version", "1.35")
    done = run(*words, "--root", root, stdin=OLD.encode())
    assert f"1 error; Kubernetes 1.35; policy {root}/etc/numalign/verify.yaml\n" in done.stdout
    assert json.loads(run(*words, "--root", root, "-o", "json", stdin=OLD.encode()).stdout)["policy"] == str(
        root / "etc/numalign/verify.yaml"
    )
    os.unlink(root / "etc/numalign/verify.yaml")
    os.mkfifo(root / "etc/numalign/verify.yaml")
    done = run(*words, "--root", root, stdin=OLD.encode())
    assert (done.returncode, done.stdout) == (3, "")
    assert "etc/numalign/verify.yaml: " in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (POLICY + "ignored: [a]\n", "p.yaml:3: ignored is no field of a VerifyPolicy"),
        (POLICY + "expect:\n  gpu: 8\n", "p.yaml:4: gpu is no field of a VerifyPolicy"),
        (POLICY + "expect:\n  gpus: eight\n", "p.yaml:4: expect.gpus: Expected `int | null`, got `str`"),
        (POLICY + "expect:\n  gpus: -8\n", "p.yaml:4: expect.gpus: Expected `int` >= 0"),
        (POLICY + "expect: 8\n", "p.yaml:3: expect: Expected `object`, got `int`"),
        (POLICY + "ignore: gpu-lost\n", "p.yaml:3: ignore: Expected `array`, got `str`"),
        (POLICY + "ignore:\n- gpu-lost\n- 8\n", "p.yaml:5: ignore.1: Expected `str`, got `int`"),
        (POLICY + "ignore:\n- gpu-lost\n- gpu-lots\n", "p.yaml:5: there is no check gpu-lots"),
        (POLICY + "failOn: fatal\n", "p.yaml:3: failOn: Invalid enum value 'fatal'"),
        (POLICY + "severities:\n  gpu-lost: error\n  nic-*: bad\n", "p.yaml:5: severities.nic-*: Invalid enum value"),
        (POLICY + "severities:\n  gpu-lots: error\n", "p.yaml:4: there is no check gpu-lots"),
        (POLICY + "only: []\nonly: []\n", "p.yaml:4: only stands twice"),
        ("kind: VerifyPolicy\n", "p.yaml:1: Object missing required field `apiVersion`"),
        ("apiVersion: numalign/v2\nkind: VerifyPolicy\n", "p.yaml:1: apiVersion: Invalid enum value 'numalign/v2'"),
        (POLICY + "ignore: [\n", "p.yaml:4:1: "),
        (POLICY + "ignore: !!python/object/apply:os.system [reboot]\n", "p.yaml:3: there is no check reboot"),
        (POLICY + "ignore: &a [*a]\n", "p.yaml:3:13: anchor 'a' value contains itself"),
        (POLICY + "ignore: ['\x1b[2J']\n", "p.yaml:3:11: control characters are not allowed"),
        (POLICY + 'ignore: ["\\e[2J"]\n', "p.yaml:3: there is no check \\x1b[2J"),
        ("", "p.yaml: Expected `object`, got `null`"),
    ],
)
def test_a_policy_that_is_wrong_is_refused_with_its_line(
    text: str, says: str, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(text)
    done = run("verify", "--config", "-", "--root", tree("laptop"), "--policy-file", "p.yaml", stdin=OLD.encode())
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"numalign: {says}")


def test_a_policy_that_cannot_be_read_is_said(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    words = ("verify", "--config", "-", "--root", tree("laptop"), "--policy-file")
    assert run(*words, "nowhere.yaml", stdin=b"").stderr == "numalign: nowhere.yaml: No such file or directory\n"
    (tmp_path / "large.yaml").write_bytes(b"#" * (1 << 20) + b"#")
    assert run(*words, "large.yaml", stdin=b"").stderr == "numalign: large.yaml: larger than 1 MiB\n"


def test_what_is_expected_is_of_the_options_else_of_the_policy() -> None:
    content = read_policy((POLICY + "expect: {gpus: 8, machine: accepted.json}\n").encode(), "p.yaml")
    policy = Policy(content, "/etc/numalign/verify.yaml")
    assert policy.expected(None, None, None) == ("8", None, "/etc/numalign/accepted.json")
    assert policy.expected("0", "10", "m.json") == ("0", "10", "m.json")
    content = read_policy((POLICY + "expect: {gpus: 0, machine: /srv/accepted.json}\n").encode(), "p.yaml")
    below = Policy(content, "/host/etc/numalign/verify.yaml", "/host")
    assert below.expected(None, None, None) == ("0", None, "/host/srv/accepted.json")
    assert Policy(NO_POLICY).expected(None, None, None) == (None, None, None)


def test_the_published_schema_is_the_policys() -> None:
    published = json.loads((Path(__file__).parent.parent.parent / "docs/schema/verifypolicy.json").read_text())
    assert published == json.loads(json.dumps(policy_schema())), "make schema writes it anew"
    policy = {"apiVersion": "numalign/v1", "kind": "VerifyPolicy", "ignore": ["gpu-*"], "failOn": "warning",
              "severities": {"gpu-lost": "info"}, "expect": {"gpus": 8, "nics": 10, "machine": "m.json"}}  # fmt: skip
    jsonschema.Draft202012Validator(published).validate(policy)
    assert isinstance(read_policy(json.dumps(policy).encode(), "p.json"), VerifyPolicy)


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: (POLICY + text).encode()))
def test_whatever_the_bytes_are_a_policy_comes_of_them_or_a_refusal(data: bytes) -> None:
    try:
        said: str = read_policy(data, "p.yaml").kind
    except CannotRead as error:
        said = error.message
    assert re.match("VerifyPolicy|p.yaml", said)


def test_junit_says_in_its_file_what_could_not_be_read(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    done = run("verify", "--root", tree("dgx-h100"), "-o", "junit", "--out", "verify.xml")
    assert (done.returncode, done.stdout) == (3, "")
    message = done.stderr.splitlines()[0].removeprefix("numalign: ")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verify.xml"))
    assert (suite.tests, suite.errors, suite.failures) == (1, 1, 0)
    assert [(case.name, case.result[0].message) for case in suite] == [("verify", message)]
    assert message.startswith("no kubelet configuration: ")
