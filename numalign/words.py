"""Words for people: sizes, counts, lists of names, and text made safe to print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numalign.cpuset import MAX_CPUS, CpuSet
from numalign.machine import Machine, Nic, PcieLink

__all__ = [
    "count",
    "device_list",
    "few",
    "folded",
    "headline",
    "nic_name",
    "numa_nodes",
    "pcie_words",
    "printable",
    "share",
    "short_cpu_model",
    "short_model",
    "size",
    "sockets_words",
]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_CPU_MARKS = ("(R)", "(TM)", "(tm)")
_CPU_NOISE = frozenset({"Intel", "INTEL", "AMD", "CPU", "Processor", "Genuine"})


def printable(text: str) -> str:
    """The text with everything that could steer a terminal or break a line written as an escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def size(bytes: int | None) -> str:
    """Bytes in the largest unit that leaves at least one: `1008.0 GiB`, `1.97 TiB`; `–` where they are not known."""
    if bytes is None:
        return "–"
    number = float(bytes)
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    if unit == "B":
        return f"{bytes} B"
    return f"{number:.2f} {unit}" if number < 10 else f"{number:.1f} {unit}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 socket`, `2 sockets`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def share(number: int, total: int, noun: str) -> str:
    """`both GPUs`, `all 8 GPUs`, `3 of 8 GPUs`, `1 GPU`."""
    if number == total:
        return f"1 {noun}" if total == 1 else f"both {noun}s" if total == 2 else f"all {total} {noun}s"
    return f"{number} of {total} {noun}s"


def few(names: Sequence[str], at_most: int = 4) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:at_most])
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"


def nic_name(nic: Nic) -> str:
    """What people call a NIC: its RDMA device, else its netdev, else its address."""
    return (*nic.rdma, *nic.netdevs, nic.bdf)[0]


def numa_nodes(ids: Iterable[int]) -> str:
    """`NUMA node 0`, `NUMA nodes 0,2-3`."""
    listed = CpuSet(ids)
    return f"NUMA node{'s' if len(listed) > 1 else ''} {listed}"


def sockets_words(ids: Iterable[int]) -> str:
    """`socket 0`, `sockets 0-3`; the kernel's ids can be any numbers where the firmware numbers no sockets.

    >>> sockets_words([0]), sockets_words([0, 1, 3]), sockets_words([-1, 2**40])
    ('socket 0', 'sockets 0-1,3', 'sockets -1, 1099511627776')
    """
    listed = sorted(ids)
    short = listed and listed[0] >= 0 and listed[-1] < MAX_CPUS
    return f"socket{'s' if len(listed) > 1 else ''} {CpuSet(listed) if short else ', '.join(map(str, listed))}"


def pcie_words(link: PcieLink) -> str:
    """`x16 32 GT/s`; `x8 of x16` where the link could be wider. Speeds drop while a GPU idles, so the most is said."""
    if link.width is None:
        return "–"
    width = f"x{link.width}" if link.max_width in (None, link.width) else f"x{link.width} of x{link.max_width}"
    speed = link.max_speed or link.speed
    return f"{width} {speed:g} GT/s" if speed else width


def short_cpu_model(model: str) -> str:
    """`Intel(R) Xeon(R) Platinum 8480C` as `Xeon Platinum 8480C`."""
    words = model.partition("@")[0]
    for mark in _CPU_MARKS:
        words = words.replace(mark, "")
    return " ".join(word for word in words.split() if word not in _CPU_NOISE) or model


def short_model(model: str) -> str:
    """A device's name without its vendor and code name: `MT2910 Family [ConnectX-7]` as `ConnectX-7`."""
    if model.endswith("]") and "[" in model:
        model = model[model.rindex("[") + 1 : -1]
    return model.removeprefix("NVIDIA ").removeprefix("Tesla ").strip() or model


def device_list(names: Iterable[str]) -> str:
    """Names with their numbers drawn together: mlx5_0, mlx5_1, mlx5_2 as `mlx5_0-2`; in the order of first sight."""
    groups: dict[str, list[int]] = {}
    single: dict[str, None] = {}
    order: dict[str, str] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        if stem and digits and len(digits) < 5 and str(int(digits)) == digits:
            groups.setdefault(stem, []).append(int(digits))
            order.setdefault(f"{stem}\0", stem)
        else:
            single[name] = None
            order.setdefault(name, "")
    return ", ".join(f"{stem}{CpuSet(groups[stem])}" if stem else name for name, stem in order.items())


def folded(text: str, width: int, mark: str = " · ") -> list[str]:
    """The text in lines of at most `width` characters, broken behind its marks where it has some.

    >>> folded("sriov-vfs · 2 sockets · 503.5 GiB", 24)
    ['sriov-vfs · 2 sockets ·', '503.5 GiB']
    """
    lines = [""]
    parts = text.split(mark)
    for i, part in enumerate(parts):
        piece = part + (mark.rstrip() if i < len(parts) - 1 else "")
        if lines[-1] and len(lines[-1]) + 1 + len(piece) > width:
            lines.append(piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}" if lines[-1] else piece
    return lines


def headline(machine: Machine) -> str:
    """The machine in one line: name, CPUs, NUMA nodes, memory, driver."""
    threads = len(machine.online_cpus)
    parts = [machine.name or "unnamed host"]
    if machine.cpu_model:
        parts.append(f"{len(machine.sockets) or 1} × {short_cpu_model(machine.cpu_model)}")
    parts.append(f"{count(len(machine.cores), 'core')}, {count(threads, 'CPU')}")
    if machine.offline_cpus:
        parts[-1] += f" ({len(machine.offline_cpus)} offline)"
    parts.append(count(len(machine.numa_nodes), "NUMA node") if machine.numa_nodes else "NUMA nodes not known")
    parts.append(size(machine.memory_bytes))
    of_gpus = {gpu.memory_numa_node for gpu in machine.gpus}
    on_gpus = sum(node.memory_bytes or 0 for node in machine.numa_nodes if node.id in of_gpus)
    if on_gpus:
        parts[-1] += f" ({size(on_gpus)} of it on GPUs)"
    if machine.nvidia_driver is not None:
        version = machine.nvidia_driver.version
        parts.append(f"NVIDIA driver {version}" if version else "no NVIDIA driver")
    return printable(" · ".join(parts))
