"""A pod as the kubelet's managers see it: containers in their order, requests and limits, QoS class.

Source: pkg/apis/core/v1/helper/qos, k8s.io/component-helpers/resource and pkg/apis/core/v1/defaults.go, 1.27 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from numalign.kubelet.settings import Settings
from numalign.quantity import Quantity

__all__ = [
    "Amounts",
    "Container",
    "Pod",
    "PodLevel",
    "amounts",
    "has_sidecars",
    "is_guaranteed",
    "pod_level",
    "pod_of",
    "pod_requests",
    "running_total",
]

Amounts = Mapping[str, Quantity]
"""Quantities by resource."""

_SIDECARS_SINCE = 29
_POD_LEVEL_SINCE = 32
_SKIPPED_SINCE = 34
_MANAGED_SINCE = 36
_GUARANTEED = frozenset(("cpu", "memory"))


class Container(msgspec.Struct, frozen=True):
    """A container; `restartable` init containers are sidecars."""

    name: str
    requests: Amounts
    limits: Amounts
    init: bool = False
    restartable: bool = False


class Pod(msgspec.Struct, frozen=True):
    """A pod after the API server's defaults: its containers in the order in which the kubelet goes through them (init
    containers first), and what it asks for as a whole, None where it does not. Pod-level resources that are there and
    empty (`resources: {}`) ask for nothing, and yet make the QoS class."""

    name: str
    containers: tuple[Container, ...]
    requests: Amounts | None = None
    limits: Amounts | None = None
    namespace: str = "default"
    overhead: Amounts = {}
    os: str | None = None
    labels: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        """The pod's name on a node."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_pod_level(self) -> bool:
        """Whether it has pod-level resources that count as such (IsPodLevelResourcesSet)."""
        return any(_of_a_pod(name) for name in (*(self.requests or ()), *(self.limits or ())))


class PodLevel(msgspec.Struct, frozen=True):
    """How a version takes a pod's pod-level resources: they are `known` (and make the QoS class), the CPU and memory
    managers leave the pod alone (`skipped`), or give it what it asks for as a whole (`managed`)."""

    known: bool
    skipped: bool
    managed: bool


def pod_of(
    name: str, spec: Mapping[str, Any], *, namespace: str = "default", labels: Mapping[str, str] | None = None
) -> Pod:
    """The pod of a PodSpec, with the defaults that the API server sets: a limit without a request is the request too.
    Raises ValueError where an amount is no quantity."""
    containers = (
        *(_container(entry, init=True) for entry in spec.get("initContainers") or ()),
        *(_container(entry) for entry in spec.get("containers") or ()),
    )
    whole = spec.get("resources")
    pod = Pod(
        name=name,
        containers=containers,
        requests=amounts(whole.get("requests")) if whole is not None else None,
        limits=amounts(whole.get("limits")) if whole is not None else None,
        namespace=namespace,
        overhead=amounts(spec.get("overhead")),
        os=(spec.get("os") or {}).get("name"),
        labels=labels or {},
    )
    return _with_pod_defaults(pod) if pod.has_pod_level else pod


def amounts(written: Mapping[str, Any] | None) -> dict[str, Quantity]:
    """Quantities in the canonical form in which the API server hands them to the kubelet (`1536Mi` for `1.5Gi`)."""
    parsed = {name: Quantity.parse(str(text)) for name, text in (written or {}).items()}
    return {name: found if found.is_int64 else Quantity.parse(str(found)) for name, found in parsed.items()}


def has_sidecars(settings: Settings) -> bool:
    """Whether the managers know restartable init containers; otherwise they are init containers like others."""
    return settings.minor >= _SIDECARS_SINCE


def pod_level(pod: Pod, settings: Settings) -> PodLevel:
    """How the version takes the pod-level resources of a pod."""
    known = settings.minor >= _POD_LEVEL_SINCE and settings.enabled("PodLevelResources") and pod.requests is not None
    if not known or not pod.has_pod_level:
        return PodLevel(known=known, skipped=False, managed=False)
    managed = settings.minor >= _MANAGED_SINCE and settings.enabled("PodLevelResourceManagers")
    return PodLevel(known=True, skipped=settings.minor >= _SKIPPED_SINCE and not managed, managed=managed)


