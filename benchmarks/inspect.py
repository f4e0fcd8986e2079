"""How long `numalign inspect -o json` takes beside lstopo on the same tree and beside bare Python.

usage: python -m benchmarks.inspect [ROOT]

ROOT is a root directory (sys/, proc/); without one the DGX H100 of tests/fixtures/sysfs is built. lstopo comes from
Debian's hwloc-nox. The commands run in turn, so a machine whose speed drifts slows all of them; what counts are the
ratios, taken round by round.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests import machines

ROUNDS = 15
LSTOPO = "lstopo-no-graphics"


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Wall time of one whole run."""
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def probe_seconds(root: str) -> float:
    """Wall time of the probe alone, in this process."""
    from numalign.probe import probe
    from numalign.probe.host import Host

    start = time.perf_counter()
    probe(Host(root))
    return time.perf_counter() - start


def measure(root: str) -> None:
    """Prints medians in milliseconds and the ratio of each to lstopo, or to bare Python where lstopo is missing."""
    numalign = str(Path(sys.executable).parent / "numalign")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    lstopo = {**environment, "HWLOC_FSROOT": root}
    runs: dict[str, Callable[[], float]] = {
        "python -c pass": lambda: seconds([sys.executable, "-c", "pass"], environment),
        "probe, in process": lambda: probe_seconds(root),
        "inspect -o json": lambda: seconds([numalign, "inspect", "-o", "json", "--root", root], environment),
        "inspect": lambda: seconds([numalign, "inspect", "--root", root], environment),
        "render kubelet-config": lambda: seconds([numalign, "render", "kubelet-config", "--root", root], environment),
    }
    if shutil.which(LSTOPO):
        runs = {"lstopo --of xml": lambda: seconds([LSTOPO, "--of", "xml"], lstopo), **runs}
    base = next(iter(runs))
    for run in runs.values():
        run()
    rounds = [{name: run() for name, run in runs.items()} for _ in range(ROUNDS)]
    print(f"{'':24}{'median ms':>10}   x {base}")
    for name in runs:
        milliseconds = statistics.median(one[name] for one in rounds) * 1000
        ratio = statistics.median(one[name] / one[base] for one in rounds)
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
