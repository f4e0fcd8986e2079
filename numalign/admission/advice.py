"""What would make a refused pod fit: the nearest request, another policy or scope, the end of a pod that runs.

Each piece of advice was tried: the engine admits the pod under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, permutations
from typing import Literal

import msgspec

from numalign.admission.decision import Decision
from numalign.admission.demand import demand
from numalign.admission.duration import STALLS_FROM, seconds
from numalign.admission.explain import Need, demanded, needs, refused_round
from numalign.admission.node import Node
from numalign.admission.pod import Container, Pod, pod_requests
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import is_memory
from numalign.quantity import Quantity
from numalign.words import few

__all__ = ["Advice", "Verdict", "advice", "verdict"]

Verdict = Literal["never", "not-now"]

_LOOSER = {
    # policies -> those that take more
    "single-numa-node": ("restricted", "best-effort"),
    "restricted": ("best-effort",),
}
_SCOPES = {"container": "pod", "pod": "container"}
_FEW_NODES = 8
_TRIES = {True: 64, False: 16}
"""Requests that are tried in each direction, on a machine of few NUMA nodes and of many, where each takes longer."""
_MOST_PODS = 250
_MOST_ORDERED = 4
_PARTS = 16
"""In what parts a large request is made smaller."""
_MIB, _GIB = 1 << 20, 1 << 30


class Advice(msgspec.Struct, frozen=True, rename="camel"):
    """Something under which the pod is admitted: another `request` (amounts by container and resource), another
    `order` of the containers, `policy`, `scope`, the end of `pod`s, or of a plugin's silence (`devices`)."""

    kind: Literal["request", "order", "policy", "scope", "pod", "devices"]
    message: str
    requests: Mapping[str, Mapping[str, str]] = {}
    value: str | None = None


Shape = Mapping[str, Mapping[str, int]]
"""Amounts by container and resource."""


def admits(node: Node, pod: Pod) -> bool:
    """Whether the pod is admitted, in a time that anybody would wait."""
    decision = node.copy().admit(pod)
    return decision.admitted and seconds(node, decision) < STALLS_FROM


def verdict(node: Node, pod: Pod) -> Verdict:
    """Whether a refused pod could fit when others end, or devices come back; or never."""
    if _silent(node, pod) or admits(node.emptied(), pod):
        return "not-now"
    return "not-now" if admits(node.emptied().healed(), pod) else "never"


def advice(node: Node, pod: Pod, decision: Decision, now: Node) -> list[Advice]:
    """What would do, the nearest request first: on the node on which it was decided, which for a pod that never fits is
    the empty one and not the node as it is `now`."""
    silent = _silent(node, pod)
    if silent:
        what = f"fits when the plugin of {', '.join(silent)} has registered its devices"
        return [Advice("devices", what, value=silent[0])]
    found = [*_requests(node, pod, decision, now), *_orders(node, pod), *_policies(node, pod)]
    if admits(node.emptied(), pod):
        found += _ends(node, pod)
    return found


def _silent(node: Node, pod: Pod) -> list[str]:
    """Resources that the pod asks for and that have no healthy device."""
    resources = node.managers.devices.resources
    return [name for name in demanded(node, pod, None).devices if not resources[name].healthy]


def _requests(node: Node, pod: Pod, decision: Decision, now: Node) -> Iterator[Advice]:
    """Other requests: of one resource, less and more; and where no single one does, a smaller pod of the same shape."""
    if pod.has_pod_level:
        return
    whole = _in_whole_cores(node, pod)
    if whole:
        if admits(node, _with(pod, whole)):
            yield _as_advice(now, pod, whole)
        return
    refused = refused_round(decision)
    name = refused.container if refused is not None else None
    wanted = needs(node, pod, decision)
    found = False
    for need in wanted:
        container = _container(pod, name, need.resource)
        for candidates in _candidates(node, need, container) if container is not None else ():
            fits = next(
                (shape for shape in _shapes(container, need, candidates) if admits(node, _with(pod, shape))), None
            )
            if fits is not None:
                found = True
                yield _as_advice(now, pod, fits)
    if found:
        return
    for shape in (*_smaller(node, pod, name, wanted), *_clamped(node, pod, name, wanted), *_within_room(node, pod)):
        if admits(node, _with(pod, shape)):
            yield _as_advice(now, pod, shape)
            return


