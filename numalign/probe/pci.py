"""PCI: every function with its class, ids, driver, NUMA node and place in the tree.

Source of the files: the kernel's Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numalign.bdf import normalise
from numalign.cpuset import MAX_CPUS, CpuSet
from numalign.machine import NumaNode, PcieLink
from numalign.probe.host import Host, whole_number

__all__ = [
    "DEVICES",
    "Function",
    "iommu_group",
    "is_gpu",
    "is_nic",
    "pcie_link",
    "physical_function",
    "read_functions",
]

DEVICES = "sys/bus/pci/devices"

NVIDIA = "10de"
_GPU_CLASSES = ("0300", "0302")
_NIC_CLASSES = ("0200", "0207")
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)  # of PCIe links (linux/pci_regs.h, PCI_EXP_LNKSTA_NLW)

NumaSource = Literal["numa_node", "local_cpulist"]


class Function(msgspec.Struct, frozen=True):
    """A PCI function. `path` leads from the host bridge (`pci0000:15`) over the bridges to the function itself;
    it has one part where the tree is not known. `class_id` has four hex digits (`0302`)."""

    bdf: str
    folder: str
    class_id: str
    vendor_id: str | None
    device_id: str | None
    driver: str | None
    numa_node: int | None
    numa_node_from: NumaSource | None
    path: tuple[str, ...]


def read_functions(host: Host, numa_nodes: tuple[NumaNode, ...]) -> tuple[Function, ...]:
    """Every PCI function, by address."""
    by_cpus = {node.cpus.bits: node.id for node in numa_nodes if node.cpus}
    names = {bdf: name for name in host.names(DEVICES) if (bdf := normalise(name)) is not None}
    functions = (_function(host, names[bdf], bdf, by_cpus) for bdf in sorted(names, key=_order))
    return tuple(function for function in functions if function is not None)


def _function(host: Host, name: str, bdf: str, by_cpus: dict[int, int]) -> Function | None:
    link = f"{DEVICES}/{name}"
    folder = host.real(link)
    if folder is None:
        host.note("missing", link, "the link leads nowhere")
        return None
    event = _uevent(host.text(f"{folder}/uevent") or "")
    class_id = _class(event.get("PCI_CLASS", "")) or host.value(f"{folder}/class", _class_or_error)
    if class_id is None:
        host.note("missing", f"{folder}/class", "the function's class is not known")
        return None
    vendor, _, device = event.get("PCI_ID", "").lower().partition(":")
    if not (len(vendor) == len(device) == 4):
        vendor = host.value(f"{folder}/vendor", _id) or ""
        device = host.value(f"{folder}/device", _id) or ""
    numa_node, source = _numa_node(host, folder, by_cpus)
    return Function(
        bdf=bdf,
        folder=folder,
        class_id=class_id,
        vendor_id=vendor or None,
        device_id=device or None,
        driver=event["DRIVER"] if "DRIVER" in event else host.target(f"{folder}/driver") if not event else None,
        numa_node=numa_node,
        numa_node_from=source,
        path=_path(folder, bdf),
    )


def is_gpu(function: Function) -> bool:
    """Whether it is an NVIDIA display or 3D controller, whatever driver it has."""
    return function.vendor_id == NVIDIA and function.class_id in _GPU_CLASSES


def is_nic(function: Function) -> bool:
    """Whether it is an Ethernet or InfiniBand controller."""
    return function.class_id in _NIC_CLASSES


def pcie_link(host: Host, folder: str) -> PcieLink:
    """The function's link as it runs and as it could run; None for what the kernel does not know."""
    return PcieLink(
        speed=host.value(f"{folder}/current_link_speed", _speed),
        width=host.value(f"{folder}/current_link_width", _width),
        max_speed=host.value(f"{folder}/max_link_speed", _speed),
        max_width=host.value(f"{folder}/max_link_width", _width),
    )


def iommu_group(host: Host, folder: str) -> int | None:
    """The number of the function's IOMMU group, by which passthrough plugins call it."""
    group = host.target(f"{folder}/iommu_group")
    return int(group) if group and group.isdecimal() and len(group) < 10 else None


def physical_function(host: Host, folder: str) -> str | None:
    """The address of the function of which this one is a virtual function, None where it is none."""
    target = host.target(f"{folder}/physfn")
    return normalise(target) if target else None


def _numa_node(host: Host, folder: str, by_cpus: dict[int, int]) -> tuple[int | None, NumaSource | None]:
    """-1 is unknown; where the file is missing, local CPUs that are exactly one NUMA node's tell."""
    path = f"{folder}/numa_node"
    number = host.number(path)
    if number is not None:
        if number >= MAX_CPUS:
            host.note("malformed", path, f"{number} is no NUMA node")
        return (number, "numa_node") if 0 <= number < MAX_CPUS else (None, None)
    if host.real(path) is not None:
        return None, None  # there, but unreadable or malformed
    local = host.cpulist(f"{folder}/local_cpulist") or host.mask(f"{folder}/local_cpus") or CpuSet()
    found = by_cpus.get(local.bits)
    return (None, None) if found is None else (found, "local_cpulist")


def _uevent(text: str) -> dict[str, str]:
    return {key: value for key, mark, value in (line.partition("=") for line in text.splitlines()) if mark}


def _class(text: str) -> str | None:
    """The base class and subclass (four hex digits) of `0x030200` or of uevent's `30200`."""
    digits = text.strip().lower().removeprefix("0x").zfill(6)
    if not text or len(digits) != 6 or not all(c in "0123456789abcdef" for c in digits):
        return None
    return digits[:4]


def _class_or_error(text: str) -> str:
    found = _class(text)
    if found is None:
        raise ValueError("it is no PCI class")
    return found


def _id(text: str) -> str:
    number = whole_number(text if text[:2] in ("0x", "0X") else "0x" + text)
    if not 0 <= number <= 0xFFFF:
        raise ValueError("it is no PCI id")
    return f"{number:04x}"


def _speed(text: str) -> float | None:
    """GT/s of `32.0 GT/s PCIe`; None for `Unknown`."""
    number, _, _ = text.partition(" ")
    if number == "Unknown":
        return None
    if len(number) > 6 or not number.replace(".", "", 1).isdecimal():
        raise ValueError("it is no link speed")
    return float(number)


def _width(text: str) -> int | None:
    """Lanes; None where the kernel says anything else: 0 and 255 (no link, or not known), or 63, all bits of the
    register, where the device does not answer."""
    lanes = whole_number(text)
    return lanes if lanes in _WIDTHS else None


def _path(folder: str, bdf: str) -> tuple[str, ...]:
    """The parts of the real device directory from the host bridge on."""
    parts = folder.split("/")
    for start, part in enumerate(parts):
        if part.startswith("pci") and ":" in part and normalise(parts[-1]) == bdf:
            inner = (normalise(name) for name in parts[start + 1 :])
            return (part, *(name for name in inner if name is not None))
    return (bdf,)


def _order(bdf: str) -> tuple[int, str]:
    domain, rest = bdf.split(":", 1)
    return int(domain, 16), rest
