"""numalign render pod."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from numalign.cli.files import emit
from numalign.cli.numbers import whole_number
from numalign.errors import DoesNotHold, WrongUsage
from numalign.words import count, device_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numalign.machine import Machine
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

    wanted = whole_number("--gpus", gpus, least=1) or 1
    if not _NAME.fullmatch(name):
        raise WrongUsage(f"--name {name}: a name of small letters, digits and dashes is wanted")
    if nic is not None and not _RESOURCE.fullmatch(nic):
        raise WrongUsage(f"--nic {nic}: the name of a resource is wanted", hint="such as rdma/hca_shared_devices_a")
    found, plan = planned(root, machine, nvml, wishes)
    row = _share(plan, wanted, lambda: _elsewhere(found, wanted, wishes))
    if row.memory_bytes is None:
        raise DoesNotHold("the memory of this machine's NUMA nodes is not known, so the pod has no share of it")
    devices = {_GPU: row.gpus}
    if nic is not None and not row.nic_count:
        enough = next((f"--gpus {other.gpus}, or " for other in plan.shares.shares if other.nic_count), "")
        near = f"they share {device_list(row.nics)}" if row.nics else "none is near"
        raise DoesNotHold(
            f"{count(row.gpus, 'GPU')} cannot have a NIC without the other GPUs': {near}",
            hint=f"{enough}leave out --nic",
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


def _share(plan: Plan, gpus: int, elsewhere: Callable[[], str | None]) -> GpuShare:
    """The row of so many GPUs; of several NUMA nodes the one with the least, so that the pod fits on each.

    Raises DoesNotHold where there is none, with what can be asked for instead as its hint.
    """
    admitted = [row for row in plan.shares.shares if row.never is None]
    rows = [row for row in admitted if row.gpus == gpus]
    if rows:
        return min(rows, key=lambda row: (row.cpus, row.memory_bytes or 0))
    numbers = sorted({row.gpus for row in admitted})
    nearest = max((number for number in numbers if number <= gpus), default=min(numbers, default=None))
    hints = [f"--gpus {nearest}"] if nearest else []
    why = next((row.never for row in plan.shares.shares if row.gpus == gpus), None)
    if why is not None:
        message = f"no container can have {count(gpus, 'GPU')} with CPUs under {plan.shares.policy} here: {why}"
        other = elsewhere()
        hints += [other] if other else []
    elif numbers:
        message = f"no container can have {gpus} GPUs here: {count(max(numbers), 'GPU')} at most"
    elif plan.shares.shares:
        message = f"no container can have GPUs with CPUs here: {plan.shares.shares[0].never}"
    else:
        message = "no NUMA node is known to have a GPU, so there are no shares"
    raise DoesNotHold(message, hint=", or ".join(hints) or None)


def _elsewhere(machine: Machine, gpus: int, given: Mapping[str, Any]) -> str | None:
    """The first other wish under which a container can have so many GPUs, as options of the command line."""
    from contextlib import suppress

    from numalign.cli.wishes import plan_wishes
    from numalign.errors import NumalignError
    from numalign.plan import make_plan
    from numalign.reserve import Wishes

    asked = plan_wishes(**given)
    others = {
        "--policy restricted": msgspec.structs.replace(asked, policy="restricted"),
        "reserve fewer CPUs": msgspec.structs.replace(asked, reserved=Wishes()),
        "--policy best-effort": msgspec.structs.replace(asked, policy="best-effort"),
    }
    for words, wishes in others.items():
        with suppress(NumalignError):
            if any(row.gpus == gpus and row.never is None for row in make_plan(machine, wishes).shares.shares):
                return words
    return None


def _note(row: GpuShare) -> str:
    fit = f"{row.containers} such pods fit on the node" if row.containers > 1 else "one such pod fits on the node"
    left = f", and {row.stranded_gpus} GPUs are left over" if row.stranded_gpus else ""
    return f"{fit}{left}. What DaemonSets ask for comes off the same CPUs and memory: leave room for them"
