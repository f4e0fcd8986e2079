"""numalign render."""

from __future__ import annotations

import sys

from numalign.cli.files import emit
from numalign.cli.source import load_machine
from numalign.words import printable

__all__ = ["kubelet_config"]

_WORTH_SAYING = frozenset(
    {
        "gpu-numa-unknown",
        "no-numa-directory",
        "numa-off",
        "core-ids-not-believable",
        "gpu-no-driver",
        "gpu-other-driver",
    }
)
"""The map's warnings that make a configuration achieve less than it says."""


def kubelet_config(
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
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Write a KubeletConfiguration that aligns CPUs and GPUs on this machine, with the reason for each choice."""
    from numalign.cli.wishes import plan_wishes
    from numalign.plan import make_plan
    from numalign.render import kubelet_config as render

    wishes = plan_wishes(
        reserved_cpus=reserved_cpus,
        reserved_cpu_count=reserved_cpu_count,
        reserved_cores_per_numa=reserved_cores_per_numa,
        reserve_on=reserve_on,
        policy=policy,
        scope=scope,
        option=option,
        memory_manager=memory_manager,
        kube_reserved_memory=kube_reserved_memory,
        system_reserved_memory=system_reserved_memory,
        kubernetes_version=kubernetes_version,
    )
    found = load_machine(root, machine, nvml)
    text = render(found, make_plan(found, wishes))
    emit(text.encode(), out)
    for warning in found.warnings:
        if warning.id in _WORTH_SAYING:
            print(f"warning  {warning.id}  {printable(warning.message)}", file=sys.stderr)
    return 0
