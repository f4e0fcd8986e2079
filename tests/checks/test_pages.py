"""Every check has a page in docs/checks, and the smallest document on it is found by that check and by the command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.checks import judge, judge_refused
from numalign.checks.finding import Finding, State
from numalign.checks.pages import ids, page
from numalign.kubelet.document import Refused
from numalign.kubelet.effective import effective
from numalign.kubelet.versions import parse_version
from numalign.machine import Machine
from tests.conftest import Run

PACKAGE = Path(__file__).parent.parent.parent / "numalign"
HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
EXAMPLE = re.compile(r"```yaml\n# on (\S+), Kubernetes (\S+)\n(.*?)```", re.DOTALL)
STATE = re.compile(r"```(cpu_manager_state|memory_manager_state)\n(.*?)\n```", re.DOTALL)


DROP_IN = re.compile(r"```drop-in\n(.*?)```", re.DOTALL)
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
        return judge(machine, effective(("f.yaml", document.encode()), files, {}, minor), minor, state).findings
    except Refused as error:
        return judge_refused(machine, error, "f.yaml", minor).findings


@pytest.mark.parametrize("id", ids())
def test_the_smallest_document_of_a_page_is_found_by_its_check(id: str, machine_of: Callable[[str], Machine]) -> None:
    name, version, document, state = example(id)
    found = findings(machine_of(name), document, version, state, drop_ins(id))
    assert id in {finding.id for finding in found}, found
    severities = {finding.severity for finding in found if finding.id == id}
    (said,) = re.findall(r"^Severity: (.*)$", page(id) or "", re.MULTILINE)
    assert all(severity in said for severity in severities)


@pytest.mark.parametrize("id", ids())
def test_a_page_says_what_it_is_about_and_what_to_do(id: str) -> None:
    lines = (page(id) or "").splitlines()
    assert lines[0] == f"# {id}"
    assert lines[2].endswith(".")
    assert "```" in lines
    assert lines[-1] != "```"


def test_every_id_in_the_code_has_its_page_and_every_page_its_id() -> None:
    written = set()
    for path in (*(PACKAGE / "kubelet").glob("*.py"), *(PACKAGE / "checks").glob("*.py")):
        text = path.read_text()
        written |= set(re.findall(r'(?:Problem|_invalid|_start|Obstacle|_found)\(\s*(?:subject,\s*)?"([a-z-]+)"', text))
        written |= set(re.findall(r'id="([a-z-]+)"', text))
    assert sorted(written) == ids()


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
    passed = len(ids()) - len({finding["id"] for finding in report["findings"]})
    assert report["passed"] == (0 if id == "config-not-loaded" else passed)


def test_the_pages_are_listed_and_shown(run: Run) -> None:
    listed = run("checks", "list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ids()
    assert run("checks", "show", "isolated-cpus").stdout == page("isolated-cpus")
    wrong = run("checks", "show", "isolated-cpu")
    assert (wrong.returncode, "did you mean isolated-cpus?" in wrong.stderr) == (2, True)
