"""The start on a machine, where the vectors have no document for a rule; tests/checks has each rule's smallest."""

from __future__ import annotations

import doctest

import pytest

import numalign.kubelet.document
from numalign.kubelet.effective import effective
from numalign.kubelet.flags import parse_flags
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import eviction_reservation, go_percentage, settings
from numalign.kubelet.versions import NEWEST, OLDEST, dependencies, known_gates
from numalign.report.configuration import printed
from tests.vectors import MACHINE

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def messages(text: str, minor: int = 36) -> list[str]:
    document = effective(("f.yaml", (HEADER + text).encode()), {}, {}, minor)
    return [problem.message for problem in problems(settings(document.values, minor), MACHINE)]


STATIC = """\
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0"
"""
MEMORY = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: %s}}]\n"


SWAP = "featureGates: {NodeSwap: true}\n"


@pytest.mark.parametrize(
    ("text", "minor", "message"),
    [
        (STATIC + "featureGates: {CPUManagerPolicyOptions: false}", 30, 'require feature gates "CPUManager"'),
        (
            "cpuManagerPolicyOptions: {}\nfeatureGates: {CPUManagerPolicyOptions: false}",
            32,
            "policy options map[] require",
        ),
        ("cpuManagerPolicyOptions: null\nfeatureGates: {CPUManagerPolicyOptions: false}", 32, None),
        ("cpuManagerPolicyOptions: {}", 32, None),
        (STATIC + "featureGates: {MemoryManager: false}\n" + MEMORY % "1Gi", 30, None),
        (STATIC + MEMORY % "1Gi", 30, "is not equal to the value"),
        (STATIC + "cpuCFSQuotaPeriod: 5ms", 35, "{5ms} requires feature gate CustomCPUCFSQuotaPeriod"),
        (STATIC + "cpuCFSQuotaPeriod: 5ms", 36, None),
        (STATIC + "cpuCFSQuotaPeriod: 2s", 36, "{2s} must be between 1ms and 1sec, inclusive"),
        (STATIC + "memorySwap: {swapBehavior: Foo}", 36, 'must be one of: "", "LimitedSwap" or "NoSwap"'),
        (STATIC + "cpuCFSQuotaPeriod: 2s", 35, "{2s} requires feature gate CustomCPUCFSQuotaPeriod"),
        (
            STATIC + "memorySwap: {swapBehavior: LimitedSwap}",
            29,
            "cannot be set when NodeSwap feature flag is disabled",
        ),
        (STATIC + SWAP + "memorySwap: {swapBehavior: UnlimitedSwap}", 29, None),
        (STATIC + SWAP + "memorySwap: {swapBehavior: NoSwap}", 29, '"", "LimitedSwap", or "UnlimitedSwap"'),
        (STATIC + SWAP + "memorySwap: {swapBehavior: UnlimitedSwap}", 30, '"", "LimitedSwap" or "NoSwap"'),
        (STATIC + "memoryThrottlingFactor: 1.5", 36, "memoryThrottlingFactor 1.5 must be greater than 0"),
        (STATIC + "memoryThrottlingFactor: 1.23456789", 36, "memoryThrottlingFactor 1.23456789 must be greater than 0"),
        (STATIC + "cpuCFSQuotaPeriod: 59.123456789s", 36, "{59.123456789s} must be between 1ms and 1sec, inclusive"),
        (STATIC + "memoryReservationPolicy: Foo", 36, 'option "Foo" specified for memoryReservationPolicy'),
        (STATIC + "featureGates: {MemoryQoS: true}", 36, None),
        (STATIC + "featureGates: {MemoryQoS: true}\nmemoryThrottlingFactor: 0", 36, "memoryThrottlingFactor 0 must be"),
        (STATIC + "memoryReservationPolicy: TieredReservation", 36, "requires MemoryQoS feature gate"),
        ("enforceNodeAllocatable: [x]", 31, 'Valid options are "pods", "system-reserved", "kube-reserved", or "none"'),
        (STATIC + "systemCgroups: /system", 36, "cgroupRoot (--cgroup-root) was not specified"),
        (STATIC + "systemCgroups: /system\ncgroupRoot: /", 36, None),
        (
            STATIC + "featureGates: {InPlacePodLevelResourcesVerticalScaling: true}",
            35,
            "depends on features that are disabled: [NodeDeclaredFeatures]",
        ),
        (
            STATIC + "featureGates: {NodeDeclaredFeatures: false}",
            36,
            "ExtendWebSocketsToKubelet is enabled, but depends on features that are disabled: [NodeDeclaredFeatures]",
        ),
        (
            STATIC + "featureGates: {MatchLabelKeysInPodTopologySpread: false}",
            35,
            "SelectorMerge is enabled, but depends on features that are disabled: [MatchLabelKeysInPodTopologySpread]",
        ),
        (
            STATIC + "featureGates: {UserNamespacesHostNetworkSupport: true, UserNamespacesSupport: false}",
            35,
            "depends on features that are disabled: [UserNamespacesSupport]",
        ),
        (STATIC + "featureGates: {AtomicFIFO: false}", 36, "depends on features that are disabled: [AtomicFIFO]"),
        (STATIC + "featureGates: {AtomicFIFO: false, AllBeta: false}", 36, None),
        (STATIC + "featureGates: {AllBeta: false}", 37, None),
        (
            STATIC
            + "featureGates: {ExtendWebSocketsToKubelet: false, NodeDeclaredFeatures: false, PodLevelResources: false}",
            36,
            "depends on features that are disabled: [NodeDeclaredFeatures PodLevelResources]",
        ),
        (STATIC + "featureGates: {GangScheduling: true}", 36, "[GenericWorkload]"),
        (STATIC + "featureGates: {AllAlpha: true}", 36, None),
        (STATIC + "featureGates: {CPUManagerPolicyAlphaOption: true}", 36, "unrecognized feature gate: CPUManagerPol"),
        (STATIC + "featureGates: {CPUManagerPolicyAlphaOption: true}", 37, None),
        (STATIC + "featureGates: {APIListChunking: true}", 32, None),
        (STATIC + "featureGates: {APIListChunking: false}", 32, "APIListChunking to false, feature is locked to true"),
        (STATIC + "featureGates: {APIListChunking: true}", 37, "unrecognized feature gate: APIListChunking"),
        (STATIC + "featureGates: {AllAlpha: false, AllBeta: true, ContextualLogging: true}", 27, None),
        (STATIC + "featureGates: {ChangeContainerStatusOnKubeletRestart: false}", 34, "unrecognized feature gate"),
        (STATIC + "featureGates: {ChangeContainerStatusOnKubeletRestart: false}", 35, None),
    ],
)
def test_a_version_refuses_what_it_validates(text: str, minor: int, message: str | None) -> None:
    found = messages(text, minor)
    assert found == [] if message is None else message in found[0]


