"""Fleets made of one machine: `python -m tests.fleets DIR` writes the nodes of the examples in docs/fleet.md."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from numalign.cpuset import CpuSet
from numalign.machine import Gpu, Machine, Nic, NumaNode, NvidiaDriver, encode
from numalign.probe import probe
from numalign.probe.host import Host
from tests import machines

__all__ = ["Change", "host", "nic_lost", "other_driver", "snc2", "without_gpu", "write_fleet", "write_nodes"]

Change = Callable[[Machine], Machine]


def host(machine: Machine, number: int) -> Machine:
    """Another host with this machine: its own name, serial numbers, and a little more or less memory."""
    gpus = tuple(replace(gpu, uuid=f"GPU-{number:08x}-0000-4000-8000-{gpu.index:012x}") for gpu in machine.gpus)
    nodes = tuple(
        replace(node, memory_bytes=(node.memory_bytes or 0) - number % 97 * 4096) for node in machine.numa_nodes
    )
    return replace(machine, name=f"gpu-{number:03}", gpus=gpus, numa_nodes=nodes)


def without_gpu(machine: Machine, index: int = 5) -> Machine:
    """One of its GPUs does not answer any more."""
    lost = next(gpu.bdf for gpu in machine.gpus if gpu.index == index)
    links = tuple(link for link in machine.links if lost not in (link.a, link.b))
    return replace(machine, gpus=tuple(gpu for gpu in machine.gpus if gpu.bdf != lost), links=links)


def nic_lost(machine: Machine) -> Machine:
    """The firmware does not say any more where its first NIC is."""
    first, *rest = machine.nics
    return replace(machine, nics=(replace(first, numa_node=None, numa_node_from=None), *rest))


def other_driver(machine: Machine) -> Machine:
    """An older NVIDIA driver."""
    return replace(machine, nvidia_driver=NvidiaDriver(version="550.54.15", nvml="ok"))


def snc2(machine: Machine) -> Machine:
    """Sub-NUMA clustering: each NUMA node in two, its cores, memory and devices in halves."""
    nodes: list[NumaNode] = []
    home: dict[int, int] = {}
    for node in machine.numa_nodes:
        cores = [core.cpus for core in machine.cores if core.numa_node == node.id]
        for half in (0, 1):
            cpus = CpuSet(cpu for core in cores[half * len(cores) // 2 : (half + 1) * len(cores) // 2] for cpu in core)
            id = node.id * 2 + half
            home |= dict.fromkeys(cpus, id)
            distances = {to: 10 if to == id else 12 if to // 2 == id // 2 else 21 for to in range(4)}
            memory = (node.memory_bytes or 0) // 2
            nodes.append(replace(node, id=id, cpus=cpus, memory_bytes=memory, distances=distances, hugepages=()))

    def place(device: Gpu | Nic, number: int, of: int) -> int:
        return (device.numa_node or 0) * 2 + (number * 4 // of) % 2

    gpus, nics = machine.gpus, machine.nics
    return replace(
        machine,
        numa_nodes=tuple(nodes),
        cores=tuple(replace(core, numa_node=home[core.cpus.first()]) for core in machine.cores),
        gpus=tuple(replace(gpu, numa_node=place(gpu, i, len(gpus))) for i, gpu in enumerate(gpus)),
        nics=tuple(replace(nic, numa_node=place(nic, i, len(nics))) for i, nic in enumerate(nics)),
    )


ODD: dict[int, Change] = {17: without_gpu, 23: snc2, 24: snc2, 25: snc2, 31: nic_lost, 40: other_driver}
"""What is odd about some of the nodes."""


def write_fleet(folder: Path, machine: Machine, count: int, odd: dict[int, Change]) -> None:
    """Writes the documents of so many nodes, some of them changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, count + 1):
        node = host(machine, number)
        if number in odd:
            node = odd[number](node)
        (folder / f"{node.name}.json").write_bytes(encode(node))


def write_nodes(folder: Path) -> None:
    """Writes the fleet of docs/fleet.md: 64 DGX H100, six of them odd."""
    with tempfile.TemporaryDirectory() as root:
        machines.build("dgx-h100", Path(root))
        write_fleet(folder, probe(Host(root)), 64, ODD)


if __name__ == "__main__":
    write_nodes(Path(sys.argv[1]))
