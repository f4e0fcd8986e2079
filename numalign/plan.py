"""From a machine and wishes to a plan: which CPUs the system keeps, which policies, each with its reason."""

from __future__ import annotations

import msgspec

from numalign.cpuset import CpuSet
from numalign.errors import DoesNotHold
from numalign.machine import Core, Machine
from numalign.probe.warn import KUBELET_MAX_NUMA_NODES

__all__ = ["Plan", "Share", "make_plan", "whole_cores"]


class Share(msgspec.Struct, frozen=True):
    """A NUMA node's CPUs as the plan divides them (`numa_node` is a socket where the kernel knows no NUMA nodes)."""

    numa_node: int
    reserved: CpuSet
    exclusive: CpuSet
    gpus: int


class Plan(msgspec.Struct, frozen=True):
    """A kubelet's configuration for one machine; `reasons` has a sentence for each decision, by field name."""

    reserved_cpus: CpuSet
    cpu_manager_options: dict[str, str]
    topology_policy: str
    topology_scope: str
    topology_options: dict[str, str]
    shares: tuple[Share, ...]
    reasons: dict[str, str]


def make_plan(machine: Machine, reserved: CpuSet | None = None) -> Plan:
    """The plan for a machine: `reserved` CPUs, or the first whole core of each NUMA node that has CPUs.

    Raises DoesNotHold where the wish cannot be met on this machine.
    """
    by_default = reserved is None
    reserved = _first_cores(machine) if reserved is None else _as_wished(machine, reserved)
    shares = tuple(_shares(machine, reserved))
    options = {}
    if len(machine.numa_nodes) > KUBELET_MAX_NUMA_NODES:
        options["max-allowable-numa-nodes"] = str(len(machine.numa_nodes))
    return Plan(
        reserved_cpus=reserved,
        cpu_manager_options={"full-pcpus-only": "true"},
        topology_policy="single-numa-node",
        topology_scope="container",
        topology_options=options,
        shares=shares,
        reasons=_reasons(machine, reserved, shares, by_default=by_default),
    )


def whole_cores(machine: Machine, cpus: CpuSet) -> CpuSet:
    """The CPUs of every core that has one of `cpus`."""
    bits = 0
    for core in machine.cores:
        if core.cpus.bits & cpus.bits:
            bits |= core.cpus.bits
    return CpuSet.from_mask(bits)


def _places(machine: Machine) -> dict[int, CpuSet]:
    """The CPUs of each NUMA node that has some; of each socket where there are no NUMA nodes, as the kubelet does."""
    if machine.numa_nodes:
        return {node.id: node.cpus for node in machine.numa_nodes if node.cpus}
    if machine.sockets:
        return {socket.id: socket.cpus for socket in machine.sockets}
    return {0: machine.online_cpus}


def _first_cores(machine: Machine) -> CpuSet:
    """The first core of each NUMA node, siblings included; one with isolated CPUs only where there is no other."""
    reserved = CpuSet()
    for cpus in _places(machine).values():
        cores = [core for core in machine.cores if core.cpus.bits & cpus.bits]
        plain = [core for core in cores if not core.cpus.bits & machine.isolated_cpus.bits]
        first = min(plain or cores, key=_first_cpu)
        reserved |= first.cpus
    if reserved == machine.online_cpus:
        raise DoesNotHold(
            f"a core on each NUMA node would reserve all {len(reserved)} CPUs of {machine.name or 'this machine'}",
            hint="the static CPU manager needs CPUs beside the reserved ones; name fewer with --reserved-cpus",
        )
    return reserved


def _first_cpu(core: Core) -> int:
    return core.cpus.first()


def _as_wished(machine: Machine, reserved: CpuSet) -> CpuSet:
    online = machine.online_cpus
    if not reserved:
        raise DoesNotHold("no CPUs would be reserved", hint="the static CPU manager does not start without any")
    if not reserved <= online:
        raise DoesNotHold(
            f"CPUs {reserved - online} are not online (online: {online})",
            hint=f"--reserved-cpus {reserved & online}" if reserved & online else None,
        )
    whole = whole_cores(machine, reserved)
    if whole != reserved:
        raise DoesNotHold(
            f"CPUs {reserved} leave their siblings {whole - reserved}, which full-pcpus-only can then never give out",
            hint=f"--reserved-cpus {whole}",
        )
    if reserved == online:
        raise DoesNotHold(f"CPUs {reserved} are all there are", hint="leave at least one core to the pods")
    return reserved


def _shares(machine: Machine, reserved: CpuSet) -> list[Share]:
    return [
        Share(
            numa_node=id,
            reserved=cpus & reserved,
            exclusive=cpus - reserved,
            gpus=sum(gpu.numa_node == id for gpu in machine.gpus),
        )
        for id, cpus in _places(machine).items()
    ]


def _reasons(machine: Machine, reserved: CpuSet, shares: tuple[Share, ...], *, by_default: bool) -> dict[str, str]:
    place = "NUMA node" if machine.numa_nodes else "socket"
    chosen = f"the first core of each {place}, siblings included" if by_default else "as asked for, whole cores"
    left = ", ".join(f"{len(share.exclusive)} on {place} {share.numa_node}" for share in shares)
    reasons = {
        "cpuManagerPolicy": "containers of Guaranteed pods that ask for whole CPUs get exclusive ones",
        "full-pcpus-only": "exclusive CPUs come as whole cores: no two containers share a core",
        "reservedSystemCPUs": f"kept from exclusive use: {len(reserved)} of {len(machine.online_cpus)} CPUs, {chosen}; "
        f"left for exclusive use: {left}",
        "topologyManagerPolicy": "a container's CPUs and devices come from one NUMA node, or it is refused",
        "topologyManagerScope": "each container is aligned for itself",
    }
    most = max((share.gpus for share in shares), default=0)
    if most < len(machine.gpus):
        reasons["topologyManagerPolicy"] += _gpu_limit(machine, most)
    if len(machine.numa_nodes) > KUBELET_MAX_NUMA_NODES:
        reasons["max-allowable-numa-nodes"] = (
            f"this machine has {len(machine.numa_nodes)} NUMA nodes, those without CPUs included, and the kubelet "
            f"refuses to start on more than {KUBELET_MAX_NUMA_NODES} without it (Kubernetes 1.31 and newer)"
        )
    return reasons


def _gpu_limit(machine: Machine, most: int) -> str:
    known = sum(gpu.numa_node is not None for gpu in machine.gpus)
    if known < len(machine.gpus):
        return f"; {len(machine.gpus) - known} of {len(machine.gpus)} GPUs have no known NUMA node and are not aligned"
    return f"; a container can have at most {most} of the {len(machine.gpus)} GPUs"
