"""Versions: the kubelet's feature gates and policy options around CPUs, memory, topology and devices, by release.

Sources: Kubernetes' pkg/features/kube_features.go, pkg/kubelet/cm/cpumanager/policy_options.go and
pkg/kubelet/cm/topologymanager/policy_options.go of each release from 1.27 to 1.36; for 1.37 its release notes, merged
pull requests and enhancement proposals (what these do not move is carried over from 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

import msgspec

from numalign.errors import WrongUsage
from numalign.kubelet.other_gates import OTHER_GATES

__all__ = [
    "ALL_GATES_UNTIL",
    "CPU_OPTIONS",
    "DEFAULT",
    "GROUPS_OF_GATES",
    "GROUP_GATES",
    "NEWEST",
    "OLDEST",
    "TOPOLOGY_OPTIONS",
    "Features",
    "Gate",
    "Group",
    "PolicyOption",
    "dependencies",
    "features",
    "gates",
    "gone",
    "known_gates",
    "known_versions",
    "option_values",
    "options",
    "parse_version",
    "wanted_version",
]

OLDEST, NEWEST = 27, 37
"""The minor versions of Kubernetes 1 whose rules are known."""
ALL_GATES_UNTIL = 36
"""The newest minor version of which every feature gate is known."""
GROUPS_OF_GATES = ("AllAlpha", "AllBeta")
"""Names that featureGates takes for all gates of a stage."""
DEFAULT = 36
"""The minor version that is taken where none is asked for and none is found."""

Stage = Literal["alpha", "beta", "GA", "deprecated"]
Group = Literal["alpha", "beta", "stable"]


class Gate(msgspec.Struct, frozen=True, rename="camel"):
    """A feature gate in one version."""

    name: str
    stage: Stage
    default: bool
    locked: bool


# A row: the gate, then each minor version from which something holds: A alpha, B beta, G GA, D deprecated; + on, 0 off
# by default; L locked; - gone: naming the gate then keeps the kubelet from starting.
_GATES = """
    CPUManager                                 27 G+L  33 -
    CPUManagerPolicyAlphaOptions               27 A0
    CPUManagerPolicyBetaOptions                27 B+
    CPUManagerPolicyOptions                    27 B+  33 G+L
    ChangeContainerStatusOnKubeletRestart      35 D0
    CustomCPUCFSQuotaPeriod                    27 A0  36 G+  37 G+L
    DRAAdminAccess                             32 A0  34 B+  36 G+L
    DRAConsumableCapacity                      34 A0  36 B+
    DRADerivedAttributes                       37 A0
    DRADeviceBindingConditions                 34 A0  36 B+
    DRADeviceTaintRules                        35 A0  36 B0  37 G+
    DRADeviceTaints                            33 A0  36 B+  37 G+
    DRAExtendedResource                        34 A0  36 B+  37 G+
    DRAListTypeAttributes                      36 A0
    DRANodeAllocatableResources                36 A0
    DRAPartitionableDevices                    33 A0  36 B+
    DRAPrioritizedList                         33 A0  34 B+  36 G+  37 G+L
    DRAResourceClaimDeviceStatus               32 A0  33 B+  37 G+
    DRAResourcePoolStatus                      36 A0
    DRAWorkloadResourceClaims                  36 A0  37 B0
    DevicePluginCDIDevices                     28 A0  29 B+  31 G+L  34 -
    DevicePlugins                              27 G+L  28 -
    DisableCPUQuotaWithExclusiveCPUs           33 B+  36 D+  37 D+L
    DownwardAPIHugePages                       27 G+L  29 -
    DynamicResourceAllocation                  27 A0  32 B0  34 G+  35 G+L
    GracefulNodeShutdown                       27 B+
    HugepageAwareEviction                      37 B+
    InPlacePodLevelResourcesVerticalScaling    35 A0  36 B+
    InPlacePodVerticalScaling                  27 A0  33 B+  35 G+L
    InPlacePodVerticalScalingAllocatedStatus   32 A0  33 D0  36 -
    InPlacePodVerticalScalingExclusiveCPUs     32 A0
    InPlacePodVerticalScalingExclusiveMemory   34 A0
    InPlacePodVerticalScalingInitContainers    36 B+  37 G+L
    KubeletCgroupDriverFromCRI                 28 A0  31 B+  34 G+L
    KubeletInUserNamespace                     27 A0  37 B+
    KubeletPSI                                 33 A0  34 B+  36 G+L
    KubeletPodResources                        27 B+  28 G+L  30 -
    KubeletPodResourcesDynamicResources        27 A0  34 B+  36 G+L
    KubeletPodResourcesGet                     27 A0  34 B+  36 G+L
    KubeletPodResourcesGetAllocatable          27 B+  28 G+L  29 -
    KubeletPodResourcesListUseActivePods       34 D+
    KubeletSeparateDiskGC                      29 A0  31 B+
    LegacySidecarContainers                    33 D0  34 -
    MemoryManager                              27 B+  32 G+L  36 -
    MemoryQoS                                  27 A0  37 B+
    MutablePodResourcesForSuspendedJobs        35 A0  36 B+
    NodeDeclaredFeatures                       35 A0  36 B+
    NodeSwap                                   27 A0  28 B0  30 B+  34 G+L
    PodLevelResourceManagers                   36 A0  37 B0
    PodLevelResources                          32 A0  34 B+
    PodLevelResourcesFixDefaulting             37 B+
    PodLevelResourcesFixKubeletQOSClass        37 B+
    ResourceHealthStatus                       31 A0  36 B+
    ResourceHealthStatusMessage                36 B+
    SidecarContainers                          28 A0  29 B+  33 G+L  37 -
    SizeMemoryBackedVolumes                    27 B+  32 G+L  35 -
    TopologyAwareWorkloadScheduling            36 A0
    TopologyManager                            27 G+L  29 -
    TopologyManagerPolicyAlphaOptions          27 A0
    TopologyManagerPolicyBetaOptions           27 B0  28 B+
    TopologyManagerPolicyOptions               27 A0  28 B+  32 G+  36 G+L
    WindowsCPUAndMemoryAffinity                32 A0
