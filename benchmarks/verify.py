"""How long reading and judging a configuration takes, in process and as a whole process beside `inspect -o json`.

usage: python -m benchmarks.verify

The configuration is the one that render writes for the DGX H100 of tests/fixtures/sysfs. The machine is read from a
Machine document, so that what is left beside the start of the interpreter and the framework is the configuration.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.inspect import seconds
from tests import machines

ROUNDS = 15


def judged(config: Path, document: Path) -> float:
    """Wall time of reading and judging the configuration, imports included, in a process that has the machine."""
    code = (
        "import sys, time; from numalign.machine import decode; machine = decode(open(sys.argv[2], 'rb').read()); "
        "start = time.perf_counter(); from numalign.checks import judge; from numalign.checks.finding import Node; "
        "from numalign.kubelet.effective import effective; "
        "base = (sys.argv[1], open(sys.argv[1], 'rb').read()); "
        "judge(Node(machine), effective(base, {}, {}, 36), 36); "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code, str(config), str(document)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Prints medians in milliseconds and the ratio of each to bare Python, taken round by round."""
    numalign = str(Path(sys.executable).parent / "numalign")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        root, config, document = (Path(folder, name) for name in ("dgx-h100", "kubelet.yaml", "machine.json"))
        machines.build("dgx-h100", root)
        subprocess.run([numalign, "render", "kubelet-config", "--root", root, "--out", config], check=True)
        subprocess.run([numalign, "inspect", "--root", root, "-o", "json", "--out", document], check=True)
        inspect = [numalign, "inspect", "-o", "json", "--machine", str(document)]
        verify = [numalign, "verify", "-o", "json", "--config", str(config), "--machine", str(document)]
        runs: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: seconds([sys.executable, "-c", "pass"], environment),
            "reading and judging": lambda: judged(config, document),
            "inspect -o json": lambda: seconds(inspect, environment),
            "verify -o json": lambda: seconds(verify, environment),
        }
        rounds = [{name: run() for name, run in runs.items()} for _ in range(ROUNDS)]
    print(f"{'':24}{'median ms':>10}   x python -c pass")
    for name in runs:
        milliseconds = statistics.median(one[name] for one in rounds) * 1000
        ratio = statistics.median(one[name] / one["python -c pass"] for one in rounds)
        print(f"{name:24}{milliseconds:10.1f}   {ratio:.2f}")


if __name__ == "__main__":
    main()
