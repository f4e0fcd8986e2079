"""Checks of the managers' policies and options, beyond what the kubelet refuses."""

from __future__ import annotations

from collections.abc import Iterator

from numalign.checks.finding import Finding, Severity, Subject
from numalign.cpuset import CpuSet
from numalign.kubelet.settings import BOOLEANS
from numalign.kubelet.startup import MAX_NUMA_NODES, SLOW_MEMORY_NODES

__all__ = [
    "admission_cost",
    "cpu_manager",
    "cpus_per_core",
    "distribute_hangs",
    "gpu_request_limit",
    "options_at_odds",
    "options_without_effect",
    "topology_manager",
    "whole_cores_only",
]

_MORE_NODES_SINCE = 31
"""The version from which a topology manager's policy can start on more than 8 NUMA nodes."""
SLOW_MERGE_NODES = 8
"""NUMA nodes from which best-effort and restricted try too many combinations (measured: over two minutes a pod)."""
_FIXED_HANG = 38


def cpu_manager(subject: Subject) -> Iterator[Finding]:
    """cpuManagerPolicy none gives no container exclusive CPUs."""
    field = "cpuManagerPolicy"
    if subject.settings.cpu_policy == "none":
        message = "cpuManagerPolicy is none: no container gets exclusive CPUs, so none can be aligned"
        yield _found(subject, "cpu-manager-off", _off(subject), field, message, f"write {field}: static")


def whole_cores_only(subject: Subject) -> Iterator[Finding]:
    """Without full-pcpus-only two containers can share a core."""
    written = (subject.settings.cpu_options or {}).get("full-pcpus-only")
    if subject.settings.cpu_policy != "static" or BOOLEANS.get(written or "false", True):
        return
    if any(len(core.cpus) > 1 for core in subject.machine.cores):
        off = "not set" if written is None else "off"
        message = f"full-pcpus-only is {off}: two containers can get CPUs of one core and slow each other down"
        remedy = 'write cpuManagerPolicyOptions: {full-pcpus-only: "true"}'
        yield _found(subject, "shared-cores", "warning", "cpuManagerPolicyOptions", message, remedy)


def cpus_per_core(subject: Subject) -> Iterator[Finding]:
    """The kubelet computes the CPUs of a core by a whole-number division over the machine."""
    if subject.settings.cpu_policy != "static" or not subject.settings.option("full-pcpus-only"):
        return
    sizes = {len(core.cpus) for core in subject.machine.cores}
    computed = subject.view.cpus_per_core
    if (sizes and computed not in sizes | {max(sizes)}) or len(sizes) > 1:
        message = (
            f"the kubelet computes {len(subject.view.cpus)} CPUs / {subject.view.cores} cores = {computed} CPUs of a "
            f"core, but cores have {' or '.join(map(str, sorted(sizes)))}: full-pcpus-only does not keep to whole cores"
        ) + _lone(subject, max(sizes))
        yield _found(
            subject,
            "cpus-per-core",
            "warning",
            "cpuManagerPolicyOptions",
            message,
            "bring all siblings online, or take all of them offline (SMT off)",
        )


def _lone(subject: Subject, most: int) -> str:
    """What becomes of the CPUs where siblings are offline; nothing is said where cores differ by design."""
    cores = subject.machine.cores
    lone = CpuSet(cpu for core in cores if len(core.cpus) < most for cpu in core.cpus)
    if not lone or not subject.machine.offline_cpus:
        return ""
    whole = sum(len(core.cpus) == most for core in cores)
    said = f"CPU {lone} has" if len(lone) == 1 else f"CPUs {lone} have"
    return (
        f"; {said} siblings that are offline, and each of the {whole} cores with {most} CPUs can be divided between "
        "two containers"
    )


def topology_manager(subject: Subject) -> Iterator[Finding]:
    """Policies that do not align, or not always."""
    policy, field = subject.settings.topology_policy, "topologyManagerPolicy"
    if policy == "none":
        message = "topologyManagerPolicy is none: nothing is aligned"
        remedy, nodes = f"write {field}: single-numa-node", len(subject.view.nodes)
        severity = _off(subject)
        if nodes > MAX_NUMA_NODES and subject.settings.minor < _MORE_NODES_SINCE:
            severity = "warning"
            message += (
                f", and no kubelet of 1.{subject.settings.minor} aligns anything on a machine with {nodes} NUMA nodes"
            )
            remedy = f"Kubernetes 1.{_MORE_NODES_SINCE} and newer have the option max-allowable-numa-nodes"
        yield _found(subject, "topology-manager-off", severity, field, message, remedy)
    elif policy == "best-effort":
        message = "topologyManagerPolicy is best-effort: a pod that cannot be aligned is admitted all the same"
        yield _found(subject, "topology-best-effort", "info", field, message, None)


