"""Completion: what the tab key gives in a shell, asked as the shells ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from numalign.cli.commands import COMMANDS
from tests.conftest import Run

BASH = """
source <(numalign completion bash)
complete -p numalign >/dev/null || exit 9
IFS=$'\\n' read -r -d '' -a COMP_WORDS
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
[[ ${COMP_WORDS[COMP_CWORD]} == _ ]] && COMP_WORDS[COMP_CWORD]=
_numalign numalign
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def shell_folder(tmp_path: Path) -> Path:
    """A directory with a file or two, and the command on its path."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/numalign").write_text(f'#!/bin/sh\nexec {sys.executable} -m numalign "$@"\n')
    (tmp_path / "bin/numalign").chmod(0o755)
    (tmp_path / "my kubelet.yaml").write_text("")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def in_bash(folder: Path, *words: str) -> list[str]:
    """What bash completes the last word to (_: an empty one), its words as bash takes them apart."""
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        input="\n".join(("numalign", *words)) + "\n",
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ins",), ["inspect"]),
        (("render", "_"), ["kubelet-config", "pod", "system-cpus", "kernel-args"]),
        (("re",), ["render"]),
        (("--v",), ["--version"]),
        (("inspect", "--roo"), ["--root"]),
        (("inspect", "--ou"), ["--output", "--out"]),
        (("inspect", "--root", "/x", "--roo"), []),
        (("inspect", "-o", "ma"), ["matrix"]),
        (("inspect", "--output", "=", "js"), ["json"]),
        (("render", "kubelet-config", "--target", "eks"), ["eks-nodeadm"]),
        (("verify", "--ignore", "gpu-request-limit,bond"), ["gpu-request-limit,bond-spans-numa-nodes"]),
        (("verify", "--only", "nonsense,bond"), []),
        (("verify", "--only", "bond-spans-numa-nodes", "--on"), ["--only"]),
        (("checks", "show", "reserved-cpus-sp"), ["reserved-cpus-split-core"]),
        (("checks", "show", "bond-spans-numa-nodes", "re"), []),
        (("plan", "--option", "strict"), ["strict-cpu-reservation=true"]),
        (("plan", "--kubernetes-version", "1.27"), ["1.27"]),
        (("completion", "_"), ["bash", "zsh", "fish"]),
        (("verify", "--config", "_"), []),
        (("predict", "_"), []),
        (("nonsense", "_"), []),
    ],
)
def test_bash_completes(words: Sequence[str], expected: list[str], shell_folder: Path) -> None:
    assert in_bash(shell_folder, *words) == expected


def test_bash_completes_every_command_alone(shell_folder: Path) -> None:
    assert in_bash(shell_folder, "_") == list(dict.fromkeys(command.words[0] for command in COMMANDS))


def test_bash_completes_file_names_where_there_is_nothing_else(shell_folder: Path) -> None:
    """By `-o default`, which a bash with a terminal does."""
    script = "source <(numalign completion bash); complete -p numalign"
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment(shell_folder), capture_output=True, text=True, check=True
    )
    assert done.stdout == "complete -o default -F _numalign numalign\n"
    assert sorted(in_bash(shell_folder, "verify", "--config", "=")) == ["bin", "my kubelet.yaml"]


def test_zsh_and_fish_are_told_what_each_is(run: Run) -> None:
    for shell in ("zsh", "fish"):
        done = run("--", "snap", env={"_NUMALIGN_COMPLETE": shell})
        assert done.stdout == "snapshot\tpack all that is read into a file, to use elsewhere\n"
        done = run("--", "inspect", "--ro", env={"_NUMALIGN_COMPLETE": shell})
        assert done.stdout == "--root\tRead the host below this directory\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_parse(shell: str, run: Run, tmp_path: Path) -> None:
    script = run("completion", shell).stdout
    assert "_NUMALIGN_COMPLETE=" + shell in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_another_shell_is_told_which_there_are(run: Run) -> None:
    done = run("completion", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1].strip() == "for bash, zsh, fish there is"


def test_completion_needs_neither_typer_nor_rich() -> None:
    for words in (["--", "ins"], ["--", "verify", "--only", "gpu"], ["--", "render", "kubelet-config", "--target", ""]):
        code = (
            f"import sys; from numalign.cli import run; run({words!r}); print({{'typer', 'rich'}} & {{*sys.modules}})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "_NUMALIGN_COMPLETE": "bash"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "set()"
