"""What comes after the managers: does the pod fit what the node has for all pods, and does the kubelet take its kind?

Source: pkg/kubelet/lifecycle (predicate.go, handlers.go) and the scheduler's plugin NodeResourcesFit, 1.27 to 1.37.
What the machine and the configuration do not tell is not looked at: node selectors, taints, ephemeral storage, sysctls,
AppArmor, pressure on the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numalign.admission.pod import Pod
from numalign.admission.refusal import Refused
from numalign.kubelet.allocatable import allocatable
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.quantity import Quantity

__all__ = ["MAX_PODS", "check_after", "check_before", "check_fit", "most_pods", "room"]

MAX_PODS = 110
"""The kubelet's default for maxPods."""

_ORDER = ("cpu", "memory")
_OS_LABEL = "kubernetes.io/os"
_OS_FIRST_SINCE = 29
_SIDECAR_GATE = range(28, 33)
_POD_LEVEL_CHECKED_SINCE = 34


def room(settings: Settings, view: KubeletView, devices: Mapping[str, int], max_pods: int) -> dict[str, int]:
    """What all pods together can have: thousandths of CPUs, bytes, healthy devices of each resource, pods."""
    found = {"pods": max_pods, **devices}
    for row in allocatable(settings, view).resources:
        amount = Quantity.parse(row.allocatable)
        found[row.resource] = amount.milli if row.resource == "cpu" else amount.whole
    return found


def most_pods(values: Mapping[str, Any], view: KubeletView) -> int:
    """How many pods a configuration lets on a machine: maxPods, or less by podsPerCore, which counts CPUs."""
    most: int = values.get("maxPods", MAX_PODS)
    each: int = values.get("podsPerCore", 0)
    return min(most, each * len(view.cpus)) if each > 0 else most


def check_before(pod: Pod, settings: Settings) -> None:
    """Raises Refused where the kubelet does not look at the pod's requests for another reason."""
    if settings.minor in _SIDECAR_GATE and not settings.enabled("SidecarContainers"):
        for container in pod.containers:
            if container.restartable:
                what = f'Init container "{container.name}" may not have a non-default restartPolicy'
                raise Refused("InitContainerRestartPolicyForbidden", what)
    if settings.minor >= _OS_FIRST_SINCE:
        _check_os(pod)


def check_after(pod: Pod, settings: Settings) -> None:
    """Raises Refused where the kubelet does not take a pod that fits."""
    if settings.minor < _OS_FIRST_SINCE:
        _check_os(pod)
    if settings.minor >= _POD_LEVEL_CHECKED_SINCE and pod.has_pod_level and not settings.enabled("PodLevelResources"):
        raise Refused("PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled")


def _check_os(pod: Pod) -> None:
    if pod.labels.get(_OS_LABEL, "linux") != "linux":
        what = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        raise Refused("PodOSSelectorNodeLabelDoesNotMatch", what)
    if pod.os not in (None, "linux"):
        raise Refused("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")


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
