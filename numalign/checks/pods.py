"""Checks of the pods that run: is what each container holds on one NUMA node, are its cores its own, its GPUs near its
NICs? By the kubelet's pod-resources API, or where that gives no answer, by its state files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from numalign.checks.finding import Check, Finding, Gap, Severity, Subject
from numalign.checks.known import Known, known_devices
from numalign.checks.resources import Held, held_by_api, held_by_state, unusable
from numalign.cpuset import CpuSet
from numalign.kubelet.checkpoint import CPU_FILE
from numalign.kubelet.restart import formats
from numalign.links import LINK_TYPES
from numalign.machine import LinkType, Machine
from numalign.probe.kubelet import STATE_FILES
from numalign.words import count, few, numa_nodes, size

__all__ = ["PODS", "held", "not_about_pods"]

_RANK = {kind: rank for rank, kind in enumerate(LINK_TYPES)}
_ACTIVE_PODS_SINCE = 34
"""The version from which the pod-resources API lists no pods that have ended (KubeletPodResourcesListUseActivePods)."""
_FORGET = "drain the node, stop the kubelet, delete {file}, start the kubelet"
_WHOLE_CORES = 'write cpuManagerPolicyOptions: {full-pcpus-only: "true"}, and ask for whole cores'
_AGAIN = "delete the pod: the kubelet decides anew when its controller makes another"


def held(subject: Subject) -> tuple[Held, ...]:
    """Who holds what, by the best word that there is."""
    resources = subject.node.resources
    if resources.pods is not None:
        return held_by_api(resources.pods, resources.socket)
    return held_by_state(subject.state, formats(subject.settings))


class _Share(msgspec.Struct, frozen=True):
    """What a container holds, by NUMA node: CPUs, keys of devices, bytes. What is on no known NUMA node is left out."""

    cpus: dict[int, CpuSet]
    devices: dict[int, list[str]]
    memory: dict[int, int]
    spread: tuple[str, ...]

    @property
    def nodes(self) -> set[int]:
        """All NUMA nodes that it is on."""
        return {*self.cpus, *self.devices, *self.memory}


def _share(one: Held, machine: Machine, known: Known) -> _Share:
    cpus = {node.id: node.cpus & one.cpus for node in machine.numa_nodes if node.cpus.bits & one.cpus.bits}
    devices: dict[int, list[str]] = {}
    for group in one.devices:
        for key in dict.fromkeys(map(known.key, group.ids)):
            for node in _nodes_of(key, group.numa_nodes, set(cpus), known):
                devices.setdefault(node, []).append(known.label(key))
    memory: Counter[int] = Counter()
    spread = []
    for block in one.memory:
        nodes = block.numa_nodes or ()
        memory.update({node: block.bytes // len(nodes) for node in nodes})
        if len(nodes) > 1:
            spread.append(f"{size(block.bytes)} of {block.type} are spread over {numa_nodes(nodes)}")
    return _Share(cpus, devices, dict(memory), tuple(spread))


def _nodes_of(key: str, advertised: tuple[int, ...] | None, wanted: set[int], known: Known) -> Iterable[int]:
    """The NUMA nodes that a device counts for: the kernel's, else the advertised ones; of several, one that fits."""
    own = known.gpu_of.get(key) or known.nic_of.get(key)
    if own is not None and own.numa_node is not None:
        return (own.numa_node,)
    near = wanted.intersection(advertised or ())
    return near or advertised or ()


def _not_aligned(subject: Subject) -> Iterator[Finding]:
    """Containers on more NUMA nodes than they need."""
    machine = subject.machine
    known = known_devices(machine)
    for one in _units(subject):
        share = _share(one, machine, known)
        if len(share.nodes) < 2:
            continue
        needed = _needed(one, share, machine)
        severity: Severity = "error" if subject.settings.topology_policy == "single-numa-node" else "warning"
        if len(share.nodes) <= needed:
            severity = "info"
        yield Finding(
            id="pod-not-aligned",
            severity=severity,
            place=one.place,
            message=f"{one.name}: {'; '.join(_costs(one, share, machine))}",
            remedy=None if severity == "info" else _AGAIN,
        )


def _units(subject: Subject) -> Iterable[Held]:
    """What the topology manager aligns: containers, or with scope `pod` each pod as a whole."""
    if subject.settings.topology_scope != "pod":
        return held(subject)
    found: dict[str, Held] = {}
    for one in held(subject):
        before = found.get(one.pod)
        found[one.pod] = before.with_(one) if before else one
    return found.values()


