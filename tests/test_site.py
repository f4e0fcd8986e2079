"""The site is built without a warning, has a page for everything, and loads nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from numalign.checks.pages import ids
from numalign.cli.commands import COMMANDS
from numalign.cli.help import usage
from numalign.render.targets import TARGETS

CHECKOUT = Path(__file__).parent.parent
LOADS = re.compile(
    r"""(?:<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc|<link\b[^>]*\bhref)"""
    r"""=["']?(?:https?:)?//[^"'> ]+"""
    r"""|(?:@import\s*|url\()\s*["']?(?:https?:)?//[^"') ]+""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; mkdocs' strict mode ends at any broken link, anchor or lost page."""
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", target],
        cwd=CHECKOUT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return target


def text(path: Path) -> str:
    """What a page says, without its tags."""
    return re.sub(r"<[^>]+>", "", path.read_text())


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        assert LOADS.findall(path.read_text()) == [], path.relative_to(site)


def test_there_is_a_page_for_every_command_check_and_target(site: Path) -> None:
    assert {path.stem for path in (site / "checks").iterdir()} == set(ids())
    assert {path.stem for path in (site / "targets").iterdir()} >= set(TARGETS)
    for command in COMMANDS:
        words = " ".join(command.words)
        assert usage(command) in text(site / f"{command.words[0]}.html"), words


def test_the_checks_are_listed_with_a_link_to_each(site: Path) -> None:
    listed = (site / "checks.html").read_text()
    assert [id for id in ids() if f'<a href="checks/{id}.html"><code>{id}</code></a>' not in listed] == []


def test_no_marker_or_fence_is_left_in_a_page(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.search(r"<!-- (?:options|checks)|^```", path.read_text(), re.MULTILINE), path.relative_to(site)


def test_the_search_knows_the_checks(site: Path) -> None:
    assert "reserved-cpus-split-core" in (site / "search/search_index.json").read_text()