"""

# The same for options: the group in which they are.
_CPU_OPTIONS = """
    full-pcpus-only                    27 beta   33 stable
    distribute-cpus-across-numa        27 alpha  33 beta
    align-by-socket                    27 alpha
    distribute-cpus-across-cores       31 alpha
    strict-cpu-reservation             32 alpha  33 beta  35 stable
    prefer-align-cpus-by-uncorecache   32 alpha  34 beta  36 stable
"""
_TOPOLOGY_OPTIONS = """
    prefer-closest-numa-nodes          27 alpha  28 beta  32 stable
    max-allowable-numa-nodes           31 beta   35 stable
"""

CPU_OPTIONS = "cpuManagerPolicyOptions"
TOPOLOGY_OPTIONS = "topologyManagerPolicyOptions"

GROUP_GATES: Mapping[str, Mapping[Group, str]] = {
    # field -> the gate that opens each group
    CPU_OPTIONS: {"alpha": "CPUManagerPolicyAlphaOptions", "beta": "CPUManagerPolicyBetaOptions"},
    TOPOLOGY_OPTIONS: {"alpha": "TopologyManagerPolicyAlphaOptions", "beta": "TopologyManagerPolicyBetaOptions"},
}

# A gate, the gates that it needs (but those that are locked on) in the order of their names, in which the kubelet says
# them, and the version from which it minds (none before 1.35).
# Of several rows of a gate the last that holds counts.
_DEPENDENCIES: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("ClusterTrustBundleProjection", ("ClusterTrustBundle",), 35),
    ("DRADeviceBindingConditions", ("DRAResourceClaimDeviceStatus",), 35),
    ("DRADeviceTaintRules", ("DRADeviceTaints",), 35),
    ("DRAExtendedResource", ("DynamicResourceAllocation",), 35),
    ("DRAResourceClaimGranularStatusAuthorization", ("DRAResourceClaimDeviceStatus",), 36),
    ("DRAWorkloadResourceClaims", ("GenericWorkload",), 36),
    ("DeclarativeValidationTakeover", ("DeclarativeValidation",), 35),
    ("ExtendWebSocketsToKubelet", ("NodeDeclaredFeatures",), 36),
    ("GangScheduling", ("GenericWorkload",), 35),
    ("GracefulNodeShutdownBasedOnPodPriority", ("GracefulNodeShutdown",), 35),
    (
        "InPlacePodLevelResourcesVerticalScaling",
        ("InPlacePodVerticalScaling", "NodeDeclaredFeatures", "PodLevelResources"),
        35,
    ),
    ("InPlacePodVerticalScalingExclusiveCPUs", ("InPlacePodVerticalScaling",), 35),
    ("InPlacePodVerticalScalingExclusiveMemory", ("InPlacePodVerticalScaling",), 35),
    ("InPlacePodVerticalScalingInitContainers", ("InPlacePodVerticalScaling", "NodeDeclaredFeatures"), 36),
    ("MatchLabelKeysInPodTopologySpreadSelectorMerge", ("MatchLabelKeysInPodTopologySpread",), 35),
    ("PodLevelResourceManagers", ("PodLevelResources",), 36),
    ("PodLevelResourcesFixDefaulting", ("PodLevelResources",), 37),
    ("PodLevelResourcesFixKubeletQOSClass", ("PodLevelResources",), 37),
    ("ProcMountType", ("UserNamespacesSupport",), 35),
    ("ResourceHealthStatus", ("DynamicResourceAllocation",), 35),
    ("ResourceHealthStatusMessage", ("ResourceHealthStatus",), 36),
    ("RestartAllContainersOnContainerExits", ("ContainerRestartRules", "NodeDeclaredFeatures"), 35),
    ("StaleControllerConsistencyDaemonSet", ("AtomicFIFO",), 36),
    ("StaleControllerConsistencyJob", ("AtomicFIFO",), 36),
    ("StaleControllerConsistencyReplicaSet", ("AtomicFIFO",), 36),
    ("StaleControllerConsistencyStatefulSet", ("AtomicFIFO",), 36),
    ("StorageVersionAPI", ("APIServerIdentity",), 35),
    ("TopologyAwareWorkloadScheduling", ("GenericWorkload",), 36),
    ("UnknownVersionInteroperabilityProxy", ("APIServerIdentity",), 35),
    ("UserNamespacesHostNetworkSupport", ("UserNamespacesSupport",), 35),
    ("UserNamespacesHostNetworkSupport", ("NodeDeclaredFeatures", "UserNamespacesSupport"), 36),
    ("WindowsGracefulNodeShutdown", ("GracefulNodeShutdown",), 35),
    ("WorkloadAwarePreemption", ("GangScheduling",), 36),
    ("WorkloadWithJob", ("GenericWorkload",), 36),
)

_STAGES: dict[str, Stage] = {"A": "alpha", "B": "beta", "G": "GA", "D": "deprecated"}


def parse_version(text: str) -> int:
    """The minor version of `1.33`, `v1.33.2` or `1.33.2-eks-1234`. Raises WrongUsage where its rules are not known."""
    major, _, rest = text.strip().removeprefix("v").partition(".")
    minor = rest.partition(".")[0].partition("-")[0].partition("+")[0]
    if major != "1" or not (minor.isascii() and minor.isdecimal()) or len(minor) > 3:
        raise WrongUsage(f"{text!r} is no version of Kubernetes", hint="write it as 1.33 or v1.33.2")
    if not OLDEST <= int(minor) <= NEWEST:
        raise WrongUsage(
            f"Kubernetes 1.{int(minor)}: its rules are not known to this numalign",
            hint=f"1.{OLDEST} to 1.{NEWEST} are",
        )
    return int(minor)


def known_versions() -> list[str]:
    """The versions whose rules are known, the newest first: `1.37`."""
    return [f"1.{minor}" for minor in range(NEWEST, OLDEST - 1, -1)]


def option_values() -> list[str]:
    """The policy options of the newest version as they are asked for: `full-pcpus-only=true`."""
    return [f"{name}=true" for field in (CPU_OPTIONS, TOPOLOGY_OPTIONS) for name in options(field, NEWEST)]


def wanted_version(text: str | None) -> int:
    """The minor version that was asked for, DEFAULT where none was. Raises WrongUsage."""
    return DEFAULT if text is None else parse_version(text)


class PolicyOption(msgspec.Struct, frozen=True, rename="camel"):
    """A policy option in one version; `gate` is the one that has to be turned on for it, if any."""

    name: str
    field: str
    group: Group
    gate: str | None


class Features(msgspec.Struct, frozen=True, rename="camel"):
    """The gates and options of a version."""

    api_version: str
    kind: Literal["KubeletFeatures"]
    kubernetes_version: str
    gates: tuple[Gate, ...]
    options: tuple[PolicyOption, ...]


def features(minor: int) -> Features:
    """Everything that this module knows of a minor version."""
    found = []
    for field in (CPU_OPTIONS, TOPOLOGY_OPTIONS):
        for name, group in options(field, minor).items():
            gate = GROUP_GATES[field].get(group)
            needed = gate if gate and not gates(minor)[gate].default else None
            found.append(PolicyOption(name=name, field=field, group=group, gate=needed))
    return Features(
        api_version="numalign/v1",
        kind="KubeletFeatures",
        kubernetes_version=f"1.{minor}",
        gates=tuple(sorted(gates(minor).values(), key=lambda gate: gate.name)),
        options=tuple(found),
    )


@cache
def gates(minor: int) -> Mapping[str, Gate]:
    """The feature gates around CPUs, memory, topology and devices that a minor version has, by name."""
    return _gates(_GATES, minor)


@cache
def known_gates(minor: int) -> Mapping[str, Gate]:
    """All feature gates of a minor version, by name; after ALL_GATES_UNTIL without what is new in it."""
    return {**_gates(OTHER_GATES, minor), **gates(minor)}


def _gates(table: str, minor: int) -> dict[str, Gate]:
    return {
        name: Gate(name=name, stage=_STAGES[mark[0]], default=mark[1] == "+", locked=mark.endswith("L"))
        for name, mark in _at(table, minor).items()
        if mark != "-"
    }


def dependencies(minor: int) -> Mapping[str, tuple[str, ...]]:
    """The gates that each gate needs to be on as well, in a minor version. A locked gate needs none that can be turned
    off: the kubelet's own table may not say so (component-base/featuregate/feature_gate.go, AddDependencies)."""
    known = known_gates(minor)
    open_gates = {name for name, gate in known.items() if not gate.locked}
    return {gate: needed for gate, needed, since in _DEPENDENCIES if since <= minor and gate in open_gates}


