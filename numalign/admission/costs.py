"""What an admitted pod costs: what it has on several NUMA nodes, cores and L3 groups that it splits, GPUs that it
leaves without CPUs.

Each row of RULES is a rule; the ids are stable, for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import msgspec

from numalign.admission.decision import ContainerGrant, Decision
from numalign.admission.demand import demand
from numalign.admission.explain import has_of, noun
from numalign.admission.hints import ids
from numalign.admission.node import Node
from numalign.admission.offers import GPU
from numalign.admission.pod import Pod
from numalign.cpuset import CpuSet
from numalign.machine import Machine
from numalign.words import count, numa_nodes, size

__all__ = ["Case", "Remark", "costs", "devices_by_node", "nodes_of_cpus"]


class Remark(msgspec.Struct, frozen=True):
    """Something to know about a pod; `id` is for programs."""

    id: str
    message: str


class Case(msgspec.Struct, frozen=True):
    """An admitted pod, the node before and after it, and the machine that it is."""

    machine: Machine
    before: Node
    after: Node
    pod: Pod
    decision: Decision

    @property
    def apps(self) -> tuple[ContainerGrant, ...]:
        """What the containers have that go on running."""
        lasting = {each.name for each in self.pod.containers if not each.init or each.restartable}
        return tuple(grant for grant in self.decision.containers if grant.name in lasting)


def costs(case: Case) -> list[Remark]:
    """All that it costs."""
    return [remark for rule in RULES for remark in rule(case)]


def nodes_of_cpus(node: Node, cpus: CpuSet) -> dict[int, CpuSet]:
    """The CPUs of each NUMA node that has some of them."""
    found = {each.id: each.cpus & cpus for each in node.view.nodes}
    return {id: own for id, own in sorted(found.items()) if own}


def devices_by_node(node: Node, grant: ContainerGrant, resource: str) -> dict[int | None, int]:
    """How many devices of a resource a container has on each NUMA node; None: without topology. One that names several
    counts on the lowest."""
    table = {device.id: device for device in node.managers.devices.resources[resource].devices}
    found: dict[int | None, int] = {}
    for id in grant.devices.get(resource, ()):
        numa = table[id].numa
        home = min(numa) if numa else None
        found[home] = found.get(home, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: -1 if pair[0] is None else pair[0]))


def _spans(case: Case) -> Iterator[Remark]:
    """CPUs of several NUMA nodes, and why."""
    for grant in case.apps:
        parts = nodes_of_cpus(case.after, grant.cpus) if grant.cpus else {}
        if len(parts) < 2:
            continue
        rows = _on_nodes({id: len(own) for id, own in parts.items()})
        why = ""
        mask = grant.hint.mask if grant.hint else None
        if mask is not None and set(parts) - set(ids(mask)):
            why = f"; the merged hint is {numa_nodes(ids(mask))}, and there are not enough free"
        yield Remark("cpus-span-numa-nodes", f"{grant.name}: CPUs {rows}{why}")


def _on_nodes(counts: Mapping[int, int]) -> str:
    """`6 on NUMA node 0 and 26 on 1`, `2 each on NUMA nodes 0-3`."""
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} each on {numa_nodes(counts)}"
    first, *others = counts
    rows = [f"{counts[first]} on NUMA node {first}", *(f"{counts[id]} on {id}" for id in others)]
    return f"{', '.join(rows[:-1])} and {rows[-1]}"


def _memory_spans(case: Case) -> Iterator[Remark]:
    for grant in case.apps:
        for block in grant.memory:
            if block.nodes.bit_count() > 1 and block.size:
                nodes = numa_nodes(ids(block.nodes))
                yield Remark(
                    "memory-spans-numa-nodes",
                    f"{grant.name}: {size(block.size)} of {block.type} is on {nodes}, which serve only this group "
                    "until all of it is given back",
                )


def _devices_span(case: Case) -> Iterator[Remark]:
    for grant in case.apps:
        for resource in grant.devices:
            where = devices_by_node(case.after, grant, resource)
            known = [id for id in where if id is not None]
            if len(known) > 1:
                rows = _on_nodes({id: where[id] for id in known})
                yield Remark("devices-span-numa-nodes", f"{grant.name}: {resource} {rows}")


def _apart(case: Case) -> Iterator[Remark]:
    """Devices of one resource away from the CPUs, or from those of another."""
    for grant in case.apps:
        homes = {
            resource: {id for id in devices_by_node(case.after, grant, resource) if id is not None}
            for resource in grant.devices
        }
        homes = {resource: where for resource, where in homes.items() if where}
        cpus = set(nodes_of_cpus(case.after, grant.cpus)) if grant.cpus else set()
        for resource, where in homes.items():
            if cpus and not where <= cpus:
                away = numa_nodes(where - cpus)
                yield Remark(
                    "devices-away-from-cpus", f"{grant.name}: {resource} on {away}, its CPUs on {numa_nodes(cpus)}"
                )
        for one, other in combinations(homes, 2):
            if not homes[one] & homes[other]:
                yield Remark(
                    "devices-apart",
                    f"{grant.name}: {one} on {numa_nodes(homes[one])}, {other} on {numa_nodes(homes[other])}",
                )


def _fewer_devices(case: Case) -> Iterator[Remark]:
    """CPUs of a NUMA node that has fewer of the pod's devices than another (kubernetes/kubernetes#136431)."""
    for grant in case.apps:
        cpus = nodes_of_cpus(case.after, grant.cpus) if grant.cpus else {}
        for resource in grant.devices if len(cpus) == 1 else ():
            where = {
                id: number for id, number in devices_by_node(case.after, grant, resource).items() if id is not None
            }
            (home,) = cpus
            most, here = max(where.values(), default=0), where.get(home, 0)
            if here < most and len(where) > 1:
                best = next(id for id, number in where.items() if number == most)
                yield Remark(
                    "cpus-beside-fewer-devices",
                    f"{grant.name}: its CPUs are on NUMA node {home} with {here} of its {resource}, NUMA node {best} "
                    f"has {most}: of equally good NUMA nodes the kubelet does not look at the number of devices",
                )


