"""What a configuration means to a kubelet of one version on one machine: defaults, gates, options, reservations.

Source: pkg/kubelet/apis/config/v1beta1/defaults.go, pkg/kubelet/eviction, cmd/kubelet/app/server.go and
pkg/kubelet/cm/node_container_manager_linux.go, 1.27 to 1.36.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.gojson import quoted
from numalign.kubelet.versions import gates, known_gates
from numalign.kubelet.view import KubeletView
from numalign.quantity import Quantity

__all__ = [
    "BOOLEANS",
    "DECISIVE",
    "NO_THRESHOLD",
    "Settings",
    "capacity",
    "default_eviction_hard",
    "eviction_reservation",
    "go_atoi",
    "go_percentage",
    "is_memory",
    "parse_cpus",
    "reservation",
    "settings",
]

BOOLEANS = {
    # what Go's strconv.ParseBool takes
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}

NO_THRESHOLD = ("0%", "100%")
"""Values of a signal that mean no threshold."""
_DIGITS = r"\d(?:_?\d)*"
_GO_FLOAT = re.compile(
    # underscores may stand between digits
    rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?(?:e[+-]?{_DIGITS})?|\.{_DIGITS}(?:e[+-]?{_DIGITS})?|inf|infinity|nan"
    r"|0x[\da-f.]+p[+-]?\d+)",
    re.ASCII | re.IGNORECASE,
)
_EVICTION_HARD = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
}
_IMAGEFS_INODES_SINCE = 30
_MERGE_EVICTION_SINCE = 33
_NO_THROTTLING_SINCE = 37
"""The version from which memoryThrottlingFactor has no default."""


DECISIVE = {
    # the fields that decide about CPUs, memory and devices -> their defaults, as text
    "cpuManagerPolicy": "none",
    "cpuManagerPolicyOptions": "{}",
    "reservedSystemCPUs": '""',
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "topologyManagerPolicyOptions": "{}",
    "memoryManagerPolicy": "None",
    "reservedMemory": "[]",
    "kubeReserved": "{}",
    "systemReserved": "{}",
    "kubeReservedCgroup": '""',
    "systemReservedCgroup": '""',
    "enforceNodeAllocatable": '["pods"]',
    "cgroupsPerQOS": "true",
    "evictionHard": "{}",
    "featureGates": "{}",
}

_SPENT = frozenset((*DECISIVE, "mergeDefaultEvictionSettings"))
"""Fields whose effect is in the settings already."""


class Settings(msgspec.Struct, frozen=True):
    """The effective values of the fields that decide about CPUs, memory and devices, in one minor version."""

    minor: int
    cpu_policy: str
    cpu_options: Mapping[str, str] | None
    reserved_cpus: str
    topology_policy: str
    topology_scope: str
    topology_options: Mapping[str, str] | None
    memory_policy: str
    reserved_memory: tuple[tuple[int, Mapping[str, Quantity]], ...]
    kube_reserved: Mapping[str, str]
    system_reserved: Mapping[str, str]
    kube_reserved_cgroup: str
    system_reserved_cgroup: str
    enforce: tuple[str, ...]
    cgroups_per_qos: bool
    eviction_hard: Mapping[str, str]
    eviction_soft: Mapping[str, str]
    eviction_grace: Mapping[str, str]
    eviction_reclaim: Mapping[str, str]
    feature_gates: Mapping[str, bool]
    cfs_quota_period: int = 100_000_000
    swap_behavior: str = ""
    throttling_factor: float | None = None
    memory_reservation_policy: str = ""
    system_cgroups: str = ""
    cgroup_root: str = ""
    others: Mapping[str, Any] = {}
    """The fields that decide nothing here, as they are written."""

    def enabled(self, gate: str) -> bool:
        """Whether a feature gate is on; one that the version does not have is off."""
        known = known_gates(self.minor).get(gate)
        if known is None:
            return False
        if known.locked or gate not in self.feature_gates:
            everything = {"alpha": "AllAlpha", "beta": "AllBeta"}.get(known.stage, "")
            return known.default if known.locked else self.feature_gates.get(everything, known.default)
        return self.feature_gates[gate]

    @property
    def has_memory_manager(self) -> bool:
        """Whether the kubelet makes one at all: its feature gate could turn it off until 1.31."""
        return "MemoryManager" not in gates(self.minor) or self.enabled("MemoryManager")

    @property
    def listed_cpus(self) -> CpuSet:
        """The CPUs of reservedSystemCPUs; none where the list is unusable, on which the kubelet does not start."""
        try:
            return parse_cpus(self.reserved_cpus)
        except ValueError:
            return CpuSet()

    def option(self, name: str) -> bool:
        """Whether a CPU manager option is set to true."""
        return BOOLEANS.get((self.cpu_options or {}).get(name, "false"), False)

    def topology_option(self, name: str) -> bool:
        """Whether a topology manager option is set to true."""
        return BOOLEANS.get((self.topology_options or {}).get(name, "false"), False)


def is_memory(name: str) -> bool:
    """Whether a resource is memory or huge pages, as the memory manager gives them out."""
    return name == "memory" or name.startswith("hugepages-")


def settings(values: Mapping[str, Any], minor: int) -> Settings:
    """The settings of a decoded document; empty strings and missing fields take the kubelet's defaults.

    `cfs_quota_period` is in nanoseconds. Without its feature gate (1.27 to 1.31) there is no memory manager.
    """
    found = Settings(
        minor=minor,
        cpu_policy=values.get("cpuManagerPolicy", "none"),
        cpu_options=values.get("cpuManagerPolicyOptions"),
        reserved_cpus=values.get("reservedSystemCPUs") or "",
        topology_policy=values.get("topologyManagerPolicy", "none"),
        topology_scope=values.get("topologyManagerScope", "container"),
        topology_options=values.get("topologyManagerPolicyOptions"),
        memory_policy=values.get("memoryManagerPolicy", "None"),
        reserved_memory=tuple(
            ((entry or {}).get("numaNode", 0), (entry or {}).get("limits") or {})
            for entry in values.get("reservedMemory") or ()
        ),
        kube_reserved=values.get("kubeReserved") or {},
        system_reserved=values.get("systemReserved") or {},
        kube_reserved_cgroup=values.get("kubeReservedCgroup") or "",
        system_reserved_cgroup=values.get("systemReservedCgroup") or "",
        enforce=tuple(values.get("enforceNodeAllocatable", ("pods",))),
        cgroups_per_qos=values.get("cgroupsPerQOS", True),
        eviction_hard=values["evictionHard"] if "evictionHard" in values else default_eviction_hard(values, minor),
        eviction_soft=values.get("evictionSoft") or {},
        eviction_grace=values.get("evictionSoftGracePeriod") or {},
        eviction_reclaim=values.get("evictionMinimumReclaim") or {},
        feature_gates=values.get("featureGates") or {},
        cfs_quota_period=values.get("cpuCFSQuotaPeriod", 100_000_000),
        swap_behavior=(values.get("memorySwap") or {}).get("swapBehavior") or "",
        throttling_factor=values.get("memoryThrottlingFactor", 0.9 if minor < _NO_THROTTLING_SINCE else None),
        memory_reservation_policy=values.get("memoryReservationPolicy") or "",
        system_cgroups=values.get("systemCgroups") or "",
        cgroup_root=values.get("cgroupRoot") or "",
        others={field: value for field, value in values.items() if field not in _SPENT},
    )
    return found if found.has_memory_manager else msgspec.structs.replace(found, memory_policy="None")


def parse_cpus(text: str) -> CpuSet:
    """A CPU list as the kubelet reads it: no blanks. Raises ValueError with its message."""
    found = 0
    for part in text.split(",") if text else ():
        ends = part.split("-", 1) if "-" in part else [part]
        numbers = [go_atoi(end) for end in ends]
        if len(numbers) == 2 and numbers[0] > numbers[1]:
            raise ValueError(f"invalid range {quoted(part)} ({numbers[0]} > {numbers[1]})")
        first, last = numbers[0], numbers[-1]
        if last >= 1 << 22:
            raise ValueError(f"CPU {last} is beyond any machine's CPUs")
        found |= ((1 << (last - first + 1)) - 1) << first
    return CpuSet.from_mask(found)


def go_atoi(text: str) -> int:
    """A whole number as Go's strconv.Atoi reads it; raises ValueError with its message."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    number = int(text) if len(digits) < 20 else 1 << 64
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return number


