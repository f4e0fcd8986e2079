"""What a person should know of a pod besides the answer: what is not aligned, not enforced, or not covered.

Each row of RULES is a rule; the ids are stable, for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from numalign.admission.costs import Remark
from numalign.admission.decision import Decision
from numalign.admission.demand import ContainerDemand, demand
from numalign.admission.duration import STALLS_FROM, in_words, seconds
from numalign.admission.hints import ids
from numalign.admission.manifest import Submitted
from numalign.admission.node import Node
from numalign.admission.offers import has_profile
from numalign.admission.pod import Pod, is_guaranteed, pod_level
from numalign.kubelet.settings import is_memory
from numalign.machine import Machine
from numalign.words import count, few, numa_nodes

__all__ = ["Subject", "notes", "of_the_map", "of_the_node"]

_NATIVE = ("cpu", "memory", "ephemeral-storage")
_SLOW = 2.0


class Subject(msgspec.Struct, frozen=True):
    """A pod, what was decided, and the node before that."""

    submitted: Submitted
    pod: Pod
    node: Node
    decision: Decision

    @property
    def containers(self) -> tuple[ContainerDemand, ...]:
        """What its containers ask for."""
        return demand(self.pod, self.node.settings, self.node.managers.devices.resources.keys()).containers

    @property
    def resources(self) -> list[str]:
        """The extended resources that it names."""
        named = {name for each in self.pod.containers for name in each.limits}
        return sorted(name for name in named if name not in _NATIVE and not is_memory(name))


def notes(subject: Subject) -> list[Remark]:
    """All there is to say."""
    return [note for rule in RULES for note in rule(subject)]


def _claims(subject: Subject) -> Iterator[Remark]:
    if subject.submitted.claims:
        names = few(subject.submitted.claims)
        yield Remark(
            "claims-not-covered",
            f"resourceClaims ({names}) are not covered: the topology manager does not see devices of DRA drivers",
        )


def _not_offered(subject: Subject) -> Iterator[Remark]:
    missing = [name for name in subject.resources if name not in subject.node.managers.devices.resources]
    for name in missing:
        yield Remark(
            "device-not-offered",
            f"no plugin offers {name} here: the kubelet does not look at it, and the scheduler places no such pod here "
            f"(--device {name}=8@0,8@1 says what there is)",
        )


def _no_topology(subject: Subject) -> Iterator[Remark]:
    for name in subject.resources:
        resource = subject.node.managers.devices.resources.get(name)
        if resource is None or not resource.healthy:
            continue
        if not resource.aligns:
            yield Remark(
                "no-topology",
                f"{name} gives no hint, since its devices have no NUMA node: alignment is not enforced for it, "
                f"even under single-numa-node",
            )
        elif any(not device.numa for device in resource.devices):
            number = sum(not device.numa for device in resource.devices)
            yield Remark("some-without-topology", f"{number} of the {name} have no NUMA node and are never in a hint")


def _not_exclusive(subject: Subject) -> Iterator[Remark]:
    """Why a pod has no exclusive CPUs where they are to be had."""
    node, pod = subject.node, subject.pod
    if node.managers.cpus is None:
        if subject.resources:
            yield Remark("no-exclusive-cpus", f"cpuManagerPolicy is {node.settings.cpu_policy}: no exclusive CPUs")
        return
    level = pod_level(pod, node.settings)
    if level.skipped:
        yield Remark(
            "pod-level-resources", "a pod with resources of its own gets no exclusive CPUs and no memory of NUMA nodes"
        )
        return
    asks = any("cpu" in each.requests or "cpu" in each.limits for each in pod.containers)
    if not is_guaranteed(pod, level):
        if asks or subject.resources:
            why = "every container needs limits for cpu and memory, and requests equal to them"
            if level.known and not pod.has_pod_level:
                why = "spec.resources is there and empty, which makes a pod BestEffort; leave it out"
            yield Remark("not-guaranteed", f"not Guaranteed, so it runs on the shared pool: {why}")
        return
    for each, wanted in zip(pod.containers, subject.containers, strict=True):
        amount = each.requests.get("cpu")
        if amount and not wanted.cpus and not level.managed:
            yield Remark(
                "cpu-not-whole", f"{each.name}: cpu: {amount} is no whole number, so it runs on the shared pool"
            )


def _init_and_app(subject: Subject) -> Iterator[Remark]:
    """A device that an init container and an app container ask for (kubernetes/kubernetes#138446)."""
    plain = {name for each in subject.containers if each.reusable for name in each.devices}
    later = {name for each in subject.containers if not each.reusable for name in each.devices}
    for name in sorted(plain & later):
        yield Remark(
            "device-in-init-and-app",
            f"{name} is asked for in an init container and in an app container: after a restart of the kubelet such a "
            "pod can be refused with UnexpectedAdmissionError",
        )


def _memory_without_cpus(subject: Subject) -> Iterator[Remark]:
    bare = {each.id for each in subject.node.view.nodes if not each.cores}
    for grant in subject.decision.containers:
        for block in grant.memory:
            there = bare & set(ids(block.nodes))
            if there and block.size:
                yield Remark(
                    "memory-of-gpu",
                    f"{grant.name}: memory of {numa_nodes(there)} without CPUs, which is most often a GPU's own",
                )


def _slow(subject: Subject) -> Iterator[Remark]:
    duration = seconds(subject.node, subject.decision)
    if _SLOW <= duration < STALLS_FROM:
        number = len(subject.node.view.nodes)
        yield Remark(
            "kubelet-computes-long",
            f"a kubelet would compute for {in_words(duration)}: it goes through every set of {number} NUMA nodes and "
            "every combination of hints",
        )


def _resize(subject: Subject) -> Iterator[Remark]:
    if subject.submitted.resizes and any(each.cpus for each in subject.containers):
        yield Remark(
            "resize-not-modelled",
            "in-place resize is not modelled; the kubelet refuses that of CPUs of a pod with exclusive ones",
        )


RULES: tuple[Callable[[Subject], Iterator[Remark]], ...] = (
    _slow,
    _claims,
    _not_offered,
    _no_topology,
    _not_exclusive,
    _init_and_app,
    _memory_without_cpus,
    _resize,
)


def of_the_map(machine: Machine) -> Iterator[Remark]:
    """GPUs of a map that are left out of what NVIDIA's plugin offers."""
    foreign = [gpu for gpu in machine.gpus if gpu.driver != "nvidia"]
    if foreign:
        names = few([str(gpu.index) for gpu in foreign])
        yield Remark(
            "gpus-without-driver", f"GPUs {names} are not the NVIDIA driver's, so its plugin does not offer them"
        )
    unknown = sum(not has_profile(mig) for gpu in machine.gpus for mig in gpu.mig_devices)
    if unknown:
        yield Remark(
            "mig-profile-unknown",
            f"{count(unknown, 'MIG device')} without a known profile left out: NVML tells it, or say "
            "--device nvidia.com/mig-1g.10gb=4@0",
        )


def of_the_node(node: Node) -> Iterator[Remark]:
    """What is to be known of a node before any pod comes: what its managers leave alone, and the groups of NUMA nodes
    that memory of pods on it has made."""
    if len(node.view.nodes) > 1 and node.managers.topology.policy == "none":
        yield Remark("nothing-aligned", "topologyManagerPolicy is none: nothing is aligned")
    use = node.state.memory
    if use is None:
        if len(node.view.nodes) > 1 and node.managers.cpus is not None:
            yield Remark("memory-not-aligned", "memoryManagerPolicy is None: memory can be on any NUMA node")
        return
    live = {
        use.groups[each.id] for each in node.view.nodes if use.blocks[each.id] and use.groups[each.id].bit_count() > 1
    }
    for group in sorted(live):
        holding = [
            key
            for key, held in node.state.pods.items()
            if any(block.nodes == group and block.size for block in held.memory)
        ]
        who = f" because of pod {few(holding)}" if holding else ""
        yield Remark(
            "memory-group",
            f"{numa_nodes(ids(group))} serve memory as one group{who}: no pod has memory of one of them alone until "
            "all of it is given back",
        )
