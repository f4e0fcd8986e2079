"""What the kubelet would do with pods that come one after another: the document of `numalign predict`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from numalign.admission.advice import Advice, Verdict, advice, verdict
from numalign.admission.costs import Case, Remark, costs, devices_by_node, nodes_of_cpus
from numalign.admission.decision import ContainerGrant, Decision
from numalign.admission.duration import STALLS_FROM, in_words, seconds
from numalign.admission.explain import Need, holders, needs, reasons
from numalign.admission.hints import ids
from numalign.admission.manifest import Submitted
from numalign.admission.node import Node
from numalign.admission.notes import Subject, notes, of_the_map, of_the_node
from numalign.admission.offers import Offer
from numalign.admission.pod import Pod, is_guaranteed, pod_level
from numalign.cpuset import CpuSet
from numalign.machine import API_VERSION, Machine

__all__ = [
    "Container",
    "DeviceShare",
    "HintShown",
    "MemoryShare",
    "NodeLeft",
    "Occupancy",
    "PodPrediction",
    "Policies",
    "Prediction",
    "ResourceOffered",
    "predict",
]

Outcome = Literal["admitted", "refused", "invalid", "hangs", "stalls"]
"""`invalid`: the API server does not take the pod; `hangs`: the kubelet hangs or panics over it; `stalls`: it decides
only after minutes to years."""

_OUTCOMES = {
    "admitted": "admitted",
    "invalid": "the API server does not take it",
    "hangs": "the kubelet does not come back from it",
    "stalls": "the kubelet computes too long",
}
_VERDICTS = {"never": "refused, never on this node", "not-now": "refused, not now", None: "refused"}
_PREFIX = "Pod was rejected: "
"""What the kubelet puts before a message in the pod's status."""
_MOST_COUNTED = 1000


class HintShown(msgspec.Struct, frozen=True, rename="camel"):
    """The topology manager's merged hint: NUMA nodes (None: any), and whether it is preferred."""

    numa_nodes: CpuSet | None = msgspec.field(name="numaNodes")
    preferred: bool


