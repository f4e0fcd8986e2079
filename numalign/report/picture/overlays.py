"""What a plan, a configuration and a prediction draw over a machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count as counting

from numalign.admission.hints import ids
from numalign.admission.node import Node
from numalign.admission.prediction import Container, PodPrediction, Policies, Prediction
from numalign.cpuset import CpuSet
from numalign.kubelet.settings import is_memory
from numalign.machine import Machine
from numalign.plan import Plan
from numalign.report.picture.overlay import Fact, Holder, Overlay, State, letter
from numalign.words import count, few, size

__all__ = ["of_node", "of_plan", "of_prediction"]

_MOST_FACTS = 12
"""Pods of which a picture has a line; of more it has their number."""


def of_plan(machine: Machine, plan: Plan) -> Overlay:
    """The reserved and the exclusive CPUs of a plan."""
    exclusive, reserved = plan.exclusive_cpus, plan.reserved_cpus
    states: dict[int, State] = dict.fromkeys(machine.online_cpus, "shared")
    states.update(dict.fromkeys(exclusive, "free"))
    states.update(dict.fromkeys(reserved, "reserved"))
    facts = [
        Fact(plan.policies),
        Fact(f"{count(len(reserved), 'CPU')} reserved: {reserved}"),
        Fact(f"{count(len(exclusive), 'CPU')} for containers: {exclusive or 'none'}"),
    ]
    return Overlay(tuple(facts), {cpu: state for cpu, state in states.items() if cpu in machine.online_cpus})


def of_node(machine: Machine, node: Node, found: Prediction) -> Overlay:
    """The reserved and the free CPUs under a configuration, and who holds which CPUs and devices now."""
    return _overlay(machine, node, [Fact(_policies(found.policies, found))], _running(node, ()))


def of_prediction(machine: Machine, node: Node, found: Prediction) -> Overlay:
    """The node after the pods: what each container got, and what becomes of the others."""
    pods = found.pods[:_MOST_FACTS]
    facts = [_fact(pod, several=len(found.pods) > 1) for pod in pods]
    if len(found.pods) > len(pods):
        admitted = sum(pod.outcome == "admitted" for pod in found.pods)
        facts.append(Fact(f"of {count(len(found.pods), 'pod')} {admitted} are admitted"))
    facts.append(Fact(_policies(found.policies, found)))
    new = {f"{pod.namespace}/{pod.name}" for pod in found.pods if pod.outcome == "admitted"}
    return _overlay(machine, node, facts, [*_running(node, new), *_admitted(found.pods)])


class _Share:
    """What a holder has: its name, a mask of CPUs, devices by resource, and words of its memory."""

    def __init__(self, name: str, cpus: int, devices: Mapping[str, Iterable[str]], memory: Iterable[str]) -> None:
        self.name = name
        self.cpus = cpus
        self.devices = {resource: tuple(some) for resource, some in devices.items()}
        self.memory = tuple(memory)

    def words(self) -> Iterator[str]:
        if self.cpus:
            yield f"CPUs {CpuSet.from_mask(self.cpus)}"
        for resource, some in self.devices.items():
            if some:
                yield f"{len(some)} {resource}"
        yield from self.memory


def _overlay(machine: Machine, node: Node, facts: Iterable[Fact], shares: Iterable[_Share]) -> Overlay:
    homes = {gpu.uuid: gpu.bdf for gpu in machine.gpus if gpu.uuid}
    homes |= {mig.uuid: gpu.bdf for gpu in machine.gpus for mig in gpu.mig_devices if mig.uuid}
    homes |= {device.bdf: device.bdf for device in machine.devices()}
    holders, cpus, devices = [], dict[int, str](), dict[str, dict[str, None]]()
    for number, share in zip(counting(), shares):
        mark = letter(number)
        holders.append(Holder(mark, share.name, tuple(share.words())))
        cpus.update(dict.fromkeys(ids(share.cpus), mark))
        for some in share.devices.values():
            for id in some:
                home = homes.get(id) or homes.get(id.partition("::")[0]) or homes.get(id.partition("/")[0])
                if home is not None:
                    devices.setdefault(home, {})[mark] = None
    return Overlay(
        tuple(facts), _states(node), tuple(holders), cpus, {bdf: tuple(marks) for bdf, marks in devices.items()}
    )


def _states(node: Node) -> dict[int, State]:
    """The state of each CPU that the kubelet knows."""
    manager = node.managers.cpus
    found: dict[int, State] = dict.fromkeys(node.view.cpus, "shared")
    if manager is not None:
        stranded = manager.reserved_cores if manager.whole_cores else manager.reserved
        found.update(dict.fromkeys(ids(manager.topology.cpus & ~stranded), "free"))
        found.update(dict.fromkeys(ids(manager.reserved), "reserved"))
    return found


def _running(node: Node, new: Iterable[str]) -> Iterator[_Share]:
    """What pods hold that were there before."""
    apart = set(new)
    for key, held in node.state.pods.items():
        if key in apart or not (held.cpus or any(held.devices.values())):
            continue
        names = {
            resource: [node.managers.devices.resources[resource].devices[place].id for place in ids(mask)]
            for resource, mask in held.devices.items()
        }
        memory = [_memory(block.type, block.size, CpuSet(ids(block.nodes))) for block in held.memory]
        yield _Share(key.removeprefix("default/"), held.cpus, names, memory)


def _admitted(pods: Iterable[PodPrediction]) -> Iterator[_Share]:
    """What each container of the admitted pods got, if anything of its own."""
    for pod in pods:
        for each in pod.containers:
            if each.cpus or each.devices or each.memory:
                memory = [_memory(some.type, some.bytes, some.numa_nodes) for some in each.memory if some.bytes]
                devices = {share.resource: share.ids for share in each.devices}
                yield _Share(_name(pod, each), each.cpus.bits if each.cpus else 0, devices, memory)


def _name(pod: PodPrediction, container: Container) -> str:
    return f"{pod.name}/{container.name}" + (" (init)" if container.init else "")


def _memory(kind: str, bytes: int, nodes: CpuSet) -> str:
    name = size(bytes) if kind == "memory" else f"{kind} {size(bytes)}" if is_memory(kind) else f"{kind} {bytes}"
    return f"{name} of NUMA {nodes}"


def _fact(pod: PodPrediction, *, several: bool) -> Fact:
    """What becomes of a pod, and why it is refused."""
    if pod.outcome == "admitted":
        return Fact(f"✓ {pod.name} {pod.words}", "good")
    why = f": {pod.reason}" if pod.reason else ""
    because = f". {few(list(pod.because), 1 if several else 3)}" if pod.because else ""
    return Fact(f"✗ {pod.name} {pod.words}{why}{because}", "bad")


def _policies(policies: Policies, found: Prediction) -> str:
    options = f" ({', '.join(policies.options)})" if policies.options else ""
    return (
        f"{found.config}, Kubernetes {found.kubernetes_version}: CPU manager {policies.cpu_manager}, memory manager "
        f"{policies.memory_manager}, topology manager {policies.topology_manager}, scope {policies.scope}{options}"
    )
