"""One pod's way through the managers: the scopes of the topology manager, hints, allocation, reuse within the pod.

Providers are asked in the kubelet's order: devices, CPUs, memory.
Source: pkg/kubelet/cm/topologymanager (scope*.go) and the managers' Allocate and AllocatePod, 1.27 to 1.37.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from numalign.admission import cpu, memory
from numalign.admission.cpu import CpuManager
from numalign.admission.decision import ContainerGrant, Held, Round, State
from numalign.admission.demand import ContainerDemand, PodDemand
from numalign.admission.device import DeviceManager
from numalign.admission.hints import Hint, Hints, ids
from numalign.admission.memory import MemoryBlock, MemoryManager
from numalign.admission.refusal import Refused, no_locality, unexpected
from numalign.admission.topology import ProviderHints, Topology, decide
from numalign.cpuset import CpuSet

__all__ = ["Attempt", "Managers"]

_NO_HINT = Hint(None, preferred=False)
_CONTAINER_SCOPE = "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
_POD_SCOPE = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"


class Managers(msgspec.Struct, frozen=True):
    """The managers of a node; None are those whose policy is none."""

    topology: Topology
    devices: DeviceManager
    cpus: CpuManager | None
    memory: MemoryManager | None


class Attempt:
    """A pod on its way. `run` raises what refuses it; nothing stays of it then, but that the kubelet does not get the
    `lost` CPUs back (see _own_cpus)."""

    def __init__(self, managers: Managers, state: State, pod: PodDemand) -> None:
        self.managers = managers
        self.state = state
        self.pod = pod
        self.shared = state.shared
        self.use = state.memory
        self.used = dict(state.devices)
        self.lost = 0
        self.rounds: list[Round] = []
        self.hints: dict[str, Hint] = {}
        self.cpus: dict[str, int] = {}
        self.blocks: dict[str, tuple[MemoryBlock, ...]] = {}
        self.devices: dict[str, dict[str, int]] = {}
        self.open: dict[str, list[str]] = {}
        self.bubble = 0
        self.pod_blocks: tuple[MemoryBlock, ...] | None = None
        self.reusable_cpus = 0
        self.reusable_memory: dict[tuple[int, str], int] = {}
        self.reusable_devices: dict[str, int] = {}

    def run(self) -> None:
        """Allocates everything. Raises Refused, KubeletHangs, KubeletPanics."""
        manager = self.managers.topology
        if manager.policy == "none":
            for container in self.pod.containers:
                self._allocate(container, _NO_HINT)
        elif manager.scope == "container":
            for container in self.pod.containers:
                hint = self._merged(container)
                self.hints[container.name] = hint
                self._allocate(container, hint)
        else:
            hint = self._merged(None)
            self.hints = {container.name: hint for container in self.pod.containers}
            if self.pod.level.managed:
                self._allocate_pod(hint)
                return
            for container in self.pod.containers:
                self._allocate(container, hint)

    def grants(self) -> tuple[ContainerGrant, ...]:
        """What each container has."""
        return tuple(
            ContainerGrant(
                name=name,
                cpus=CpuSet.from_mask(self.cpus[name]) if name in self.cpus else None,
                devices={
                    resource: tuple(
                        self.managers.devices.resources[resource].devices[number].id for number in ids(some)
                    )
                    for resource, some in self.devices.get(name, {}).items()
                },
                open=tuple(self.open.get(name, ())),
                memory=self.blocks.get(name, ()),
                hint=self.hints.get(name),
            )
            for name in (container.name for container in self.pod.containers)
        )

    def held(self, requests: dict[str, int]) -> Held:
        """What the pod holds as a whole."""
        cpus = self.bubble
        for mask in self.cpus.values():
            cpus |= mask
        devices: dict[str, int] = {}
        for some in self.devices.values():
            for resource, mask in some.items():
                devices[resource] = devices.get(resource, 0) | mask
        blocks = self.pod_blocks
        if blocks is None:
            blocks = tuple(block for own in self.blocks.values() for block in own)
        return Held(cpus, blocks, devices, requests)

    def now(self) -> State:
        """The node's state as the pod has made it, without the pod itself."""
        return State(self.shared, self.use, dict(self.used), self.state.pods)

    def _merged(self, container: ContainerDemand | None) -> Hint:
        """The hint for a container or the whole pod. Raises Refused where the policy does not take it."""
        offers = (self._device_hints(container), self._cpu_hints(container), self._memory_hints(container))
        hint, admitted = decide(self.managers.topology, offers)
        name = container.name if container is not None else None
        self.rounds.append(Round(name, *offers, merged=hint, admitted=admitted, before=self.now()))
        if not admitted:
            if not self.pod.level.managed:
                raise no_locality()
            raise no_locality(_POD_SCOPE if container is None else _CONTAINER_SCOPE)
        return hint

    def _device_hints(self, container: ContainerDemand | None) -> ProviderHints:
        wanted = self.pod.devices if container is None else container.devices
        return self.managers.devices.hints(self.used, {} if container is None else self.reusable_devices, wanted)

    def _cpu_hints(self, container: ContainerDemand | None) -> ProviderHints:
        manager, request = self.managers.cpus, self.pod.cpus if container is None else container.cpus
        if manager is None or not request or self.pod.level.skipped:
            return {}
        if container is None and self.pod.level.managed and _refuses(cpu.check_pod_pool, self.pod):
            return {"cpu": Hints((), 1)}
        return {"cpu": manager.hints(self.shared, self.reusable_cpus, request)}

    def _memory_hints(self, container: ContainerDemand | None) -> ProviderHints:
        manager, wanted = self.managers.memory, self.pod.memory if container is None else container.memory
        if manager is None or self.use is None or not self._has_memory or wanted is None:
            return {}
        if container is None and self.pod.level.managed and _refuses(memory.check_pod_pool, self.pod):
            return dict.fromkeys(wanted, Hints((), 1))
        return manager.hints(self.use, wanted, self.reusable_memory)

    @property
    def _has_memory(self) -> bool:
        return self.pod.guaranteed and not self.pod.level.skipped

    def _allocate(self, container: ContainerDemand, hint: Hint) -> None:
        self._allocate_devices(container, hint)
        self._allocate_cpus(container, hint)
        self._allocate_memory(container, hint)

    def _allocate_devices(self, container: ContainerDemand, hint: Hint) -> None:
        own: dict[str, int] = {}
        for name, request in container.devices.items():
            taken, free = self.managers.devices.resources[name].allocate(
                self.used[name], self.reusable_devices.get(name, 0), request, hint.mask
            )
            # what one container leaves is as open as what it takes
            if free or (taken and any(name in names for names in self.open.values())):
                self.open.setdefault(container.name, []).append(name)
            if taken:
                own[name] = taken
                self.used[name] |= taken
        self.devices[container.name] = own
        for name, taken in own.items():
            left = self.reusable_devices.get(name, 0)
            self.reusable_devices[name] = left | taken if container.reusable else left & ~taken

    def _allocate_cpus(self, container: ContainerDemand, hint: Hint) -> None:
        manager, number = self.managers.cpus, container.cpus
        if manager is None or not number or self.pod.level.skipped:
            return
        manager.check_whole_cores(self.shared, number)
        taken = manager.allocate(self.shared, self.reusable_cpus, number, hint.mask)
        self.shared &= ~taken
        self.cpus[container.name] = taken
        self.reusable_cpus = self.reusable_cpus | taken if container.reusable else self.reusable_cpus & ~taken

    def _allocate_memory(self, container: ContainerDemand, hint: Hint) -> None:
        manager, wanted = self.managers.memory, container.memory
        if manager is None or self.use is None or not self._has_memory:
            return
        if wanted is None:
            raise unexpected(memory.NOT_WHOLE)
        nodes = manager.allocate(self.use, wanted, self.reusable_memory, hint)
        booked = {kind: max(size - self.reusable_memory.get((nodes, kind), 0), 0) for kind, size in wanted.items()}
        self.use = manager.book(self.use, nodes, booked)
        blocks = tuple(MemoryBlock(nodes, kind, size) for kind, size in wanted.items())
        self.reusable_memory = memory.after_reuse(self.reusable_memory, container, nodes, wanted)
        before = self.pod.containers[: self.pod.containers.index(container)]
        self.blocks = {**memory.reused(self.blocks, before, blocks), container.name: blocks}

    def _allocate_pod(self, hint: Hint) -> None:
        """CPUs and memory of the whole pod at once (1.36, PodLevelResourceManagers). The device manager takes no part:
        devices are given out only when the containers start."""
        self._own_cpus(hint)
        self._own_memory(hint)

    def _own_cpus(self, hint: Hint) -> None:
        """The pod's own CPUs, shared out. Where that fails the kubelet does not give them back before it restarts: it
        looks for CPUs of gone pods among those of containers."""
        manager, pod = self.managers.cpus, self.pod
        if manager is None or not pod.cpus:
            return
        cpu.check_pod_pool(pod)
        manager.check_whole_cores(self.shared, pod.cpus)
        self.bubble = self.lost = manager.allocate(self.shared, 0, pod.cpus, hint.mask)
        self.shared &= ~self.bubble
        self.cpus = cpu.share_out(manager, pod, self.bubble)
        self.lost = 0

    def _own_memory(self, hint: Hint) -> None:
        manager, wanted = self.managers.memory, self.pod.memory
        if manager is None or self.use is None or not self.pod.guaranteed or wanted is None:
            return
        memory.check_pod_pool(self.pod)
        nodes = manager.allocate(self.use, wanted, {}, hint)
        self.use = manager.book(self.use, nodes, wanted)
        self.pod_blocks = tuple(MemoryBlock(nodes, kind, size) for kind, size in wanted.items())
        self.blocks = memory.share_out(self.pod, nodes)


def _refuses(check: Callable[[PodDemand], None], pod: PodDemand) -> bool:
    try:
        check(pod)
    except Refused:
        return True
    return False
