"""What mkdocs is told beyond mkdocs.yml: which pages there are and in which order, and the parts made from tables.

A page that is new in docs/ appears by itself: in the section of its folder, else under "More".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from numalign.manual.site import checks_by_subject, checks_index, options, target_page
from numalign.render.targets import TARGETS

DOCS = Path(__file__).parent
RENDERED = DOCS.parent / "tests/golden"
MACHINE = "dgx-h100"

SECTIONS: dict[str, tuple[str, ...]] = {
    # section -> its pages in this order, as globs; a page belongs to the first that has it
    "Start": ("index.md", "why.md", "quickstart.md", "pictures.md"),
    "Guides": ("guides/index.md", "guides/*.md"),
    "Commands": (
        *(
            "inspect.md",
            "plan.md",
            "render.md",
            "verify.md",
            "predict.md",
            "fleet.md",
            "snapshot.md",
            "kubelet.md",
            "completion.md",
        ),
    ),
    "Targets": ("targets.md", *(f"targets/{name}.md" for name in TARGETS), "targets/*.md"),
    "Checks": ("checks.md", "checks/*.md"),
    "On nodes": ("deploy.md", "deploy*.md", "deploy*/*.md"),
    "Troubleshooting": ("troubleshooting.md", "troubleshooting/index.md", "troubleshooting/*.md"),
    "Reference": ("json.md", "changelog.md"),
    "More": ("**/*.md",),
}

_OPTIONS = re.compile(r"^<!-- options: ([a-z -]+) -->$", re.MULTILINE)
_CHECKS = "<!-- checks -->"
_TARGET_ROW = re.compile(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", re.MULTILINE)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)]*)\)")
_FENCE = re.compile(r"^```(file )?([a-z_-]+|\S+/\S+|\S+\.\S+)( [^\n]+)?$", re.MULTILINE)
_KNOWN = ("console", "sh", "yaml", "json", "toml", "text", "python", "ini", "jinja")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages that nobody writes, and orders all."""
    written = {file.src_uri for file in files.documentation_pages()}
    for name in TARGETS:
        if f"targets/{name}.md" not in written:
            files.append(File.generated(config, f"targets/{name}.md", content=_target(name)))
    changes = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changes))
    config.nav = list(_nav([file.src_uri for file in files.documentation_pages()]))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fills in what is made from tables, and turns what only a checkout has into plain text."""
    uri = page.file.src_uri
    if uri.startswith("targets/") and page.file.generated_by is None:
        markdown = _target(uri.removeprefix("targets/").removesuffix(".md"), markdown)
    if uri == "targets.md":
        markdown = _TARGET_ROW.sub(_linked_targets, markdown)
    if uri.startswith("checks/"):
        markdown = _FENCE.sub(_known_fence, markdown)
    markdown = markdown.replace(_CHECKS, checks_index("checks"))
    markdown = _OPTIONS.sub(lambda found: options(found[1]), markdown)
    return _OUTSIDE.sub(_outside(files), markdown) if "/" not in uri else markdown


def _target(name: str, own: str = "") -> str:
    """The page of a target; a test compares the golden file with what the command prints."""
    rendered = (RENDERED / f"{MACHINE}.{name}").read_text(encoding="utf-8")
    return target_page(TARGETS[name], rendered, own)


def _linked_targets(row: re.Match[str]) -> str:
    return "| " + re.sub(r"`([a-z0-9-]+)`", r"[`\1`](targets/\1.md)", row[1]) + " |"


def _known_fence(fence: re.Match[str]) -> str:
    """The example of a check is also its test: its blocks are named for the test, not for a highlighter."""
    kind, more = fence[2], (fence[3] or "").strip()
    if kind in _KNOWN and not more:
        return fence[0]
    title = " ".join(filter(None, ("" if fence[1] else kind, kind if fence[1] else more)))
    language = "yaml" if title.endswith((".yaml", ".yml", ".conf")) else "text"
    return f'```{language} title="{title}"'


def _outside(files: Files) -> Any:
    """Replaces a link to a file beside docs/: with one to its page if it has one, else with its words."""

    def replaced(link: re.Match[str]) -> str:
        uri = link[2].lower()
        return f"[{link[1]}]({uri})" if files.get_file_from_path(uri) else link[1]

    return replaced


def _nav(uris: list[str]) -> Iterator[dict[str, Any]]:
    left = sorted(uris)
    for section, globs in SECTIONS.items():
        pages = [uri for glob in globs for uri in _taken(left, glob)]
        if section == "Checks":
            yield {section: [*(uri for uri in pages if "/" not in uri), *_subjects(pages)]}
        elif pages:
            yield {section: pages}


def _taken(left: list[str], glob: str) -> list[str]:
    """The pages that a glob takes; they are then no longer left."""
    from fnmatch import fnmatchcase

    pattern = glob.removeprefix("**/")
    found = [uri for uri in left if fnmatchcase(uri, pattern) and (uri.count("/") == glob.count("/") or "**" in glob)]
    for uri in found:
        left.remove(uri)
    return found


def _subjects(pages: Iterable[str]) -> Iterator[dict[str, list[str]]]:
    there = set(pages)
    for subject, ids in checks_by_subject().items():
        yield {subject: [f"checks/{id}.md" for id in ids if f"checks/{id}.md" in there]}