def default_eviction_hard(values: Mapping[str, Any], minor: int) -> Mapping[str, str]:
    """The hard thresholds: the defaults stand only where the file has no evictionHard at all, or asks for a merge."""
    defaults = dict(_EVICTION_HARD)
    if minor >= _IMAGEFS_INODES_SINCE:
        defaults["imagefs.inodesFree"] = "5%"
    own = values.get("evictionHard")
    if own is None:
        return defaults
    if values.get("mergeDefaultEvictionSettings") and minor >= _MERGE_EVICTION_SINCE:
        return {**defaults, **own}
    return own  # type: ignore[no-any-return]


def capacity(view: KubeletView) -> dict[str, Quantity]:
    """What the node has, as the kubelet counts it: CPUs, memory (MemTotal), huge pages by size."""
    found = {"cpu": Quantity(len(view.cpus)), "memory": Quantity(view.memory_bytes, "BinarySI")}
    for node in view.nodes:
        for size, pages in node.hugepages.items():
            name = f"hugepages-{Quantity(size, 'BinarySI')}"
            found[name] = found.get(name, Quantity(0, "BinarySI")) + Quantity(size * pages, "BinarySI")
    return found


def eviction_reservation(settings: Settings, view: KubeletView) -> dict[str, Quantity]:
    """The memory that hard eviction keeps free. A percentage is taken in 32-bit floating point, as the kubelet does."""
    text = settings.eviction_hard.get("memory.available")
    if text is None or text in NO_THRESHOLD:
        return {}
    if not text.endswith("%"):
        return {"memory": Quantity.parse(text)}
    fraction = go_percentage(text)
    kept = 0 if math.isnan(fraction) else int(float(view.memory_bytes) * fraction)
    return {"memory": Quantity(kept, "BinarySI")}


