"""numalign plan."""

from __future__ import annotations

from numalign.cli.files import emit
from numalign.cli.source import load_machine

__all__ = ["plan"]


def plan(
    *,
    shares: bool = False,
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
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Decide on a configuration for a machine and say why: reserved CPUs and memory, policies and options.

    With --shares, what a container can have beside its GPUs so that all others stay usable.
    """
    from numalign.cli.wishes import plan_wishes
    from numalign.plan import make_plan

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
    found = make_plan(load_machine(root, machine, nvml), wishes)
    if output == "json":
        from numalign.machine import encode

        emit(encode(found), out)
    else:
        from numalign.report.plan import draw, draw_shares
        from numalign.report.terminal import show

        show(draw_shares if shares else draw, found, emit, out)
    return 0
