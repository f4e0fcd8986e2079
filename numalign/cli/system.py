"""numalign render system-cpus and kernel-args: what keeps the system on the reserved CPUs."""

from __future__ import annotations

from typing import Any

from numalign.cli.files import emit

__all__ = ["kernel_args", "system_cpus"]

_TEMPLATES = {"systemd": "systemd-slice.conf.j2", "irqbalance": "irqbalance.j2"}


def system_cpus(
    *,
    service: str = "systemd",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Write what keeps the system's services, or its interrupts, on the reserved CPUs.

    reservedSystemCPUs alone keeps pods with exclusive CPUs off them, and nothing of the system on them.
    """
    from numalign.cli.wishes import planned
    from numalign.render import fill

    found, plan = planned(root, machine, nvml, wishes)
    emit(fill(_TEMPLATES[service], found, plan, exclusive=str(plan.exclusive_cpus)).encode(), out)
    return 0


def kernel_args(
    *,
    isolate: bool = False,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Write the kernel's arguments that keep interrupts on the reserved CPUs.

    With --isolate also those that take kernel threads, timer ticks and managed interrupts off the others. isolcpus
    without managed_irq is not written: it would take load balancing from the pods that share CPUs.
    """
    from numalign.cli.wishes import planned
    from numalign.render import fill

    found, plan = planned(root, machine, nvml, wishes)
    words = [f"irqaffinity={plan.configuration['reservedSystemCPUs']}"]
    if isolate:
        exclusive = plan.exclusive_cpus
        words += [f"isolcpus=managed_irq,{exclusive}", f"nohz_full={exclusive}", f"rcu_nocbs={exclusive}"]
    emit(fill("kernel-args.j2", found, plan, arguments=" ".join(words)).encode(), out)
    return 0
