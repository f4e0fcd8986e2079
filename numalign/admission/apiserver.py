"""Why the API server would not take a pod, as far as its resources and containers go, in its own words.

Source: pkg/apis/core/validation/validation.go (ValidatePodSpec, validateResourceRequirements, validatePodResources).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from numalign.quantity import Quantity

__all__ = ["faults"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_QUALIFIED = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_OVERCOMMITTED = ("cpu", "memory", "ephemeral-storage")
_OF_A_POD = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"

Spec = Mapping[str, Any]


def faults(spec: Spec, path: str) -> list[str]:
    """What is wrong with a PodSpec whose fields are of the right types; `path` is that of the spec."""
    return [*_containers(spec, path), *_claims(spec, path), *_of_the_pod(spec, path), *_overhead(spec, path)]


def _containers(spec: Spec, path: str) -> Iterator[str]:
    if not spec.get("containers"):
        yield f"{path}.containers: Required value"
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for number, entry in enumerate(spec.get(field) or ()):
            here = f"{path}.{field}[{number}]"
            name = entry.get("name") or ""
            if not name:
                yield f"{here}.name: Required value"
            elif not _LABEL.fullmatch(name):
                yield f'{here}.name: Invalid value: "{name}": a lowercase RFC 1123 label is wanted'
            elif name in seen:
                yield f'{here}.name: Duplicate value: "{name}"'
            seen.add(name)
            policy = entry.get("restartPolicy")
            if field == "initContainers" and policy not in (None, "Always"):
                yield f'{here}.restartPolicy: Unsupported value: "{policy}": supported values: "Always"'
            yield from _resources(entry.get("resources") or {}, f"{here}.resources")


def _resources(resources: Spec, path: str) -> Iterator[str]:
    """Names, amounts, and requests beside their limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            yield from _name(name, f"{path}.{kind}")
            yield from _amount(name, text, f"{path}.{kind}[{name}]")
    for name, text in requests.items():
        request, limit = _quantity(text), _quantity(limits.get(name))
        if name not in limits:
            if name not in _OVERCOMMITTED:
                yield f"{path}.limits: Required value: Limit must be set for non overcommitable resources"
        elif request is not None and limit is not None:
            if name not in _OVERCOMMITTED and request != limit:
                yield f'{path}.requests: Invalid value: "{request}": must be equal to {name} limit of {limit}'
            elif limit < request:
                what = f"must be less than or equal to {name} limit of {limit}"
                yield f'{path}.requests: Invalid value: "{request}": {what}'
    named = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in named) and not named & set(_OF_A_POD):
        yield f"{path}: Forbidden: HugePages require cpu or memory"


def _name(name: str, path: str) -> Iterator[str]:
    if "/" not in name:
        if name not in _OVERCOMMITTED and not name.startswith(_HUGE_PAGES):
            yield f'{path}[{name}]: Invalid value: "{name}": must be a standard resource for containers'
    elif not _QUALIFIED.fullmatch(name) or name.startswith("requests."):
        yield f'{path}[{name}]: Invalid value: "{name}": doesn\'t follow extended resource name standard'


def _amount(name: str, text: Any, path: str) -> Iterator[str]:
    try:
        amount = Quantity.parse(str(text))
    except ValueError as error:
        yield f'{path}: Invalid value: "{text}": {error}'
        return
    if amount.value < 0:
        yield f'{path}: Invalid value: "{amount}": must be greater than or equal to 0'
    if name not in _OVERCOMMITTED and not name.startswith(_HUGE_PAGES) and amount.milli % 1000:
        yield f'{path}: Invalid value: "{amount}": must be an integer'


def _claims(spec: Spec, path: str) -> Iterator[str]:
    known = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
    for field in ("initContainers", "containers"):
        for number, entry in enumerate(spec.get(field) or ()):
            for position, claim in enumerate((entry.get("resources") or {}).get("claims") or ()):
                if claim.get("name") not in known:
                    where = f"{path}.{field}[{number}].resources.claims[{position}]"
                    what = "must be one of the names in pod.spec.resourceClaims"
                    yield f'{where}: Not found: "{claim.get("name") or ""}": {what}{"" if known else " which is empty"}'


def _of_the_pod(spec: Spec, path: str) -> Iterator[str]:
    """Pod-level resources beside those of the containers."""
    whole = spec.get("resources") or {}
    if not whole:
        return
    here = f"{path}.resources"
    yield from _resources(whole, here)
    for kind in ("limits", "requests"):
        for name in whole.get(kind) or {}:
            if name not in _OF_A_POD and not name.startswith(_HUGE_PAGES):
                supported = '"cpu", "hugepages-", "memory"'
                yield f'{here}.{kind}[{name}]: Unsupported value: "{name}": supported values: {supported}'
    for name, text in (whole.get("requests") or {}).items():
        together = _together(spec, "requests", name)
        amount = _quantity(text)
        if amount is not None and together > amount.value:
            what = f"must be greater than or equal to aggregate container requests of {_shown(together, amount)}"
            yield f'{here}.requests[{name}]: Invalid value: "{amount}": {what}'
    for name, text in (whole.get("limits") or {}).items():
        most = _quantity(text)
        for number, entry in enumerate(spec.get("containers") or ()):
            own = _quantity(((entry.get("resources") or {}).get("limits") or {}).get(name))
            if most is not None and own is not None and most < own:
                where = f"{here}.containers[{number}][{name}].limits"
                yield f'{where}: Invalid value: "{own}": must be less than or equal to pod limits of {most}'


def _overhead(spec: Spec, path: str) -> Iterator[str]:
    for name, text in (spec.get("overhead") or {}).items():
        yield from _amount(name, text, f"{path}.overhead[{name}]")


def _together(spec: Spec, kind: str, name: str) -> Fraction:
    """What a pod's containers ask for at most at once: a plain init container runs beside the sidecars before it."""

    def amount(entry: Spec) -> Fraction:
        resources = entry.get("resources") or {}
        text = (resources.get(kind) or {}).get(name, (resources.get("limits") or {}).get(name))
        found = _quantity(text)
        return found.value if found is not None else Fraction(0)

    init: Sequence[Spec] = spec.get("initContainers") or ()
    sidecars = peak = Fraction(0)
    for entry in init:
        if entry.get("restartPolicy") == "Always":
            sidecars += amount(entry)
        else:
            peak = max(peak, sidecars + amount(entry))
    return max(peak, sidecars + sum((amount(entry) for entry in spec.get("containers") or ()), Fraction(0)))


def _quantity(text: Any) -> Quantity | None:
    """The amount, None where there is none or it is none."""
    if text is None:
        return None
    try:
        return Quantity.parse(str(text))
    except ValueError:
        return None


def _shown(value: Fraction, like: Quantity) -> Quantity:
    return Quantity(value, like.format)
