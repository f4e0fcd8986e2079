"""numalign render."""

from __future__ import annotations

import sys

from numalign.cli.files import emit
from numalign.cli.source import load_machine
from numalign.cpuset import CpuSet
from numalign.errors import WrongUsage
from numalign.reserve import Wishes
from numalign.words import printable

__all__ = ["kubelet_config"]

_WORTH_SAYING = frozenset({"gpu-numa-unknown", "no-numa-directory", "numa-off", "core-ids-not-believable"})
"""The map's warnings that make a configuration achieve less than it says."""


def kubelet_config(
    *,
    reserved_cpus: str | None = None,
    reserved_cpu_count: str | None = None,
    reserved_cores_per_numa: str | None = None,
    reserve_on: str | None = None,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Write a KubeletConfiguration that aligns CPUs and GPUs on this machine, with the reason for each choice."""
    from numalign.plan import make_plan
    from numalign.render import kubelet_config as render

    wishes = _wishes(reserved_cpus, reserved_cpu_count, reserved_cores_per_numa, reserve_on)
    found = load_machine(root, machine, nvml)
    text = render(found, make_plan(found, wishes))
    emit(text.encode(), out)
    for warning in found.warnings:
        if warning.id in _WORTH_SAYING:
            print(f"warning  {warning.id}  {printable(warning.message)}", file=sys.stderr)
    return 0


def _wishes(cpus: str | None, count: str | None, per_numa: str | None, on: str | None) -> Wishes:
    """The wishes of the options. Raises WrongUsage where they are none, or exclude each other."""
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
        count=_number("--reserved-cpu-count", count),
        cores_per_numa=_number("--reserved-cores-per-numa", per_numa),
        on=tuple(_cpus("--reserve-on", on)) if on is not None else (),
    )


def _cpus(option: str, text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise WrongUsage(f"{option} {text}: {error}", hint="a list such as 0-1,112-113 is wanted") from error


def _number(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise WrongUsage(f"{option} {text}: a whole number is wanted")
    return int(text)
