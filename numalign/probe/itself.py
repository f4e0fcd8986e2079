"""What this very process was given: CPUs, memory nodes, GPUs and the devices that device plugins name in variables.

Source: proc_pid_status(5); NVIDIA's container toolkit (NVIDIA_VISIBLE_DEVICES); the SR-IOV network device plugin
(PCIDEVICE_*).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numalign.cpuset import CpuSet
from numalign.probe.host import Host, numbered
from numalign.probe.kernel import cpu_list, fields

__all__ = ["Given", "read_given"]


class Given(msgspec.Struct, frozen=True):
    """What a process may use; None where that cannot be told.

    `gpu_minors` are the numbers of its /dev/nvidiaN; `visible` the words of NVIDIA_VISIBLE_DEVICES; `devices` the PCI
    addresses that each variable PCIDEVICE_* lists.
    """

    cpus: CpuSet | None
    numa_nodes: CpuSet | None
    gpu_minors: tuple[int, ...] = ()
    visible: tuple[str, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = {}


def read_given(environment: Mapping[str, str]) -> Given:
    """What this process was given, by its own /proc/self and /dev and the variables of its environment."""
    host = Host("/")
    status = fields(host.text("proc/self/status") or "")
    return Given(
        cpus=cpu_list(status.get("Cpus_allowed_list")),
        numa_nodes=cpu_list(status.get("Mems_allowed_list")),
        gpu_minors=tuple(numbered(host.names("dev"), "nvidia")),
        visible=_words(environment.get("NVIDIA_VISIBLE_DEVICES", "")),
        devices={
            name: _words(value)
            for name, value in sorted(environment.items())
            if name.startswith("PCIDEVICE_") and not name.endswith("_INFO")
        },
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