def _split_cores(case: Case) -> Iterator[Remark]:
    manager = case.after.managers.cpus
    for grant in case.apps if manager is not None else ():
        if not grant.cpus or manager is None:
            continue
        bits = grant.cpus.bits
        split = [mask for mask in manager.topology.cores.values() if mask & bits and mask & ~bits]
        if split:
            others = CpuSet.from_mask(sum(mask & ~bits for mask in split))
            yield Remark(
                "cores-split",
                f"{grant.name}: {count(len(split), 'core')} shared with others, which run on CPUs {others}",
            )


def _l3_groups(case: Case) -> Iterator[Remark]:
    """More L3 groups than the CPUs need."""
    manager = case.after.managers.cpus
    if manager is None or len(manager.topology.uncores) <= max(
        len(manager.topology.sockets), len(manager.topology.nodes)
    ):
        return
    groups = manager.topology.uncores
    largest = max(mask.bit_count() for mask in groups.values())
    for grant in case.apps:
        if not grant.cpus:
            continue
        hit = {id: (mask & grant.cpus.bits).bit_count() for id, mask in groups.items() if mask & grant.cpus.bits}
        fewest = -(-len(grant.cpus) // largest)
        if len(hit) > fewest:
            rows = ", ".join(f"{number} in L3 group {id}" for id, number in sorted(hit.items()))
            wide = manager.topology.cpus_per_core
            why = ""
            if case.after.settings.option("prefer-align-cpus-by-uncorecache") and wide > 1 and len(grant.cpus) % wide:
                why = f"; {len(grant.cpus)} CPUs are no whole cores, which the alignment by L3 does not keep together"
            yield Remark("l3-groups-split", f"{grant.name}: {count(len(grant.cpus), 'CPU')}: {rows}{why}")


def _nvlink(case: Case) -> Iterator[Remark]:
    """GPUs without an NVLink between them on a machine that has some."""
    names = {gpu.uuid or gpu.bdf: gpu for gpu in case.machine.gpus}
    joined = {frozenset((link.a, link.b)) for link in case.machine.links if link.nvlinks}
    if not joined:
        return
    for grant in case.apps:
        mine = [names[id] for id in grant.devices.get(GPU, ()) if id in names]
        apart = [(a, b) for a, b in combinations(mine, 2) if frozenset((a.bdf, b.bdf)) not in joined]
        if apart:
            pairs = ", ".join(f"{a.index} and {b.index}" for a, b in apart[:3])
            yield Remark("no-nvlink", f"{grant.name}: no NVLink between GPUs {pairs}")


def _stranded(case: Case) -> Iterator[Remark]:
    """Free GPUs, on a NUMA node of which the pod has something, with too few CPUs or other devices left for them to
    have as much as a GPU of this pod."""
    before = case.before.free()
    of_what = "a GPU of this pod has" if GPU in _asked(case) else "a core has"
    for id, left in sorted(case.after.free().items()):
        gpus = left.devices.get(GPU, 0)
        if not gpus or case.after.managers.cpus is None or left == before[id]:
            continue
        have = {name: has_of(left, name) for name in _beside_a_gpu(case)}
        short = {name: gpus - min(gpus, have[name] // need) for name, need in _beside_a_gpu(case).items()}
        name = max(short, key=lambda each: short[each])
        if short[name]:
            yield Remark(
                "gpus-stranded",
                f"NUMA node {id} has {count(gpus, 'GPU')} and {noun(name, have[name])} left: {short[name]} without the "
                f"{noun(name, _beside_a_gpu(case)[name])} that {of_what}",
            )


def _asked(case: Case) -> Mapping[str, int]:
    return demand(case.pod, case.after.settings, case.after.managers.devices.resources.keys()).devices


def _beside_a_gpu(case: Case) -> dict[str, int]:
    """How much of each resource the pod has for each of its GPUs; without GPUs a core."""
    manager = case.after.managers.cpus
    core = manager.topology.cpus_per_core or 1 if manager is not None and manager.whole_cores else 1
    whole = demand(case.pod, case.after.settings, case.after.managers.devices.resources.keys())
    gpus = whole.devices.get(GPU, 0)
    if not gpus:
        return {"cpu": core}
    found = {"cpu": max(whole.cpus // gpus, core)}
    resources = case.after.managers.devices.resources
    found.update(
        {name: number // gpus for name, number in whole.devices.items() if name != GPU and resources[name].aligns}
    )
    return {name: number for name, number in found.items() if number}


def _pool_empty(case: Case) -> Iterator[Remark]:
    if case.after.managers.cpus is not None and not case.after.state.shared:
        yield Remark(
            "shared-pool-empty",
            "no CPU is left for pods without exclusive CPUs, and the kubelet does not start again like this: leave out "
            "strict-cpu-reservation, or ask for fewer CPUs",
        )


RULES: tuple[Callable[[Case], Iterator[Remark]], ...] = (
    _spans,
    _memory_spans,
    _devices_span,
    _apart,
    _fewer_devices,
    _split_cores,
    _l3_groups,
    _nvlink,
    _stranded,
    _pool_empty,
)
