"""From a machine and wishes to a plan: which CPUs the system keeps, which policies, each with its reason."""

from __future__ import annotations

import msgspec

from numalign.cpuset import CpuSet
from numalign.machine import Machine
from numalign.probe.warn import KUBELET_MAX_NUMA_NODES
from numalign.reserve import Choice, Wishes, choose, places

__all__ = ["Plan", "Share", "make_plan"]

NO_WISHES = Wishes()


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


def make_plan(machine: Machine, wishes: Wishes = NO_WISHES) -> Plan:
    """The plan for a machine, with CPUs reserved as wished for.

    Raises DoesNotHold where the wish cannot be met on this machine.
    """
    choice = choose(machine, wishes)
    reserved = choice.cpus
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
        reasons=_reasons(machine, choice, shares),
    )


def _shares(machine: Machine, reserved: CpuSet) -> list[Share]:
    return [
        Share(
            numa_node=id,
            reserved=cpus & reserved,
            exclusive=cpus - reserved,
            gpus=sum(gpu.numa_node == id for gpu in machine.gpus),
        )
        for id, cpus in places(machine).items()
    ]


def _reasons(machine: Machine, choice: Choice, shares: tuple[Share, ...]) -> dict[str, str]:
    place = "NUMA node" if machine.numa_nodes else "socket"
    left = ", ".join(f"{len(share.exclusive)} on {place} {share.numa_node}" for share in shares)
    reasons = {
        "cpuManagerPolicy": "containers of Guaranteed pods that ask for whole CPUs get exclusive ones",
        "full-pcpus-only": "exclusive CPUs come as whole cores: no two containers share a core",
        "reservedSystemCPUs": f"kept from exclusive use: {len(choice.cpus)} of {len(machine.online_cpus)} CPUs "
        f"({choice.reason}); left for exclusive use: {left}",
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
