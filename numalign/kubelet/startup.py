"""The start on a machine: reserved CPUs, reservations, eviction thresholds, then the managers, in the kubelet's order.

Source: cmd/kubelet/app/server.go, pkg/kubelet/eviction/helpers.go, pkg/kubelet/cm/container_manager_linux.go and
pkg/kubelet/cm/{topologymanager,cpumanager,memorymanager}, 1.27 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.document import nanoseconds
from numalign.kubelet.fields import closest
from numalign.kubelet.gojson import quoted
from numalign.kubelet.other_rules import LOGS_AT_START, QOS_AT_START
from numalign.kubelet.problem import Problem, Rule
from numalign.kubelet.settings import (
    BOOLEANS,
    NO_THRESHOLD,
    Settings,
    capacity,
    go_atoi,
    go_percentage,
    is_memory,
    reservation,
)
from numalign.kubelet.static_cpus import counted_cpus
from numalign.kubelet.versions import CPU_OPTIONS, GROUP_GATES, TOPOLOGY_OPTIONS, options
from numalign.kubelet.view import KubeletView
from numalign.quantity import Endless, Quantity

__all__ = ["EXCLUSIVE_OPTIONS", "MAX_NUMA_NODES", "SLOW_MEMORY_NODES", "START_RULES", "stops_before_managers"]

MAX_NUMA_NODES = 8
SLOW_MEMORY_NODES = 16
"""NUMA nodes from which the static memory manager is slow (measured: 0.3 s a pod, doubling with each)."""
_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
# Eviction signals, and the version from which they are known.
_SIGNALS = {
    "memory.available": 27,
    "allocatableMemory.available": 27,
    "nodefs.available": 27,
    "nodefs.inodesFree": 27,
    "imagefs.available": 27,
    "imagefs.inodesFree": 27,
    "pid.available": 27,
    "containerfs.available": 29,
    "containerfs.inodesFree": 29,
}
_MIB = 1 << 20
_PARSE_QUANTITY = "failed to parse quantity"
_ENDLESS = "the kubelet never"

# Options that exclude each other, the version from which they do, and in this order.
EXCLUSIVE_OPTIONS = (
    ("full-pcpus-only", "distribute-cpus-across-cores", 31),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores", 31),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores", 32),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa", 32),
)


def _reserved_cpus_online(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    reserved, online = settings.listed_cpus, view.cpus
    if not reserved <= online:
        kept = reserved & online
        yield _start(
            "reserved-cpus-offline",
            f"reserved-cpus: {settings.reserved_cpus} is not a subset of online-cpus: {online}",
            "reservedSystemCPUs",
            remedy=f'write reservedSystemCPUs: "{kept}"' if kept else None,
        )


def _reservations(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    for flag, field, amounts in (
        ("--kube-reserved", "kubeReserved", settings.kube_reserved),
        ("--system-reserved", "systemReserved", settings.system_reserved),
    ):
        for name, text in amounts.items():
            if name == "cpu" and settings.reserved_cpus:
                continue  # overwritten before it is parsed
            wrong = _wrong_reservation(name, text)
            if wrong is not None:
                message = wrong if wrong.startswith(_ENDLESS) else f"{flag} value failed to parse: {wrong}"
                yield _start("reservation-unusable", message, field, name, remedy=_meant(name, text))


_BYTES = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([kKMGTPE])(i?)[bB]")
"""An amount of memory as people write it, which is no quantity."""


def _meant(name: str, text: str) -> str | None:
    """The quantity that `4GiB` and the like most likely mean."""
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2] if found[2] != "k" and found[2] != "K" else "K" if found[3] else "k"
    return f"write {name}: {found[1]}{unit}{found[3]}"


def _wrong_reservation(name: str, text: str) -> str | None:
    if name not in _RESERVABLE:
        return f"cannot reserve {quoted(name)} resource"
    try:
        amount = Quantity.parse(text)
    except Endless as error:
        return str(error)
    except ValueError as error:
        return f"{_PARSE_QUANTITY} {quoted(text)} for {quoted(name)} resource: {error}"
    return f"resource quantity for {quoted(name)} cannot be negative: {text}" if amount.value < 0 else None


def _eviction(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    yield from _thresholds("evictionHard", settings.eviction_hard, settings.minor)


def _soft_eviction(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    """Soft thresholds and what belongs to them come last: the kubelet reads them after its managers are made."""
    yield from _thresholds("evictionSoft", settings.eviction_soft, settings.minor)
    for signal, text in settings.eviction_grace.items():
        wrong = _wrong_signal(signal, settings.minor) or _wrong_grace_period(text)
        if wrong is not None:
            yield _start("eviction-grace-period", wrong, "evictionSoftGracePeriod", signal)
    for signal, text in settings.eviction_reclaim.items():
        wrong = _wrong_signal(signal, settings.minor) or _wrong_reclaim(signal, text)
        if wrong is not None:
            yield _start("eviction-minimum-reclaim", wrong, "evictionMinimumReclaim", signal)
    for signal, text in settings.eviction_soft.items():
        if text not in NO_THRESHOLD and signal not in settings.eviction_grace:
            message = f"grace period must be specified for the soft eviction threshold {signal}"
            remedy = f"write evictionSoftGracePeriod: {{{signal}: 1m30s}}"
            yield _start("eviction-grace-period", message, "evictionSoft", signal, remedy=remedy)


def _thresholds(field: str, thresholds: Mapping[str, str], minor: int) -> Iterator[Problem]:
    for signal, text in thresholds.items():
        wrong = _wrong_signal(signal, minor) or _wrong_threshold(signal, text)
        if wrong is not None:
            yield _start("eviction-threshold", wrong, field, signal)


def _wrong_signal(signal: str, minor: int) -> str | None:
    return None if minor >= _SIGNALS.get(signal, minor + 1) else f"unsupported eviction signal {signal}"


def _wrong_threshold(signal: str, text: str) -> str | None:
    if text in NO_THRESHOLD:
        return None
    try:
        if text.endswith("%"):
            fraction = go_percentage(text)
            if fraction < 0:
                return f"eviction percentage threshold {signal} must be >= 0%: {text}"
            return f"eviction percentage threshold {signal} must be <= 100%: {text}" if fraction > 1 else None
        amount = Quantity.parse(text)
    except ValueError as error:
        return str(error)
    return f"eviction threshold {signal} must be positive: {amount}" if amount.value <= 0 else None


def _wrong_grace_period(text: str) -> str | None:
    try:
        if nanoseconds(text) >= 0:
            return None
    except ValueError as error:
        return str(error)
    return f"invalid eviction grace period specified: {text}, must be a positive value"


def _wrong_reclaim(signal: str, text: str) -> str | None:
    try:
        if text.endswith("%"):
            wrong = f"eviction percentage minimum reclaim {signal} must be positive: {text}"
            return wrong if go_percentage(text) <= 0 else None
        return f"negative eviction minimum reclaim specified for {signal}" if Quantity.parse(text).value < 0 else None
    except ValueError as error:
        return str(error)


def _topology_manager(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    field, given = TOPOLOGY_OPTIONS, settings.topology_options
    if given is not None and not settings.enabled("TopologyManagerPolicyOptions"):
        shown = " ".join(f"{name}:{given[name]}" for name in sorted(given))
        message = (
            f'topology manager policy options map[{shown}] require feature gates "TopologyManagerPolicyOptions" enabled'
        )
        remedy = "write featureGates: {TopologyManagerPolicyOptions: true}, or take the options out"
        yield _start("topology-options-gate", message, field, remedy=remedy)
        return
    if settings.topology_policy == "none":
        return
    yield from _unavailable(settings, field, given or {}, "Topology Manager")
    for name, value in (given or {}).items():
        if name == "prefer-closest-numa-nodes" and value not in BOOLEANS:
            yield _start("topology-option-value", _bad_bool(name, value), field, name, remedy=f'write {name}: "true"')
    limit = (given or {}).get("max-allowable-numa-nodes")
    allowed = MAX_NUMA_NODES
    name = "max-allowable-numa-nodes"
    if limit is not None and settings.minor >= 31:
        wanted = f'write {name}: "{max(len(view.nodes), MAX_NUMA_NODES)}"'
        try:
            allowed = go_atoi(limit)
        except ValueError as error:
            message = f"unable to convert policy option to integer {quoted(name)}: {error}"
            yield _start("topology-option-value", message, field, name, remedy=wanted)
            return
        if allowed < MAX_NUMA_NODES:
            message = f"the minimum value of {quoted(name)} should not be less than {MAX_NUMA_NODES}"
            yield _start("topology-option-value", message, field, name, remedy=wanted)
            return
    if len(view.nodes) > allowed:
        remedy = f'write topologyManagerPolicyOptions: {{{name}: "{len(view.nodes)}"}}, Kubernetes 1.31 or newer'
        message = f"unsupported on machines with more than {allowed} NUMA Nodes"
        yield _start("numa-node-limit", message, field if limit is not None else "topologyManagerPolicy", remedy=remedy)


def _cpu_options_gate(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    """Before 1.33 the options have a feature gate of their own; without it not even an empty map may be there
    (cmd/kubelet/app/server.go)."""
    given = settings.cpu_options
    if given is not None and not settings.enabled("CPUManagerPolicyOptions"):
        shown = " ".join(f"{name}:{given[name]}" for name in sorted(given))
        yield _start(
            "cpu-options-gate",
            f'CPU Manager policy options map[{shown}] require feature gates "CPUManager", "CPUManagerPolicyOptions" '
            "enabled",
            CPU_OPTIONS,
            remedy="write featureGates: {CPUManagerPolicyOptions: true}, or take the options out",
        )


def _cpu_manager(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    policy, field, given = settings.cpu_policy, "cpuManagerPolicy", settings.cpu_options
    if policy == "none" and given:
        shown = " ".join(f"{name}:{given[name]}" for name in sorted(given))
        message = f"new none policy error: None policy: received unsupported options=map[{shown}]"
        yield _start("cpu-options-without-static", message, CPU_OPTIONS, remedy="write cpuManagerPolicy: static")
    elif policy not in ("none", "static"):
        message = f"unknown policy: {quoted(policy)}"
        yield _start("cpu-policy-unknown", message, field, remedy="write cpuManagerPolicy: static")
    elif policy == "static":
        yield from _static_policy(settings, view)


def _static_policy(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    kept = reservation(settings, view).get("cpu")
    if kept is None:
        first = next((core.cpus for node in view.nodes for core in node.cores), CpuSet((0,)))
        yield _start(
            "reserved-cpus-missing",
            "[cpumanager] unable to determine reserved CPU resources for static policy",
            "cpuManagerPolicy",
            remedy=f'write reservedSystemCPUs: "{first}", or what numalign render kubelet-config writes',
        )
        return
    wrap = "new static policy error: "
    given = settings.cpu_options or {}
    for problem in _unavailable(settings, CPU_OPTIONS, given, "CPU Manager"):
        yield msgspec.structs.replace(problem, message=wrap + problem.message)
    for name, value in given.items():
        if value not in BOOLEANS:
            yield _start(
                "cpu-option-value", wrap + _bad_bool(name, value), CPU_OPTIONS, name, remedy=f'write {name}: "true"'
            )
    for one, other, since in EXCLUSIVE_OPTIONS:
        if settings.minor >= since and settings.option(one) and settings.option(other):
            message = f"{wrap}static policy options {one} and {other} can not be used at the same time"
            yield _start("cpu-options-exclusive", message, CPU_OPTIONS, other, remedy=f"take out {one} or {other}")
    if settings.option("align-by-socket"):
        name = "align-by-socket"
        if settings.topology_policy == "single-numa-node":
            message = (
                f"{wrap}Topolgy manager single-numa-node policy is incompatible with CPUManager {name} policy option"
            )
            remedy = f"take {name} out, or write topologyManagerPolicy: restricted"
            yield _start("align-by-socket", message, CPU_OPTIONS, name, remedy=remedy)
        if view.sockets > len(view.nodes):
            message = f"{wrap}Align by socket is not compatible with hardware where number of sockets are more than "
            yield _start("align-by-socket", message + "number of NUMA", CPU_OPTIONS, name, remedy=f"take {name} out")
    wanted, taken = counted_cpus(settings, view)
    if not settings.listed_cpus and len(taken) != wanted:
        message = f"{wrap}[cpumanager] unable to reserve the required amount of CPUs (size of {taken} did not equal "
        message += f"{wanted})"
        fewer = f"reserve fewer than {len(view.cpus)} CPUs"
        remedy = fewer if wanted > len(view.cpus) else "write reservedSystemCPUs"
        yield _start("reserved-cpus-too-many", message, "kubeReserved", remedy=remedy)


def _unavailable(settings: Settings, field: str, given: Mapping[str, str], manager: str) -> Iterator[Problem]:
    """Options that the version does not have, or whose group is not open."""
    known = options(field, settings.minor)
    for name in given:
        group = known.get(name)
        if group is None:
            message = f"unknown {manager} Policy option: {quoted(name)}"
            near = closest(name, known, 0.75)
            remedy = f'write {near}: "{given[name]}"' if near else f"take {name} out"
            yield _start("policy-option-unknown", message, field, name, remedy=remedy)
            continue
        gate = GROUP_GATES[field].get(group)
        if gate is not None and not settings.enabled(gate):
            words = f"{manager} Policy {group.capitalize()}-level Options not enabled"
            if manager.startswith("Topology") and settings.minor >= 33:
                words = words.lower()
            message = f"{words}, but option {quoted(name)} provided"
            yield _start("policy-option-gate", message, field, name, remedy=f"write featureGates: {{{gate}: true}}")


def _memory_manager(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    policy, field = settings.memory_policy, "memoryManagerPolicy"
    if policy == "None":
        return
    if policy == "BestEffort" and settings.minor >= 32:
        yield _start("memory-policy-unknown", 'policy "BestEffort" is not available for platform "linux"', field)
        return
    if policy != "Static":
        near = next((name for name in ("None", "Static") if name.lower() == policy.lower()), "Static")
        yield _start(
            "memory-policy-unknown", f"unknown policy: {quoted(policy)}", field, remedy=f"write {field}: {near}"
        )
        return
    known = {node.id for node in view.nodes}
    totals: dict[str, Quantity] = {}
    for position, (node, limits) in enumerate(settings.reserved_memory):
        if node not in known:
            message = (
                f"the reserved memory configuration references a NUMA node {node} that does not exist on this machine"
            )
            yield _start("reserved-memory-node", message, "reservedMemory", position, "numaNode")
            return
        for name, amount in limits.items():
            totals[name] = amount + totals.get(name, Quantity())
    wanted = {name: amount for name, amount in reservation(settings, view).items() if is_memory(name)}
    for name in sorted({*totals, *wanted}):
        have, want = totals.get(name, Quantity()), wanted.get(name, Quantity())
        if have != want:
            message = f'the total amount "{have}" of type {quoted(name)} is not equal to the value "{want}" '
            yield _start(
                "reserved-memory-sum",
                message + "determined by Node Allocatable feature",
                "reservedMemory",
                remedy=_sum_remedy(settings, view, name, have, want),
            )
    for position, (_, limits) in enumerate(settings.reserved_memory):
        for name, amount in limits.items():
            if not amount.is_int64:
                yield _start(
                    "reserved-memory-whole",
                    "could not covert a variable of type Quantity to int64",
                    *("reservedMemory", position, "limits", name),
                    remedy=f"write {amount.whole}: whole bytes, without a decimal point",
                )
    if not totals and not wanted:
        message = "[memorymanager] you should specify the system reserved memory"
        yield _start("reserved-memory-missing", message, "reservedMemory")


def _sum_remedy(settings: Settings, view: KubeletView, name: str, have: Quantity, want: Quantity) -> str:
    if name != "memory":
        return f"take {name} out of reservedMemory: huge pages cannot be reserved"
    if want.value.denominator != 1:
        return "write kubeReserved, systemReserved and evictionHard memory.available in whole bytes"
    if not want:
        return "take the memory out of reservedMemory: nothing is kept by kubeReserved, systemReserved and evictionHard"
    by = abs(have.value - want.value)
    return (
        f"write reservedMemory: {_divided(settings, view, want)}: in all {want}, {by} bytes "
        f"{'less' if want < have else 'more'}, which is kubeReserved + systemReserved + evictionHard memory.available"
    )


def _divided(settings: Settings, view: KubeletView, total: Quantity) -> str:
    """A reservedMemory with this sum, on the NUMA nodes that have a part now, else on those of the reserved CPUs."""
    now = [node for node, limits in settings.reserved_memory if "memory" in limits]
    reserved = settings.listed_cpus or CpuSet()
    near = [node.id for node in view.nodes if node.cpus & reserved]
    nodes = list(dict.fromkeys(now)) or near or [node.id for node in view.nodes[:1]] or [0]
    part = total.whole // len(nodes) // _MIB * _MIB
    parts = [total.whole - part * (len(nodes) - 1), *[part] * (len(nodes) - 1)]
    entries = (
        f"{{numaNode: {node}, limits: {{memory: {Quantity(amount, 'BinarySI')}}}}}"
        for node, amount in zip(nodes, parts, strict=True)
        if amount
    )
    return f"[{', '.join(entries)}]"


def _allocatable(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    has = capacity(view)
    for name, amount in reservation(settings, view).items():
        unknown = name == "memory" and not view.memory_bytes  # a snapshot without /proc/meminfo
        if has[name] < amount and not unknown:
            message = (
                f'invalid Node Allocatable configuration. Resource "{name}" has a reservation of {amount} but capacity '
            )
            yield _start(
                "reservation-exceeds-capacity",
                f"{message}of {has[name]}. Expected capacity >= reservation.",
                "systemReserved",
            )


def _bad_bool(name: str, value: str) -> str:
    return f"bad value for option {quoted(name)}: strconv.ParseBool: parsing {quoted(value)}: invalid syntax"


def _start(id: str, message: str, *path: str | int, remedy: str | None = None) -> Problem:
    return Problem(id, "start", message, path, remedy)


_FIRST: tuple[Rule, ...] = (_reserved_cpus_online, _reservations, _eviction, QOS_AT_START, _cpu_options_gate)
_MANAGERS: tuple[Rule, ...] = (
    _topology_manager,
    _cpu_manager,
    _memory_manager,
    _allocatable,
    _soft_eviction,
    LOGS_AT_START,
)


def stops_before_managers(problem: Problem) -> bool:
    """Whether nothing can be said of the managers beside this problem: they compute with what it is about."""
    return problem.id == "reservation-unusable" or (
        problem.id == "eviction-threshold" and problem.path[0] != "evictionSoft"
    )


def _start_rules(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    """The managers are asked only where the reservations are usable, since they compute with them."""
    found = [problem for rule in _FIRST for problem in rule(settings, view)]
    yield from found
    if not any(map(stops_before_managers, found)):
        for rule in _MANAGERS:
            yield from rule(settings, view)


START_RULES: tuple[Rule, ...] = (_start_rules,)
