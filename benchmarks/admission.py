"""How many pods a second the engine of numalign.admission decides about, on machines of 2 to 34 NUMA nodes.

usage: python -m benchmarks.admission

Pods of several sizes come one after another, each with CPUs, memory, GPUs and NICs; every manager is static. When one
is refused the oldest goes, so the machine is nearly full most of the time. A kubelet's managers decide about 125 pods a
second on the DGX H100, writing of state included, and never finish with 8 NUMA nodes under best-effort. Seconds are
those of the processor, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import random
import time
from collections import deque

from numalign.admission.device import Device
from numalign.admission.node import Node
from numalign.admission.pod import Pod, pod_of
from numalign.kubelet.document import decode
from numalign.kubelet.settings import Settings, settings
from numalign.kubelet.view import KubeletView
from tests.vectors import view_of

__all__ = ["GB200", "machine", "node", "pods", "rate"]

SECONDS = 1.0
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
GIB = 1 << 30
MINOR = 36

Shape = tuple[int, int, int, int]
"""NUMA nodes with CPUs, cores of each with two CPUs, GPUs on each, NUMA nodes with memory alone."""

GB200: Shape = (2, 72, 2, 32)
MACHINES: dict[str, Shape] = {
    "DGX H100, 2 NUMA nodes": (2, 56, 4, 0),
    "8 NUMA nodes": (8, 16, 1, 0),
    "16 NUMA nodes": (16, 16, 1, 0),
    "34 NUMA nodes": (34, 8, 1, 0),
    "GB200, 34 NUMA nodes": GB200,
}


def machine(shape: Shape) -> KubeletView:
    """A machine of two sockets; near NUMA nodes are those of one socket."""
    places, cores, _, bare = shape
    total = places + bare
    socket = [id * 2 // places if id < places else id % 2 for id in range(total)]
    nodes = [
        {
            "id": id,
            "memory_bytes": 16 * cores * GIB if id < places else 96 * GIB,
            "distances": [10 if id == to else 12 if socket[id] == socket[to] else 32 for to in range(total)],
        }
        for id in range(total)
    ]
    cpus = [
        {
            "cpu": cores * id + core + thread * cores * places,
            "core": cores * id + core,
            "l3": id,
            "socket": socket[id],
            "numa": id,
        }
        for id in range(places)
        for core in range(cores)
        for thread in (0, 1)
    ]
    return view_of({"numa_nodes": nodes, "cpus": cpus})


def configuration(policy: str, view: KubeletView) -> Settings:
    """Every manager static, a core and 1 GiB of each NUMA node that has CPUs reserved."""
    homes = [node for node in view.nodes if node.cores]
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": policy,
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "64"},
        "reservedSystemCPUs": ",".join(str(node.cores[0].cpus) for node in homes),
        "systemReserved": {"memory": f"{len(homes)}Gi"},
        "evictionHard": {},
        "reservedMemory": [{"numaNode": node.id, "limits": {"memory": "1Gi"}} for node in homes],
    }
    return settings(decode(json.dumps(document).encode(), "benchmark", MINOR).values, MINOR)


def node(shape: Shape, policy: str) -> Node:
    """An empty node with GPUs and as many NICs."""
    view = machine(shape)
    places, _, gpus, _ = shape
    devices = [
        Device(resource, f"{resource}-{id}-{number}", (id,))
        for resource in ("nvidia.com/gpu", "nvidia.com/nic")
        for id in range(places)
        for number in range(gpus)
    ]
    return Node(configuration(policy, view), view, devices, max_pods=1 << 16)


def pods(shape: Shape, count: int) -> list[Pod]:
    """Pods of one or two containers with a half to two NUMA nodes' CPUs, memory, GPUs and NICs in proportion."""
    _, cores, gpus, _ = shape
    chance = random.Random(1)
    found = []
    for number in range(count):
        containers = []
        for position in range(chance.choice((1, 1, 2))):
            share = chance.choice((0.125, 0.25, 0.5, 0.5, 1.5))
            limits = {
                "cpu": str(max(2, int(cores * share) * 2)),
                "memory": f"{max(1, int(12 * cores * share))}Gi",
                "nvidia.com/gpu": str(max(1, int(gpus * share))),
                "nvidia.com/nic": "1",
            }
            containers.append({"name": f"c{position}", "resources": {"limits": limits}})
        found.append(pod_of(f"p{number}", {"containers": containers}))
    return found


def rate(shape: Shape, policy: str, seconds: float = SECONDS) -> tuple[float, float]:
    """Pods admitted a second and the longest decision in seconds."""
    place, stream = node(shape, policy), pods(shape, 4096)
    running: deque[str] = deque()
    admitted, slowest, number = 0, 0.0, 0
    begin = time.process_time()
    while time.process_time() - begin < seconds and number < len(stream):
        start = time.process_time()
        decision = place.admit(stream[number])
        slowest = max(slowest, time.process_time() - start)
        if decision.admitted:
            admitted += 1
            running.append(decision.pod)
            number += 1
        elif running:
            place.remove(running.popleft())
        else:
            number += 1
    return admitted / (time.process_time() - begin), slowest


def main() -> None:
    """Prints a row for each machine, the policies side by side."""
    print("pods admitted per second (longest decision)")
    print(f"{'':24}" + "".join(f"{policy:>22}" for policy in POLICIES))
    for name, shape in MACHINES.items():
        cells = []
        for policy in POLICIES:
            per_second, slowest = rate(shape, policy)
            cells.append(f"{per_second:10.0f} ({slowest * 1000:6.1f} ms)")
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
