"""Why a policy did not take a pod: what it needs, what is free on each NUMA node, and which of it does not go together.

The kubelet says `Resources cannot be allocated with Topology locality` of all of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from numalign.admission.decision import Decision, Round
from numalign.admission.demand import ContainerDemand, PodDemand, demand
from numalign.admission.hints import Hints, ids
from numalign.admission.node import Node, Usage
from numalign.admission.pod import Pod
from numalign.cpuset import CpuSet
from numalign.kubelet.settings import is_memory
from numalign.kubelet.view import ViewNode
from numalign.words import count, few, numa_nodes, size

__all__ = ["Need", "amount", "demanded", "has_of", "holders", "needs", "noun", "reasons"]
__all__ += ["refused_round"]

_MOST_LISTED = 4
_MOST_HOLDERS = 3


class Need(msgspec.Struct, frozen=True, rename="camel"):
    """What is needed of a resource (CPUs that can be exclusive, devices, bytes) by a container or the whole pod (None),
    what is free of it on each NUMA node, and what there would be on an empty node.

    `width` is how many NUMA nodes it is held to need, reckoned with all that they have, free or not: hints of so many
    are preferred; `fewest` is how many it needs as it is (0: all have too little). Both are null where the topology
    manager did not ask."""

    resource: str
    container: str | None
    needed: int
    free: Mapping[int, int]
    empty: Mapping[int, int]
    width: int | None = None
    fewest: int | None = None


class _List(NamedTuple):
    """A provider's hints for a resource in short: the fewest NUMA nodes on which it could ever be met, reckoned as the
    kubelet does, the fewest now (0: none), and the single NUMA nodes that have it."""

    need: Need
    hints: Hints
    width: int
    now: int
    single: CpuSet


def demanded(node: Node, pod: Pod, container: str | None) -> ContainerDemand | PodDemand:
    """What a container of a pod, or the whole pod, asks of the managers."""
    whole = demand(pod, node.settings, node.managers.devices.resources.keys())
    return next((each for each in whole.containers if each.name == container), whole)


def needs(node: Node, pod: Pod, decision: Decision) -> tuple[Need, ...]:
    """What the refused container, or the whole pod, needs of what managers give out, and what there is of it."""
    refused = refused_round(decision)
    container, state = (refused.container, refused.before) if refused else (None, node.state)
    wanted = demanded(node, pod, container)
    hints = (
        {name: each for some in (refused.devices, refused.cpus, refused.memory) for name, each in some.items()}
        if refused
        else {}
    )
    amounts = dict(wanted.devices)
    if node.managers.cpus is not None and wanted.cpus:
        amounts["cpu"] = wanted.cpus
    if node.managers.memory is not None and demanded_memory(node, pod):
        amounts |= wanted.memory or {}
    free, empty = node.free(state), node.free(node.start)
    return tuple(
        Need(
            resource=name,
            container=container,
            needed=number,
            free={id: has_of(usage, name) for id, usage in sorted(free.items())},
            empty={id: has_of(usage, name) for id, usage in sorted(empty.items())},
            width=own.size if own is not None else None,
            fewest=own.fewest() if own is not None else None,
        )
        for name, number in amounts.items()
        for own in (hints.get(name),)
        if number
    )


def refused_round(decision: Decision) -> Round | None:
    """The round of hints that the policy did not take; None where something else refused the pod."""
    return decision.rounds[-1] if decision.rounds and not decision.rounds[-1].admitted else None


def demanded_memory(node: Node, pod: Pod) -> bool:
    """Whether the memory manager gives the pod memory: it is Guaranteed, and not left alone for pod-level resources."""
    whole = demand(pod, node.settings, node.managers.devices.resources.keys())
    return whole.guaranteed and not whole.level.skipped


def has_of(usage: Usage, resource: str) -> int:
    """How much of a resource a NUMA node has."""
    if resource == "cpu":
        return usage.cpus
    return usage.memory.get(resource, 0) if is_memory(resource) else usage.devices.get(resource, 0)


def amount(resource: str, number: int) -> str:
    """An amount for people: `4`, `64.0 GiB`."""
    return size(number) if is_memory(resource) else str(number)


def noun(resource: str, number: int) -> str:
    """`176 CPUs`, `8 nvidia.com/gpu`, `64.0 GiB of memory`."""
    if resource == "cpu":
        return count(number, "CPU")
    return f"{size(number)} of {resource}" if is_memory(resource) else f"{number} {resource}"


def reasons(node: Node, pod: Pod, decision: Decision) -> list[str]:
    """Why the pod is refused, in sentences."""
    refused = refused_round(decision)
    if refused is None:
        known = [explain for part, explain in _BY_MESSAGE if part in decision.message]
        return [text for explain in known for text in explain(node, pod)]
    lists = list(_lists(node, needs(node, pod, decision), refused))
    found = [text for each in lists for text in _of_one(node, pod, refused, each)]
    if not found:
        found = list(_of_all(node, lists))
    who = f"container {refused.container}: " if refused.container is not None and len(pod.containers) > 1 else ""
    return [f"{who}{text}" for text in found]


def _lists(node: Node, wanted: Sequence[Need], round: Round) -> Iterator[_List]:
    known = {need.resource: need for need in wanted}
    for provider in (round.devices, round.cpus, round.memory):
        for name, hints in provider.items():
            if hints is not None and name in known:
                single = CpuSet(each.id for each in node.view.nodes if hints.has(1 << each.id))
                yield _List(known[name], hints, hints.size, hints.fewest(), single)


def _of_one(node: Node, pod: Pod, round: Round, each: _List) -> Iterator[str]:
    """What stands in the way with a single resource."""
    need, single = each.need, node.settings.topology_policy == "single-numa-node"
    what = noun(need.resource, need.needed)
    free = f"{_by_node(need.resource, need.free)} free"
    if not each.now:
        yield f"{what}: more than is free on the whole node ({free})"
        return
    empty = _empty_width(node, pod, round, need.resource)
    most = amount(need.resource, max(need.empty.values(), default=0))
    if single and (each.width > 1 or empty > 1):
        yield f"{what} are never on one NUMA node: none has more than {most} for containers"
    elif single and not each.single:
        yield f"{what} fit one NUMA node of the empty machine, but now need {each.now} ({free})"
    elif not single and empty > each.width:
        zone = _dead_zone(node, need, each.width)
        yield (
            f"{what} are held to need {count(each.width, 'NUMA node')}, each reckoned with what is reserved on it, but "
            f"need {empty} without that: restricted refuses {zone}"
        )
    elif not single and each.now > each.width:
        yield f"{what} fit {count(each.width, 'NUMA node')} of the empty machine, but now need {each.now} ({free})"


def _dead_zone(node: Node, need: Need, width: int) -> str:
    """The requests that so many NUMA nodes have in all, but not for containers."""
    if need.resource != "cpu" or node.managers.cpus is None:
        return "that"
    have = sum(sorted(need.empty.values(), reverse=True)[:width])
    counted = sum(sorted(node.managers.cpus.sizes, reverse=True)[:width])
    return f"{have + 1}-{counted} CPUs" if counted > have + 1 else f"{counted} CPUs"


def _empty_width(node: Node, pod: Pod, round: Round, resource: str) -> int:
    """The fewest NUMA nodes of the empty machine that have what is asked of a resource; 0 where all have too little."""
    wanted = demanded(node, pod, round.container)
    managers, start = node.managers, node.start
    if resource == "cpu":
        return managers.cpus.hints(start.shared, 0, wanted.cpus).fewest() if managers.cpus else 0
    if resource in managers.devices.resources:
        found = managers.devices.hints(start.devices, {}, {resource: wanted.devices[resource]})[resource]
        return found.fewest() if found else 0
    if managers.memory is None or start.memory is None:
        return 0
    hints = managers.memory.hints(start.memory, wanted.memory or {}, {}).get(resource)
    return hints.fewest() if hints else 0


def _of_all(node: Node, lists: Sequence[_List]) -> Iterator[str]:
    """What does not go together, where each resource by itself could be had."""
    if node.settings.topology_policy == "single-numa-node":
        rows = [f"{noun(each.need.resource, each.need.needed)}: {numa_nodes(each.single)}" for each in lists]
        if rows:
            yield f"no NUMA node has all of it; {'; '.join(rows)}"
        return
    widths = {each.width for each in lists}
    if len(widths) > 1:
        rows = [
            f"{noun(each.need.resource, each.need.needed)} {count(each.width, 'NUMA node')}{_per_node(node, each)}"
            for each in lists
        ]
        yield f"restricted wants all to need equally many NUMA nodes: {', '.join(rows)}"
    elif lists:
        rows = [f"{each.need.resource} {_by_node(each.need.resource, each.need.free)}" for each in lists]
        yield f"no {count(next(iter(widths)), 'NUMA node')} together have all of it ({'; '.join(rows)} free)"


def _per_node(node: Node, each: _List) -> str:
    """How much one NUMA node counts for where that is the same for all: ` (64 each)`."""
    resource = each.need.resource
    if resource == "cpu" and node.managers.cpus is not None:
        counts = {number for number in node.managers.cpus.sizes if number}
    else:
        counts = {number for number in each.need.empty.values() if number}
    return f" ({amount(resource, counts.pop())} each)" if len(counts) == 1 else ""


def _by_node(resource: str, amounts: Mapping[int, int]) -> str:
    """`3 on NUMA node 0, 1 on 1`; those that have nothing are left out where there are many."""
    shown = {id: number for id, number in amounts.items() if number or len(amounts) <= _MOST_LISTED}
    if not shown:
        return "none"
    texts = [f"{amount(resource, number)} on {id}" for id, number in shown.items()]
    first = f"{amount(resource, next(iter(shown.values())))} on NUMA node {next(iter(shown))}"
    return few([first, *texts[1:]], _MOST_LISTED)


def holders(node: Node, wanted: Sequence[Need]) -> list[str]:
    """Which pods hold what is missing, on the NUMA node that has the most of what is needed."""
    if not wanted or not node.state.pods:
        return []

    def lacking(id: int) -> list[Need]:
        return [need for need in wanted if need.free[id] < need.needed <= need.empty[id]]

    able = [id for id in wanted[0].free if all(need.empty[id] >= need.needed for need in wanted)]
    if not able:
        return []
    best = min(able, key=lambda id: (len(lacking(id)), id))
    found = []
    for need in lacking(best):
        held = sorted(_held(node, need.resource, best), reverse=True)
        if held:
            rows = [f"{key.removeprefix('default/')} holds {amount(need.resource, number)}" for number, key in held]
            what = "CPUs" if need.resource == "cpu" else need.resource
            found.append(f"{what} on NUMA node {best}: pod {few(rows, _MOST_HOLDERS)}")
    return found


def _held(node: Node, resource: str, id: int) -> Iterator[tuple[int, str]]:
    """How much each pod holds of a resource on a NUMA node; memory on several is counted on each."""
    for key, held in node.state.pods.items():
        if resource == "cpu":
            number = node.managers.cpus.by_node(held.cpus)[id] if node.managers.cpus else 0
        elif is_memory(resource):
            number = sum(block.size for block in held.memory if block.type == resource and id in ids(block.nodes))
        else:
            row = node.managers.devices.resources[resource].by_node(held.devices.get(resource, 0))
            number = row[id] if id < len(row) else 0
        if number:
            yield number, key


def _uneven(node: Node, pod: Pod) -> Iterator[str]:
    """Containers whose CPUs are no whole cores."""
    wide = node.managers.cpus.topology.cpus_per_core if node.managers.cpus else 1
    whole = demand(pod, node.settings, ())
    rows = [f"{each.name} asks for {each.cpus}" for each in whole.containers if each.cpus % wide]
    if rows:
        yield f"with full-pcpus-only the CPUs of each container come in whole cores of {wide}: {few(rows)}"


def _whole_cores(node: Node, pod: Pod) -> Iterator[str]:
    yield "full-pcpus-only counts the free CPUs of cores of which none is reserved, on the whole node"


def _memory_in_use(node: Node, pod: Pod) -> Iterator[str]:
    """Which NUMA nodes serve which pods: one in use can be in no other group."""
    use = node.state.memory
    if use is None:
        return
    for kind, number in (demanded(node, pod, None).memory or {}).items():
        free = _by_node(kind, {each.id: has_of(usage, kind) for each, usage in _usages(node)})
        yield f"{noun(kind, number)}: {free} free, without what is reserved and made into huge pages"
    if any(use.blocks):
        yield "a NUMA node that serves memory to pods by itself, or in a group, can be in no other group until they end"
    for group in sorted({use.groups[each.id] for each in node.view.nodes if use.blocks[each.id]}):
        users = [key for key, held in node.state.pods.items() if any(block.nodes == group for block in held.memory)]
        how = "together serve" if group.bit_count() > 1 else "by itself serves"
        names = few([key.removeprefix("default/") for key in users], _MOST_HOLDERS)
        yield f"{numa_nodes(ids(group))} {how} {f'pod {names}' if users else 'a container of this pod'}"


def _devices_taken(node: Node, pod: Pod) -> Iterator[str]:
    for name, number in demanded(node, pod, None).devices.items():
        free = _by_node(name, {each.id: has_of(usage, name) for each, usage in _usages(node)})
        resource = node.managers.devices.resources[name]
        left = (resource.healthy & ~node.state.devices[name]).bit_count()
        if left < number:
            yield f"{noun(name, number)}: {left} free{f' ({free})' if resource.aligns and left else ''}"


def _cpus_taken(node: Node, pod: Pod) -> Iterator[str]:
    free = sum(usage.cpus for _, usage in _usages(node))
    yield f"{count(free, 'CPU')} that can be exclusive are free, beside what containers before it have"


def _not_whole(node: Node, pod: Pod) -> Iterator[str]:
    yield "the memory manager takes whole numbers of bytes alone: write memory without a fraction"


def _usages(node: Node) -> Iterator[tuple[ViewNode, Usage]]:
    free = node.free()
    return ((each, free[each.id]) for each in sorted(node.view.nodes, key=lambda each: each.id))


def _unhealthy(node: Node, pod: Pod) -> Iterator[str]:
    yield "since the kubelet started its plugin has not registered, or none of its devices is healthy"


def _all_pods(node: Node, pod: Pod) -> Iterator[str]:
    yield "what all pods on the node ask for together is more than it can give (numalign kubelet allocatable)"


_BY_MESSAGE: tuple[tuple[str, Callable[[Node, Pod], Iterator[str]]], ...] = (
    # what the message of a refusal has in it, and what it means
    ("cpus not multiple", _uneven),
    ("not enough free physical CPUs", _whole_cores),
    ("[memorymanager] failed to find", _memory_in_use),
    ("[memorymanager] failed to get", _memory_in_use),
    ("[memorymanager] preferred hint violates", _memory_in_use),
    ("failed to represent quantity", _not_whole),
    ("not enough cpus available", _cpus_taken),
    ("no healthy devices present", _unhealthy),
    ("requested number of devices unavailable", _devices_taken),
    ("Node didn't have enough resource", _all_pods),
)
