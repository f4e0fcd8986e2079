"""`python -m tests.vectors FILE …` compares numalign with what a kubelet decided; exit status 1 where they differ.

`python -m tests.vectors --short FILE` writes the rows of a file as the copies here have them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.vectors import differences, short_rows


def main(files: list[str]) -> int:
    """Prints the rows that differ, then `N of M agree` for each file."""
    if files[:1] == ["--short"]:
        for row in short_rows(Path(files[1])):
            print(json.dumps(row, separators=(",", ":")))
        return 0
    differs = False
    for file in files:
        total, wrong = differences(Path(file))
        for paragraph in wrong:
            print(paragraph)
        print(f"{file}: {total - len(wrong)} of {total} agree")
        differs = differs or bool(wrong)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