def _needed(one: Held, share: _Share, machine: Machine) -> int:
    """How many NUMA nodes it takes at least for what the container holds."""
    gpus = Counter(gpu.numa_node for gpu in machine.gpus)
    known = known_devices(machine)
    own = {known.gpu_of[key].bdf for group in one.devices for key in map(known.key, group.ids) if key in known.gpu_of}
    return max(
        _fewest(len(one.cpus), [len(node.cpus) for node in machine.numa_nodes]),
        _fewest(len(own), list(gpus.values())),
        _fewest(sum(share.memory.values()), [node.memory_bytes or 0 for node in machine.numa_nodes]),
    )


def _fewest(wanted: int, each: list[int]) -> int:
    """How many of the largest are as much as is wanted."""
    number = 0
    for amount in sorted(each, reverse=True):
        if wanted <= 0:
            break
        wanted, number = wanted - amount, number + 1
    return number


def _costs(one: Held, share: _Share, machine: Machine) -> Iterator[str]:
    """What is where it should not be: against the NUMA node of most of its CPUs, else of most of its devices."""
    if share.cpus:
        home = max(share.cpus, key=lambda node: len(share.cpus[node]))
    elif share.devices:
        home = max(share.devices, key=lambda node: len(share.devices[node]))
    else:
        home = min(share.nodes)
    total = len(one.cpus)
    base = f"its CPUs are on NUMA node {home}" if share.cpus else f"the others are on NUMA node {home}"
    for node, cpus in share.cpus.items():
        if node != home:
            verb = "is" if len(cpus) == 1 else "are"
            yield f"{len(cpus)} of its {total} CPUs ({cpus}) {verb} on NUMA node {node}, most are on {home}"
    for node, labels in sorted(share.devices.items()):
        if node != home:
            verb = "is" if len(labels) == 1 else "are"
            yield f"{few(labels, 8)} {verb} on NUMA node {node}, {base}{_distance(machine, home, node)}"
    yield from share.spread
    for node, bytes in sorted(share.memory.items()):
        if node != home and not share.spread:
            yield f"{size(bytes)} of its memory are on NUMA node {node}, {base}{_distance(machine, home, node)}"


def _distance(machine: Machine, a: int, b: int) -> str:
    distances = {node.id: node.distances for node in machine.numa_nodes}
    far = distances.get(a, {}).get(b)
    return f" (distance {far} instead of {distances[a].get(a, 10)})" if far else ""


def _cores_shared(subject: Subject) -> Iterator[Finding]:
    """Cores of which a container has a part only: whoever runs on the other siblings slows it down."""
    owner: dict[int, Held] = {}
    twice: dict[tuple[str, str], list[int]] = {}
    for one in held(subject):
        for cpu in one.cpus:
            other = owner.setdefault(cpu, one)
            if other is not one and other.pod != one.pod:  # within a pod of 1.36 they can be its own shared pool
                twice.setdefault((other.name, one.name), []).append(cpu)
    for (first, second), cpus in twice.items():
        message = f"CPUs {CpuSet(cpus)} are given to two containers: {first}, and {second}"
        yield _shared(subject, "error", message, _FORGET.format(file=CPU_FILE))
    split: dict[tuple[str, str], list[int]] = {}
    for core in subject.machine.cores:
        owners = {owner[cpu].name if cpu in owner else "" for cpu in core.cpus}
        if len(owners) > 1:
            pods = {owner[cpu].pod for cpu in core.cpus if cpu in owner}
            names = sorted(owners - {""})
            if len(pods) > 1 or "" in owners:
                others = "the shared pool" if "" in owners else few(names[1:])
                split.setdefault((names[0], others), []).extend(core.cpus)
    whole = subject.settings.option("full-pcpus-only")
    severity: Severity = "error" if whole else "warning"
    remedy = (
        _AGAIN
        if whole
        else f'write cpuManagerPolicyOptions: {{full-pcpus-only: "true"}}, ask for whole cores; {_AGAIN}'
    )
    for (name, others), cpus in split.items():
        yield _shared(subject, severity, f"{name} shares the cores of CPUs {CpuSet(cpus)} with {others}", remedy)


def _shared(subject: Subject, severity: Severity, message: str, remedy: str) -> Finding:
    place = subject.node.resources.socket if subject.node.resources.pods else subject.state.folder
    return Finding(id="pod-cores-shared", severity=severity, place=place, message=message, remedy=remedy)


def _device_twice(subject: Subject) -> Iterator[Finding]:
    """Devices that two pods have, as they get them from a kubelet that forgot who had them. Until 1.33 finished pods
    are listed with theirs, which is no fault."""
    severity: Severity = "error" if subject.settings.minor >= _ACTIVE_PODS_SINCE else "info"
    owner: dict[tuple[str, str], Held] = {}
    twice: dict[tuple[str, str, str], list[str]] = {}
    for one in held(subject):
        for resource, id in dict.fromkeys((group.resource, id) for group in one.devices for id in group.ids):
            other = owner.setdefault((resource, id), one)
            if other.pod != one.pod:
                twice.setdefault((resource, other.name, one.name), []).append(id)
    for (resource, first, second), ids in twice.items():
        yield Finding(
            id="pod-device-twice",
            severity=severity,
            place=subject.node.resources.socket,
            message=f"{resource}: {few(ids)} {'is' if len(ids) == 1 else 'are'} given to two containers: {first}, and "
            f"{second}",
            remedy=_AGAIN if severity == "error" else None,
        )