def test_a_misspelt_gate_is_told_its_name() -> None:
    document = effective(
        ("f.yaml", (HEADER + "featureGates: {TopologyManagerPolicyOption: true}").encode()), {}, {}, 36
    )
    (problem,) = problems(settings(document.values, 36), MACHINE)
    assert problem.remedy == "write TopologyManagerPolicyOptions"


@pytest.mark.parametrize("minor", range(OLDEST, NEWEST + 1))
def test_gates_depend_on_gates_that_the_version_has_and_hold_by_default(minor: int) -> None:
    plain = settings({}, minor)
    for gate, needed in dependencies(minor).items():
        assert {gate, *needed} <= set(known_gates(minor))
        assert list(needed) == sorted(needed)
        assert not plain.enabled(gate) or all(plain.enabled(name) for name in needed)


def test_defaults_of_eviction_are_merged_once_and_only_by_the_file() -> None:
    base = HEADER + "mergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 10%}\n"
    late = HEADER + "mergeDefaultEvictionSettings: true\n"
    plain = HEADER + "evictionHard: {nodefs.available: 10%}\n"
    none = HEADER + "evictionHard: {memory.available: null}\n"

    def thresholds(file: str, drop_in: str | None = None, flags: str = "") -> set[str]:
        drop_ins = {"50.conf": drop_in.encode()} if drop_in else {}
        document = effective(("f.yaml", file.encode()), drop_ins, parse_flags(flags), 36)
        return set(settings(document.values, 36).eviction_hard)

    assert "memory.available" in thresholds(base)
    assert thresholds(plain, late) == {"nodefs.available"}
    assert thresholds(base, flags="--eviction-hard='nodefs.available<10%'") == {"nodefs.available"}
    assert "memory.available" not in thresholds(base, none)
    assert thresholds(plain, HEADER + "evictionHard: null\n") == set()


