"""Memory and NUMA nodes: CPUs, memory, distances and huge pages of each.

Source of the files: the kernel's Documentation/ABI/stable/sysfs-devices-node and admin-guide/mm/hugetlbpage.rst.
"""

from __future__ import annotations

import msgspec

from numalign.cpuset import CpuSet
from numalign.machine import Hugepages, NumaNode
from numalign.probe.host import Host, numbered, whole_number

__all__ = ["NODE", "memory_total", "read_numa_nodes"]

NODE = "sys/devices/system/node"


def memory_total(host: Host) -> int | None:
    """The machine's memory in bytes, as /proc/meminfo has it."""
    return host.value("proc/meminfo", _mem_total, expected=True)


def read_numa_nodes(host: Host, online: CpuSet) -> tuple[NumaNode, ...]:
    """The NUMA nodes by id; none where the kernel has no NUMA directory."""
    ids = numbered(host.names(NODE), "node")
    nodes = []
    free = online
    for id in ids:
        node = _numa_node(host, id, ids, online)
        if not node.cpus <= free:
            host.note("malformed", f"{NODE}/node{id}/cpulist", f"CPUs {node.cpus - free} are another NUMA node's")
            node = msgspec.structs.replace(node, cpus=node.cpus & free)
        free -= node.cpus
        nodes.append(node)
    return tuple(nodes)


def _numa_node(host: Host, id: int, ids: list[int], online: CpuSet) -> NumaNode:
    folder = f"{NODE}/node{id}"
    cpus = host.cpulist(f"{folder}/cpulist")
    if cpus is None:
        cpus = host.mask(f"{folder}/cpumap")
    if cpus is None:
        cpus = CpuSet(numbered(host.names(folder), "cpu"))
    return NumaNode(
        id=id,
        cpus=cpus & online,
        memory_bytes=host.value(f"{folder}/meminfo", _mem_total, expected=True),
        hugepages=_hugepages(host, f"{folder}/hugepages"),
        distances=host.value(f"{folder}/distance", lambda text: _distances(text, ids), expected=True) or {},
    )


def _hugepages(host: Host, folder: str) -> tuple[Hugepages, ...]:
    sizes = []
    for name in host.names(folder):
        number = name.removeprefix("hugepages-").removesuffix("kB")
        if number.isdecimal() and len(number) < 12 and name == f"hugepages-{number}kB":
            sizes.append(int(number))
    return tuple(
        Hugepages(
            size=size * 1024,
            total=host.value(f"{folder}/hugepages-{size}kB/nr_hugepages", _pages),
            free=host.value(f"{folder}/hugepages-{size}kB/free_hugepages", _pages),
        )
        for size in sorted(sizes)
    )


def _mem_total(text: str) -> int:
    """The bytes of the line `MemTotal: N kB`; the files of a NUMA node have its name before it."""
    start = text.find("MemTotal:")
    words = text[start : start + 80].split(None, 3) if start >= 0 else []
    if len(words) < 3 or words[2] != "kB":
        raise ValueError("it has no line MemTotal in kB")
    if (total := whole_number(words[1]) * 1024) not in range(1 << 60):
        raise ValueError(f"{words[1]} kB are more than any machine has")
    return total


def _pages(text: str) -> int:
    if (number := whole_number(text)) not in range(1 << 40):
        raise ValueError(f"{number} is no number of pages")
    return number


def _distances(text: str, ids: list[int]) -> dict[int, int]:
    """A row of the distance table: one number for each online NUMA node, ascending (kernel: node_read_distance)."""
    row = [whole_number(word) for word in text.split()]
    if len(row) == len(ids):
        return dict(zip(ids, row, strict=True))
    if ids and len(row) == ids[-1] + 1:  # NUMA nodes that went offline since keep their column
        return dict(enumerate(row))
    raise ValueError(f"it has {len(row)} distances for {len(ids)} NUMA nodes")
