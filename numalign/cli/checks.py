"""numalign checks: the ids that verify reports, and the page of each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from textwrap import wrap

from numalign.cli.files import emit
from numalign.errors import WrongUsage
from numalign.report.screen import columns, encoded

__all__ = ["list_checks", "show"]

_WIDTH_OF_PAGES = 120
_ITEM = re.compile(r"\n(?=- )")
"""Where the next item of a list begins."""


def list_checks(*, out: str | None = None) -> int:
    """List the checks, a line each."""
    from numalign.checks.pages import ids, page

    names = ids()
    indent = max(map(len, names)) + 2
    stream = None if out else sys.stdout
    width = columns(stream)
    lines = []
    for id in names:
        summary = (page(id) or "").splitlines()[2]
        lines += wrap(summary, max(width, 2 * indent), initial_indent=id.ljust(indent), subsequent_indent=" " * indent)
    emit(encoded("\n".join(lines) + "\n", stream), out)
    return 0


def show(check: str, *, out: str | None = None) -> int:
    """Explain a check: what it sees, what the kubelet does, an example, and what to write instead."""
    from numalign.checks.pages import ids, page

    text = page(check)
    if text is None:
        from difflib import get_close_matches

        near = get_close_matches(check, ids(), n=1)
        raise WrongUsage(
            f"there is no check {check}", hint=f"did you mean {near[0]}?" if near else "numalign checks list has them"
        )
    stream = None if out else sys.stdout
    width = columns(stream)
    emit(encoded(text if width >= _WIDTH_OF_PAGES else "\n".join(_refolded(text, width)), stream), out)
    return 0


def _refolded(text: str, width: int) -> Iterator[str]:
    """The lines of a page with its paragraphs as wide as the terminal; what stands in a fence or a table stays."""
    fenced = False
    for block in text.rstrip("\n").split("\n\n"):
        lines = block.split("\n")
        stays = fenced or block.startswith(("```", "|", "#"))
        fenced ^= sum(line.startswith("```") for line in lines) % 2 == 1
        if stays:
            yield from lines
        else:
            for item in _ITEM.split(block):
                hanging = "  " if item.startswith("- ") else ""
                yield from wrap(" ".join(item.split()), width, subsequent_indent=hanging, break_on_hyphens=False)
        yield ""
