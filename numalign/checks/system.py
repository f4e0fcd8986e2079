"""Checks of what runs beside the pods: does the system keep to the reserved CPUs?"""

from __future__ import annotations

from collections.abc import Iterator

from numalign.checks.finding import Check, Finding, Gap, Severity, Subject, unseen
from numalign.cpuset import CpuSet
from numalign.words import count

__all__ = ["SYSTEM"]

_NO_EXCLUSIVE = Gap("not-applicable", "no static CPU manager with reserved CPUs")
_REMEDY = "numalign render system-cpus writes the files that keep the system to the reserved CPUs"
_MOST_NAMED = 3


def _no_exclusive(subject: Subject) -> Gap | None:
    return unseen(subject) if subject.settings.cpu_policy == "static" and subject.reserved else _NO_EXCLUSIVE


def _outside(subject: Subject) -> Iterator[Finding]:
    """The system's slices and first processes stay on the reserved CPUs.

    Nothing keeps them there by itself; where something was meant to and does not hold, that is worse.
    """
    system, reserved = subject.node.system, subject.reserved
    seen = {**system.slices, **system.processes}
    outside = {name: cpus for name, cpus in seen.items() if not cpus <= reserved}
    if not outside:
        return
    meant = len(outside) < len(seen) or (system.affinity is not None and system.affinity <= reserved)
    severity: Severity = "warning" if meant else "info"
    shown = [f"{name} ({cpus})" for name, cpus in list(outside.items())[:_MOST_NAMED]]
    more = f" and {len(outside) - _MOST_NAMED} more" if len(outside) > _MOST_NAMED else ""
    message = (
        f"the system may run on more than the reserved CPUs {reserved}, next to containers with exclusive CPUs: "
        f"{', '.join(shown)}{more}"
    )
    if system.affinity is not None and system.affinity <= reserved:
        message += (
            f"; CPUAffinity={system.affinity} does not hold: with cgroup v2 the cpuset controller takes it back once "
            "the kubelet turns it on, AllowedCPUs= of the slices stays"
        )
    place = "/sys/fs/cgroup" if system.slices else "/proc"
    yield Finding(id="system-cpus", severity=severity, place=place, message=message, remedy=_REMEDY)


def _system_unseen(subject: Subject) -> Gap | None:
    gap = _no_exclusive(subject)
    confinement = subject.machine.confinement
    if gap is None and confinement is not None and confinement.container:
        return Gap("not-looked-at", "a container sees its own processes: give it the host's / with --root")
    if gap is None and not subject.node.system.slices and not subject.node.system.processes:
        return Gap("not-looked-at", "neither cpusets of the system nor its processes are seen")
    return gap


def _interrupts(subject: Subject) -> Iterator[Finding]:
    """Interrupts take the CPUs of exclusive containers too."""
    irqs, reserved = subject.node.system.irqs, subject.reserved
    outside = {cpus: number for cpus, number in irqs.items() if not CpuSet.parse(cpus) <= reserved}
    if outside:
        where = CpuSet.from_mask(0)
        for cpus in outside:
            where = where | CpuSet.parse(cpus)
        message = (
            f"{sum(outside.values())} of {count(sum(irqs.values()), 'interrupt')} may go to CPUs that are not reserved "
            f"({where - reserved}): they stop the containers there for a moment each time"
        )
        yield Finding(id="interrupt-cpus", severity="info", place="/proc/irq", message=message, remedy=_REMEDY)


def _interrupts_unseen(subject: Subject) -> Gap | None:
    gap = _no_exclusive(subject)
    if gap is None and not subject.node.system.irqs:
        return Gap("not-looked-at", "/proc/irq does not say where interrupts go")
    return gap


SYSTEM: tuple[Check[Subject], ...] = (
    Check(("system-cpus",), _outside, _system_unseen),
    Check(("interrupt-cpus",), _interrupts, _interrupts_unseen),
)
