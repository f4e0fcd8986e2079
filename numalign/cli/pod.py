"""numalign render pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from numalign.cli.files import emit
from numalign.errors import DoesNotHold, WrongUsage

if TYPE_CHECKING:
    from numalign.plan import Plan
    from numalign.shares import GpuShare

__all__ = ["pod"]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_RESOURCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_GPU = "nvidia.com/gpu"


def pod(
    *,
    gpus: str = "1",
    nic: str | None = None,
    name: str = "aligned",
    image: str = "busybox:stable",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Write a Guaranteed pod with its GPUs' share of CPUs, memory and NICs, so that all other GPUs stay usable."""
    from numalign.cli.wishes import planned
    from numalign.quantity import Quantity
    from numalign.render import fill

    if not (gpus.isascii() and gpus.isdecimal() and 0 < int(gpus[:6]) < 10_000):
        raise WrongUsage(f"--gpus {gpus}: a whole number from 1 is wanted")
    if not _NAME.fullmatch(name):
        raise WrongUsage(f"--name {name}: a name of small letters, digits and dashes is wanted")
    if nic is not None and not _RESOURCE.fullmatch(nic):
        raise WrongUsage(f"--nic {nic}: the name of a resource is wanted", hint="such as rdma/hca_shared_devices_a")
    found, plan = planned(root, machine, nvml, wishes)
    row = _share(plan, int(gpus))
    if row.memory_bytes is None:
        raise DoesNotHold("the memory of this machine's NUMA nodes is not known, so the pod has no share of it")
    devices = {_GPU: row.gpus}
    if nic is not None and not row.nic_count:
        raise DoesNotHold(
            f"{row.gpus} GPUs have no NIC of their own: {len(row.nics)} near them",
            hint="ask for more GPUs, or no --nic",
        )
    if nic is not None:
        devices[nic] = row.nic_count
    text = fill(
        "pod.yaml.j2",
        found,
        plan,
        name=name,
        image=image,
        note=_note(row),
        cpus=row.cpus,
        memory=str(Quantity(row.memory_bytes, "BinarySI")),
        devices=devices,
    )
    emit(text.encode(), out)
    return 0


def _share(plan: Plan, gpus: int) -> GpuShare:
    """The row of so many GPUs; of several NUMA nodes the one with the least, so that the pod fits on each."""
    rows = [row for row in plan.shares.shares if row.gpus == gpus and row.cpus]
    if not rows:
        most = plan.shares.largest.gpus
        if not most:
            raise DoesNotHold("no NUMA node is known to have a GPU, so there are no shares")
        if gpus <= most:
            raise DoesNotHold(f"{gpus} GPUs have no CPU of their own on this machine", hint="reserve fewer CPUs")
        raise DoesNotHold(
            f"no container can have {gpus} GPUs under {plan.shares.policy} on this machine: at most {most}",
            hint=f"--gpus {most}, or --policy restricted"
            if plan.shares.policy == "single-numa-node"
            else f"--gpus {most}",
        )
    return min(rows, key=lambda row: (row.cpus, row.memory_bytes or 0))


def _note(row: GpuShare) -> str:
    fit = f"{row.containers} such pods fit on the node" if row.containers > 1 else "one such pod fits on the node"
    left = f", and {row.stranded_gpus} GPUs are left over" if row.stranded_gpus else ""
    return f"{fit}{left}. What DaemonSets ask for comes off the same CPUs and memory: leave room for them"
