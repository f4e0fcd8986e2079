"""`numalign` and `python -m numalign`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Runs the command line of this process and exits with its status."""
    # A command lives for milliseconds: looking for its garbage early costs more than it frees.
    gc.set_threshold(100_000)

    from numalign.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