def go_percentage(text: str) -> float:
    """The fraction that a percentage (`10%`) is, in 32-bit floating point.

    Raises ValueError with Go's message where it is no number.
    """
    number = text.rstrip("%")
    try:
        if not _GO_FLOAT.fullmatch(number):
            raise ValueError
        value = float.fromhex(number) if "x" in number.lower() else float(number)
        if math.isinf(value) and "inf" not in number.lower():
            raise OverflowError
        return _float32(_float32(value) / _float32(100.0))
    except OverflowError:
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(number)}: value out of range") from None
    except ValueError:
        raise ValueError(f"strconv.ParseFloat: parsing {quoted(number)}: invalid syntax") from None


def reservation(settings: Settings, view: KubeletView) -> dict[str, Quantity]:
    """What is kept from pods, for each resource of the capacity; resources of which nothing is kept are left out.

    reservedSystemCPUs takes the place of the CPUs in kubeReserved and systemReserved. Raises ValueError where a
    reservation is no quantity.
    """
    kube, system = dict(settings.kube_reserved), dict(settings.system_reserved)
    listed = settings.listed_cpus
    if listed:
        kube.pop("cpu", None)
        system["cpu"] = str(len(listed))
    eviction = eviction_reservation(settings, view)
    found = {}
    for resource in capacity(view):
        total = Quantity()
        for part in (system, kube):
            if resource in part:
                total += Quantity.parse(part[resource])
        total += eviction.get(resource, Quantity())
        if total:
            found[resource] = total
    return found


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
