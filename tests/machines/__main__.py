"""`python -m tests.machines NAME DIR` writes a machine as a tree to try."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.machines import build, names
from tests.machines.tree import MachineError


def main(arguments: list[str]) -> int:
    """`python -m tests.machines NAME DIR`"""
    if len(arguments) != 2:
        print(f"usage: python -m tests.machines NAME DIR\n\nNAME: a file, or {' '.join(names())}", file=sys.stderr)
        return 2
    try:
        build(arguments[0], Path(arguments[1]))
    except (MachineError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
