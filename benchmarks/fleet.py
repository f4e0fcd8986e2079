"""How long fleet takes for 2,500 to 10,000 Machine documents, and for snapshots, with the peak of its memory.

usage: python -m benchmarks.fleet

Documents are those of a DGX H100 (65 KB each): most are alike but for names and serial numbers, one in a hundred has
another driver, one in five hundred lacks a GPU. 10,000 are to take less than 20 s and 300 MB on two cores,
and four times as long as 2,500 at most. Memory is that of all processes together, pages that they share counted once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from numalign.machine import Machine, encode
from numalign.probe import probe
from numalign.probe.host import Host
from numalign.probe.snapshot import pack, record
from tests import machines
from tests.fleets import host, other_driver, without_gpu

SIZES = (2_500, 5_000, 10_000)
SNAPSHOTS = 200


def varied(machine: Machine, number: int) -> Machine:
    """A node of a fleet."""
    node = host(machine, number)
    if number % 500 == 7:
        return without_gpu(node, number // 500 % len(node.gpus))
    return other_driver(node) if number % 100 == 3 else node


def measure(folder: Path) -> tuple[float, float]:
    """Seconds and MB that the command takes for a directory."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = [sys.executable, "-m", "numalign", "fleet", str(folder), "-o", "json"]
    begin = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment)
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            peak = max(peak, sum(_shared(pid) for pid in _family(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    seconds = time.perf_counter() - begin
    done.set()
    watcher.join()
    if status:
        raise SystemExit(f"fleet ended with {status}")
    return seconds, peak / 1000


def _family(pid: int) -> Iterator[int]:
    """A process and those that it started."""
    yield pid
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        children = [
            int(child) for task in tasks for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield from _family(child)


def _shared(pid: int) -> int:
    """A process's part of the memory in kB: pages of several processes in equal parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def main() -> None:
    """Prints a row for each number of nodes, and the ratio to the first."""
    with tempfile.TemporaryDirectory() as scratch:
        root, documents, snapshots = (Path(scratch, name) for name in ("root", "documents", "snapshots"))
        machines.build("dgx-h100", root)
        machine = probe(Host(str(root)))
        documents.mkdir()
        print(f"{'nodes':>24}{'seconds':>10}{'MB':>8}{'per 1,000':>12}   x the first", flush=True)
        first, written = 0.0, 0
        for size in SIZES:
            for number in range(written, size):
                (documents / f"gpu-{number:05}.json").write_bytes(encode(varied(machine, number)))
            written = size
            seconds, peak = measure(documents)
            first = first or seconds
            each, ratio = seconds / size * 1000, seconds / first
            print(f"{size:>14,} documents{seconds:10.1f}{peak:8.0f}{each:10.2f} s   {ratio:.2f}")
        snapshots.mkdir()
        packed = pack(record(str(root), "off"))
        for number in range(SNAPSHOTS):
            (snapshots / f"gpu-{number:05}.tar.gz").write_bytes(packed)
        seconds, peak = measure(snapshots)
        print(f"{SNAPSHOTS:>14,} snapshots{seconds:10.1f}{peak:8.0f}{seconds / SNAPSHOTS * 1000:10.2f} s")


if __name__ == "__main__":
    main()
