"""Imports point one way, and a command imports only what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "numalign"

# Each row may import from the rows below it and from its own.
LAYERS = (
    ("__main__", "schema", "manual"),
    ("cli",),
    ("report", "render", "checks"),
    ("plan", "admission"),
    ("shares",),
    ("reserve_memory",),
    ("kubelet", "probe"),
    ("fleet",),
    ("oddities",),
    ("reserve", "compare"),
    ("words", "links", "fingerprint"),
    ("machine", "bdf"),
    ("cpuset", "errors", "folders", "quantity"),
    ("__init__",),
)
ROW = {name: row for row, names in enumerate(LAYERS) for name in names}
# Rows that hold parts side by side: report may read what checks found.
SIDEWAYS = {("report", "checks")}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    """The part of the package that a dotted name belongs to: numalign.probe.cpu is `probe`."""
    return [*module.split("."), "__init__"][1]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    own = relative.parts[0].removesuffix(".py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "numalign":
            names = [f"numalign.{alias.name}" for alias in node.names] if node.module == "numalign" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "numalign"]
        else:
            continue
        for name in names:
            part = part_of(name)
            part = part if part in ROW else "__init__"
            allowed = part == own or ROW[own] < ROW[part] or (own, part) in SIDEWAYS
            assert allowed, f"{relative}:{node.lineno} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_has_one_subject(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500
    assert ast.get_docstring(ast.parse(path.read_text())), "the top of the file says what it is for"


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (["inspect", "-o", "json"], {"typer", "rich", "ruamel", "jinja2", "pynvml", "pyudev", "json"}),
        (["inspect"], {"typer", "ruamel", "jinja2", "pynvml", "pyudev"}),
        (["render", "kubelet-config"], {"typer", "rich", "ruamel", "jinja2", "pynvml", "pyudev"}),
        (["verify", "--config", "CONFIG"], {"typer", "jinja2", "pynvml", "pyudev"}),
        (["predict", "POD", "--config", "CONFIG"], {"typer", "jinja2", "pynvml", "pyudev", "grpc"}),
        (
            ["predict", "POD", "--config", "CONFIG", "-o", "json"],
            {"typer", "rich", "jinja2", "pynvml", "pyudev", "grpc"},
        ),
    ],
)
def test_a_command_imports_only_what_it_needs(
    words: list[str], spared: set[str], tree: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "kubelet.yaml").write_text("kind: KubeletConfiguration\n")
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
    )
    files = {"CONFIG": str(tmp_path / "kubelet.yaml"), "POD": str(tmp_path / "pod.yaml")}
    words = [files.get(word, word) for word in words]
    code = (
        "import sys; from numalign.cli import run; "
        f"run({[*words, '--root', str(tree('laptop'))]!r}); "
        "sys.stdout.flush(); print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stderr.splitlines()[-1].split()) & spared == set()
