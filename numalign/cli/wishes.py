"""The wishes of a command line: what plan and every render target take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numalign.cli import progress
from numalign.cli.numbers import whole_number
from numalign.cli.source import load_machine
from numalign.cpuset import CpuSet
from numalign.errors import WrongUsage
from numalign.kubelet.versions import wanted_version
from numalign.machine import Machine
from numalign.plan import Plan, PlanWishes, make_plan
from numalign.quantity import Quantity
from numalign.reserve import Wishes
from numalign.reserve_memory import MemoryWishes

__all__ = ["plan_wishes", "planned"]


def plan_wishes(
    *,
    reserved_cpus: str | None = None,
    reserved_cpu_count: str | None = None,
    reserved_cores_per_numa: str | None = None,
    reserve_on: str | None = None,
    policy: str | None = None,
    scope: str | None = None,
    option: tuple[str, ...] = (),
    memory_manager: str = "none",
    kube_reserved_memory: str | None = None,
    system_reserved_memory: str | None = None,
    kubernetes_version: str | None = None,
) -> PlanWishes:
    """The wishes that the options' texts are. Raises WrongUsage where they are none, or exclude each other."""
    for name, amount in (("kube", kube_reserved_memory), ("system", system_reserved_memory)):
        if amount is not None and memory_manager != "static":
            raise WrongUsage(
                f"--{name}-reserved-memory is for a static memory manager", hint="add --memory-manager static"
            )
    return PlanWishes(
        reserved=_reserved(reserved_cpus, reserved_cpu_count, reserved_cores_per_numa, reserve_on),
        policy=policy,
        scope=scope,
        options=_options(option),
        static_memory=memory_manager == "static",
        memory=MemoryWishes(
            kube=_amount("--kube-reserved-memory", kube_reserved_memory),
            system=_amount("--system-reserved-memory", system_reserved_memory),
        ),
        minor=wanted_version(kubernetes_version),
    )


def planned(root: str | None, machine: str | None, nvml: str, wishes: Mapping[str, Any]) -> tuple[Machine, Plan]:
    """The machine of --root, --machine and --nvml, and the plan for it.

    Raises WrongUsage, CannotRead or DoesNotHold.
    """
    found = load_machine(root, machine, nvml)
    progress.say("planning")
    return found, make_plan(found, plan_wishes(**wishes))


def _reserved(cpus: str | None, count: str | None, per_numa: str | None, on: str | None) -> Wishes:
    given = [
        name
        for name, value in (
            ("--reserved-cpus", cpus),
            ("--reserved-cpu-count", count),
            ("--reserved-cores-per-numa", per_numa),
        )
        if value is not None
    ]
    if len(given) > 1 or (cpus is not None and on is not None):
        raise WrongUsage(
            f"{given[0]} and {(*given[1:], '--reserve-on')[0]} exclude each other", hint="leave one of them out"
        )
    return Wishes(
        cpus=_cpus("--reserved-cpus", cpus) if cpus is not None else None,
        count=whole_number("--reserved-cpu-count", count),
        cores_per_numa=whole_number("--reserved-cores-per-numa", per_numa),
        on=tuple(_cpus("--reserve-on", on)) if on is not None else (),
    )


def _options(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise WrongUsage(f"--option {text}: NAME=VALUE is wanted", hint=f"such as --option {name or 'NAME'}=true")
        found[name.strip()] = value.strip()
    return found


def _cpus(option: str, text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise WrongUsage(f"{option} {text}: {error}", hint="a list such as 0-1,112-113 is wanted") from error


def _amount(option: str, text: str | None) -> Quantity | None:
    """An amount of memory in whole bytes, written with a power of two where it can be."""
    if text is None:
        return None
    try:
        amount = Quantity.parse(text)
    except ValueError:
        raise WrongUsage(f"{option} {text}: an amount such as 2Gi is wanted") from None
    if amount.value < 0 or amount.value.denominator != 1:
        raise WrongUsage(f"{option} {text}: whole bytes are wanted, such as 2Gi")
    return Quantity(amount.value, "BinarySI")