@pytest.mark.parametrize(
    ("drop_in", "flags"),
    [
        ("evictionHard: {memory.available: null}", ""),
        ("evictionHard: null", ""),
        ("mergeDefaultEvictionSettings: false", ""),
        ("maxPods: 20", "--eviction-hard='nodefs.available<10%'"),
    ],
)
def test_the_printed_configuration_is_the_same_again(drop_in: str, flags: str) -> None:
    base = HEADER + "mergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 10%}\n"
    drop_ins = {"50.conf": (HEADER + drop_in).encode()}
    document = effective(("f.yaml", base.encode()), drop_ins, parse_flags(flags), 36)
    again = effective(("f.yaml", printed(document, "yaml")), {}, {}, 36)
    assert settings(again.values, 36) == settings(document.values, 36)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("evictionHard: {memory.available: 10%%}", None),
        ("evictionHard: {memory.available: 0%}", None),
        ("evictionHard: {memory.available: nan%}", None),
        ("evictionHard: {memory.available: 0x1p3%}", None),
        ("evictionHard: {memory.available: 101%}", "threshold memory.available must be <= 100%: 101%"),
        ("evictionHard: {memory.available: -1%}", "threshold memory.available must be >= 0%: -1%"),
        ("evictionHard: {memory.available: 1_0.5%}", None),
        ("evictionHard: {memory.available: 1__0%}", 'strconv.ParseFloat: parsing "1__0": invalid syntax'),
        ("evictionHard: {memory.available: 1e400%}", 'strconv.ParseFloat: parsing "1e400": value out of range'),
        ("evictionHard: {memory.available: ' 5%'}", 'strconv.ParseFloat: parsing " 5": invalid syntax'),
        ("evictionHard: {memory.available: 1e99%}", 'strconv.ParseFloat: parsing "1e99": value out of range'),
        ("evictionHard: {memory.available: '0'}", "eviction threshold memory.available must be positive: 0"),
        ("evictionHard: {memory.free: 1Gi}", "unsupported eviction signal memory.free"),
        ("evictionSoftGracePeriod: {memory.free: 1m}", "unsupported eviction signal memory.free"),
        ("evictionSoftGracePeriod: {memory.available: -1m}", "invalid eviction grace period specified: -1m"),
        ("evictionMinimumReclaim: {memory.available: 0}", "of type string"),
        ("evictionMinimumReclaim: {memory.available: '0'}", None),
        ("evictionMinimumReclaim: {memory.available: 0%}", "minimum reclaim memory.available must be positive: 0%"),
        ("evictionMinimumReclaim: {memory.available: -1Gi}", "negative eviction minimum reclaim specified for memory"),
        ("evictionMinimumReclaim: {memory.free: 1Gi}", "unsupported eviction signal memory.free"),
    ],
)
def test_eviction_is_parsed_as_the_kubelet_does(text: str, message: str | None) -> None:
    try:
        found = messages(text)
    except Exception as error:  # noqa: BLE001 - a value of the wrong type is refused before the start
        found = [str(error)]
    if message is None:
        assert found == []
    else:
        assert len(found) == 1
        assert message in found[0]