def options_without_effect(subject: Subject) -> Iterator[Finding]:
    """Under policy none the topology manager's options are not even read."""
    if subject.settings.topology_policy == "none" and subject.settings.topology_options:
        message = "topologyManagerPolicyOptions have no effect under topologyManagerPolicy none; even unknown ones pass"
        yield _found(subject, "topology-options-unused", "info", "topologyManagerPolicyOptions", message, None)


def options_at_odds(subject: Subject) -> Iterator[Finding]:
    """align-by-socket and distribute-cpus-across-numa start together and do not combine."""
    settings = subject.settings
    per_socket = len(subject.view.nodes) > subject.view.sockets
    if settings.cpu_policy == "static" and settings.option("align-by-socket") and per_socket:
        for other in ("distribute-cpus-across-numa", "distribute-cpus-across-cores"):
            if settings.option(other):
                message = f"align-by-socket and {other} do not combine on sockets of several NUMA nodes: CPUs of both "
                message += "sockets can be given to one container"
                yield _found(
                    subject, "options-at-odds", "warning", "cpuManagerPolicyOptions", message, f"take out {other}"
                )


def distribute_hangs(subject: Subject) -> Iterator[Finding]:
    """A loop without end in the kubelet's distribution over NUMA nodes."""
    from numalign.reserve import whole_cores

    settings = subject.settings
    if settings.cpu_policy != "static" or not settings.option("distribute-cpus-across-numa"):
        return
    reserved = subject.reserved
    if settings.option("full-pcpus-only") and settings.minor < _FIXED_HANG:
        split = whole_cores(subject.machine, reserved & subject.machine.online_cpus) - reserved
        if split:
            message = (
                "distribute-cpus-across-numa with full-pcpus-only and reserved CPUs that split cores can hang the "
                "kubelet for ever while it admits a pod"
            )
            yield _found(
                subject,
                "distribute-hangs",
                "error",
                "reservedSystemCPUs",
                message,
                f'write reservedSystemCPUs: "{reserved | split}"'
                if not settings.reserved_cpus
                else f"reserve {split} too, or not their siblings",
            )


def gpu_request_limit(subject: Subject) -> Iterator[Finding]:
    """Under single-numa-node a request is bounded by what one NUMA node has."""
    machine = subject.machine
    homes = [gpu.numa_node for gpu in machine.gpus if gpu.numa_node is not None]
    most = max((homes.count(node) for node in set(homes)), default=0)
    if subject.settings.topology_policy == "single-numa-node" and 0 < most < len(homes):
        what = "pod" if subject.settings.topology_scope == "pod" else "container"
        message = (
            f"single-numa-node: a {what} that asks for more than {most} of the {len(homes)} GPUs is always refused"
        )
        slow = len(subject.view.nodes) >= SLOW_MERGE_NODES
        remedy = None if slow else "for larger ones use topologyManagerPolicy: restricted, or best-effort"
        yield _found(subject, "gpu-request-limit", "info", "topologyManagerPolicy", message, remedy)


def admission_cost(subject: Subject) -> Iterator[Finding]:
    """Where one admission takes minutes to hours."""
    nodes, settings = len(subject.view.nodes), subject.settings
    if nodes >= SLOW_MERGE_NODES and settings.topology_policy in ("best-effort", "restricted"):
        message = (
            f"{nodes} NUMA nodes with {settings.topology_policy}: the kubelet tries every combination of the "
            "providers' hints, and admitting one pod with CPUs, memory and devices can take minutes"
        )
        remedy = "use single-numa-node, or fewer NUMA nodes (NPS, SNC)"
        yield _found(subject, "admission-cost", "warning", "topologyManagerPolicy", message, remedy)
    if nodes >= SLOW_MEMORY_NODES and settings.memory_policy == "Static" and settings.topology_policy != "none":
        seconds = 0.3 * 2 ** (nodes - SLOW_MEMORY_NODES)
        message = f"{nodes} NUMA nodes with a static memory manager: admitting one pod takes about {_time(seconds)}, "
        message += "doubling with each NUMA node"
        yield _found(
            subject, "admission-cost", "error", "memoryManagerPolicy", message, "write memoryManagerPolicy: None"
        )


def _off(subject: Subject) -> Severity:
    """How bad it is that nothing is aligned: the purpose is missed where GPUs lie on one of several NUMA nodes."""
    return "error" if subject.machine.gpus and len(subject.view.nodes) > 1 else "warning"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _found(subject: Subject, id: str, severity: Severity, field: str, message: str, remedy: str | None) -> Finding:
    return Finding(id=id, severity=severity, place=subject.document.place(field), message=message, remedy=remedy)
