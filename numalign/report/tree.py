"""`inspect -o tree`: NUMA node, host bridge, switch, device."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from numalign.machine import Gpu, Machine, Nic
from numalign.report.groups import alike
from numalign.report.text import point_at_warnings, wrapped
from numalign.words import count, folded, headline, nic_name, printable, short_model, size

__all__ = ["draw"]

Branch = dict[str, "Branch"]


def draw(console: Console, machine: Machine) -> None:
    """The PCI tree below each NUMA node, as far as it leads to GPUs and NICs."""
    for line in folded(headline(machine), console.width):
        console.print(Text(line, style="bold"))
    groups = list(_groups(machine))
    labels = _labels(machine)
    for position, (title, branch) in enumerate(groups):
        last = position == len(groups) - 1
        first, rest = ("└─ ", "   ") if last else ("├─ ", "│  ")
        _print(console, first, rest + ("│    " if branch else "     "), title)
        for (begin, further), chain, label in _lines(branch, labels, rest):
            _print_device(console, begin, further, chain, label)
    point_at_warnings(console, machine)


def _print(console: Console, indent: str, further: str, text: str) -> None:
    """The text behind its place in the tree, broken between its parts, and lists after commas, where the terminal is
    narrower."""
    room = console.width - max(len(indent), len(further))
    for part in folded(text, console.width - len(indent)):
        for line in [part] if len(part) <= console.width - len(indent) else wrapped(part, room).split("\n"):
            console.print(Text(indent + line, no_wrap=True, overflow="ignore"))
            indent = further


def _print_device(console: Console, indent: str, further: str, chain: str, label: str) -> None:
    """A device behind the bridges that lead to it; on a line of its own where the terminal has no room beside them."""
    beside = f"{chain}  {label}".rstrip()
    if len(indent) + len(beside) <= console.width:
        _print(console, indent, further, beside)
        return
    for line in folded(chain, console.width - len(indent), " › "):
        console.print(Text(indent + line, no_wrap=True, overflow="ignore"))
        indent = further
    if label:
        _print(console, further, further, label)


def _groups(machine: Machine) -> Iterator[tuple[str, Branch]]:
    """A title and a PCI tree for each NUMA node, and one for the devices whose NUMA node is not known."""
    for ids, nodes in alike(machine):
        node = nodes[0]
        memory = size(node.memory_bytes) + (" each" if len(nodes) > 1 and node.memory_bytes else "")
        title = f"NUMA node{'s' if len(nodes) > 1 else ''} {ids} · {node.cpus or 'no CPUs'} · {memory}"
        gpu_memory = [gpu.index for gpu in machine.gpus if gpu.memory_numa_node == node.id]
        if gpu_memory:
            title += f" · memory of GPU {gpu_memory[0]}"
        yield title, _branch(machine, node.id)
    known = {node.id for node in machine.numa_nodes}
    lost = _branch(machine, None)
    if lost:
        yield "NUMA node not known", lost
    homes = {device.numa_node for device in machine.devices() if device.numa_node is not None}
    for strange in sorted(homes - known):
        why = "which this machine does not have" if known else "known only from its devices"
        yield f"NUMA node {strange}, {why}", _branch(machine, strange)


def _branch(machine: Machine, numa_node: int | None) -> Branch:
    root: Branch = {}
    for device in machine.devices():
        if device.numa_node == numa_node:
            here = root
            for part in device.path:
                here = here.setdefault(part, {})
    return root


def _labels(machine: Machine) -> dict[str, str]:
    labels = {gpu.bdf: _gpu_label(gpu) for gpu in machine.gpus}
    labels.update({nic.bdf: _nic_label(nic) for nic in machine.nics})
    return labels


def _gpu_label(gpu: Gpu) -> str:
    words = [f"GPU {gpu.index}", short_model(gpu.model) if gpu.model else f"{gpu.vendor_id}:{gpu.device_id}"]
    if gpu.driver != "nvidia":
        words.append(f"driver {gpu.driver}" if gpu.driver else "no driver")
    if gpu.mig_devices:
        words.append(count(len(gpu.mig_devices), "MIG device"))
    return printable(" · ".join(words))


def _nic_label(nic: Nic) -> str:
    words = [f"NIC {nic_name(nic)}" if nic_name(nic) != nic.bdf else "NIC"]
    words += [short_model(nic.model) if nic.model else f"{nic.vendor_id}:{nic.device_id}"]
    words += [word for word in (nic.link_layer, nic.state.lower() if nic.state else None) if word]
    if nic.rate_gbps:
        words.append(f"{nic.rate_gbps:g} Gb/s")
    if nic.physical_function:
        words.append(f"virtual function of {nic.physical_function}")
    return printable(" · ".join(words))


def _lines(branch: Branch, labels: dict[str, str], indent: str) -> Iterator[tuple[tuple[str, str], str, str]]:
    """The branch's lines: what stands before the first and before further ones, the chain of bridges up to a fork or a
    device, and the device's label."""
    names = sorted(branch)
    for name in names:
        chain = [name]
        below = branch[name]
        while len(below) == 1 and chain[-1] not in labels:
            ((only, below),) = below.items()
            chain.append(only)
        mark, rest = ("└─ ", "   ") if name == names[-1] else ("├─ ", "│  ")
        further = indent + rest + ("│    " if below else "     ")
        yield (indent + mark, further), printable(" › ".join(chain)), labels.get(chain[-1], "")
        yield from _lines(below, labels, indent + rest)
