"""verify against what was expected of the machine, through the real command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checks.test_pages import HEADER
from tests.conftest import Run
from tests.testnode import Verdict

Tree = Callable[[str], Path]
IDS = ("expected-gpus", "expected-nics", "expected-machine")


@pytest.fixture
def verify(run: Run, tree: Tree) -> Callable[..., Verdict]:
    """The verdict on a machine with a configuration that says nothing."""

    def get(machine: str, *words: str | Path) -> Verdict:
        done = run("verify", "--config", "-", "--root", tree(machine), *words, "-o", "json", stdin=HEADER.encode())
        return Verdict(done)

    return get


@pytest.fixture
def recorded(run: Run, tree: Tree, tmp_path: Path) -> Callable[[str], Path]:
    """The Machine document of a machine."""

    def get(machine: str) -> Path:
        assert run("inspect", "--root", tree(machine), "-o", "json", "--out", f"{machine}.json").returncode == 0
        return tmp_path / f"{machine}.json"

    return get


def test_nothing_is_expected_where_nobody_says_so(verify: Callable[..., Verdict]) -> None:
    found = verify("dgx-h100")
    assert {found.status(id) for id in IDS} == {"not-applicable"}
    assert found.reason("expected-machine") == "nothing is expected (--expect)"


def test_counts_that_hold_pass(verify: Callable[..., Verdict]) -> None:
    found = verify("sriov-vfs", "--expect-gpus", "2", "--expect-nics=3")
    assert (found.status("expected-gpus"), found.status("expected-nics")) == ("passed", "passed")


def test_counts_that_do_not_hold_say_what_is_here(verify: Callable[..., Verdict]) -> None:
    found = verify("sriov-vfs", "--expect-gpus", "8", "--expect-nics", "1")
    assert [(one["severity"], one["place"], one["message"]) for one in found.findings("expected-gpus")] == [
        ("error", "command line", "8 GPUs expected, 2 on this machine (GPU 0 0000:01:00.0, GPU 1 0000:81:00.0)")
    ]
    assert [(one["severity"], one["message"].partition(" (")[0]) for one in found.findings("expected-nics")] == [
        ("warning", "1 NIC expected, 3 on this machine")
    ]


def test_the_machine_that_was_accepted_passes(
    verify: Callable[..., Verdict], recorded: Callable[[str], Path], run: Run, tree: Tree, tmp_path: Path
) -> None:
    assert verify("dgx-h100", "--expect", recorded("dgx-h100")).status("expected-machine") == "passed"
    for words in (("node.tar.gz",), ("redacted.tar.gz", "--redact")):
        assert run("snapshot", *words, "--root", tree("dgx-h100")).returncode == 0
        assert verify("dgx-h100", "--expect", tmp_path / words[0]).status("expected-machine") == "passed"


def test_what_changed_is_told(verify: Callable[..., Verdict], recorded: Callable[[str], Path]) -> None:
    accepted = recorded("renumbered-before")
    found = verify("renumbered-after", "--expect", accepted)
    assert [(one["severity"], one["place"]) for one in found.findings("expected-machine")] == [
        ("warning", str(accepted))
    ] * 2
    (first, _) = found.messages("expected-machine")
    assert first.startswith("GPU GPU-5f0c1f0a-6d1b-4c0e-9a51-0d5a3c7e1a01: ")
    assert first.endswith("0000:02:00.0, NUMA node 0")
    assert verify("laptop", "--expect", accepted).exit_status == 1


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--expect-gpus", "many"), 2, "--expect-gpus many"),
        (("--expect-gpus=-1",), 2, "--expect-gpus -1"),
        (("--expect-nics", "99999"), 2, "a whole number from 0 to 10000"),
        (("--expect-gpus", "\u0663"), 2, "--expect-gpus"),
        (("--expect", "nowhere.json"), 3, "nowhere.json: No such file"),
        (("--expect", "."), 3, "--expect . is a directory"),
        (("--expect", "-"), 2, "only one of --config, --machine and --expect can be -"),
        (("--expect", "bad.json"), 3, "bad.json: "),
        (("--expect", "kubelet.yaml"), 3, "is a kubelet's configuration, no machine"),
        (("--expect", ""), 2, "--expect is empty"),
    ],
)
def test_a_mistake_gets_one_clear_line(
    words: tuple[str, ...], status: int, says: str, run: Run, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_bytes(b"{\x1b[31m")
    (tmp_path / "kubelet.yaml").write_text(HEADER)
    done = run("verify", "--config", "-", "--root", tree("laptop"), *words, stdin=HEADER.encode())
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert "\x1b" not in done.stderr
