"""A node that admits pods one after another, as its kubelet would.

The kubelet takes back what a refused pod had booked before it looks at the next, in the way in which it removes a pod:
a NUMA node that the pod took out of its group, or memory given back to another NUMA node of one, stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numalign.admission.attempt import Attempt, Managers
from numalign.admission.cpu import cpu_manager
from numalign.admission.decision import Decision, Held, State
from numalign.admission.demand import demand
from numalign.admission.device import Device, Prefer, device_manager
from numalign.admission.fit import MAX_PODS, check_after, check_before, check_fit, room
from numalign.admission.memory import MemoryBlock, memory_manager
from numalign.admission.pod import Pod, pod_requests
from numalign.admission.refusal import KubeletPanics, Refused
from numalign.admission.topology import topology
from numalign.cpuset import CpuSet
from numalign.kubelet.distribute_cpus import KubeletHangs
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["Node", "Usage"]


class Usage(msgspec.Struct, frozen=True):
    """What is free on a NUMA node: CPUs that can be exclusive, healthy devices by resource (one with several NUMA nodes
    on each), bytes by type of memory."""

    cpus: int
    devices: Mapping[str, int]
    memory: Mapping[str, int]


class Node:
    """A machine under a configuration with the devices that plugins offer on it. The configuration must be one on which
    the kubelet starts (numalign.kubelet.rules.problems). `state` is an immutable value: keep it to come back to it;
    `start` is that of the empty node."""

    def __init__(
        self,
        settings: Settings,
        view: KubeletView,
        devices: Iterable[Device] = (),
        *,
        prefer: Mapping[str, Prefer] | None = None,
        max_pods: int | None = MAX_PODS,
    ) -> None:
        """`prefer` are the preferred allocations of plugins, by resource; without `max_pods` what comes after the
        managers is left out."""
        self.settings = settings
        self.view = view
        self.managers = Managers(
            topology=topology(settings, view),
            devices=device_manager(settings, view, devices, prefer),
            cpus=cpu_manager(settings, view),
            memory=memory_manager(settings, view),
        )
        resources = self.managers.devices.resources
        healthy = {name: resource.healthy.bit_count() for name, resource in resources.items()}
        self.room = None if max_pods is None else room(settings, view, healthy, max_pods)
        self.state = State(
            shared=self.managers.cpus.start if self.managers.cpus else view.cpus.bits,
            memory=self.managers.memory.start if self.managers.memory else None,
            devices=self.managers.devices.start,
            pods={},
        )
        self.start = self.state

    def copy(self) -> Node:
        """A node that goes on from here by itself."""
        new = Node.__new__(Node)
        new.__dict__.update(self.__dict__)
        return new

    def emptied(self) -> Node:
        """The node with no pod on it."""
        new = self.copy()
        new.state = self.start
        return new

    def healed(self) -> Node:
        """The node with all devices healthy."""
        new, resources = self.copy(), self.managers.devices.resources
        all_healthy = {
            name: msgspec.structs.replace(resource, healthy=(1 << len(resource.devices)) - 1)
            for name, resource in resources.items()
        }
        devices = msgspec.structs.replace(self.managers.devices, resources=all_healthy)
        new.managers = msgspec.structs.replace(self.managers, devices=devices)
        return new

    def under(self, policy: str, scope: str) -> Node:
        """The node as it would be with another policy or scope of the topology manager, its pods where they are."""
        new = self.copy()
        new.settings = msgspec.structs.replace(self.settings, topology_policy=policy, topology_scope=scope)
        new.managers = msgspec.structs.replace(self.managers, topology=topology(new.settings, self.view))
        return new

    def admit(self, pod: Pod) -> Decision:
        """Decides about a pod, and books what it gets. Raises ValueError where a pod of its name is already there."""
        if pod.key in self.state.pods:
            raise ValueError(f"pod {pod.key} is already on the node")
        attempt = Attempt(self.managers, self.state, demand(pod, self.settings, self.managers.devices.resources.keys()))
        requests = pod_requests(pod, self.settings)
        try:
            attempt.run()
            if self.room is not None:
                check_before(pod, self.settings)
                check_fit(self.room, (held.requests for held in self.state.pods.values()), requests)
                check_after(pod, self.settings)
        except Refused as refused:
            self.state = self._after_refusal(attempt)
            return Decision(pod.key, False, refused.reason, refused.message, (), tuple(attempt.rounds))
        except (KubeletHangs, KubeletPanics) as error:
            return Decision(pod.key, False, "", "", (), tuple(attempt.rounds), breakdown=str(error))
        pods = {**self.state.pods, pod.key: attempt.held(requests)}
        self.state = msgspec.structs.replace(attempt.now(), pods=pods)
        return Decision(pod.key, True, "", "", attempt.grants(), tuple(attempt.rounds))

    def _after_refusal(self, attempt: Attempt) -> State:
        """The state once all is taken back that a refused pod had got until then; a CPU, too, that it got although
        another pod has it."""
        use, held, manager = attempt.use, attempt.held({}), self.managers.memory
        if manager is not None and use is not None:
            use = manager.release(use, held.memory)
        return msgspec.structs.replace(self.state, shared=(attempt.shared | held.cpus) & ~attempt.lost, memory=use)

    def adopt(
        self,
        key: str,
        *,
        cpus: CpuSet | None = None,
        memory: Iterable[MemoryBlock] = (),
        devices: Mapping[str, Iterable[str]] | None = None,
        requests: Mapping[str, int] | None = None,
    ) -> None:
        """Books what a pod that is there already holds, as state files or the pod-resources API tell it: exclusive
        CPUs, blocks of memory, ids of devices by resource; and what it counts for (see pod_requests).

        Raises ValueError where that is not free, or not there.
        """
        taken = cpus.bits if cpus else 0
        if taken & ~self.state.shared:
            others = CpuSet.from_mask(taken & ~self.state.shared)
            raise ValueError(f"CPUs {others} that pod {key} holds are not in the shared pool")
        use, used, manager = self.state.memory, dict(self.state.devices), self.managers.memory
        blocks = tuple(memory) if manager is not None else ()
        for block in blocks:
            if manager is None or use is None or block.type not in use.free or block.nodes & ~manager.nodes:
                raise ValueError(f"pod {key} holds {block.type} on NUMA nodes that have none")
            use = manager.book(use, block.nodes, {block.type: block.size})
        held: dict[str, int] = {}
        for name, some in (devices or {}).items():
            held[name] = self._positions(name, some, key)
            if held[name] & used[name]:
                raise ValueError(f"devices of {name} that pod {key} holds are held by another")
            used[name] |= held[name]
        pods = {**self.state.pods, key: Held(taken, blocks, held, dict(requests or {}))}
        self.state = State(self.state.shared & ~taken, use, used, pods)

    def _positions(self, name: str, some: Iterable[str], key: str) -> int:
        resource = self.managers.devices.resources.get(name)
        known = {device.id: number for number, device in enumerate(resource.devices)} if resource else {}
        missing = [id for id in some if id not in known]
        if missing:
            raise ValueError(f"pod {key} holds {missing[0]} of {name}, which no plugin offers")
        return sum(1 << known[id] for id in some)

    def remove(self, key: str) -> None:
        """Gives back what a pod (namespace/name) holds. Raises KeyError where it is not there."""
        held = self.state.pods[key]
        memory = self.state.memory
        if self.managers.memory is not None and memory is not None:
            memory = self.managers.memory.release(memory, held.memory)
        self.state = State(
            shared=self.state.shared | held.cpus,
            memory=memory,
            devices={name: used & ~held.devices.get(name, 0) for name, used in self.state.devices.items()},
            pods={name: other for name, other in self.state.pods.items() if name != key},
        )

    def free(self, state: State | None = None) -> dict[int, Usage]:
        """What is free on each NUMA node, by id, now or in another state (that before a round of hints)."""
        state = state or self.state
        cpus = self.managers.cpus
        available = cpus.by_node(state.shared & ~cpus.reserved) if cpus else ()
        devices = {
            name: resource.by_node(resource.healthy & ~state.devices[name])
            for name, resource in self.managers.devices.resources.items()
        }
        memory = state.memory.free if state.memory else {}
        return {
            node.id: Usage(
                cpus=available[node.id] if available else 0,
                devices={name: row[node.id] if node.id < len(row) else 0 for name, row in devices.items()},
                memory={kind: row[node.id] for kind, row in memory.items()},
            )
            for node in self.view.nodes
        }
