"""`inspect -o matrix`: the links of every pair, in the manner of `nvidia-smi topo -m`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from numalign.links import LINK_TYPES, MEANING
from numalign.machine import Link, Machine
from numalign.report.text import point_at_warnings
from numalign.words import printable

__all__ = ["draw"]


def draw(console: Console, machine: Machine) -> None:
    """The matrix, in blocks of columns where the terminal is narrower; then which NIC is which, and the legend."""
    heads, rows = _cells(machine)
    if not rows:
        console.print(Text("no GPUs and no NICs on this machine's PCI"))
        return
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    for columns in _blocks(widths, console.width, len(machine.devices())):
        for row in (heads, *rows):
            console.print(
                Text("  ".join(row[i].ljust(widths[i]) for i in (0, *columns)), no_wrap=True, overflow="ignore")
            )
        console.print()
    for i, nic in enumerate(machine.nics):
        names = " ".join((*nic.rdma, *nic.netdevs)) or "–"
        console.print(Text(f"NIC{i}: {nic.bdf}  {printable(names)}"))
    console.print()
    console.print(Text("X     itself"))
    for kind in LINK_TYPES:
        console.print(Text(f"{kind:<5} {MEANING[kind]}"))
    console.print(Text("NV#   # NVLinks"))
    if len(machine.gpus) > 1 and (machine.nvidia_driver is None or machine.nvidia_driver.nvml != "ok"):
        console.print()
        console.print(Text("NVLinks are not known here: NVML gave no answer"))
    point_at_warnings(console, machine)


def _cells(machine: Machine) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows, each with its label first."""
    labels = {gpu.bdf: f"GPU{gpu.index}" for gpu in machine.gpus}
    labels.update({nic.bdf: f"NIC{i}" for i, nic in enumerate(machine.nics)})
    words: dict[tuple[str, str], str] = {}
    for link in machine.links:
        words[link.a, link.b] = words[link.b, link.a] = _word(link)
    affinity = {node.id: str(node.cpus) for node in machine.numa_nodes}
    with_memory = any(gpu.memory_numa_node is not None for gpu in machine.gpus)
    heads = ["", *labels.values(), "CPU Affinity", "NUMA Affinity", *["GPU NUMA ID"] * with_memory]
    rows = []
    for device in machine.devices():
        row = [labels[device.bdf]]
        row += ["X" if other == device.bdf else words.get((device.bdf, other), "?") for other in labels]
        node = device.numa_node
        row += ["?", "?"] if node is None else [affinity.get(node, "?") or "–", str(node)]
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
