"""Every check has a page in docs/checks, and the smallest document on it is found by that check and by the command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.checks import judge, judge_refused
from numalign.checks.finding import SEVERITIES, Finding, Node, State
from numalign.checks.hardware import COVERED, WARNINGS, check_of
from numalign.checks.itself import SELF
from numalign.checks.pages import ids, page
from numalign.checks.table import MANAGERS_OWN, NODE_CHECKS, all_ids
from numalign.kubelet.document import Refused
from numalign.kubelet.effective import effective
from numalign.kubelet.versions import parse_version
from numalign.machine import Machine, Warning
from numalign.probe import probe
from numalign.probe.host import Host
from tests import machines
from tests.conftest import Run

PACKAGE = Path(__file__).parent.parent.parent / "numalign"
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
EXAMPLE = re.compile(r"```yaml\n# on (\S+), Kubernetes (\S+)\n(.*?)```", re.DOTALL)
STATE = re.compile(r"```(cpu_manager_state|memory_manager_state)\n(.*?)\n```", re.DOTALL)


DROP_IN = re.compile(r"```drop-in\n(.*?)```", re.DOTALL)
MACHINE = re.compile(r"```machine\n(.*?)\n```", re.DOTALL)
FILE = re.compile(r"```file (\S+)\n(.*?)\n?```", re.DOTALL)
OF_A_NODE = {id for id in ids() if "```verify" in (page(id) or "")}  # test_node_pages.py has them
OF_THE_NODE = sorted({id for check in NODE_CHECKS for id in check.ids} - OF_A_NODE)
OF_A_RUNNING_NODE = [id for id in ids() if "```file var/lib/kubelet/config.yaml" in (page(id) or "")]
ASKED = ["kubelet-runs-other"]  # tests/checks/test_running.py
OF_A_CONTAINER = [id for check in SELF for id in check.ids]
OF_A_CONFIGURATION = sorted(
    set(ids()) - set(OF_THE_NODE) - set(OF_A_RUNNING_NODE) - set(OF_A_CONTAINER) - set(ASKED) - OF_A_NODE
)
PLUGINS = re.compile(r"```plugins_registry\n(.*?)\n```", re.DOTALL)


def example(id: str) -> tuple[str, str, str, State]:
    """The machine, the version, the document and the kubelet's state of a check's page."""
    text = page(id) or ""
    (found,) = EXAMPLE.findall(text)
    files = {name: content.encode() for name, content in STATE.findall(text)}
    plugins = tuple(name for names in PLUGINS.findall(text) for name in names.split())
    return found[0], found[1], HEADER + found[2], State("/state", files, plugins)


def drop_ins(id: str) -> dict[str, bytes]:
    """The drop-ins of a check's page."""
    texts = DROP_IN.findall(page(id) or "")
    return {f"d/{number}.conf": (HEADER + text).encode() for number, text in enumerate(texts)}


def findings(
    machine: Machine, document: str, version: str, state: State, files: dict[str, bytes]
) -> tuple[Finding, ...]:
    minor = parse_version(version)
    try:
        return judge(Node(machine, state), effective(("f.yaml", document.encode()), files, {}, minor), minor).findings
    except Refused as error:
        return judge_refused(Node(machine, state), error, "f.yaml", minor).findings


@pytest.mark.parametrize("id", OF_A_CONFIGURATION)
def test_the_smallest_document_of_a_page_is_found_by_its_check(id: str, machine_of: Callable[[str], Machine]) -> None:
    name, version, document, state = example(id)
    found = findings(machine_of(name), document, version, state, drop_ins(id))
    assert id in {finding.id for finding in found}, found
    assert {finding.severity for finding in found if finding.id == id} <= severities(id)


def built(id: str, root: Path) -> None:
    """The machine of a page with the page's files."""
    (name,) = MACHINE.findall(page(id) or "")
    machines.build(name, root)
    for path, content in FILE.findall(page(id) or ""):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


