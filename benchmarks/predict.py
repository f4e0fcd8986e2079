"""How long predict takes as a whole process beside `inspect -o json` on the same tree.

usage: python -m benchmarks.predict [ROOT]

ROOT is a root directory (sys/, proc/) with GPUs; without one the DGX H100 of tests/fixtures/sysfs is built. The
configuration is the one that render writes for it, the pods are those of `render pod` with one and two GPUs, and
`--count` admits one after another until none fits. `--running` takes up a node on which two pods hold CPUs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.inspect import seconds
from tests import machines
from tests.nodes import cpu_state

ROUNDS = 15
BASE = "inspect -o json"


def written(numalign: str, root: str, folder: Path) -> None:
    """Writes the configuration, the pods and the state files that the commands read."""
    for words in (
        ("render", "kubelet-config", "--out", str(folder / "kubelet.yaml")),
        ("render", "pod", "--gpus", "1", "--out", str(folder / "pod.yaml")),
        ("render", "pod", "--gpus", "2", "--out", str(folder / "pair.yaml")),
    ):
        subprocess.run([numalign, *words, "--root", root], check=True)
    one, two = (folder / name for name in ("pod.yaml", "pair.yaml"))
    (folder / "pods.yaml").write_text(f"{one.read_text()}---\n{two.read_text().replace('name: aligned', 'name: pair')}")
    online = subprocess.run(
        ["cat", f"{root}/sys/devices/system/cpu/online"], capture_output=True, text=True, check=True
    )
    (folder / "state").mkdir()
    taken = {"uid-a": "4-7,116-119", "uid-b": "60-63,172-175"} if online.stdout.strip() == "0-223" else {}
    (folder / "state/cpu_manager_state").write_text(cpu_state(online.stdout.strip(), taken))


def measure(root: str) -> None:
    """Prints medians in milliseconds and the ratio of each to `inspect -o json`, taken round by round."""
    numalign = str(Path(sys.executable).parent / "numalign")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(numalign, root, folder)
        config = ["--config", str(folder / "kubelet.yaml"), "--root", root]
        pod, pods = str(folder / "pod.yaml"), str(folder / "pods.yaml")
        runs = {
            BASE: [numalign, *BASE.split(), "--root", root],
            "predict -o json": [numalign, "predict", pod, "-o", "json", *config],
            "predict": [numalign, "predict", pod, *config],
            "predict, two pods": [numalign, "predict", pods, *config],
            "predict --count": [numalign, "predict", pod, "--count", *config],
            "predict --running": [numalign, "predict", pod, "--state-dir", str(folder / "state"), *config],
        }
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
