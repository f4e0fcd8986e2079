"""How long verify takes: reading and judging a configuration, and a whole node, beside `inspect -o json` of the same.

usage: python -m benchmarks.verify

The configuration is the one that render writes for the DGX H100 of tests/fixtures/sysfs. In the first table the machine
is read from a Machine document, so that what is left beside the start of the interpreter and the framework is the
configuration. The node of the second is that machine as tests/testnode builds it, in service: a kubelet's process that
is asked for its version, its files and state, plugin sockets, NVML's stand-in, the pod-resources API over a socket, and
2000 interrupts.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.inspect import seconds
from numalign.cpuset import CpuSet
from numalign.kubelet.podresources import Allocatable, Devices
from tests import machines, nvml_stub
from tests.kubelet.pod_resources_server import Answers
from tests.testnode import GPUS, Testnode, build_kubelet

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


@contextmanager
def node(folder: Path) -> Iterator[Testnode]:
    """A DGX H100 in service, with pods."""
    stand_ins = folder / "stand-ins"
    stand_ins.mkdir()
    library, kubelet = nvml_stub.build(stand_ins), build_kubelet(stand_ins)
    root = folder / "node" / "root"
    machines.build("dgx-h100", root)
    made = Testnode(root, library, kubelet)
    made.kubelet()
    made.cpu_state({}, "0-223")
    made.checkpoint({"nvidia.com/gpu": GPUS})
    for socket in ("kubelet.sock", "nvidia-gpu.sock"):
        made.listen(f"device-plugins/{socket}")
    for number in range(2000):
        made.write(f"proc/irq/{number}/smp_affinity_list", f"{number % 224}\n")
    gpus = (Devices("nvidia.com/gpu", (id,), (index // 4,)) for index, id in enumerate(GPUS))
    allocatable = Allocatable(tuple(gpus), CpuSet.parse("1-55,57-111,113-167,169-223"))
    try:
        with made.pod_resources(Answers(allocatable=allocatable)):
            yield made
    finally:
        made.end()


def peak(command: list[str], environment: dict[str, str]) -> float:
    """The most memory that a command and what it starts have, in MiB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], env=environment, capture_output=True, check=True)
    return int(done.stdout) / 1024


def whole_node(numalign: str, environment: dict[str, str]) -> None:
    """Prints what a whole verify of a node costs beside inspect of it."""
    with tempfile.TemporaryDirectory() as folder, node(Path(folder)) as made:
        surroundings = {**environment, **made.environment}
        root = ["-o", "json", "--root", str(made.root)]
        commands = {
            "inspect -o json": [numalign, "inspect", *root],
            "verify -o json": [numalign, "verify", *root],
            "verify --pods -o json": [numalign, "verify", "--pods", *root],
        }
        rounds = [{name: seconds(words, surroundings) for name, words in commands.items()} for _ in range(ROUNDS)]
        print(f"\n{'a node in service':24}{'median ms':>10}   x inspect   peak MiB")
        for name, words in commands.items():
            milliseconds = statistics.median(one[name] for one in rounds) * 1000
            ratio = statistics.median(one[name] / one["inspect -o json"] for one in rounds)
            print(f"{name:24}{milliseconds:10.1f}   {ratio:9.2f}   {peak(words, surroundings):8.1f}")


def main() -> None:
    """Prints medians in milliseconds and the ratio of each to bare Python or to inspect, taken round by round."""
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
    whole_node(numalign, environment)


if __name__ == "__main__":
    main()
