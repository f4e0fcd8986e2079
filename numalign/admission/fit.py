"""What comes after the managers: does the pod fit what the node has for pods in all?

Source: pkg/kubelet/lifecycle/predicate.go and the scheduler's plugin NodeResourcesFit, 1.27 to 1.37. Node selectors,
taints and ephemeral storage are not looked at: they are no part of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numalign.admission.refusal import Refused
from numalign.kubelet.allocatable import allocatable
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.quantity import Quantity

__all__ = ["MAX_PODS", "check_fit", "room"]

MAX_PODS = 110
"""The kubelet's default for maxPods."""

_ORDER = ("cpu", "memory")


def room(settings: Settings, view: KubeletView, devices: Mapping[str, int], max_pods: int) -> dict[str, int]:
    """What all pods together can have: thousandths of CPUs, bytes, healthy devices of each resource, pods."""
    found = {"pods": max_pods, **devices}
    for row in allocatable(settings, view).resources:
        amount = Quantity.parse(row.allocatable)
        found[row.resource] = amount.milli if row.resource == "cpu" else amount.whole
    return found


def check_fit(room: Mapping[str, int], others: Iterable[Mapping[str, int]], wanted: Mapping[str, int]) -> None:
    """Raises Refused where the pod's requests and those of the others are more than the node has. Extended resources
    that the node does not have are not looked at."""
    others = list(others)
    if len(others) + 1 > room["pods"]:
        raise _out_of("pods", 1, len(others), room["pods"])
    for name in (*_ORDER, *sorted(wanted.keys() - set(_ORDER))):
        request = wanted.get(name, 0)
        if not request or (name not in room and not name.startswith("hugepages-")):
            continue
        used, capacity = sum(other.get(name, 0) for other in others), room.get(name, 0)
        if request > capacity - used:
            raise _out_of(name, request, used, capacity)


def _out_of(name: str, requested: int, used: int, capacity: int) -> Refused:
    what = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Refused(f"OutOf{name}", what)
