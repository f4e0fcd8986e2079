"""The quick reading of a command line gives what Typer gives, or leaves it to Typer."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from numalign.cli import app, parameters, quick
from numalign.cli.commands import Command
from tests.conftest import Run

WORDS = ("inspect", "verify", "render", "kubelet-config", "snapshot", "-o", "--output", "json", "text", "--output=tree",
         "--root", "--root=/x", "/y", "-", "--", "--machine", "--nvml", "auto", "--redact", "--redact=1", "--help",
         "--reserved-cpus", "0-1", "--out", "", "-ojson", "--fail-on", "warning", "-x", "a.tar.gz",
         "plan", "--shares", "--option", "a=b", "--option=c=d", "--policy", "none",
         "--only", "gpu-*", "--ignore=a,b", "--wait=2m", "--policy-file",
         "predict", "--running", "--device", "fleet", "--pod", "a.json", "--class-from", "3")  # fmt: skip


def by_typer(words: list[str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
    """The parameters that Typer makes of a command line, None where it refuses or shows help."""
    seen: list[dict[str, Any]] = []

    def function_of(command: Command) -> Any:
        real = parameters.function_of(command)

        def spy(**given: Any) -> int:
            seen.append(given)
            return 0

        spy.__signature__ = inspect.Signature(app.parameters(real))  # type: ignore[attr-defined]
        return spy

    monkeypatch.setattr(app, "function_of", function_of)
    for name in ("NUMALIGN_ROOT",):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with contextlib.suppress(SystemExit):
        app.build()(args=words, prog_name="numalign")
    return seen[0] if seen else None


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from(("", "/z")))
@example(["render", "kubelet-config", "--root", "/y", "--reserved-cpus=0-1"], "")
@example(["plan", "--option", "a=b", "--option=c=d", "--policy", "none"], "")
@example(["snapshot", "a.tar.gz", "--redact"], "/z")
@example(["inspect", "--output=tree", "-o", "json"], "")
def test_what_is_read_quickly_is_what_typer_reads(words: list[str], root: str) -> None:
    environment = {"NUMALIGN_ROOT": root} if root else {}
    call = quick.read(words, environment)
    if call is None:
        return
    defaults = {
        name: parameter.default
        for name, parameter in ((own.name, own) for own in app.parameters(call.function))
        if parameter.default is not parameter.empty
    }
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert by_typer(words, environment, monkeypatch) == {**defaults, **call.parameters}


@pytest.mark.parametrize(
    "words",
    [
        ["inspect"],
        ["inspect", "-o", "json", "--root", "/x"],
        ["verify", "--config", "-", "--fail-on=warning"],
        ["snapshot", "-", "--nvml", "off"],
        ["predict", "--running", "pod.yaml", "--device", "a.b/c=8@0", "--device=d.e/f=1@-", "--count"],
    ],
)
def test_a_plain_command_line_needs_no_typer(words: list[str]) -> None:
    assert quick.read(words, {}) is not None


@pytest.mark.parametrize("words", [[], ["--help"], ["inspect", "--help"], ["inspect", "-o"], ["render"], ["predict"]])
def test_help_and_mistakes_are_not_read_quickly(words: list[str]) -> None:
    assert quick.read(words, {}) is None


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("verify", "old.yaml"), "numalign verify --config old.yaml"),
        (("inspect", "/proc"), "numalign inspect --root /proc"),
        (("inspect", "-o", "json", "node.tar.gz"), "numalign inspect -o json --machine node.tar.gz"),
        (("verify", "old.yaml", "--root", "my host"), "numalign verify --config old.yaml --root 'my host'"),
        (("verify", "--config=new.yaml", "old.yaml"), "numalign verify --help has its options"),
        (("render", "kubelet-config", "out.yaml"), "numalign render kubelet-config --out out.yaml"),
        (("kubelet", "features", "1.33"), "numalign kubelet features --kubernetes-version 1.33"),
        (("snapshot", "a", "b"), "numalign snapshot --help has its options"),
    ],
)
def test_a_file_without_its_option_is_told_which(words: tuple[str, ...], hint: str, run: Run) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1].strip() == hint


def test_no_hint_writes_over_a_file_that_is_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("kind: KubeletConfiguration\n")
    done = run("render", "kubelet-config", str(file), "--diff")
    assert done.stderr.splitlines()[1].strip() == f"numalign render kubelet-config --base {file} --diff"
    done = run("render", "pod", str(file))
    assert done.stderr.splitlines()[1].strip() == "numalign render pod --help has its options"


@pytest.mark.parametrize(
    ("words", "command", "option", "hint"),
    [
        (
            ("render", "kubelet-config", "--config", "config.yaml"),
            2,
            "--config",
            "numalign render kubelet-config --help has all",
        ),
        (("verify", "--format", "json"), 1, "--format", "-o chooses the form, where a command has several"),
        (("verify", "--conf", "a.yaml"), 1, "--conf", "did you mean --config or --config-dir?"),
        (("inspect", "--machine", "-x", "--ouput", "json"), 1, "--ouput", "did you mean --output or --out?"),
        (("kubelet", "features", "--version=1.36", "1.36"), 2, "--version", "did you mean --kubernetes-version?"),
        (("render", "pod", "-x", "json"), 2, "-x", "numalign render pod --help has all"),
    ],
)
def test_an_option_that_is_none_is_the_mistake_and_not_its_value(
    words: tuple[str, ...], command: int, option: str, hint: str, run: Run
) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"numalign: numalign {' '.join(words[:command])} has no option {option}"
    assert done.stderr.splitlines()[1].strip() == hint


def test_checks_alone_lists_them(run: Run) -> None:
    assert run("checks").stdout == run("checks", "list").stdout != ""
