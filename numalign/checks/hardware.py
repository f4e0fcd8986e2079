"""The map's warnings as checks: what is wrong with the machine before any configuration.

The rules themselves are in probe/warn.py, so that inspect says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from numalign.checks.finding import Check, Finding, Gap, Node, Severity
from numalign.machine import Warning

__all__ = ["COVERED", "HARDWARE", "WARNINGS", "check_of"]


class _Row(NamedTuple):
    """A warning as a check: how bad it is, what it is about, and what to do."""

    severity: Severity
    about: str
    remedy: str | None


WARNINGS: dict[str, _Row] = {
    # the id of a warning of the map -> the check of the same id
    "numa-off": _Row(
        "warning", "NUMA", "turn NUMA on in the firmware, and take numa=off off the kernel's command line"
    ),
    "no-numa-directory": _Row("warning", "NUMA", "look on the host itself, or mount its /sys"),
    "memory-not-in-numa-nodes": _Row("warning", "NUMA", "online the rest of the memory, or reserve less of it"),
    "core-ids-not-believable": _Row("error", "NUMA", "ask the machine's maker, or the hypervisor's, for a topology"),
    "cpus-without-numa-node": _Row("warning", "NUMA", "correct the firmware's or the hypervisor's NUMA nodes"),
    "numa-node-does-not-exist": _Row("error", "devices", "update the firmware"),
    "gpu-numa-unknown": _Row(
        "warning", "GPUs", "give the guest a virtual NUMA topology with its devices, or correct the firmware's"
    ),
    "nic-numa-unknown": _Row(
        "warning", "NICs", "give the guest a virtual NUMA topology with its devices, or correct the firmware's"
    ),
    "gpus-on-one-numa-node": _Row("info", "GPUs", None),
    "gpu-lost": _Row("error", "NVML", "drain the node and reboot it; if it stays lost, have the GPU replaced"),
    "gpu-nvml-error": _Row("error", "NVML", "look into the kernel's log (dmesg) for NVRM and Xid"),
    "gpu-only-in-nvml": _Row("warning", "NVML", "look on the host itself: this view of /sys is not all of it"),
    "gpu-not-in-nvml": _Row("error", "NVML", "look into the kernel's log (dmesg) for NVRM and Xid"),
    "nvml-disagrees": _Row("warning", "NVML", "correct the firmware's proximity data: the kubelet goes by the kernel"),
    "gpu-no-driver": _Row("error", "GPUs", "load the nvidia kernel module, or bind vfio-pci to pass them through"),
    "gpu-other-driver": _Row("warning", "GPUs", None),
    "gpu-link-degraded": _Row("warning", "GPUs", "reseat the card or its riser; look at the link when it is at work"),
    "nic-link-degraded": _Row("warning", "NICs", "reseat the card or its riser"),
    "gpu-without-near-nic": _Row("warning", "GPUs", None),
    "nic-without-rdma": _Row("warning", "NICs", "load mlx5_ib"),
    "nic-socket-direct": _Row("info", "NICs", None),
    "bond-spans-numa-nodes": _Row("info", "NICs", None),
    "kernel-firmware-workaround": _Row("warning", "devices", "correct the firmware instead"),
    "reader-confined": _Row("warning", "NUMA", "run numalign outside, or with the host's root mounted and --root"),
    "reader-in-container": _Row("info", "NUMA", None),
    "nvml-error": _Row("error", "GPUs", None),
    "file-problems": _Row("warning", "NUMA", None),
}

COVERED: dict[str, str] = {
    # a warning of the map -> the check of the configuration that says it, with what it does there
    "many-numa-nodes": "numa-node-limit",
    "threads-per-core-uneven": "cpus-per-core",
}

_GATHERED = (("file-", "file-problems"), ("more-file-problems", "file-problems"), ("nvml-", "nvml-error"))
"""Warnings of one kind with many ids: the beginning of the id -> the check."""


def check_of(warning: Warning) -> str:
    """The id of the check that a warning of the map belongs to."""
    if warning.id in WARNINGS or warning.id in COVERED:
        return warning.id
    return next((check for beginning, check in _GATHERED if warning.id.startswith(beginning)), warning.id)


def _find(node: Node) -> Iterator[Finding]:
    for warning in node.machine.warnings:
        row = WARNINGS.get(check_of(warning))
        if row is not None:
            yield Finding(
                id=check_of(warning),
                severity=row.severity,
                place=warning.subject or "machine",
                message=warning.message,
                remedy=row.remedy,
            )


def _no_gpus(node: Node) -> Gap | None:
    return None if node.machine.gpus or node.machine.nvidia_driver else Gap("not-applicable", "no GPUs")


def _no_nics(node: Node) -> Gap | None:
    return None if node.machine.nics else Gap("not-applicable", "no NICs")


def _no_nvml(node: Node) -> Gap | None:
    driver = node.machine.nvidia_driver
    if _no_gpus(node) or driver is None:
        return Gap("not-applicable", "no GPUs that NVML knows of")
    if driver.nvml == "ok":
        return None
    return Gap("not-looked-at", "NVML was not asked" if driver.nvml == "off" else f"NVML: {driver.nvml}")


def _no_devices(node: Node) -> Gap | None:
    return None if node.machine.devices() else Gap("not-applicable", "no GPUs and no NICs")


_GAPS: dict[str, Callable[[Node], Gap | None]] = {
    "GPUs": _no_gpus,
    "NICs": _no_nics,
    "NVML": _no_nvml,
    "devices": _no_devices,
}
"""What a warning is about -> why there is none to look for."""

HARDWARE: tuple[Check[Node], ...] = (
    Check(tuple(id for id, row in WARNINGS.items() if row.about not in _GAPS), _find),
    *(Check(tuple(id for id, row in WARNINGS.items() if row.about == about), gap=gap) for about, gap in _GAPS.items()),
)
