"""`inspect -o matrix`: the links of every pair, in the manner of `nvidia-smi topo -m`."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.cpuset import CpuSet
from numalign.links import LINK_TYPES, MEANING
from numalign.machine import Gpu, Link, Machine, Nic
from numalign.report.text import point_at_warnings, wrapped
from numalign.words import printable

__all__ = ["draw"]

Device = Gpu | Nic

_BESIDE_LISTS = 40
"""Columns that a list of CPUs leaves to what stands beside it."""
_TOGETHER = (
    "rows of several devices: each is as near to all others, and to each other as its own column says; "
    "numalign inspect -o matrix | less -S has them one by one"
)


def draw(console: Console, machine: Machine) -> None:
    """The matrix, then which NIC is which, and the legend. Where the terminal is narrower, devices that are as near to
    all others share a row and a column; what is wider still is printed in blocks of columns."""
    groups = [[device] for device in machine.devices()]
    lists = {node.id: str(node.cpus) for node in machine.numa_nodes}
    beside = max(map(len, lists.values()), default=0) + _BESIDE_LISTS <= console.width
    heads, rows = _cells(machine, groups, lists if beside else None)
    if not rows:
        console.print(Text("no GPUs and no NICs on this machine's PCI"))
        return
    widths = _widths(heads, rows)
    if widths[0] + sum(2 + width for width in widths[1:]) > console.width:
        groups = _alike(machine)
        heads, rows = _cells(machine, groups, lists if beside else None)
        widths = _widths(heads, rows)
    for columns in _blocks(widths, console.width, len(groups)):
        for row in (heads, *rows):
            console.print(
                Text("  ".join(row[i].ljust(widths[i]) for i in (0, *columns)), no_wrap=True, overflow="ignore")
            )
        console.print()
    if not beside:
        for node in sorted({device.numa_node for device in machine.devices() if device.numa_node in lists}):
            console.print(Text(f"CPU Affinity of NUMA node {node}:"))
            console.print(Padding(Text(wrapped(lists[node], console.width - 2)), (0, 0, 0, 2)))
        console.print()
    for i, nic in enumerate(machine.nics):
        names = " ".join((*nic.rdma, *nic.netdevs)) or "–"
        console.print(Text(f"NIC{i}: {nic.bdf}  {printable(names)}"))
    console.print()
    if any(len(group) > 1 for group in groups):
        console.print(
            Text("rows of several devices: each is as near to all others, and to each other as said in their")
        )
        console.print(
            Text("own column; a wider terminal, or numalign inspect -o matrix | less -S, has them one by one")
        )
        console.print()
    console.print(Text("X     itself"))
    for kind in LINK_TYPES:
        console.print(Text(f"{kind:<5} {MEANING[kind]}"))
    console.print(Text("NV#   # NVLinks"))
    if len(machine.gpus) > 1 and (machine.nvidia_driver is None or machine.nvidia_driver.nvml != "ok"):
        console.print()
        console.print(Text("NVLinks are not known here: NVML gave no answer"))
    point_at_warnings(console, machine)


def _widths(heads: list[str], rows: list[list[str]]) -> list[int]:
    return [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]


def _words(machine: Machine) -> dict[tuple[str, str], str]:
    """How near each pair is, by the addresses of both in either order."""
    found: dict[tuple[str, str], str] = {}
    for link in machine.links:
        found[link.a, link.b] = found[link.b, link.a] = _word(link)
    return found


def _alike(machine: Machine) -> list[list[Device]]:
    """The devices, those of a kind together that are as near to all others and to each other."""
    words = _words(machine)
    devices = machine.devices()
    groups: list[list[Device]] = []
    for device in devices:
        for group in groups:
            first = group[0]
            inner = {words.get((device.bdf, other.bdf)) for other in group}
            if len(group) > 1:
                inner.add(words.get((first.bdf, group[1].bdf)))
            outer = (other for other in devices if other is not device and other not in group)
            if (
                type(first) is type(device)
                and first.numa_node == device.numa_node
                and getattr(first, "memory_numa_node", None) == getattr(device, "memory_numa_node", None)
                and len(inner) == 1
                and all(words.get((first.bdf, other.bdf)) == words.get((device.bdf, other.bdf)) for other in outer)
            ):
                group.append(device)
                break
        else:
            groups.append([device])
    return groups


def _cells(
    machine: Machine, groups: list[list[Device]], lists: Mapping[int, str] | None
) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows, each with its label first; with the `lists` of CPUs of each NUMA node, if any."""
    numbers = {nic.bdf: i for i, nic in enumerate(machine.nics)} | {gpu.bdf: gpu.index for gpu in machine.gpus}
    labels = [
        f"{'GPU' if isinstance(group[0], Gpu) else 'NIC'}{CpuSet(numbers[each.bdf] for each in group)}"
        for group in groups
    ]
    words = _words(machine)
    with_memory = any(gpu.memory_numa_node is not None for gpu in machine.gpus)
    heads = ["", *labels, *([] if lists is None else ["CPU Affinity"]), "NUMA Affinity", *["GPU NUMA ID"] * with_memory]
    rows = []
    for label, group in zip(labels, groups, strict=True):
        device = group[0]
        row = [label]
        for other in groups:
            to = other[-1] if other is group else other[0]
            row.append("X" if to is device else words.get((device.bdf, to.bdf), "?"))
        node = device.numa_node
        if lists is not None:
            row.append("?" if node is None else lists.get(node, "?") or "–")
        row.append("?" if node is None else str(node))
        if with_memory:
            memory = getattr(device, "memory_numa_node", None)
            row.append("" if memory is None else str(memory))
        rows.append(row)
    return heads, rows


def _word(link: Link) -> str:
    return f"NV{link.nvlinks}" if link.nvlinks else link.type or "?"


def _blocks(widths: list[int], width: int, devices: int) -> list[list[int]]:
    """The columns beside the labels, in blocks that fit into `width`; those after the devices' stay together."""
    blocks: list[list[int]] = [[]]
    used = widths[0]
    for column in range(1, len(widths)):
        needed = 2 + widths[column]
        if column == devices + 1:
            needed = sum(2 + own for own in widths[column:])
        if blocks[-1] and used + needed > width:
            blocks.append([])
            used = widths[0]
        blocks[-1].append(column)
        used += 2 + widths[column]
    return blocks
