"""A picture of each class of a fleet: a machine of it, with its plan."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numalign.machine import Machine
from numalign.plan import Plan
from numalign.report.picture.machine import Picture, draw
from numalign.report.picture.overlay import NOTHING
from numalign.report.picture.overlays import of_plan

__all__ = ["class_pictures"]


def class_pictures(members: Mapping[str, tuple[Machine, Plan | None]]) -> dict[str, Picture]:
    """The picture of each class by its name, from one of its machines and the plan for it, where there is one."""
    return {
        name: draw(_named(name, machine), of_plan(machine, plan) if plan else NOTHING)
        for name, (machine, plan) in members.items()
    }


def _named(name: str, machine: Machine) -> Machine:
    """The machine under the name of its class, and which one it is."""
    one = f", as {machine.name}" if machine.name else ""
    return replace(machine, name=f"class {name}{one}")
