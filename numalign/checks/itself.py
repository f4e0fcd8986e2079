"""verify --self: is what this container was given on one NUMA node?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numalign.checks.finding import Check, Finding, Gap, Severity
from numalign.cpuset import CpuSet
from numalign.machine import Gpu, Machine, Nic
from numalign.probe.itself import Given
from numalign.words import count, few, nic_name, numa_nodes

__all__ = ["SELF", "Own"]


class Own(NamedTuple):
    """A machine and what a container was given of it."""

    machine: Machine
    given: Given

    @property
    def cpu_nodes(self) -> CpuSet:
        """The NUMA nodes of its CPUs."""
        cpus = self.given.cpus or CpuSet()
        return CpuSet(node.id for node in self.machine.numa_nodes if (node.cpus & cpus))

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that it sees: those that NVIDIA_VISIBLE_DEVICES names by UUID (a MIG device is on its GPU), else
        those whose device files it has, else all where the variable says so."""
        given = self.given
        named = [gpu for gpu in self.machine.gpus if {gpu.uuid, *(m.uuid for m in gpu.mig_devices)} & {*given.visible}]
        if not named:
            named = [gpu for gpu in self.machine.gpus if gpu.minor is not None and gpu.minor in given.gpu_minors]
        if not named and given.visible == ("all",):
            named = list(self.machine.gpus)
        return tuple(named)

    @property
    def nics(self) -> tuple[Nic, ...]:
        """The NICs of the map among the devices that its variables list."""
        listed = {address for addresses in self.given.devices.values() for address in addresses}
        return tuple(nic for nic in self.machine.nics if nic.bdf in listed)

    @property
    def device_nodes(self) -> CpuSet:
        """The NUMA nodes of its GPUs and NICs, as far as they are known."""
        devices: tuple[Gpu | Nic, ...] = (*self.gpus, *self.nics)
        return CpuSet(device.numa_node for device in devices if device.numa_node is not None)


def _found(id: str, severity: Severity, message: str, remedy: str | None, place: str = "this container") -> Finding:
    return Finding(id=id, severity=severity, place=place, message=message, remedy=remedy)


def _cpus(own: Own) -> Iterator[Finding]:
    """Its CPUs are on one NUMA node, and that is the node of its devices."""
    cpus, nodes, devices = own.given.cpus, own.cpu_nodes, own.device_nodes
    pinned = cpus is not None and not own.machine.online_cpus <= cpus
    if len(nodes) > 1 and not (pinned and devices and nodes <= devices):
        what = f"it runs on CPUs {cpus} of {numa_nodes(nodes)}" if pinned else "it runs on all CPUs of the node"
        near = f"; its devices are on {numa_nodes(devices)}" if devices else ""
        yield _found(
            "self-cpus",
            "error" if devices else "warning",
            what + near,
            remedy="requests and limits of whole CPUs, equal in each container of the pod, give it CPUs of its own "
            "where the kubelet has a static CPU manager; single-numa-node keeps them together",
        )
    elif devices and not nodes <= devices:
        yield _found(
            "self-cpus",
            "error",
            f"its CPUs {cpus} are on {numa_nodes(nodes)} and its devices on {numa_nodes(devices)}",
            remedy="the kubelet's topology manager keeps them together with single-numa-node or restricted",
        )


def _no_cpus(own: Own) -> Gap | None:
    if own.given.cpus is None:
        return Gap("not-looked-at", "/proc/self/status does not list the allowed CPUs")
    if not own.cpu_nodes:
        return Gap("not-looked-at", f"CPUs {own.given.cpus} are on no NUMA node of the map")
    return None


def _memory(own: Own) -> Iterator[Finding]:
    """Its memory may come from the NUMA nodes of its CPUs only."""
    nodes = own.given.numa_nodes or CpuSet()
    far = nodes - own.cpu_nodes
    if far:
        everywhere = CpuSet(node.id for node in own.machine.numa_nodes if node.memory_bytes) <= nodes
        message = f"its memory may come from {numa_nodes(nodes)}, its CPUs are on {numa_nodes(own.cpu_nodes)}"
        yield _found(
            "self-memory",
            "info" if everywhere else "warning",
            message,
            remedy="memoryManagerPolicy: Static binds the memory of guaranteed pods" if everywhere else None,
        )


def _no_memory(own: Own) -> Gap | None:
    if own.given.numa_nodes is None:
        return Gap("not-looked-at", "/proc/self/status does not list the allowed NUMA nodes")
    return _no_cpus(own)


def _gpus(own: Own) -> Iterator[Finding]:
    """Its GPUs are on one NUMA node."""
    nodes = CpuSet(gpu.numa_node for gpu in own.gpus if gpu.numa_node is not None)
    if len(nodes) > 1:
        where = few([f"GPU {gpu.index} on {gpu.numa_node}" for gpu in own.gpus], 8)
        yield _found(
            "self-gpus",
            "error",
            f"its {count(len(own.gpus), 'GPU')} are on {numa_nodes(nodes)}: {where}",
            remedy="numalign plan --shares says how many GPUs fit on one NUMA node",
        )


def _no_gpus(own: Own) -> Gap | None:
    if not own.gpus:
        return Gap("not-applicable", "no GPU of the map is seen here")
    unknown = [str(gpu.index) for gpu in own.gpus if gpu.numa_node is None]
    return Gap("not-looked-at", f"GPU {few(unknown)}: the NUMA node is not known") if unknown else None


def _devices(own: Own) -> Iterator[Finding]:
    """The devices that plugins gave it are on one NUMA node with its GPUs."""
    known = {nic.bdf: nic for nic in own.machine.nics}
    for variable, addresses in own.given.devices.items():
        missing = [address for address in addresses if address not in known]
        if missing:
            yield _found(
                "self-devices",
                "warning",
                f"{few(missing)}: the map has no such NIC",
                place=variable,
                remedy="numalign inspect lists those that there are",
            )
    nodes = CpuSet(nic.numa_node for nic in own.nics if nic.numa_node is not None)
    gpus = CpuSet(gpu.numa_node for gpu in own.gpus if gpu.numa_node is not None)
    if len(nodes | gpus) > 1 and not (gpus and nodes <= gpus):
        where = few([f"{nic_name(nic)} on {nic.numa_node}" for nic in own.nics], 8)
        beside = f"; its GPUs are on {numa_nodes(gpus)}" if gpus else ""
        yield _found(
            "self-devices",
            "error",
            f"its NICs are on {numa_nodes(nodes)}: {where}{beside}",
            remedy="a plugin with excludeTopology, or a shared RDMA plugin, takes no part in the alignment",
        )


def _no_devices(own: Own) -> Gap | None:
    return None if own.given.devices else Gap("not-applicable", "no variable PCIDEVICE_* is set")


SELF: tuple[Check[Own], ...] = (
    Check(("self-cpus",), _cpus, _no_cpus),
    Check(("self-memory",), _memory, _no_memory),
    Check(("self-gpus",), _gpus, _no_gpus),
    Check(("self-devices",), _devices, _no_devices),
)
