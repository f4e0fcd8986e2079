"""Writes the man pages: `python -m numalign.manual DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

from numalign.manual.man import man_pages

__all__ = ["main"]


def main(directory: str) -> None:
    """Writes a file a command, and removes those of commands that are gone."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    pages = man_pages()
    for path in target.glob("*.1"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (target / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