@pytest.mark.parametrize("id", OF_A_RUNNING_NODE)
def test_the_node_of_a_page_is_found_by_its_check(id: str, run: Run, tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "node.tar.gz"
    built(id, root)
    live = run("verify", "--root", root, "-o", "json")
    assert run("snapshot", archive, "--root", root).returncode == 0
    packed = run("verify", "--machine", archive, "-o", "json")
    for done in (live, packed):
        found = [finding for finding in json.loads(done.stdout)["findings"] if finding["id"] == id]
        assert found, done.stdout
        assert {finding["severity"] for finding in found} <= severities(id)


@pytest.mark.parametrize("id", sorted(set(OF_THE_NODE) - set(OF_A_RUNNING_NODE)))
def test_the_machine_of_a_page_is_found_by_its_check(id: str, tmp_path: Path) -> None:
    built(id, tmp_path)
    document = effective(("f.yaml", HEADER.encode()), {}, {}, 36)
    found = judge(Node(probe(Host(str(tmp_path)))), document, 36).findings
    assert {finding.severity for finding in found if finding.id == id} == severities(id), found


def severities(id: str) -> set[str]:
    """The severities that a check's page names."""
    (said,) = re.findall(r"^Severity: (.*)$", page(id) or "", re.MULTILINE)
    return {severity for severity in SEVERITIES if severity in said}


@pytest.mark.parametrize("id", ids())
def test_a_page_says_what_it_is_about_and_what_to_do(id: str) -> None:
    lines = (page(id) or "").splitlines()
    assert lines[0] == f"# {id}"
    assert lines[2].endswith(".")
    assert "```" in lines
    assert lines[-1] != "```"


def test_every_check_has_its_page_and_every_page_its_check() -> None:
    assert sorted((*all_ids(), *OF_A_CONTAINER)) == ids()
    written = set()
    for path in (*(PACKAGE / "kubelet").glob("*.py"), *(PACKAGE / "checks").glob("*.py")):
        text = path.read_text()
        written |= set(
            re.findall(r'(?:Problem|_invalid|_start|Obstacle|_found)\(\s*(?:subject,\s*)?"([a-z0-9-]+)"', text)
        )
        written |= set(re.findall(r'id="([a-z0-9-]+)"', text))
    assert sorted(written | set(WARNINGS)) == ids()


def test_every_warning_of_the_map_is_a_check_or_covered_by_one() -> None:
    text = (PACKAGE / "probe/warn.py").read_text()
    warnings = set(re.findall(r'\bid="([a-z0-9-]+)"', text)) | {"gpu-lost", "gpu-nvml-error", "gpu-numa-unknown"}
    warnings |= {"nic-numa-unknown", "nvml-timeout", "file-malformed"}
    known = {check_of(Warning(id=id, message="")) for id in warnings}
    assert known == set(WARNINGS) | set(COVERED)
    assert set(COVERED.values()) <= set(ids())


@pytest.mark.parametrize(
    "id",
    ["config-not-loaded", "field-ignored", "reserved-memory-sum", "cpu-state-differs", "isolated-cpus", "dra-cpus"],
)
def test_the_command_finds_it_too(id: str, run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    name, version, document, state = example(id)
    (tmp_path / "state" / "plugins_registry").mkdir(parents=True)
    for socket in state.plugins:
        (tmp_path / "state" / "plugins_registry" / socket).touch()
    for file, content in state.files.items():
        (tmp_path / "state" / file).write_bytes(content)
    (tmp_path / "kubelet.yaml").write_text(document)
    words = ("--root", tree(name), "--state-dir", tmp_path / "state", "--kubernetes-version", version, "-o", "json")
    done = run("verify", "--config", tmp_path / "kubelet.yaml", *words)
    report = json.loads(done.stdout)
    found = [finding for finding in report["findings"] if finding["id"] == id]
    assert found
    assert done.returncode == int(any(finding["severity"] == "error" for finding in report["findings"]))
    assert [check["id"] for check in report["checks"]] == all_ids()
    failed = {check["id"] for check in report["checks"] if check["status"] == "failed"}
    assert failed == {finding["id"] for finding in report["findings"]}


def test_the_pages_are_listed_and_shown(run: Run) -> None:
    listed = run("checks", "list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ids()
    assert run("checks", "show", "isolated-cpus").stdout == page("isolated-cpus")
    wrong = run("checks", "show", "isolated-cpu")
    assert (wrong.returncode, "did you mean isolated-cpus?" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("wrong", ["kubeReserved: {memory: 4GiB}", "evictionHard: {memory.available: 4GiB}"])
def test_no_manager_is_passed_where_its_reservations_are_unusable(
    wrong: str, machine_of: Callable[[str], Machine]
) -> None:
    text = HEADER + f"memoryManagerPolicy: static\n{wrong}\n"
    report = judge(Node(machine_of("dgx-h100")), effective(("f.yaml", text.encode()), {}, {}, 36), 36)
    outcomes = {outcome.id: (outcome.status, outcome.reason) for outcome in report.checks}
    behind = ("not-looked-at", "the kubelet stops before, at its reservations")
    assert {id: outcomes[id] for id in MANAGERS_OWN} == dict.fromkeys(MANAGERS_OWN, behind)
    assert outcomes["reserved-cpus-offline"] == ("passed", None)


def test_a_soft_threshold_stops_the_kubelet_behind_its_managers(machine_of: Callable[[str], Machine]) -> None:
    text = HEADER + 'cpuManagerPolicy: Static\nreservedSystemCPUs: "0,112"\nevictionSoft: {memory.available: 4GiB}\n'
    report = judge(Node(machine_of("dgx-h100")), effective(("f.yaml", text.encode()), {}, {}, 36), 36)
    outcomes = {outcome.id: outcome.status for outcome in report.checks}
    assert (outcomes["eviction-threshold"], outcomes["cpu-policy-unknown"]) == ("failed", "failed")
    assert outcomes["memory-policy-unknown"] == "passed"


def test_what_the_kubelet_does_not_come_to_is_not_passed(machine_of: Callable[[str], Machine]) -> None:
    text = HEADER + "featureGates: {CPUManagre: true}\n"
    report = judge(Node(machine_of("dgx-h100")), effective(("f.yaml", text.encode()), {}, {}, 36), 36)
    outcomes = {outcome.id: outcome for outcome in report.checks}
    assert outcomes["feature-gate-unknown"].status == "failed"
    assert outcomes["feature-gate-locked"].status == "passed"
    assert outcomes["reserved-cpus-missing"].status == "not-looked-at"
    assert outcomes["reserved-cpus-missing"].reason == "the kubelet stops before, at its feature gates"
