"""The kernel and this process: names, versions, command line, and what confines the reader."""

from __future__ import annotations

import os

import msgspec

from numalign.cpuset import CpuSet
from numalign.machine import Confinement
from numalign.probe.host import Host

__all__ = ["FIRMWARE_WORKAROUND", "Kernel", "cpu_list", "fields", "read_confinement", "read_kernel", "tainted"]

FIRMWARE_WORKAROUND = 1 << 11
"""The taint bit that a hand-written numa_node sets (kernel: admin-guide/tainted-kernels.rst)."""

_CPUINFO_BYTES = 1 << 14
_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "ppc64le": "ppc64le"}
_ARM_CORES = {
    # the main ID register's implementer and part number -> the core's name (Arm's technical reference manuals)
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd83"): "Neoverse-V3AE",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd42"): "Cortex-A78AE",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
    ("0x48", "0xd01"): "TaiShan v110",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}
_INIT = frozenset({"systemd", "init", "openrc-init", "runit", "s6-svscan", "machined"})


class Kernel(msgspec.Struct, frozen=True):
    """What is known of the host's name, kernel and processor."""

    name: str | None
    arch: str | None
    release: str | None
    command_line: str | None
    cpu_model: str | None


def read_kernel(host: Host) -> Kernel:
    """Host name, architecture, kernel release and command line, CPU model."""
    info = _cpuinfo(host)
    return Kernel(
        name=host.text("proc/sys/kernel/hostname") or None,
        arch=_arch(host),
        release=host.text("proc/sys/kernel/osrelease") or None,
        command_line=host.text("proc/cmdline"),
        cpu_model=info.get("model name") or info.get("cpu") or _arm_model(info),
    )


def tainted(host: Host) -> int:
    """The kernel's taint bits, 0 where it does not say."""
    return host.number("proc/sys/kernel/tainted") or 0


def read_confinement(host: Host, online: CpuSet) -> Confinement | None:
    """What confines this process, None where nothing does."""
    status = fields(host.text("proc/self/status") or "")
    cpus = cpu_list(status.get("Cpus_allowed_list"))
    memory = cpu_list(status.get("Mems_allowed_list"))
    node_list = host.text("sys/devices/system/node/has_memory")
    nodes = cpu_list(node_list)
    confined_cpus = cpus & online if cpus and not online <= cpus else None
    confined_nodes = memory & nodes if memory and nodes and not nodes <= memory else None
    container = _in_container(host)
    if confined_cpus is None and confined_nodes is None and not container:
        return None
    return Confinement(cpus=confined_cpus, numa_nodes=confined_nodes, container=container)


def _in_container(host: Host) -> bool:
    """Whether the reader sees a container's files or processes: its marks, or a first process that is no init."""
    if host.real(".dockerenv") is not None or host.real("run/.containerenv") is not None:
        return True
    second = host.text("proc/2/comm")
    if second is not None:
        return second != "kthreadd"
    first = host.text("proc/1/comm")
    return bool(first) and first not in _INIT


def _arch(host: Host) -> str | None:
    """The kernel's word (since 6.1), else the architecture that its release or the NVIDIA driver's names."""
    told = host.text("proc/sys/kernel/arch")
    if told:
        return told
    if host.live:
        machine = os.uname().machine
        host.remember("proc/sys/kernel/arch", machine.encode())
        return machine
    words = " ".join(host.text(path) or "" for path in ("proc/sys/kernel/osrelease", "proc/driver/nvidia/version"))
    return next((arch for mark, arch in _ARCHITECTURES.items() if mark in words), None)


def _arm_model(info: dict[str, str]) -> str | None:
    """The core's design, which 64-bit Arm gives as numbers only."""
    implementer, part = info.get("CPU implementer", "").lower(), info.get("CPU part", "").lower()
    return _ARM_CORES.get((implementer, part)) or info.get("Model") or None


def _cpuinfo(host: Host) -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo, and those of the machine where they fit in the same bytes."""
    return fields(host.text("proc/cpuinfo", _CPUINFO_BYTES) or "")


def fields(text: str) -> dict[str, str]:
    """The fields of a file with a `name: value` a line, such as /proc/PID/status; of equal names the first."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def cpu_list(text: str | None) -> CpuSet | None:
    """The set that a field lists; None where it is missing, empty or no list."""
    try:
        return CpuSet.parse(text) if text else None
    except ValueError:
        return None