@cache
def gone(minor: int) -> frozenset[str]:
    """The gates of other minor versions that this one does not have (any more, or yet)."""
    return frozenset({**_rows(_GATES), **_rows(OTHER_GATES)}) - frozenset(known_gates(minor))


@cache
def options(field: str, minor: int) -> Mapping[str, Group]:
    """The policy options of a field (CPU_OPTIONS, TOPOLOGY_OPTIONS) in a minor version, and the group of each."""
    found = _at({CPU_OPTIONS: _CPU_OPTIONS, TOPOLOGY_OPTIONS: _TOPOLOGY_OPTIONS}[field], minor)
    groups: dict[str, Group] = {"alpha": "alpha", "beta": "beta", "stable": "stable"}
    return {name: groups[group] for name, group in found.items()}


def _at(table: str, minor: int) -> dict[str, str]:
    """What holds in a minor version: the last entry of each row that is not above it."""
    found = {}
    for name, entries in _rows(table).items():
        marks = [mark for since, mark in entries if since <= minor]
        if marks:
            found[name] = marks[-1]
    return found


@cache
def _rows(table: str) -> dict[str, tuple[tuple[int, str], ...]]:
    rows = (line.split() for line in table.strip().splitlines())
    return {words[0]: tuple(zip(map(int, words[1::2]), words[2::2], strict=True)) for words in rows}
