"""What changes for a configuration when its kubelet becomes one of another version: the same is judged under both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from numalign.checks import judge, judge_refused
from numalign.checks.finding import Finding, Node
from numalign.kubelet.document import Document, Refused
from numalign.kubelet.settings import Settings, settings
from numalign.kubelet.versions import CPU_OPTIONS, OLDEST, TOPOLOGY_OPTIONS, Gate, Group, gates, known_gates, options

__all__ = ["GateChange", "OptionChange", "Upgrade", "ValueChange", "upgrade"]

_VALUES = {
    # what of the settings a version can decide by itself -> the field
    "cpu_policy": "cpuManagerPolicy",
    "topology_policy": "topologyManagerPolicy",
    "topology_scope": "topologyManagerScope",
    "memory_policy": "memoryManagerPolicy",
    "enforce": "enforceNodeAllocatable",
    "eviction_hard": "evictionHard",
    "swap_behavior": "memorySwap.swapBehavior",
}


class GateChange(msgspec.Struct, frozen=True, rename="camel"):
    """A feature gate that another version turns on or off, or that the configuration names and that changes its stage.
    `before` and `after` are null where the version has no such gate; what it is about can be on all the same."""

    name: str
    named: bool
    before: Gate | None
    after: Gate | None
    on_before: bool
    on_after: bool


class OptionChange(msgspec.Struct, frozen=True, rename="camel"):
    """A policy option that moves to another group, comes or goes; `used` where the configuration has it."""

    name: str
    field: str
    used: bool
    before: Group | None
    after: Group | None


class ValueChange(msgspec.Struct, frozen=True):
    """A field that has another value though nothing was written."""

    field: str
    before: str
    after: str


class Upgrade(msgspec.Struct, frozen=True, rename="camel"):
    """What the checks find under the one version and not under the other, and what the versions themselves change.
    `gates` and `values` are empty where one of the two does not load the configuration."""

    api_version: str
    kind: Literal["KubeletUpgrade"]
    machine: str | None
    config: str
    from_version: str
    to_version: str
    comes: tuple[Finding, ...]
    goes: tuple[Finding, ...]
    stays: int
    gates: tuple[GateChange, ...]
    options: tuple[OptionChange, ...]
    values: tuple[ValueChange, ...]

    @property
    def holds(self) -> bool:
        """Whether no error comes."""
        return not any(finding.severity == "error" for finding in self.comes)


def upgrade(node: Node, load: Callable[[int], Document | Refused], source: str, before: int, after: int) -> Upgrade:
    """What changes for a node whose configuration is loaded by `load` in each of two minor versions."""
    loaded = {minor: load(minor) for minor in (before, after)}
    old, new = (_findings(node, loaded[minor], source, minor) for minor in (before, after))
    known = {
        minor: settings(document.values, minor) for minor, document in loaded.items() if isinstance(document, Document)
    }
    both = (known[before], known[after]) if len(known) == 2 else None
    return Upgrade(
        api_version="numalign/v1",
        kind="KubeletUpgrade",
        machine=node.machine.name,
        config=source,
        from_version=f"1.{before}",
        to_version=f"1.{after}",
        comes=_without(new, old),
        goes=_without(old, new),
        stays=len(new) - len(_without(new, old)),
        gates=tuple(_gates(*both)) if both else (),
        options=tuple(_options(next(iter(known.values()), None), before, after)),
        values=tuple(_values(*both)) if both else (),
    )


def _findings(node: Node, loaded: Document | Refused, source: str, minor: int) -> tuple[Finding, ...]:
    if isinstance(loaded, Refused):
        return judge_refused(node, loaded, source, minor).findings
    return judge(node, loaded, minor).findings


def _without(findings: tuple[Finding, ...], others: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Those of which there is none of the same id at the same place among the others, whose words may differ."""
    left = Counter(map(_key, others))
    found = []
    for finding in findings:
        if left[_key(finding)]:
            left[_key(finding)] -= 1
        else:
            found.append(finding)
    return tuple(found)


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.id, finding.severity, finding.place


def _gates(old: Settings, new: Settings) -> Iterator[GateChange]:
    """The gates around CPUs, memory, topology and devices, and those that the configuration names."""
    named = {*old.feature_gates, *new.feature_gates}
    for name in sorted({*gates(old.minor), *gates(new.minor), *named}):
        before, after = known_gates(old.minor).get(name), known_gates(new.minor).get(name)
        on = _is_on(old, name), _is_on(new, name)
        if on[0] != on[1] or (name in named and before != after):
            yield GateChange(name, name in named, before, after, *on)


def _is_on(settings: Settings, name: str) -> bool:
    """Whether what a gate is about is on: also where it came to stay, and the version has no gate for it any more."""
    if name in known_gates(settings.minor):
        return settings.enabled(name)
    earlier = (known_gates(minor).get(name) for minor in range(settings.minor, OLDEST - 1, -1))
    last = next((gate for gate in earlier if gate is not None), None)
    return last is not None and last.stage == "GA" and last.default


def _options(wanted: Settings | None, before: int, after: int) -> Iterator[OptionChange]:
    used = {*((wanted and wanted.cpu_options) or {}), *((wanted and wanted.topology_options) or {})}
    for field in (CPU_OPTIONS, TOPOLOGY_OPTIONS):
        old, new = options(field, before), options(field, after)
        for name in dict.fromkeys((*old, *new)):
            if old.get(name) != new.get(name):
                yield OptionChange(name, field, name in used, old.get(name), new.get(name))


def _values(old: Settings, new: Settings) -> Iterator[ValueChange]:
    for name, field in _VALUES.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield ValueChange(field, _written(before), _written(after))


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
