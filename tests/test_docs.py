"""The commands in README.md and docs/ run as they stand and print what is shown.

```console blocks: lines that begin with `$ ` are run, what follows is their output; a line `…` stands for any lines.
```sh blocks: every numalign command is run and must succeed. Both run beside the tree dgx-h100 and the machines that
`--root NAME` names, and those of a page that says so beside the fleet in nodes. A ```yaml block that begins with
`# NAME` is the file NAME, and what `$ cat NAME` prints in a ```console block is that file too.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import machines
from tests.fleets import write_nodes

CHECKOUT = Path(__file__).parent.parent
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_LINES = "…"


def examples(text: str) -> Iterator[tuple[str, str | None]]:
    """The commands of a page with the output that is shown (None where none is)."""
    for kind, block in BLOCK.findall(text):
        if kind == "console":
            for example in block.removeprefix("$ ").split("\n$ "):
                command, _, output = example.partition("\n")
                yield command, output.rstrip("\n")
        elif kind == "sh":
            for line in block.splitlines():
                if line.startswith("numalign "):
                    yield line, None


def matches(shown: str, printed: str) -> bool:
    pattern = "\n".join("(?:.*\n)*.*" if line == ANY_LINES else re.escape(line) for line in shown.split("\n"))
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_hold(page: Path, tree: Callable[[str], Path], tmp_path: Path) -> None:
    for name in {"dgx-h100", *re.findall(r"--root (\S+)", page.read_text())} & set(machines.names()):
        (tmp_path / name).symlink_to(tree(name))
    if "python -m tests.fleets nodes" in page.read_text():
        write_nodes(tmp_path / "nodes")
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "yaml" and block.startswith("# "):
            (tmp_path / block.split()[1]).write_text(block)
    for command, shown in examples(page.read_text()):
        words = shlex.split(command, comments=True)
        if words[0] == "cat" and shown:
            (tmp_path / words[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / words[1]).write_text(shown + "\n")
        if words[0] != "numalign":
            continue
        root = {} if {"--root", "--machine"} & set(words) else {"NUMALIGN_ROOT": str(tree("dgx-h100"))}
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={**environment, **root},
            capture_output=True,
            text=True,
            check=False,
        )
        if shown is None:
            assert done.returncode == 0, f"{command}: {done.stderr}"
        else:
            assert matches(shown, done.stdout + done.stderr), f"{command}\n{done.stdout}{done.stderr}"


def test_every_page_that_is_linked_exists() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_warning_has_its_row() -> None:
    source = (CHECKOUT / "numalign/probe/warn.py").read_text()
    ids = set(re.findall(r'id="([a-z0-9-]+)"', source)) | set(re.findall(r'"(gpu-[a-z-]+)" if', source))
    inspect_page = (CHECKOUT / "docs/inspect.md").read_text()
    assert sorted(id for id in ids if f"`{id}`" not in inspect_page) == []
    assert len(ids) > 20