def _in_whole_cores(node: Node, pod: Pod) -> Shape:
    """The CPUs of containers that are no whole cores, rounded up to such; none where all are, or need not be."""
    step = _step(node)
    uneven = {each.name: each.cpus for each in demand(pod, node.settings, ()).containers if each.cpus % step}
    return {name: {"cpu": -(-cpus // step) * step} for name, cpus in uneven.items()}


def _step(node: Node) -> int:
    """In what steps exclusive CPUs come."""
    manager = node.managers.cpus
    return manager.topology.cpus_per_core or 1 if manager is not None and manager.whole_cores else 1


def _shapes(container: Container | None, need: Need, numbers: Iterable[int]) -> Iterator[Shape]:
    return ({container.name: {need.resource: number}} for number in numbers if container is not None)


def _container(pod: Pod, name: str | None, resource: str) -> Container | None:
    """The container whose request is varied: the one that was refused, else that which asks for most."""
    those = [each for each in pod.containers if resource in each.requests and name in (None, each.name)]
    return max(those, key=lambda each: (not each.init, each.requests[resource].value), default=None)


def _asked(container: Container, resource: str) -> int:
    return container.requests[resource].whole if resource in container.requests else 0


def _candidates(node: Node, need: Need, container: Container) -> tuple[list[int], list[int]]:
    """Amounts of a container at which the answer can change, lower ones from above and higher ones from below."""
    own = _asked(container, need.resource)
    others = need.needed - own
    counts: Sequence[int] = list(need.empty.values())
    if need.resource == "cpu" and node.managers.cpus is not None:
        counts = node.managers.cpus.sizes
    step = _MIB if is_memory(need.resource) else _step(node) if need.resource == "cpu" else 1
    sums = [*accumulate(sorted(counts, reverse=True)), *accumulate(sorted(need.free.values(), reverse=True))]
    at = {number - others for number in (*need.free.values(), *sums)} | {own}
    some = {number // step * step for number in at} | {number // step * step + step for number in at}
    if not is_memory(need.resource) and need.resource != "cpu":
        some |= set(range(1, min(own, _TRIES[True])))
    limit = _TRIES[len(node.view.nodes) <= _FEW_NODES]
    most = sum(need.empty.values())
    lower = sorted((number for number in some if 0 < number < own), reverse=True)
    higher = sorted(number for number in some if own < number <= most)
    return lower[:limit], higher[:limit]


def _smaller(node: Node, pod: Pod, name: str | None, wanted: Sequence[Need]) -> Iterator[Shape]:
    """The same shape with fewer of the devices of which it has most, or fewer CPUs."""
    devices = [need for need in wanted if need.resource != "cpu" and not is_memory(need.resource)]
    most = max(devices or wanted, key=lambda need: (not is_memory(need.resource), need.needed), default=None)
    if most is None:
        return
    container = _container(pod, name, most.resource)
    if container is None or any(need.needed != _asked(container, need.resource) for need in wanted):
        return
    step = _step(node)
    parts = {most.needed * part // _PARTS for part in range(1, _PARTS)}
    fewer = range(1, most.needed) if most.needed <= _PARTS else sorted(parts - {0})
    for number in reversed(fewer):
        shape = {}
        for need in wanted:
            part = need.needed * number // most.needed
            unit = step if need.resource == "cpu" else _GIB if is_memory(need.resource) and part >= _GIB else 1
            shape[need.resource] = max(part // unit * unit, unit if need.resource == "cpu" else 0)
        yield {container.name: {resource: part for resource, part in shape.items() if part}}


def _clamped(node: Node, pod: Pod, name: str | None, wanted: Sequence[Need]) -> Iterator[Shape]:
    """No more of anything than is free on one NUMA node, that with the most first; then than is free on all."""
    container = _container(pod, name, wanted[0].resource) if wanted else None
    if container is None or any(need.needed != _asked(container, need.resource) for need in wanted):
        return
    step = _step(node)
    rows = [[need.free[id] for need in wanted] for id in wanted[0].free]
    for row in (*sorted(rows, reverse=True), [sum(need.free.values()) for need in wanted]):
        most = {need.resource: min(need.needed, free) for need, free in zip(wanted, row, strict=True)}
        shape = {resource: number // step * step if resource == "cpu" else number for resource, number in most.items()}
        if all(shape.values()):
            yield {container.name: shape}


def _within_room(node: Node, pod: Pod) -> Iterator[Shape]:
    """Less of what all pods together ask too much of, in the container that asks for most."""
    room = node.room or {}
    requests = pod_requests(pod, node.settings)
    shape: dict[str, dict[str, int]] = {}
    for name, request in requests.items():
        used = sum(held.requests.get(name, 0) for held in node.state.pods.values())
        excess = request + used - room[name] if name in room else 0
        container = _container(pod, None, name) if excess > 0 else None
        if container is not None:
            amount = container.requests[name]
            left = (amount.milli - excess) // 1000 if name == "cpu" else amount.whole - excess
            if left <= 0:
                return
            shape.setdefault(container.name, {})[name] = left
    if shape:
        yield shape


def _with(pod: Pod, shape: Shape) -> Pod:
    """The pod with other amounts in containers."""

    def changed(container: Container) -> Container:
        amounts = {name: _quantity(name, number) for name, number in shape.get(container.name, {}).items()}
        limits = {name: own for name, own in amounts.items() if name in container.limits}
        return msgspec.structs.replace(
            container, requests={**container.requests, **amounts}, limits={**container.limits, **limits}
        )

    return msgspec.structs.replace(pod, containers=tuple(changed(each) for each in pod.containers))


def _quantity(name: str, number: int) -> Quantity:
    return Quantity(number, "BinarySI" if is_memory(name) else "DecimalSI")


def _as_advice(now: Node, pod: Pod, shape: Shape) -> Advice:
    requests = {
        container: {name: str(_quantity(name, number)) for name, number in amounts.items()}
        for container, amounts in shape.items()
    }
    words = [
        ", ".join(f"{name}: {text}" for name, text in amounts.items())
        + (f" in container {container}" if len(pod.containers) > 1 else "")
        for container, amounts in requests.items()
    ]
    fits = "fits now" if admits(now, _with(pod, shape)) else "would fit the empty node"
    return Advice("request", f"{fits} with {', '.join(words)}", requests=requests)


def _orders(node: Node, pod: Pod) -> Iterator[Advice]:
    """The first other order of the app containers in which they fit: with scope container each takes what it finds."""
    apps = [each for each in pod.containers if not each.init]
    if node.settings.topology_scope != "container" or not 1 < len(apps) <= _MOST_ORDERED:
        return
    init = [each for each in pod.containers if each.init]
    for some in permutations(apps):
        if admits(node, msgspec.structs.replace(pod, containers=(*init, *some))):
            names = ", ".join(each.name for each in some)
            yield Advice("order", f"fits with the containers in the order {names}", value=names)
            return


def _policies(node: Node, pod: Pod) -> Iterator[Advice]:
    """The first looser policy, and the other scope, that take the pod."""
    policy, scope = node.settings.topology_policy, node.settings.topology_scope
    for looser in _LOOSER.get(policy, ()):
        if _starts(node.under(looser, scope)) and admits(node.under(looser, scope), pod):
            yield Advice("policy", f"topologyManagerPolicy: {looser} would take it", value=looser)
            break
    if policy != "none" and len(pod.containers) > 1 and admits(node.under(policy, _SCOPES[scope]), pod):
        other = _SCOPES[scope]
        yield Advice("scope", f"topologyManagerScope: {other} would take it", value=other)


def _starts(node: Node) -> bool:
    return not problems(node.settings, node.view)


def _ends(node: Node, pod: Pod) -> Iterator[Advice]:
    """Pods each of which would make room by itself; else how few would do, the latest first."""
    alone = [key for key in list(node.state.pods)[:_MOST_PODS] if admits(_without(node, (key,)), pod)]
    if alone:
        names = few([key.removeprefix("default/") for key in alone])
        which = f"any of these pods ends: {names}" if len(alone) > 1 else f"pod {names} ends"
        yield Advice("pod", f"fits when {which}", value=alone[0])
        return
    keys = [
        key
        for key, held in reversed(list(node.state.pods.items()))
        if held.cpus or held.memory or any(held.devices.values())
    ]
    for number in range(2, len(keys) + 1):
        if admits(_without(node, keys[:number]), pod):
            needed = list(keys[:number])
            for key in keys[:number]:
                if len(needed) > 1 and admits(_without(node, [each for each in needed if each != key]), pod):
                    needed.remove(key)
            names = few([key.removeprefix("default/") for key in needed])
            yield Advice("pod", f"fits when these pods have ended: {names}", value=needed[0])
            return


def _without(node: Node, keys: Iterable[str]) -> Node:
    left = node.copy()
    for key in keys:
        left.remove(key)
    return left