class DeviceShare(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of a resource: how many on each NUMA node ("-": without topology), and ids, which are an example where
    others are equal; `open`: even their NUMA nodes could be others."""

    resource: str
    numa_nodes: Mapping[str, int]
    ids: tuple[str, ...]
    open: bool


class MemoryShare(msgspec.Struct, frozen=True, rename="camel"):
    """Memory of a type on NUMA nodes, in bytes."""

    type: str
    bytes: int
    numa_nodes: CpuSet


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """What a container gets: exclusive CPUs (None: it runs on the shared pool) by NUMA node, of how many cores, and
    the L3 groups that they are of, where a NUMA node has several."""

    name: str
    init: bool
    cpus: CpuSet | None
    cores: int
    numa_nodes: Mapping[int, CpuSet]
    l3_groups: tuple[int, ...] = msgspec.field(name="l3Groups")
    devices: tuple[DeviceShare, ...]
    memory: tuple[MemoryShare, ...]
    hint: HintShown | None


class NodeLeft(msgspec.Struct, frozen=True, rename="camel"):
    """What is free on a NUMA node: CPUs that can be exclusive, devices by resource, bytes by type of memory."""

    numa_node: int
    cpus: int
    devices: Mapping[str, int]
    memory: Mapping[str, int]


class PodPrediction(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of a pod. `replicas` of its owner are to be, one of which is looked at; `count` is how many such
    pods fit one after another (with --count), `then` why no more.

    `reason` and `message` are those of its status, `because` explains them; `needs` is what it needs and what is free,
    for a container or the whole pod; `advice` is what would do.
    """

    name: str
    namespace: str
    kind: str
    owner: str
    place: str
    replicas: int | None
    outcome: Outcome
    verdict: Verdict | None = None
    qos_class: str | None = None
    reason: str | None = None
    message: str | None = None
    containers: tuple[Container, ...] = ()
    needs: tuple[Need, ...] = ()
    because: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    costs: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    left: tuple[NodeLeft, ...] = ()
    count: int | None = None
    then: str | None = None

    @property
    def words(self) -> str:
        """What becomes of it, for people."""
        return _VERDICTS[self.verdict] if self.outcome == "refused" else _OUTCOMES[self.outcome]


class Policies(msgspec.Struct, frozen=True, rename="camel"):
    """What decides: the managers' policies and options."""

    topology_manager: str
    scope: str
    cpu_manager: str
    memory_manager: str
    options: tuple[str, ...]


class ResourceOffered(msgspec.Struct, frozen=True, rename="camel"):
    """The devices of a resource by NUMA node ("-": without topology), who says so, and how many are not healthy."""

    resource: str
    numa_nodes: Mapping[str, int]
    said_by: str
    unhealthy: int


class Occupancy(msgspec.Struct, frozen=True, rename="camel"):
    """What is on the node before: `source` (`empty` or where its state was read), pods, and what is to be known."""

    source: str
    pods: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Prediction(msgspec.Struct, frozen=True, rename="camel"):
    """What the kubelet would do with the pods, in their order; `skipped` are objects without pods."""

    api_version: str
    kind: Literal["Prediction"]
    kubernetes_version: str
    version_from: str
    machine: str | None
    config: str
    policies: Policies
    resources: tuple[ResourceOffered, ...]
    occupancy: Occupancy
    pods: tuple[PodPrediction, ...]
    skipped: tuple[str, ...]
    notes: tuple[Remark, ...]

    @property
    def holds(self) -> bool:
        """Whether all pods are admitted."""
        return all(pod.outcome == "admitted" for pod in self.pods)


def predict(
    machine: Machine,
    node: Node,
    submitted: Iterable[Submitted],
    *,
    offers: Sequence[Offer],
    config: str,
    version_from: str,
    occupancy: Occupancy,
    skipped: Sequence[str] = (),
    counting: bool = False,
) -> Prediction:
    """The prediction for pods on a node, which they are admitted to one after another."""
    settings = node.settings
    known = [*of_the_node(node), *(of_the_map(machine) if occupancy.source == "empty" else ())]
    last: dict[str, Any] = {}
    pods = tuple(_predicted(machine, node, each, last, counting=counting) for each in submitted)
    options = {**(settings.cpu_options or {}), **(settings.topology_options or {})}
    return Prediction(
        api_version=API_VERSION,
        kind="Prediction",
        kubernetes_version=f"1.{settings.minor}",
        version_from=version_from,
        machine=machine.name,
        config=config,
        policies=Policies(
            topology_manager=settings.topology_policy,
            scope=settings.topology_scope,
            cpu_manager=settings.cpu_policy,
            memory_manager=settings.memory_policy,
            options=tuple(name if text == "true" else f"{name}={text}" for name, text in options.items()),
        ),
        resources=tuple(_offered(offer) for offer in offers),
        occupancy=occupancy,
        pods=pods,
        skipped=tuple(skipped),
        notes=tuple(known),
    )


def _offered(offer: Offer) -> ResourceOffered:
    found: dict[str, int] = {}
    for device in offer.devices:
        where = "+".join(map(str, device.numa)) if device.numa else "-"
        found[where] = found.get(where, 0) + 1
    unhealthy = sum(not device.healthy for device in offer.devices)
    return ResourceOffered(offer.resource, dict(sorted(found.items())), offer.said_by, unhealthy)


def _predicted(
    machine: Machine, node: Node, submitted: Submitted, last: dict[str, Any], *, counting: bool
) -> PodPrediction:
    """What becomes of a pod; where it is admitted it is on the node then. `last` is the last refusal: what holds for
    one of many equal pods holds for the next as long as nothing changes on the node."""
    known: dict[str, Any] = {
        "name": submitted.name,
        "namespace": submitted.namespace,
        "kind": submitted.kind,
        "owner": submitted.owner,
        "place": submitted.place,
        "replicas": submitted.replicas,
    }
    pod = submitted.pod
    if pod is None:
        return PodPrediction(**known, outcome="invalid", because=submitted.faults, count=0 if counting else None)
    if pod.key in node.state.pods:
        what = f'pods "{pod.name}" already exists: it runs on the node, and is part of what is taken there'
        return PodPrediction(**known, outcome="invalid", because=(what,), count=0 if counting else None)
    before = node.copy()
    decision = node.copy().admit(pod)
    known["notes"] = tuple(notes(Subject(submitted, pod, before, decision)))
    known["qos_class"] = _qos(pod, node)
    number, then = _count(before, pod) if counting else (None, None)
    known |= {"count": number, "then": then}
    duration = seconds(before, decision)
    if decision.breakdown is not None:
        return PodPrediction(**known, outcome="hangs", because=(decision.breakdown,))
    if duration >= STALLS_FROM:
        what = f"the kubelet would compute for {in_words(duration)} before it decides"
        return PodPrediction(**known, outcome="stalls", because=(what,), advice=tuple(_without_stall(before, pod)))
    if not decision.admitted:
        node.admit(pod)  # what a refusal costs: CPUs that the kubelet does not get back
        alike = (msgspec.structs.replace(pod, name=""), before.state)
        if last.get("alike") != alike:
            last |= {"alike": alike, "refused": _refused(before, pod, decision)}
        return PodPrediction(**known, **last["refused"])
    node.admit(pod)
    case = Case(machine, before, node, pod, decision)
    return PodPrediction(
        **known,
        outcome="admitted",
        containers=tuple(_container(node, pod, grant) for grant in decision.containers),
        costs=tuple(costs(case)),
        left=tuple(_left(node)),
    )


def _refused(node: Node, pod: Pod, decision: Decision) -> dict[str, Any]:
    """Why, and what would do. What never fits is explained by the empty node."""
    sentence, now, said = verdict(node, pod), node, decision
    if sentence == "never":
        node = node.emptied()
        decision = node.copy().admit(pod)
    wanted = needs(node, pod, decision)
    because = [*reasons(node, pod, decision), *(holders(node, wanted) if sentence == "not-now" else ())]
    return {
        "outcome": "refused",
        "verdict": sentence,
        "reason": said.reason,
        "message": _PREFIX + said.message,
        "needs": wanted,
        "because": tuple(because),
        "advice": tuple(advice(node, pod, decision, now)),
    }


def _without_stall(node: Node, pod: Pod) -> Iterator[Advice]:
    """The policy under which the kubelet decides at once."""
    for policy in ("single-numa-node", "restricted"):
        if policy != node.settings.topology_policy:
            other = node.under(policy, node.settings.topology_scope)
            if seconds(other, other.admit(pod)) < STALLS_FROM:
                yield Advice("policy", f"topologyManagerPolicy: {policy} decides at once", value=policy)
                return
    if node.managers.memory is not None:
        yield Advice("policy", "memoryManagerPolicy: None spares the kubelet most of it", value="None")


def _count(node: Node, pod: Pod) -> tuple[int, str | None]:
    """How many such pods fit one after another, and why no more."""
    trial, most = node.copy(), _MOST_COUNTED
    for number in range(most):
        name = pod.name if number == 0 else f"{pod.name}-{number + 1}"
        while f"{pod.namespace}/{name}" in trial.state.pods:
            name += "-"
        decision = trial.admit(msgspec.structs.replace(pod, name=name))
        if not decision.admitted:
            return number, decision.reason or decision.breakdown
    return most, None


def _qos(pod: Pod, node: Node) -> str:
    level = pod_level(pod, node.settings)
    if is_guaranteed(pod, level):
        return "Guaranteed"
    if level.known and not pod.has_pod_level:
        return "BestEffort"
    amounts = [each for each in pod.containers if {"cpu", "memory"} & {*each.requests, *each.limits}]
    return "Burstable" if amounts or pod.has_pod_level else "BestEffort"


def _container(node: Node, pod: Pod, grant: ContainerGrant) -> Container:
    own = next(each for each in pod.containers if each.name == grant.name)
    manager = node.managers.cpus
    cpus = grant.cpus.bits if grant.cpus else 0
    topology = manager.topology if manager is not None else None
    grouped = topology is not None and len(topology.uncores) > max(len(topology.nodes), len(topology.sockets))
    return Container(
        name=grant.name,
        init=own.init,
        cpus=grant.cpus,
        cores=sum(1 for mask in topology.cores.values() if mask & cpus) if topology else 0,
        numa_nodes=nodes_of_cpus(node, grant.cpus) if grant.cpus else {},
        l3_groups=tuple(sorted(id for id, mask in topology.uncores.items() if mask & cpus))
        if topology and grouped
        else (),
        devices=tuple(_share(node, grant, resource) for resource in grant.devices),
        memory=tuple(MemoryShare(each.type, each.size, CpuSet(ids(each.nodes))) for each in grant.memory),
        hint=HintShown(CpuSet(ids(grant.hint.mask)) if grant.hint.mask is not None else None, grant.hint.preferred)
        if grant.hint is not None
        else None,
    )


def _share(node: Node, grant: ContainerGrant, resource: str) -> DeviceShare:
    where = {"-" if id is None else str(id): number for id, number in devices_by_node(node, grant, resource).items()}
    return DeviceShare(resource, where, grant.devices[resource], resource in grant.open)


def _left(node: Node) -> Iterator[NodeLeft]:
    for id, usage in sorted(node.free().items()):
        yield NodeLeft(id, usage.cpus, dict(usage.devices), dict(usage.memory))
