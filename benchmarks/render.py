"""How long plan and render take as whole processes beside `inspect -o json` on the same tree.

usage: python -m benchmarks.render [ROOT]

ROOT is a root directory (sys/, proc/); without one the DGX H100 of tests/fixtures/sysfs is built. `render` is to stay
below 1.5 times `inspect -o json`.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.inspect import seconds
from tests import machines

ROUNDS = 21
BASE = "inspect -o json"
COMMANDS = (BASE, "plan -o json", "plan", "plan --shares", "render kubelet-config", "render pod")


def measure(root: str) -> None:
    """Prints medians in milliseconds and the ratio of each to `inspect -o json`, taken round by round."""
    numalign = str(Path(sys.executable).parent / "numalign")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = {command: [numalign, *command.split(), "--root", root] for command in COMMANDS}
    for words in runs.values():
        seconds(words, environment)
    rounds = [{name: seconds(words, environment) for name, words in runs.items()} for _ in range(ROUNDS)]
    print(f"{'':24}{'median ms':>10}   x {BASE}")
    for name in runs:
        milliseconds = statistics.median(one[name] for one in rounds) * 1000
        ratio = statistics.median(one[name] / one[BASE] for one in rounds)
        print(f"{name:24}{milliseconds:10.1f}   {ratio:.2f}")


def main() -> None:
    """Measures the tree of the command line, or a built one."""
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "dgx-h100")
        machines.build("dgx-h100", root)
        measure(str(root))


if __name__ == "__main__":
    main()
