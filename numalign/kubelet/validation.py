"""Validation: what a kubelet refuses of a configuration before it looks at the machine.

Source: k8s.io/component-base/featuregate and pkg/kubelet/apis/config/validation, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator

from numalign.kubelet.document import go_duration, go_float
from numalign.kubelet.fields import MOST_LOOKED_FOR, closest
from numalign.kubelet.gojson import quoted
from numalign.kubelet.other_rules import (
    AFTER_ENFORCE,
    AFTER_MEMORY,
    AFTER_SWAP,
    AFTER_TOPOLOGY,
    BEFORE_CFS_QUOTA,
    BEFORE_TOPOLOGY,
    LAST,
    LEASE,
    LOGGING,
)
from numalign.kubelet.problem import Problem, Rule
from numalign.kubelet.settings import Settings, is_memory, parse_cpus
from numalign.kubelet.versions import ALL_GATES_UNTIL, GROUPS_OF_GATES, dependencies, gone, known_gates
from numalign.kubelet.view import KubeletView

__all__ = ["GATE_RULES", "LOGGING_RULES", "VALIDATION_RULES"]

TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES = ("container", "pod")
_COMPRESSIBLE_SINCE = 32
_EACH_SINCE = 31
"""The version from which values of enforceNodeAllocatable are checked one by one, and for repetition."""
_UNLIMITED_SWAP_UNTIL = 29
_FACTOR_MAY_BE_MISSING_SINCE = 37
_DEFAULT_PERIOD, _SHORTEST_PERIOD, _LONGEST_PERIOD = 100_000_000, 1_000_000, 1_000_000_000


def _feature_gates(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    known, all_known = known_gates(settings.minor), settings.minor <= ALL_GATES_UNTIL
    for position, (name, value) in enumerate(settings.feature_gates.items()):
        path = ("featureGates", name)
        gate = known.get(name)
        if gate is None and name not in GROUPS_OF_GATES and (all_known or name in gone(settings.minor)):
            yield Problem(
                "feature-gate-unknown",
                "featureGates",
                f"unrecognized feature gate: {name}",
                path,
                _gate_remedy(name, settings.minor, look=position < MOST_LOOKED_FOR),
            )
        elif gate is not None and gate.locked and value != gate.default:
            default = str(gate.default).lower()
            yield Problem(
                "feature-gate-locked",
                "featureGates",
                f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {default}",
                path,
                f"take {name} out",
            )
    for name, needed in dependencies(settings.minor).items():
        missing = [gate for gate in needed if not settings.enabled(gate)]
        if missing and settings.enabled(name):
            yield Problem(
                "feature-gate-dependency",
                "featureGates",
                f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]",
                ("featureGates", missing[0]),
                f"write featureGates: {{{name}: false}} too",
            )


def _gate_remedy(name: str, minor: int, *, look: bool) -> str:
    near = closest(name, known_gates(minor), 0.85) if look and name not in gone(minor) else None
    return f"write {near}" if near else f"take {name} out: Kubernetes 1.{minor} does not have it"


def _topology_names(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    policy, scope = settings.topology_policy, settings.topology_scope
    if policy not in TOPOLOGY_POLICIES:
        listed = " ".join(f'"{name}"' for name in TOPOLOGY_POLICIES)
        yield _invalid(
            "topology-policy-unknown",
            f"topologyManagerPolicy (--topology-manager-policy) {quoted(policy)} must be one of: [{listed}]",
            "topologyManagerPolicy",
            remedy=f"write topologyManagerPolicy: {_nearest(policy, TOPOLOGY_POLICIES, 'single-numa-node')}",
        )
    if scope not in SCOPES:
        yield _invalid(
            "topology-scope-unknown",
            f'topologyManagerScope (--topology-manager-scope) {quoted(scope)} must be one of: "container", or "pod"',
            "topologyManagerScope",
            remedy=f"write topologyManagerScope: {_nearest(scope, SCOPES, 'container')}",
        )


def _nearest(name: str, names: tuple[str, ...], otherwise: str) -> str:
    """The one that a name most likely means, whatever its letters' case."""
    return closest(name.lower(), names, 0.75) or otherwise


