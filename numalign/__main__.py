"""`numalign` and `python -m numalign`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line of this process and exits with its status."""
    from numalign.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
