"""Checks of memory reservations and huge pages, beyond what the kubelet refuses."""

from __future__ import annotations

from collections.abc import Iterator

from numalign.checks.finding import Finding, Severity, Subject
from numalign.kubelet.settings import NO_THRESHOLD
from numalign.kubelet.startup import SLOW_MEMORY_NODES
from numalign.quantity import Quantity

__all__ = ["eviction_percentage", "exceeds_node", "manager_off", "on_cpuless_nodes", "uneven_hugepages"]


def manager_off(subject: Subject) -> Iterator[Finding]:
    """Without the memory manager CPUs and devices are aligned, memory is not."""
    settings = subject.settings
    if len(subject.machine.numa_nodes) < 2:
        return
    if not settings.has_memory_manager and subject.document.values.get("memoryManagerPolicy") == "Static":
        message = "feature gate MemoryManager is off: memoryManagerPolicy and reservedMemory have no effect, memory is "
        message += "wherever the kernel finds it"
        remedy = "write featureGates: {MemoryManager: true}"
        yield _found(subject, "memory-manager-off", "warning", ("featureGates", "MemoryManager"), message, remedy)
    elif settings.topology_policy in ("restricted", "single-numa-node") and settings.memory_policy == "None":
        if len(subject.view.nodes) >= SLOW_MEMORY_NODES:
            return  # with it one admission would take hours
        message = "memoryManagerPolicy is None: CPUs and devices are aligned, memory is wherever the kernel finds it"
        remedy = "memoryManagerPolicy: Static with reservedMemory for each NUMA node"
        yield _found(subject, "memory-manager-off", "info", ("memoryManagerPolicy",), message, remedy)


def eviction_percentage(subject: Subject) -> Iterator[Finding]:
    """A threshold in percent moves with MemTotal, and with it the sum that reservedMemory has to have."""
    threshold = subject.settings.eviction_hard.get("memory.available", "")
    if subject.settings.memory_policy == "Static" and threshold.endswith("%") and threshold not in NO_THRESHOLD:
        message = (
            f"evictionHard memory.available {threshold} is a share of MemTotal, which moves a little at each boot: the "
            "sum of reservedMemory then no longer fits, and the kubelet does not start"
        )
        remedy = "write an amount, such as memory.available: 100Mi"
        yield _found(subject, "eviction-percentage", "warning", ("evictionHard", "memory.available"), message, remedy)


def exceeds_node(subject: Subject) -> Iterator[Finding]:
    """The kubelet does not check that a reservation fits its NUMA node: what is left wraps around."""
    if subject.settings.memory_policy != "Static":
        return
    nodes = {node.id: node for node in subject.view.nodes}
    for position, (id, limits) in enumerate(subject.settings.reserved_memory):
        node, amount = nodes.get(id), limits.get("memory", Quantity())
        if node is None:
            continue
        huge = sum(size * pages for size, pages in node.hugepages.items())
        if amount.whole + huge > node.memory_bytes:
            held = f" beside {huge} bytes of huge pages" if huge else ""
            message = f"NUMA node {id} has {node.memory_bytes} bytes: {amount} do not fit{held}, "
            message += "and the kubelet takes the node for endless"
            yield _found(subject, "reserved-memory-exceeds-node", "error", ("reservedMemory", position), message, None)


def on_cpuless_nodes(subject: Subject) -> Iterator[Finding]:
    """Memory of a GPU, or of another NUMA node without CPUs, is none to reserve for the system."""
    if subject.settings.memory_policy != "Static":
        return
    bare = {node.id for node in subject.machine.numa_nodes if not node.cpus}
    for position, (id, _) in enumerate(subject.settings.reserved_memory):
        if id in bare:
            message = f"NUMA node {id} has no CPUs: memory reserved there is none that the system uses"
            remedy = "reserve it on the NUMA nodes with CPUs"
            yield _found(
                subject, "reserved-memory-without-cpus", "warning", ("reservedMemory", position), message, remedy
            )


def uneven_hugepages(subject: Subject) -> Iterator[Finding]:
    """Huge pages that all lie on one NUMA node can be aligned there only."""
    if subject.settings.topology_policy == "none":
        return
    nodes = [node for node in subject.machine.numa_nodes if node.cpus]
    sizes = sorted({pages.size for node in nodes for pages in node.hugepages if pages.total})
    for size in sizes:
        counts = {node.id: sum(pages.total or 0 for pages in node.hugepages if pages.size == size) for node in nodes}
        if len(set(counts.values())) > 1:
            spread = ", ".join(f"{count} on NUMA node {id}" for id, count in counts.items())
            message = f"huge pages of {Quantity(size, 'BinarySI')} are uneven: {spread}"
            remedy = "set nr_hugepages for each NUMA node in /sys/devices/system/node"
            yield _found(subject, "hugepages-uneven", "info", ("memoryManagerPolicy",), message, remedy)


def _found(
    subject: Subject, id: str, severity: Severity, path: tuple[str | int, ...], message: str, remedy: str | None
) -> Finding:
    return Finding(id=id, severity=severity, place=subject.document.place(*path), message=message, remedy=remedy)
