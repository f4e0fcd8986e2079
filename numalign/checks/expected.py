"""Checks of the machine against what it should be: counts of devices, or the map of when the node was accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numalign.checks.finding import Check, Finding, Gap, Node, Severity
from numalign.compare import Kind, differences
from numalign.words import count, few, nic_name

__all__ = ["EXPECTED"]

_SEVERITIES: dict[Kind, Severity] = {
    # what is not as it was -> how bad that is; everything else is a warning
    "cpu-model": "error",
    "cpus": "error",
    "cpus-offline": "error",
    "gpu-gone": "error",
    "memory": "error",
    "model": "error",
    "nic-gone": "error",
    "numa-layout": "error",
    "numa-node": "error",
    "driver": "info",
    "huge-pages": "info",
    "mig": "info",
    "nic-new": "info",
}
_REMEDIES: dict[Kind, str] = {
    "cpus-offline": "see whether SMT was turned off, or CPUs were taken offline, in the firmware or by a service",
    "gpu-gone": "look into the kernel's log (dmesg) for its address, and reseat or replace it",
    "nic-gone": "look into the kernel's log (dmesg) for its address, and reseat or replace it",
    "link": "reseat the card or its riser",
    "memory": "look for failed memory modules in the firmware's log",
    "numa-layout": "set SNC (Intel) or NPS (AMD) in the firmware as it was; the kubelet's configuration is made for it",
}


def _found(id: str, node: Node, expected: int | None, here: list[str], what: str) -> Iterator[Finding]:
    if expected is None or expected == len(here):
        return
    listed = f" ({few(here, 16)})" if here else ""
    yield Finding(
        id=id,
        severity="error" if len(here) < expected else "warning",
        place=node.expected.source,
        message=f"{count(expected, what)} expected, {len(here)} on this machine{listed}",
        remedy="look into the kernel's log (dmesg) for PCIe errors, or correct the number",
    )


def _gpus(node: Node) -> Iterator[Finding]:
    """As many GPUs on PCI as there should be."""
    here = [f"GPU {gpu.index} {gpu.bdf}" for gpu in node.machine.gpus]
    return _found("expected-gpus", node, node.expected.gpus, here, "GPU")


def _nics(node: Node) -> Iterator[Finding]:
    """As many physical functions of NICs as there should be."""
    here = [f"{nic_name(nic)} {nic.bdf}" for nic in node.machine.nics if nic.physical_function is None]
    return _found("expected-nics", node, node.expected.nics, here, "NIC")


def _machine(node: Node) -> Iterator[Finding]:
    """The machine is as it was recorded."""
    if node.expected.machine is None:
        return
    for one in differences(node.expected.machine, node.machine):
        yield Finding(
            id="expected-machine",
            severity=_SEVERITIES.get(one.kind, "warning"),
            place=node.expected.machine_source,
            message=f"{one.subject}: {one.before}; now {one.now}",
            remedy=_REMEDIES.get(one.kind),
        )


def _unless(given: Callable[[Node], object], option: str) -> Callable[[Node], Gap | None]:
    """The check is made where something is expected."""
    return lambda node: None if given(node) is not None else Gap("not-applicable", f"nothing is expected ({option})")


EXPECTED: tuple[Check[Node], ...] = (
    Check(("expected-gpus",), _gpus, _unless(lambda node: node.expected.gpus, "--expect-gpus")),
    Check(("expected-nics",), _nics, _unless(lambda node: node.expected.nics, "--expect-nics")),
    Check(("expected-machine",), _machine, _unless(lambda node: node.expected.machine, "--expect")),
)
"""Checks against what was expected."""
