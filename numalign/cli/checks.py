"""numalign checks: the ids that verify reports, and the page of each."""

from __future__ import annotations

from numalign.cli.files import emit
from numalign.errors import WrongUsage

__all__ = ["list_checks", "show"]


def list_checks(*, out: str | None = None) -> int:
    """List the checks, a line each."""
    from numalign.checks.pages import ids, page

    width = max(map(len, ids()))
    lines = [f"{id:<{width}}  {(page(id) or '').splitlines()[2]}" for id in ids()]
    emit(("\n".join(lines) + "\n").encode(), out)
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
    emit(text.encode(), out)
    return 0