@pytest.mark.parametrize(("minor", "known"), [(28, False), (29, True)])
def test_the_containers_filesystem_is_a_signal_since_1_29(minor: int, known: bool) -> None:
    assert (messages("evictionHard: {containerfs.available: 5%}", minor) == []) == known


def test_soft_thresholds_are_read_before_their_grace_periods() -> None:
    text = "evictionSoft: {memory.available: 1Gi, nodefs.available: x}\nevictionSoftGracePeriod: {pid.available: z}"
    assert [message.split()[0] for message in messages(text)] == ["quantities", "time:", "grace", "grace"]


@pytest.mark.parametrize(
    ("amount", "system", "whole"),
    [
        ("1536Mi", "1436Mi", True),
        ("1.5Gi", "1436Mi", False),
        ("104857601", "1", True),
        ("104857601.0", "1", False),
        ("104857600500m", "500m", False),
        ("104857601k", "104752743400", True),
        ("1e9", "895142400", True),
        ("1.5G", "1395142400", True),
    ],
)
def test_memory_is_reserved_in_whole_bytes_without_a_point(amount: str, system: str, whole: bool) -> None:
    text = STATIC + MEMORY % f'"{amount}"' + f'systemReserved: {{memory: "{system}"}}\n'
    found = [message for message in messages(text) if "capacity" not in message]
    assert found == ([] if whole else ["could not covert a variable of type Quantity to int64"])


def test_a_number_loses_its_point_before_it_is_a_quantity() -> None:
    text = STATIC + MEMORY % "1048576000.0" + "systemReserved: {memory: 900Mi}\n"
    assert messages(text) == []


def test_a_merge_writes_amounts_again() -> None:
    text = HEADER + STATIC + MEMORY % "1.5Gi" + "systemReserved: {memory: 1436Mi}\n"
    document = effective(("f.yaml", text.encode()), {"1.conf": (HEADER + "maxPods: 20").encode()}, {}, 36)
    assert problems(settings(document.values, 36), MACHINE) == []


@pytest.mark.parametrize(
    ("text", "minor", "gate"),
    [
        (STATIC, 30, "CPUManagerPolicyOptions"),
        ("topologyManagerPolicyOptions: {}\n", 30, "TopologyManagerPolicyOptions"),
    ],
)
def test_the_remedy_for_options_without_their_gate_helps_against_all_beta_too(text: str, minor: int, gate: str) -> None:
    def first(gates: str) -> tuple[str, str | None]:
        document = effective(("f.yaml", (HEADER + text + gates).encode()), {}, {}, minor)
        found = problems(settings(document.values, minor), MACHINE)
        return (found[0].id, found[0].remedy) if found else ("", None)

    id, remedy = first("featureGates: {AllBeta: false}")
    assert id.endswith("-options-gate")
    assert (remedy or "").startswith(f"write featureGates: {{{gate}: true}}")
    assert not first(f"featureGates: {{AllBeta: false, {gate}: true}}")[0].endswith("-options-gate")


def test_the_examples_of_go_s_numbers_hold() -> None:
    failed, tried = doctest.testmod(numalign.kubelet.document)
    assert (failed, tried > 0) == (0, True)


def test_a_percentage_is_taken_in_32_bits() -> None:
    assert go_percentage("10%") != 0.1
    assert abs(go_percentage("10%") - 0.1) < 1e-8
    text = HEADER + "evictionHard: {memory.available: nan%}"
    document = effective(("f.yaml", text.encode()), {}, {}, 36)
    assert eviction_reservation(settings(document.values, 36), MACHINE)["memory"].value == 0


def test_a_reservation_on_which_the_kubelet_hangs_is_told() -> None:
    said = "the kubelet never comes to an end with so large an exponent: 1e1000000000"
    assert messages("kubeReserved: {memory: '1e1000000000'}") == [said]
