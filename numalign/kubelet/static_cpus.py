"""Which CPUs the static CPU policy takes under its options, and so which it reserves.

Source: pkg/kubelet/cm/cpumanager/policy_static.go (NewStaticPolicy, takeByTopology) and cpu_manager.go, 1.27 to 1.36.
"""

from __future__ import annotations

from numalign.cpuset import CpuSet
from numalign.kubelet.settings import Settings, reservation
from numalign.kubelet.take_cpus import CannotTake, CpuTopology, cpu_topology, take_packed
from numalign.kubelet.view import KubeletView

__all__ = ["counted_cpus", "reserved_cpus", "take_cpus"]


def take_cpus(settings: Settings, topology: CpuTopology, available: CpuSet, number: int) -> CpuSet:
    """So many of the available CPUs, as the policy's options have it. Raises CannotTake where it cannot."""
    minor, spread = settings.minor, settings.option("distribute-cpus-across-cores")
    if settings.option("distribute-cpus-across-numa"):
        group = topology.cpus_per_core or 1 if settings.option("full-pcpus-only") else 1
        from numalign.kubelet.distribute_cpus import take_distributed  # the option is rare

        return take_distributed(topology, available, number, group, minor, spread=spread)
    by_uncore = settings.option("prefer-align-cpus-by-uncorecache")
    return take_packed(topology, available, number, minor, spread=spread, by_uncore=by_uncore)


def counted_cpus(settings: Settings, view: KubeletView) -> tuple[int, CpuSet]:
    """How many CPUs kubeReserved and systemReserved are, rounded up, and which the policy takes for them: none where
    it cannot take so many. Raises ValueError where an amount is no quantity."""
    kept = reservation(settings, view).get("cpu")
    number = -(-kept.milli // 1000) if kept else 0
    try:
        return number, take_cpus(settings, cpu_topology(view), view.cpus, number)
    except CannotTake:
        return number, CpuSet()


def reserved_cpus(settings: Settings, view: KubeletView) -> CpuSet:
    """The CPUs that are kept from exclusive use: those of reservedSystemCPUs, or else as many as kubeReserved and
    systemReserved say. None where the kubelet does not start on what is written."""
    if settings.reserved_cpus or settings.cpu_policy != "static":
        return settings.listed_cpus
    try:
        return counted_cpus(settings, view)[1]
    except ValueError:
        return CpuSet()