def is_guaranteed(pod: Pod, level: PodLevel) -> bool:
    """Whether the pod's QoS class is Guaranteed: CPU and memory limits everywhere, and requests equal to them."""
    if level.known:
        parts = [(pod.requests or {}, pod.limits or {})]
        if not parts[0][1]:
            return False
    else:
        parts = [(container.requests, container.limits) for container in pod.containers]
    if not all(_positive(limits).keys() >= _GUARANTEED for _, limits in parts):
        return False
    return _total(requests for requests, _ in parts) == _total(limits for _, limits in parts)


def running_total(containers: Iterable[tuple[Mapping[str, int], bool, bool]]) -> dict[str, int]:
    """What a pod needs at most at once: of amounts, whether an init container and whether a sidecar, in order. A plain
    init container runs beside the sidecars before it, all others run together."""
    lasting: dict[str, int] = {}
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for wanted, init, sidecar in containers:
        if init and not sidecar:
            for name, amount in wanted.items():
                peak[name] = max(peak.get(name, 0), beside.get(name, 0) + amount)
            continue
        for name, amount in wanted.items():
            lasting[name] = lasting.get(name, 0) + amount
            if init:
                beside[name] = beside.get(name, 0) + amount
    return {name: max(lasting.get(name, 0), peak.get(name, 0)) for name in {**peak, **lasting}}


def pod_requests(pod: Pod, settings: Settings) -> dict[str, int]:
    """What the pod counts for on its node: thousandths of CPUs, whole units of all else (PodRequests)."""
    sidecars = has_sidecars(settings)
    found = running_total(
        (_counted(container.requests), container.init, container.restartable and sidecars)
        for container in pod.containers
    )
    if pod_level(pod, settings).known:
        found.update({name: amount for name, amount in _counted(pod.requests or {}).items() if _of_a_pod(name)})
    for name, amount in _counted(pod.overhead).items():
        found[name] = found.get(name, 0) + amount
    return found


def _container(entry: Mapping[str, Any], *, init: bool = False) -> Container:
    resources = entry.get("resources") or {}
    limits = amounts(resources.get("limits"))
    return Container(
        name=entry["name"],
        requests={**limits, **amounts(resources.get("requests"))},
        limits=limits,
        init=init,
        restartable=init and entry.get("restartPolicy") == "Always",
    )


def _with_pod_defaults(pod: Pod) -> Pod:
    """The pod with the pod-level resources that the API server sets since 1.34: limits of huge pages as those of the
    containers; where there are limits, requests for CPU and memory as the containers', and as the limits otherwise."""
    requests, limits = dict(pod.requests or {}), dict(pod.limits or {})
    for name, amount in _together(pod, [container.limits for container in pod.containers]).items():
        if _is_huge_pages(name) and name not in requests:
            limits.setdefault(name, amount)
    if limits:
        for name, amount in _together(pod, [container.requests for container in pod.containers]).items():
            if name in _GUARANTEED:
                requests.setdefault(name, amount)
        for name, amount in limits.items():
            if _of_a_pod(name):
                requests.setdefault(name, amount)
    return msgspec.structs.replace(pod, requests=requests, limits=limits)


def _together(pod: Pod, parts: Sequence[Amounts]) -> dict[str, Quantity]:
    """What amounts of each container are for the pod at once."""
    thousandths = running_total(
        ({name: amount.milli for name, amount in part.items()}, container.init, container.restartable)
        for container, part in zip(pod.containers, parts, strict=True)
    )
    return {
        name: Quantity(Fraction(amount, 1000), "DecimalSI" if name == "cpu" else "BinarySI")
        for name, amount in thousandths.items()
    }


def _of_a_pod(resource: str) -> bool:
    return resource in _GUARANTEED or _is_huge_pages(resource)


def _is_huge_pages(resource: str) -> bool:
    return resource.startswith("hugepages-")


def _counted(wanted: Amounts) -> dict[str, int]:
    return {name: amount.milli if name == "cpu" else amount.whole for name, amount in wanted.items()}


def _positive(wanted: Amounts) -> dict[str, Quantity]:
    return {name: wanted[name] for name in _GUARANTEED if name in wanted and wanted[name].value.numerator > 0}


def _total(parts: Iterable[Amounts]) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in _positive(part).items():
            found[name] = found[name] + amount.value if name in found else amount.value
    return found
