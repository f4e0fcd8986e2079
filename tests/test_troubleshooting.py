"""Each page of docs/troubleshooting has its parts, and whatever a kubelet said in the vectors has a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.vectors import HERE, rows

FOLDER = Path(__file__).parent.parent / "docs/troubleshooting"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
PARTS = ["The words", "When it comes", "What it means", "How numalign shows it", "What to do", "What does not help"]
OPEN = "…"


def words(page: Path) -> list[re.Pattern[str]]:
    """The messages of a page; `…` in them stands for any text."""
    block = re.search(r"^## The words\n\n```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = block[1].splitlines() if block else []
    return [re.compile(".+".join(map(re.escape, line.split(OPEN)))) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_parts_and_stands_in_the_index(page: Path) -> None:
    text = page.read_text()
    assert text.startswith("# ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [*PARTS, "See also"]
    assert f"]({page.name})" in (FOLDER / "index.md").read_text()


def test_every_refusal_of_a_kubelet_in_the_vectors_has_a_page() -> None:
    known = [pattern for page in PAGES for pattern in words(page)]
    said = set()
    for name in ("admission.jsonl", "admission-versions.jsonl", "admission-podlevel.jsonl"):
        for row in rows(HERE / name):
            said |= set(re.findall(r'"(\w+Error: (?:[^"\\]|\\.)+)"', json.dumps(row["expected"])))
    assert sorted(message for message in said if not any(pattern.search(message) for pattern in known)) == []
    assert said
