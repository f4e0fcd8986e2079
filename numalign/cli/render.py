"""numalign render."""

from __future__ import annotations

import sys

from numalign.cli.files import emit
from numalign.cli.source import load_machine
from numalign.cpuset import CpuSet
from numalign.errors import WrongUsage
from numalign.words import printable

__all__ = ["kubelet_config"]

_WORTH_SAYING = frozenset({"gpu-numa-unknown", "no-numa-directory", "numa-off", "core-ids-not-believable"})
"""The map's warnings that make a configuration achieve less than it says."""


def kubelet_config(
    *,
    reserved_cpus: str | None = None,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Write a KubeletConfiguration that aligns CPUs and GPUs on this machine, with the reason for each choice."""
    from numalign.plan import make_plan
    from numalign.render import kubelet_config as render

    found = load_machine(root, machine, nvml)
    text = render(found, make_plan(found, _cpus(reserved_cpus)))
    emit(text.encode(), out)
    for warning in found.warnings:
        if warning.id in _WORTH_SAYING:
            print(f"warning  {warning.id}  {printable(warning.message)}", file=sys.stderr)
    return 0


def _cpus(text: str | None) -> CpuSet | None:
    if text is None:
        return None
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise WrongUsage(f"--reserved-cpus {text}: {error}", hint="a CPU list such as 0-1,112-113 is wanted") from error
