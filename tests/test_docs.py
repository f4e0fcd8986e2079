"""The commands in README.md and docs/ run as they stand and print what is shown; tests/pages.py says how."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fleets import write_nodes
from tests.pages import (
    CHECKOUT,
    ELSEWHERE,
    PAGES,
    PLAIN,
    Place,
    blocks,
    examples,
    matches,
    named_file,
    named_machines,
    why_not_run,
)

WITH_EXAMPLES = [page for page in PAGES if re.search(r"^ *```(sh|console)$", page.read_text(), re.MULTILINE)]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_the_examples_of_a_page_hold(page: Path, tree: Callable[[str], Path], tmp_path: Path) -> None:
    place, found = Place.make(tmp_path, tree("dgx-h100")), list(blocks(page.read_text()))
    for name in named_machines(found):
        (place.folder / name).symlink_to(tree(name))
    if any("python -m tests.fleets nodes" in block.text for block in found):
        write_nodes(place.folder / "nodes")
    for name, content in filter(None, map(named_file, found)):
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_text(content)
    for command, shown in (example for block in found for example in examples(block)):
        if shown is None:
            done = place.run(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        elif why_not_run(command) is None:
            place.provide(command, shown)
            done = place.run(command)
            assert matches(shown, done.stdout + done.stderr), f"{command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_command_of_a_page_is_left_out(page: Path) -> None:
    text = page.read_text()
    kinds = {block.kind for block in blocks(text)}
    assert kinds <= {"sh", "console", *PLAIN, *ELSEWHERE}
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(list(blocks(text)))
    outside = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^ {4,}(?:\$ |sudo |numalign |kubectl |systemctl |install ).*$", outside, re.MULTILINE) == []
    for block in blocks(text):
        if block.kind == "console":
            assert block.text.startswith("$ "), block.text


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