def _no_devices_named(subject: Subject) -> Gap | None:
    gap = _nothing_of_pods(subject)
    if gap is None and subject.node.resources.pods is None:
        return Gap("not-looked-at", "the state files have devices of pods that ended too")
    return gap


def _gpu_nic_apart(subject: Subject) -> Iterator[Finding]:
    """GPUs whose container has NICs, but none of the near ones."""
    machine = subject.machine
    known = known_devices(machine)
    links: dict[frozenset[str], LinkType] = {
        frozenset((link.a, link.b)): link.type for link in machine.links if link.type is not None
    }
    for one in held(subject):
        keys = [key for group in one.devices for key in map(known.key, group.ids)]
        nics = dict.fromkeys(key for key in keys if key in known.nic_of)
        gpus_here = {known.gpu_of[key].bdf: known.gpu_of[key] for key in keys if key in known.gpu_of}
        apart: dict[tuple[LinkType, LinkType], list[str]] = {}
        for gpu in gpus_here.values():
            kinds = [links[pair] for nic in nics if (pair := frozenset((gpu.bdf, nic))) in links]
            if kinds and gpu.nearest_nics:
                best = min(kinds, key=_RANK.__getitem__)
                few_nics = len(nics) < len(gpus_here) and best != "SYS"  # then not every GPU can have one of its own
                if _RANK[best] > _RANK[gpu.nearest_nics.type] and not few_nics:
                    apart.setdefault((best, gpu.nearest_nics.type), []).append(f"GPU {gpu.index}")
        for (best, nearest), gpus in apart.items():
            names = few([known.label(nic) for nic in nics])
            yield Finding(
                id="pod-gpu-nic-apart",
                severity="warning" if best == "SYS" else "info",
                place=one.place,
                message=f"{one.name}: {few(gpus, 8)} and {names} are joined by {best} only, and there are NICs "
                f"at {nearest}",
                remedy="make a resource of the NICs near each GPU, or take both by a DRA claim that matches pcieRoot",
            )


def _silent(subject: Subject) -> Iterator[Finding]:
    """The kubelet itself gave no answer, so that the pods are judged by its files."""
    silence = subject.node.resources.silence.get("List")
    if subject.node.resources.pods is None and silence is not None:
        yield Finding(
            id="pod-resources-silent",
            severity="info",
            place=subject.node.resources.socket or "machine",
            message=f"the pods are judged by the kubelet's state files, which name them by UID: {silence.reason}",
            remedy=silence.remedy,
        )


def not_about_pods(subject: Subject) -> Gap | None:
    """Nobody asked about pods."""
    return None if subject.node.resources.about_pods else Gap("not-applicable", "pods are looked at with --pods")


def _nothing_of_pods(subject: Subject) -> Gap | None:
    """Neither the kubelet nor its files say what pods hold."""
    gap = not_about_pods(subject)
    resources = subject.node.resources
    if gap is not None or resources.pods is not None:
        return gap
    silence = resources.silence.get("List")
    reason = silence.reason if silence else "the pod-resources API was not asked"
    if not any(name in subject.state.files for name in STATE_FILES):
        return Gap("not-looked-at", reason)
    spoilt = unusable(subject.state, formats(subject.settings))
    return Gap("not-looked-at", f"{reason}, and {subject.state.place(spoilt)} cannot be read") if spoilt else None


def _no_links(subject: Subject) -> Gap | None:
    gap = _nothing_of_pods(subject)
    if gap is None and not (subject.machine.gpus and subject.machine.nics):
        return Gap("not-applicable", "no GPUs, or no NICs")
    return gap


def _one_numa_node(subject: Subject) -> Gap | None:
    gap = _nothing_of_pods(subject)
    if gap is None and len(subject.machine.numa_nodes) < 2:
        return Gap("not-applicable", f"{count(len(subject.machine.numa_nodes), 'NUMA node')}")
    return gap


PODS: tuple[Check[Subject], ...] = (
    Check(("pod-resources-silent",), _silent, _nothing_of_pods),
    Check(("pod-not-aligned",), _not_aligned, _one_numa_node),
    Check(("pod-cores-shared",), _cores_shared, _nothing_of_pods),
    Check(("pod-device-twice",), _device_twice, _no_devices_named),
    Check(("pod-gpu-nic-apart",), _gpu_nic_apart, _no_links),
)
"""Checks of what the pods that run hold."""
