"""Taking what is personal to a host out of a recorded snapshot: its name, serial numbers, addresses.

What the topology needs stays: equal serial numbers become equal stand-ins, so that what belongs together still does.
"""

from __future__ import annotations

import re

from numalign.probe.snapshot import Recorder

__all__ = ["redact"]

_HOST_NAME = "proc/sys/kernel/hostname"

_BOOT_OPTIONS = frozenset(
    {
        *("isolcpus", "nohz_full", "nohz", "rcu_nocbs", "irqaffinity", "nosmt", "maxcpus", "nr_cpus", "possible_cpus"),
        *("numa", "numa_balancing", "numa_zonelist_order", "kernelcore", "movablecore", "mem", "memmap"),
        *("hugepages", "hugepagesz", "default_hugepagesz", "transparent_hugepage", "hugetlb_cma"),
        *("intel_iommu", "amd_iommu", "iommu", "iommu.passthrough", "pci", "pcie_aspm", "mitigations", "tsc"),
        *("systemd.unified_cgroup_hierarchy", "cgroup_no_v1", "cgroup_disable", "cpuidle.off", "intel_pstate"),
    }
)
"""The options of the kernel's command line that decide about CPUs, memory and PCI; the others are taken out."""

_SERIALS = (
    (
        re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
        "{0}-00000000-0000-0000-0000-{1:012d}",
    ),
    (re.compile(r"\b()[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}\b"), "0000:0000:0000:{1:04d}"),
)
_MAC_NAME = re.compile(r"(?<![0-9A-Za-z])((?:en|ib|sl|wl|ww)x)([0-9a-f]{12})(?![0-9A-Za-z])")
"""A netdev that udev named by its MAC address (systemd.net-naming-scheme): in paths, links and lists of netdevs."""
_SERIAL_LINE = re.compile(r"(?im)^(serial\s*:).*$")


def redact(recorder: Recorder) -> None:
    """Changes the recorded files of a machine in place."""
    stand_ins: dict[str, str] = {}
    for path in sorted(recorder.files):
        text = recorder.files[path].decode("utf-8", "surrogateescape")
        if path == _HOST_NAME:
            text = "redacted\n"
        elif path == "proc/cmdline":
            text = " ".join(word for word in text.split() if word.partition("=")[0] in _BOOT_OPTIONS) + "\n"
        else:
            text = _SERIAL_LINE.sub(r"\1 redacted", _without_serials(text, stand_ins))
        recorder.files[path] = text.encode("utf-8", "surrogateescape")
    _take_out_mac_names(recorder)


def _take_out_mac_names(recorder: Recorder) -> None:
    """Numbers the netdevs that are named by MAC address, wherever their names stand, in the order that they have."""
    texts = {path: data.decode("utf-8", "surrogateescape") for path, data in recorder.files.items()}
    everywhere = (*texts, *texts.values(), *recorder.links, *recorder.links.values(), *recorder.folders)
    told = {match.group(2) for text in (*everywhere, *recorder.errors) for match in _MAC_NAME.finditer(text)}
    numbers = {address: f"{number:012x}" for number, address in enumerate(sorted(told), 1)}

    def clear(text: str) -> str:
        return _MAC_NAME.sub(lambda match: match.group(1) + numbers[match.group(2)], text)

    recorder.files = {clear(path): clear(text).encode("utf-8", "surrogateescape") for path, text in texts.items()}
    recorder.links = {clear(path): clear(target) for path, target in recorder.links.items()}
    recorder.folders = {clear(path) for path in recorder.folders}
    recorder.errors = {clear(path): number for path, number in recorder.errors.items()}


def _without_serials(text: str, stand_ins: dict[str, str]) -> str:
    for pattern, form in _SERIALS:

        def stand_in(match: re.Match[str], form: str = form) -> str:
            if not set(match.group(0)) - set("0:"):
                return match.group(0)  # a GUID that was never set
            new = form.format(match.group(1), len(stand_ins) + 1)
            return stand_ins.setdefault(match.group(0), new)

        text = pattern.sub(stand_in, text)
    return text
