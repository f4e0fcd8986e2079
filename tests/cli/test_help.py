"""Help: what to do next, examples that work as they are typed, options by what they are about."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from numalign.cli.commands import COMMANDS, Command
from numalign.cli.help import text
from numalign.cli.parameters import options_of
from tests import machines
from tests.conftest import Run
from tests.nodes import cpu_state

EXAMPLES = [example.partition(" # ")[0] for command in COMMANDS for example in command.examples]
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: {limits: {cpu: 4}}}]}}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the examples name, and a node: a machine with a kubelet's files."""
    folder = tmp_path_factory.mktemp("examples")
    root, kubelet = folder / "root", folder / "root/var/lib/kubelet"
    machines.build("dgx-h100", root)
    kubelet.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/numalign").write_text(f'#!/bin/sh\nexec {sys.executable} -m numalign "$@"\n')
    (folder / "bin/numalign").chmod(0o755)
    (folder / "kubelet.conf.d").mkdir()
    (folder / "pod.yaml").write_text(POD)
    for line in (
        "numalign render kubelet-config --out kubelet.yaml",
        "numalign snapshot node.tar.gz",
        "numalign inspect -o json --out accepted.json",
    ):
        assert type_in(line, folder).returncode == 0
    (folder / "snapshots").mkdir()
    for name in ("one", "two"):
        (folder / f"snapshots/{name}.json").write_text((folder / "accepted.json").read_text())
    (kubelet / "config.yaml").write_text((folder / "kubelet.yaml").read_text())
    (kubelet / "cpu_manager_state").write_text(cpu_state("0-223", {}))
    return folder


def type_in(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a shell does with a line, in a directory whose host is root/."""
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "NUMALIGN_ROOT": str(folder / "root"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    words = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_works_as_it_is_typed(line: str, node: Path) -> None:
    done = type_in(line, node)
    found_something = line.startswith("numalign verify") and done.returncode == 1 and "passed" in done.stdout
    assert done.returncode == 0 or found_something, done.stdout + done.stderr


def test_numalign_alone_says_what_to_do_next(run: Run) -> None:
    done = run()
    assert (done.returncode, done.stderr) == (2, "")
    begun = [line.split("#")[0].split() for line in done.stdout.splitlines() if line.startswith("  numalign ")]
    assert [words[1] for words in begun] == ["inspect", "plan", "render", "verify", "predict", "snapshot"]
    assert len(done.stdout.splitlines()) < 14


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",)])
def test_the_whole_help_names_every_command(words: tuple[str, ...], run: Run) -> None:
    done = run(*words)
    assert done.returncode == 0
    assert [" ".join(command.words) for command in COMMANDS if f"  {' '.join(command.words)} " not in done.stdout] == []


@pytest.mark.parametrize("words", [("verify", "-h"), ("help", "verify"), ("verify", "--root", "x", "--help")])
def test_help_on_a_command_is_asked_for_in_several_ways(words: tuple[str, ...], run: Run) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (0, run("verify", "--help").stdout)


def test_a_group_alone_lists_its_commands_and_is_wrong_usage(run: Run) -> None:
    done = run("kubelet")
    assert done.returncode == 2
    assert "kubelet allocatable" in done.stdout
    assert run("kubelet", "--help").stdout == done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command.words))
def test_help_fits_explains_every_option_and_shows_examples(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("80", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        lines = text(command.words).splitlines()
        examples = {f"  {example.partition(' # ')[0]}" for example in command.examples}
        assert [line for line in lines if len(line) > int(columns) and line not in examples] == []
        assert lines[2].endswith(".") or lines[3]
        assert "Examples:" in lines
    for row in options_of(command).values():
        words = row.help.lower().removesuffix(".").split()
        assert len(words) > 3 or set(words) != set(row.flags[0].strip("-").split("-")), row


def test_headings_are_bold_on_a_terminal_alone(run: Run) -> None:
    assert "\x1b" not in run("inspect", "--help").stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("inspct",), "did you mean numalign inspect?"),
        (("explain",), "did you mean numalign checks show or numalign predict?"),
        (("check",), "did you mean numalign verify or numalign checks list?"),
        (("features",), "did you mean numalign kubelet features?"),
        (("render", "kubelet"), "did you mean numalign render kubelet-config?"),
        (("kubelet", "xyz"), "numalign kubelet --help has those"),
        (("inspct", "--help"), "did you mean numalign inspect?"),
        (("plan", "2"), "numalign plan --shares has a row for each number of GPUs"),
        (("render", "pod", "2"), "numalign render pod --gpus 2"),
        (("inspect", "matrix"), "numalign inspect --output matrix"),
        (("render", "pod", "-o", "pod.yaml"), "--out FILE writes to a file"),
        (("--install-completion",), "numalign completion --help says how a shell learns the commands"),
        (("snapshot",), "numalign snapshot node.tar.gz"),
        (("snapshot", "a.tar.gz", "--out", "b.tar.gz"), "leave one of them out"),
    ],
)
def test_a_near_command_or_option_is_named(words: tuple[str, ...], hint: str, run: Run) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1].strip() == hint


def test_a_snapshot_is_written_to_out_as_to_its_argument(run: Run, tree: object, tmp_path: Path) -> None:
    root = tree("laptop")  # type: ignore[operator]
    assert run("snapshot", "--out", tmp_path / "a.tar.gz", "--root", root).returncode == 0
    assert run("snapshot", tmp_path / "b.tar.gz", "--root", root).returncode == 0
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_version_needs_no_typer() -> None:
    lines = ("import sys", "from numalign.cli import run", "run(['--version'])", "run(['verify', '-h'])")
    code = "; ".join((*lines, "print('typer' in sys.modules)"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