def _enforce_at_all(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    """Before 1.31 the list as a whole needs the cgroups, `none` in it too."""
    if settings.minor < _EACH_SINCE and settings.enforce and not settings.cgroups_per_qos:
        message = "enforceNodeAllocatable (--enforce-node-allocatable) is not supported unless cgroupsPerQOS "
        message += "(--cgroups-per-qos) is set to true"
        yield _invalid("enforce-without-qos-cgroups", message, "cgroupsPerQOS", remedy="write cgroupsPerQOS: true")


def _enforce(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    field = "enforceNodeAllocatable"
    flag = f"{field} (--enforce-node-allocatable)"
    new = settings.minor >= _COMPRESSIBLE_SINCE
    cgroups = {"system": settings.system_reserved_cgroup, "kube": settings.kube_reserved_cgroup}
    given = settings.enforce
    for part in cgroups if new else ():
        both = (f"{part}-reserved-compressible", f"{part}-reserved")
        if set(both) <= set(given):
            message = f'both "{both[1]}" and "{both[0]}" cannot be specified together in {flag}'
            yield _invalid("enforce-both", message, field, remedy=f"keep one of {both[1]} and {both[0]}")
    seen: set[str] = set()
    for value in given:
        if value in seen and settings.minor >= _EACH_SINCE:
            yield _invalid("enforce-duplicate", f"duplicated enforcements {quoted(value)} in {flag}", field)
            continue
        seen.add(value)
        part = value.partition("-")[0]
        reserved = part in cgroups and value in (
            f"{part}-reserved",
            *([f"{part}-reserved-compressible"] if new else []),
        )
        if value == "none":
            if len(given) > 1:
                message = f'{flag} may not contain additional enforcements when "none" is specified'
                yield _invalid("enforce-none-and-more", message, field, remedy=f"write {field}: [none]")
            continue
        if reserved and not cgroups[part]:
            names = (
                f'"{part}-reserved" or "{part}-reserved-compressible" included'
                if new
                else f'"{part}-reserved" contained'
            )
            message = f"{part}ReservedCgroup (--{part}-reserved-cgroup) must be specified when {names} in {flag}"
            yield _invalid(
                "enforce-without-cgroup", message, field, remedy=f"write {part}ReservedCgroup: /{part}.slice"
            )
        elif not reserved and value != "pods":
            valid = [
                "pods",
                "system-reserved",
                "system-reserved-compressible",
                "kube-reserved",
                "kube-reserved-compressible",
            ]
            listed = ", ".join(f'"{name}"' for name in valid if new or not name.endswith("compressible"))
            message = (
                f'option {quoted(value)} specified for {flag}. Valid options are {listed}{"" if new else ","} or "none"'
            )
            yield _invalid("enforce-unknown", message, field)
            continue
        if settings.minor >= _EACH_SINCE and not settings.cgroups_per_qos:
            message = f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "{value}" contained in {flag}'
            yield _invalid("enforce-without-qos-cgroups", message, "cgroupsPerQOS", remedy="write cgroupsPerQOS: true")


def _reserved_cpus_list(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    if not settings.reserved_cpus:
        return
    for field, cgroup in (
        ("systemReservedCgroup", settings.system_reserved_cgroup),
        ("kubeReservedCgroup", settings.kube_reserved_cgroup),
    ):
        if cgroup:
            yield _invalid(
                "reserved-cpus-cgroups",
                "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
                "or kubeReservedCgroup (--kube-reserved-cgroup)",
                field,
                remedy=f'write {field}: ""',
            )
            break
    try:
        parse_cpus(settings.reserved_cpus)
    except ValueError as error:
        message = f"unable to parse reservedSystemCPUs (--reserved-cpus) {settings.reserved_cpus}, error: {error}"
        yield _invalid(
            "reserved-cpus-list",
            message,
            "reservedSystemCPUs",
            remedy='write a list such as reservedSystemCPUs: "0-3,64-67"',
        )


def _reserved_memory_entries(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    seen: set[tuple[int, str]] = set()
    for position, (node, limits) in enumerate(settings.reserved_memory):
        for name, amount in limits.items():
            path = ("reservedMemory", position, "limits", name)
            if not is_memory(name):
                message = f"the limit type {quoted(name)} for NUMA node {node} is not supported, "
                message += "only [memory hugepages-<HugePageSize>] is accepted"
                yield _invalid("reserved-memory-type", message, *path)
            if not amount:
                message = f"reserved memory may not be zero for NUMA node {node} and resource {quoted(name)}"
                yield _invalid("reserved-memory-zero", message, *path, remedy="take the entry out")
            if (node, name) in seen:
                message = f"the reserved memory has a duplicate value for NUMA node {node} and resource {quoted(name)}"
                yield _invalid("reserved-memory-duplicate", message, *path, remedy="add the two up in one entry")
            seen.add((node, name))


def _cfs_quota_period(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    period, field = settings.cfs_quota_period, "cpuCFSQuotaPeriod"
    flag = f"{field} (--cpu-cfs-quota-period) {{{go_duration(period)}}}"
    on = settings.enabled("CustomCPUCFSQuotaPeriod")
    if not on and period != _DEFAULT_PERIOD:
        message = f"{flag} requires feature gate CustomCPUCFSQuotaPeriod"
        yield _invalid("cfs-quota-period", message, field, remedy="write featureGates: {CustomCPUCFSQuotaPeriod: true}")
    if on and not _SHORTEST_PERIOD <= period <= _LONGEST_PERIOD:
        message = f"{flag} must be between 1ms and 1sec, inclusive"
        yield _invalid("cfs-quota-period", message, field, remedy=f"write {field}: 100ms")


def _swap(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    behavior, field = settings.swap_behavior, "memorySwap"
    other, comma = ("UnlimitedSwap", ",") if settings.minor <= _UNLIMITED_SWAP_UNTIL else ("NoSwap", "")
    path, safe = (field, "swapBehavior"), "LimitedSwap" if comma else other
    if not settings.enabled("NodeSwap"):
        if behavior:
            message = f"{field}.swapBehavior cannot be set when NodeSwap feature flag is disabled"
            yield _invalid("swap-behavior", message, *path, remedy="write featureGates: {NodeSwap: true}")
    elif behavior not in ("", "LimitedSwap", other):
        message = f'{field}.swapBehavior {quoted(behavior)} must be one of: "", "LimitedSwap"{comma} or "{other}"'
        yield _invalid("swap-behavior", message, *path, remedy=f"write swapBehavior: {safe}")


def _memory_qos(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    factor, field = settings.throttling_factor, "memoryThrottlingFactor"
    policy, policy_field = settings.memory_reservation_policy, "memoryReservationPolicy"
    on = settings.enabled("MemoryQoS")
    if on and factor is None and settings.minor < _FACTOR_MAY_BE_MISSING_SINCE:
        message = f"{field} is required when MemoryQoS feature flag is enabled"
        yield _invalid("memory-throttling-factor", message, field, remedy=f"write {field}: 0.9")
    if factor is not None and not 0 < factor <= 1:
        message = f"{field} {go_float(factor)} must be greater than 0 and less than or equal to 1.0"
        yield _invalid("memory-throttling-factor", message, field, remedy=f"write {field}: 0.9")
    if policy == "TieredReservation" and not on:
        message = f"{policy_field} {quoted(policy)} requires MemoryQoS feature gate to be enabled"
        yield _invalid("memory-reservation-policy", message, policy_field, remedy=f"take {policy_field} out")
    if policy not in ("", "None", "TieredReservation"):
        message = (
            f'option {quoted(policy)} specified for {policy_field}. Valid options are "None" or "TieredReservation"'
        )
        yield _invalid("memory-reservation-policy", message, policy_field, remedy=f"take {policy_field} out")


def _system_cgroups(settings: Settings, view: KubeletView) -> Iterator[Problem]:
    if settings.system_cgroups and not settings.cgroup_root:
        message = "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified"
        yield _invalid("system-cgroups", message, "systemCgroups", remedy="write cgroupRoot: / too")


def _invalid(id: str, message: str, *path: str | int, remedy: str | None = None) -> Problem:
    return Problem(id, "validate", f"invalid configuration: {message}", path, remedy)


GATE_RULES: tuple[Rule, ...] = (_feature_gates,)
LOGGING_RULES: tuple[Rule, ...] = (LOGGING,)
"""What the kubelet minds before it validates: it begins to log as the configuration says."""
VALIDATION_RULES: tuple[Rule, ...] = (
    LEASE,
    _enforce_at_all,
    _system_cgroups,
    BEFORE_CFS_QUOTA,
    _cfs_quota_period,
    BEFORE_TOPOLOGY,
    _topology_names,
    AFTER_TOPOLOGY,
    _swap,
    AFTER_SWAP,
    _enforce,
    AFTER_ENFORCE,
    _reserved_cpus_list,
    _reserved_memory_entries,
    AFTER_MEMORY,
    _memory_qos,
    LAST,
)
