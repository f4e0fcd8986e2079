"""What each container of a pod, and the pod as a whole, asks of the CPU, memory and device managers.

Source: guaranteedCPUs and podGuaranteedCPUs of cpumanager/policy_static.go, getContainerRequestedResources and
getPodRequestedResources of memorymanager/policy_static.go, devicemanager/topology_hints.go, pkg/kubelet/cm/qos.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from numalign.admission.pod import Amounts, Container, Pod, PodLevel, has_sidecars, is_guaranteed, pod_level
from numalign.admission.pod import running_total as _running_total
from numalign.kubelet.settings import Settings, is_memory
from numalign.quantity import Quantity

__all__ = ["ContainerDemand", "PodDemand", "demand"]


class ContainerDemand(msgspec.Struct, frozen=True):
    """What a container asks for: exclusive CPUs (0: it runs on the shared pool), bytes of memory by type (None where an
    amount is no whole number, on which the memory manager fails), devices by resource."""

    name: str
    init: bool
    sidecar: bool
    cpus: int
    memory: Mapping[str, int] | None
    devices: Mapping[str, int]

    @property
    def reusable(self) -> bool:
        """Whether what it holds is there for the containers after it."""
        return self.init and not self.sidecar


class PodDemand(msgspec.Struct, frozen=True):
    """What a pod asks for at once, and how its pod-level resources are taken. The CPU and memory managers leave it
    alone where it is not Guaranteed (then CPUs are 0), or is skipped."""

    name: str
    guaranteed: bool
    level: PodLevel
    containers: tuple[ContainerDemand, ...]
    cpus: int
    memory: Mapping[str, int] | None
    devices: Mapping[str, int]


def demand(pod: Pod, settings: Settings, resources: Collection[str]) -> PodDemand:
    """The demand of a pod on a node whose device plugins offer these resources."""
    level = pod_level(pod, settings)
    guaranteed = is_guaranteed(pod, level)
    sidecars = has_sidecars(settings)
    containers = tuple(_of_container(container, guaranteed, level, sidecars, resources) for container in pod.containers)
    cpus = _running_total(({"cpu": each.cpus}, each.init, each.sidecar) for each in containers).get("cpu", 0)
    memory = _pod_memory(containers)
    if level.managed:
        cpus = _exclusive((pod.requests or {}).get("cpu")) if guaranteed else 0
        own = _memory(pod.requests or {})
        memory = None if own is None else {name: size for name, size in own.items() if size > 0}
    return PodDemand(
        name=pod.key,
        guaranteed=guaranteed,
        level=level,
        containers=containers,
        cpus=cpus,
        memory=memory,
        devices=_running_total((each.devices, each.init, each.sidecar) for each in containers),
    )


def _of_container(
    container: Container, guaranteed: bool, level: PodLevel, sidecars: bool, resources: Collection[str]
) -> ContainerDemand:
    eligible = not level.managed or _asks_as_guaranteed(container)
    return ContainerDemand(
        name=container.name,
        init=container.init,
        sidecar=container.restartable and sidecars,
        cpus=_exclusive(container.requests.get("cpu")) if guaranteed and eligible else 0,
        memory=_memory(container.requests) if eligible else {},
        devices={name: amount.whole for name, amount in sorted(container.limits.items()) if name in resources},
    )


def _asks_as_guaranteed(container: Container) -> bool:
    """Whether a container would by itself make a pod Guaranteed (IsContainerEquivalentQOSGuaranteed)."""
    zero = Quantity()
    pairs = ((container.requests.get(name, zero), container.limits.get(name, zero)) for name in ("cpu", "memory"))
    return all(request and request == limit for request, limit in pairs)


def _exclusive(amount: Quantity | None) -> int:
    """The CPUs of a request for whole CPUs; 0 of any other."""
    if amount is None:
        return 0
    whole = amount.whole
    return whole if whole * 1000 == amount.milli else 0


def _memory(requests: Amounts) -> dict[str, int] | None:
    wanted = {name: requests[name] for name in sorted(requests) if is_memory(name)}
    if not all(amount.is_int64 for amount in wanted.values()):
        return None
    return {name: amount.whole for name, amount in wanted.items()}


def _pod_memory(containers: tuple[ContainerDemand, ...]) -> dict[str, int] | None:
    """The types that app containers ask for: what only init containers want is overlooked."""
    parts = [(each.memory, each.init, each.sidecar) for each in containers]
    if any(memory is None for memory, *_ in parts):
        return None
    total = _running_total((memory or {}, init, sidecar) for memory, init, sidecar in parts)
    wanted = {name for memory, init, _ in parts if not init for name in memory or ()}
    return {name: total[name] for name in sorted(wanted)}
