"""`inspect -o text`: the machine on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from numalign.cpuset import CpuSet
from numalign.machine import Gpu, Machine, NearestNics, Nic
from numalign.report.groups import alike
from numalign.words import (
    count,
    device_list,
    folded,
    headline,
    nic_name,
    pcie_words,
    printable,
    share,
    short_model,
    size,
)

__all__ = ["draw"]

_NARROWEST_LIST = 11
_ROOM_FOR_MESSAGES = 80
"""Columns behind a warning's id below which its message is better read below it."""
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def draw(console: Console, machine: Machine) -> None:
    """The headline, the NUMA nodes, the GPUs with their nearest NICs, and the warnings."""
    for line in folded(headline(machine), console.width):
        console.print(Text(line, style="bold"))
    for line in _conditions(machine):
        console.print(Text(line))
    console.print()
    console.print(_numa_table(machine, max(console.width // 5, _NARROWEST_LIST)))
    for line in _bond_lines(machine):
        console.print(Text(line))
    if machine.gpus:
        console.print()
        console.print(_gpu_table(machine))
        console.print()
        console.print(Text(_evenness(machine)))
    if machine.warnings:
        console.print()
        _warnings(console, machine)


def point_at_warnings(console: Console, machine: Machine) -> None:
    """Where a drawing has no room for the map's warnings: how many there are, and who says them."""
    if machine.warnings:
        console.print()
        console.print(Text(f"{count(len(machine.warnings), 'warning')}; numalign inspect has them"))


def plain_table(*columns: tuple[str, str]) -> Table:
    """A table without lines; each column is its heading and `left`, `right`, or `whole`: left, never broken."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading, justify in columns:
        whole = justify == "whole"
        table.add_column(heading, justify="right" if justify == "right" else "left", overflow="fold", no_wrap=whole)
    return table


def style_of(severity: str) -> str:
    """The colour of a severity; its name is always printed too."""
    return _STYLES.get(severity, "")


def _conditions(machine: Machine) -> list[str]:
    """What is out of the ordinary about the CPUs."""
    return [
        f"{name}: {cpus}"
        for name, cpus in (
            ("offline CPUs", machine.offline_cpus),
            ("isolated CPUs", machine.isolated_cpus),
            ("nohz_full CPUs", machine.nohz_full_cpus),
        )
        if cpus
    ]


def _numa_table(machine: Machine, width: int) -> Table:
    table = plain_table(
        ("NUMA", "right"), ("CPUs", "left"), ("cores", "right"), ("memory", "right"), ("GPUs", "left"), ("NICs", "left")
    )
    for ids, nodes in alike(machine):
        first = nodes[0]
        cores = sum(core.numa_node == first.id for core in machine.cores)
        memory = size(first.memory_bytes) + (" each" if len(nodes) > 1 and first.memory_bytes else "")
        table.add_row(str(ids), wrapped(first.cpus, width), str(cores), memory, *_devices(machine, first.id))
    known = {node.id for node in machine.numa_nodes}
    homeless = _devices_of([device for device in machine.devices() if device.numa_node not in known])
    if not machine.numa_nodes:
        table.add_row(
            "?", wrapped(machine.online_cpus, width), str(len(machine.cores)), size(machine.memory_bytes), *homeless
        )
    elif any(homeless):
        table.add_row("?", "", "", "", *homeless)
    return table


def wrapped(listed: CpuSet | str, width: int) -> str:
    """The list, broken after commas where it is longer than `width`; `–` where it is empty."""
    lines = [""]
    for part in str(listed).split(","):
        if lines[-1] and len(lines[-1]) + len(part) >= width:
            lines.append("")
        lines[-1] += part + ","
    return "\n".join(lines).removesuffix(",") or "–"


def fits(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the rows of a plain table, its headings among them, have room in `width` columns unbroken."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2 <= width


def _devices(machine: Machine, numa_node: int) -> tuple[str, str]:
    gpus, nics = _devices_of([device for device in machine.devices() if device.numa_node == numa_node])
    inside = CpuSet(gpu.index for gpu in machine.gpus if gpu.memory_numa_node == numa_node)
    return gpus or (f"memory of GPU {inside}" if inside else ""), nics


def _devices_of(devices: Sequence[Gpu | Nic]) -> tuple[str, str]:
    gpus = [device for device in devices if isinstance(device, Gpu)]
    return _gpu_words(gpus), _nic_words([device for device in devices if isinstance(device, Nic)])


def _gpu_words(gpus: Sequence[Gpu]) -> str:
    """`0-3 H100 80GB HBM3`."""
    by_model: dict[str, list[int]] = {}
    for gpu in gpus:
        by_model.setdefault(_model(gpu), []).append(gpu.index)
    return printable(", ".join(f"{CpuSet(indices)} {model}" for model, indices in by_model.items()))


def _nic_words(nics: Sequence[Nic]) -> str:
    """`mlx5_0-3 InfiniBand, mlx5_4-5 Ethernet, 16 virtual functions`."""
    by_layer: dict[str, list[str]] = {}
    for nic in nics:
        if nic.physical_function is None:
            by_layer.setdefault(nic.link_layer or "", []).append(nic_name(nic))
    words = [f"{device_list(names)} {layer}".rstrip() for layer, names in by_layer.items()]
    virtual = sum(nic.physical_function is not None for nic in nics)
    if virtual:
        words.append(count(virtual, "virtual function"))
    return printable(", ".join(words))


def _bond_lines(machine: Machine) -> list[str]:
    """`bond0 of ens1f0np0 (NUMA 0), ens1f1np1 (NUMA 0)`."""
    home = {netdev: nic.numa_node for nic in machine.nics for netdev in nic.netdevs}
    lines = []
    for bond in machine.bonds:
        members = [f"{netdev} (NUMA {'?' if home.get(netdev) is None else home[netdev]})" for netdev in bond.netdevs]
        lines.append(printable(f"{bond.name} of {', '.join(members) or 'nothing'}"))
    return lines


def _model(gpu: Gpu) -> str:
    return short_model(gpu.model) if gpu.model else f"{gpu.vendor_id}:{gpu.device_id}"


def _gpu_table(machine: Machine) -> Table:
    by_bdf = {nic.bdf: nic for nic in machine.nics}
    several = len({_model(gpu) for gpu in machine.gpus}) > 1
    strange = any(gpu.driver != "nvidia" for gpu in machine.gpus)
    mig = any(gpu.mig_devices for gpu in machine.gpus)
    columns = [("GPU", "right"), ("address", "whole"), ("NUMA", "right"), ("nearest NICs", "left"), ("link", "left")]
    columns += [("PCIe", "left")]
    columns += [("model", "left")] * several + [("driver", "left")] * strange + [("MIG devices", "left")] * mig
    table = plain_table(*columns)
    for gpu in machine.gpus:
        near = gpu.nearest_nics
        cells = [
            str(gpu.index),
            gpu.bdf,
            "?" if gpu.numa_node is None else str(gpu.numa_node),
            printable(_near_names([by_bdf[bdf] for bdf in near.nics])) if near else "–",
            near.type if near else "–",
            pcie_words(gpu.pcie),
        ]
        cells += [printable(_model(gpu))] * several + [printable(gpu.driver or "none")] * strange
        cells += [printable(_mig_words(gpu))] * mig
        table.add_row(*cells)
    return table


def _near_names(nics: Sequence[Nic]) -> str:
    """`mlx5_0-1`; those whose port is down stand last, with a word."""
    down = [nic_name(nic) for nic in nics if nic.state and nic.state.lower() == "down"]
    names = device_list(name for name in map(nic_name, nics) if name not in down)
    return ", ".join([names] * bool(names) + [f"{device_list(down)} (down)"] * bool(down))


def _mig_words(gpu: Gpu) -> str:
    names = [mig.name.rpartition(" ")[2] if mig.name else "MIG" for mig in gpu.mig_devices]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def _evenness(machine: Machine) -> str:
    """Whether every GPU has equally many NICs equally near, each for equally many GPUs; if not, which has what."""
    lost = sum(gpu.numa_node is None for gpu in machine.gpus)
    if lost and len(machine.numa_nodes) != 1:
        return f"how near the NICs are is not known: {share(lost, len(machine.gpus), 'GPU')} without a NUMA node"
    if not any(gpu.nearest_nics for gpu in machine.gpus):
        return "no NICs near any GPU are known"
    near = {gpu.index: gpu.nearest_nics for gpu in machine.gpus}
    users = Counter(bdf for nics in near.values() if nics and nics.type != "SYS" for bdf in nics.nics)
    groups: dict[str, list[int]] = {}
    for index, nics in near.items():
        groups.setdefault(_near_words(nics, users), []).append(index)
    if len(groups) > 1:
        return "NICs are not spread evenly: " + "; ".join(
            f"GPU {CpuSet(indices)}: {words.removesuffix(',')}" for words, indices in groups.items()
        )
    (words,) = groups
    return f"NICs are spread evenly: {words} for every GPU" if users else "no GPU has a NIC on its NUMA node"


def _near_words(near: NearestNics | None, users: Counter[str]) -> str:
    """`2 NICs at PXB`, and how many GPUs share them."""
    if near is None or near.type == "SYS":
        return "none on its NUMA node"
    shared = max(users[bdf] for bdf in near.nics)
    return f"{count(len(near.nics), 'NIC')} at {near.type}" + (f", shared by {shared} GPUs," if shared > 1 else "")


def _warnings(console: Console, machine: Machine) -> None:
    """The warnings in a table; where that leaves a narrow column of text, their messages below their ids."""
    widest = max(len(warning.id) for warning in machine.warnings)
    if console.width < widest + _ROOM_FOR_MESSAGES:
        for warning in machine.warnings:
            console.print(Text.assemble(("warning  ", style_of("warning")), warning.id))
            console.print(Padding(Text(printable(warning.message)), (0, 0, 0, 9)))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for warning in machine.warnings:
        table.add_row(Text("warning", style=style_of("warning")), warning.id, printable(warning.message))
    console.print(table)
