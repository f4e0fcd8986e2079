# ruff: noqa: E501 - the messages are read as they are
"""Drop-ins over the file of --config, in the way of each version; what is wrong with one is said of that one."""

from __future__ import annotations

from typing import Any

import pytest

from numalign.kubelet.document import Document, Refused
from numalign.kubelet.effective import effective
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import settings
from tests.vectors import MACHINE

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
INTERNAL, VERSIONED = (29, 30, 31), (32, 36)


def merged(base: str, *drop_ins: str, minor: int) -> Document:
    files = {f"d/{number}.conf": (HEADER + text).encode() for number, text in enumerate(drop_ins, 1)}
    return effective(("f.yaml", (HEADER + base).encode()), files, {}, minor)


@pytest.mark.parametrize("minor", INTERNAL)
@pytest.mark.parametrize(
    ("base", "drop_in", "field", "value"),
    [
        ("kubeReserved: {cpu: '1'}", "kubeReserved: {cpu: null, memory: 1Gi}", "kubeReserved", {"cpu": "1", "memory": "1Gi"}),
        ("kubeReserved: {cpu: '1'}", "kubeReserved: null", "kubeReserved", {"cpu": "1"}),
        ("cpuManagerPolicy: none", "CPUManagerPolicy: static", "cpuManagerPolicy", "static"),
        ("cpuManagerPolicy: static", "CPUManagerPolicy: null", "cpuManagerPolicy", "static"),
        ("enforceNodeAllocatable: []", "maxPods: 1", "enforceNodeAllocatable", []),
        ("enforceNodeAllocatable: [none]", "enforceNodeAllocatable: []", "enforceNodeAllocatable", []),
    ],
)  # fmt: skip
def test_drop_ins_of_1_29_to_1_31_are_decoded_over_the_configuration(
    base: str, drop_in: str, field: str, value: Any, minor: int
) -> None:
    assert merged(base, drop_in, minor=minor).values[field] == value


@pytest.mark.parametrize("minor", INTERNAL)
def test_entries_of_a_list_are_decoded_over_those_at_their_positions(minor: int) -> None:
    base = "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 2Mi}}, {numaNode: 1, limits: {memory: 1Gi}}]"
    (entry,) = merged(base, "reservedMemory: [{numaNode: 0, limits: {memory: 2Gi}}]", minor=minor).values[
        "reservedMemory"
    ]
    assert {name: str(amount) for name, amount in entry["limits"].items()} == {"memory": "2Gi", "hugepages-2Mi": "2Mi"}


@pytest.mark.parametrize("minor", INTERNAL)
def test_a_null_in_a_later_drop_in_takes_back_what_an_earlier_one_said(minor: int) -> None:
    found = merged("kubeReserved: {cpu: '1'}", "kubeReserved: {cpu: '2'}", "kubeReserved: {cpu: null}", minor=minor)
    assert found.values["kubeReserved"] == {"cpu": "1"}


@pytest.mark.parametrize("minor", INTERNAL)
def test_a_field_whose_name_in_go_is_another_has_no_effect_in_a_drop_in(minor: int) -> None:
    found = merged("resolvConf: /a", "resolvConf: /b", minor=minor)
    assert (found.values["resolvConf"], [(field.field, field.place) for field in found.ignored]) == (
        "/a",
        [("resolvConf", "d/1.conf:3")],
    )


@pytest.mark.parametrize("minor", INTERNAL)
def test_a_drop_in_of_those_versions_needs_no_apiversion(minor: int) -> None:
    base = ("f.yaml", HEADER.encode())
    assert effective(base, {"d/1.conf": b"kind: any\nmaxPods: 7"}, {}, minor).values["maxPods"] == 7
    with pytest.raises(Refused, match="Object 'Kind' is missing"):
        effective(base, {"d/1.conf": b"maxPods: 7"}, {}, minor)


@pytest.mark.parametrize("minor", VERSIONED)
def test_empty_lists_and_maps_of_the_file_take_their_defaults_again(minor: int) -> None:
    base = "enforceNodeAllocatable: []\ntopologyManagerPolicyOptions: {}"
    alone, found = merged(base, minor=minor), merged(base, "maxPods: 7", minor=minor)
    assert (alone.values["enforceNodeAllocatable"], alone.values["topologyManagerPolicyOptions"]) == ([], {})
    assert {"enforceNodeAllocatable", "topologyManagerPolicyOptions"}.isdisjoint(found.values)
    assert ("enforceNodeAllocatable",) not in found.places
    assert merged("", "enforceNodeAllocatable: []", minor=minor).values["enforceNodeAllocatable"] == []
    assert merged("cgroupsPerQOS: false", "maxPods: 7", minor=minor).values["cgroupsPerQOS"] is False


@pytest.mark.parametrize("minor", VERSIONED)
@pytest.mark.parametrize(
    ("name", "policy"), [("CPUManagerPolicy", "none"), ("cpumanagerpolicy", "static"), ("cpuManagerPolicy", "static")]
)
def test_of_two_spellings_the_one_that_sorts_last_holds(name: str, policy: str, minor: int) -> None:
    for base in ("cpuManagerPolicy: none", ""):
        assert merged(base, f"{name}: static", minor=minor).values.get("cpuManagerPolicy", "none") == policy


def test_drop_ins_of_1_28_bring_their_defaults_and_no_zeros() -> None:
    base = "cpuManagerPolicy: static\nkubeReserved: {cpu: '1'}\nevictionHard: {memory.available: 1Gi}\nfeatureGates: {A: true}"
    found = merged(base, "kubeReserved: {memory: 1Gi}\nmaxPods: 0\nfeatureGates: {A: false}", minor=28)
    assert (found.values["cpuManagerPolicy"], found.place("cpuManagerPolicy")) == ("none", "d/1.conf")
    assert found.values["kubeReserved"] == {"cpu": "1", "memory": "1Gi"}
    assert found.values["evictionHard"]["memory.available"] == "100Mi"
    assert ("maxPods" in found.values, found.values["featureGates"]) == (False, {"A": False})
    assert [found.place("kubeReserved", key) for key in ("cpu", "memory")] == ["f.yaml:4", "d/1.conf:3"]


@pytest.mark.parametrize(
    ("base", "drop_in", "field", "value"),
    [
        ("maxPods: -1", "", "maxPods", 110),
        ("maxPods: -1", "maxPods: 20", "maxPods", 20),
        ("healthzPort: 5", "healthzPort: 0", "healthzPort", 5),
        ("imageMinimumGCAge: 5m", "imageMinimumGCAge: 0s", "imageMinimumGCAge", 120 * 10**9),
        ("shutdownGracePeriod: 5s", "shutdownGracePeriod: 0s", "shutdownGracePeriod", 5 * 10**9),
        ("cpuCFSQuotaPeriod: 5ms", "", "cpuCFSQuotaPeriod", 100_000_000),
        ("serializeImagePulls: false", "maxParallelImagePulls: 5", "serializeImagePulls", False),
        ("serializeImagePulls: false", "", "serializeImagePulls", True),
        ("tracing: {endpoint: a}", "tracing: {endpoint: '', samplingRatePerMillion: 5}", "tracing", {"endpoint": "a", "samplingRatePerMillion": 5}),
        ("logging: {format: json, verbosity: 3}", "logging: {verbosity: 0}", "logging", {"format": "text", "verbosity": 3, "flushFrequency": 5 * 10**9}),
        ("reservedMemory: [{numaNode: 1}]", "reservedMemory: []", "reservedMemory", [{"numaNode": 1}]),
    ],
)  # fmt: skip
def test_drop_ins_of_1_28_replace_with_what_is_not_zero(base: str, drop_in: str, field: str, value: object) -> None:
    assert merged(base, drop_in, minor=28).values[field] == value


@pytest.mark.parametrize("minor", [29, 36])
def test_fields_that_are_none_are_named_in_a_drop_in_however_deep_they_lie(minor: int) -> None:
    found = merged("", "reservedMemory:\n- numaNode: 0\n  limit: {memory: 1Gi}\nlogging: {formt: json}", minor=minor)
    assert [(field.field, field.place) for field in found.ignored] == [
        ("reservedMemory[0].limit", "d/1.conf:5"),
        ("logging.formt", "d/1.conf:6"),
    ]


@pytest.mark.parametrize(
    ("text", "minor", "place", "message"),
    [
        ("maxPods: abc", 36, "d/1.conf:3", "failed to merge kubelet configs: failed to unmarshal merged JSON into kubelet configuration: json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"),
        ("MaxPods: abc", 36, "d/1.conf:3", "failed to merge kubelet configs: failed to unmarshal merged JSON into kubelet configuration: json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"),
        ("maxpods: abc", 36, "d/1.conf:3", "failed to merge kubelet configs: failed to unmarshal merged JSON into kubelet configuration: json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"),
        ("maxPods: abc", 28, "d/1.conf:3", "failed to load kubelet dropin file, path: d/1.conf, error: failed to decode: json: cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"),
        ("a: [", 36, "d/1.conf:3", "failed to load kubelet dropin file, path: d/1.conf, error: yaml: line 3: "),
        ("maxPods: 1", 27, "--config-dir", "failed to parse kubelet flag: unknown flag: --config-dir"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_drop_in_is_said_of_it(text: str, minor: int, place: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        merged("", text, minor=minor)
    assert caught.value.placed("f.yaml") == place
    assert caught.value.message.startswith(message)


def test_numbers_of_json_drop_ins_may_have_a_fraction() -> None:
    text = b'{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": 7.0}'
    assert effective(("f.yaml", HEADER.encode()), {"d/1.conf": text}, {}, 36).values["maxPods"] == 7


@pytest.mark.parametrize(
    ("enforce", "minor", "found"),
    [
        ("[]", 30, []),
        ("[none]", 30, ["is not supported unless"]),
        ("[none]", 31, []),
        ("[pods]", 31, ["must be set to"]),
    ],
)
def test_without_qos_cgroups_nothing_can_be_enforced(enforce: str, minor: int, found: list[str]) -> None:
    text = f"cgroupsPerQOS: false\nenforceNodeAllocatable: {enforce}"
    said = [problem.message for problem in problems(settings(merged(text, minor=minor).values, minor), MACHINE)]
    assert len(said) == len(found)
    assert all(part in message for part, message in zip(found, said, strict=True))


NULLS = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
"""


@pytest.mark.parametrize(
    "text", ["shutdownGracePeriod: null\n", "authentication: {webhook: {cacheTTL: ~}}\n", "syncFrequency:\n"]
)
def test_a_duration_may_not_be_null(text: str) -> None:
    with pytest.raises(Refused, match='time: invalid duration ""'):
        effective(("f.yaml", (NULLS + text).encode()), {}, {}, 36)
    assert effective(("f.yaml", (NULLS + "cpuCFSQuotaPeriod: null\n").encode()), {}, {}, 36)


@pytest.mark.parametrize("minor", [31, 36])
def test_a_key_that_stands_twice_in_a_drop_in_keeps_the_kubelet_from_starting(minor: int) -> None:
    drop_ins = {"d/10.conf": (NULLS + "maxPods: 100\nmaxPods: 110\n").encode()}
    with pytest.raises(Refused, match='line 4: key "maxPods" already set in map') as refused:
        effective(("f.yaml", NULLS.encode()), drop_ins, {}, minor)
    assert refused.value.place == "d/10.conf:4"


def test_nulls_in_the_objects_of_a_drop_ins_list_are_taken_out() -> None:
    text = "reservedMemory: [{numaNode: 0, limits: {memory: 100Mi, hugepages-1Gi: null}}]\n"
    found = effective(("f.yaml", NULLS.encode()), {"d/10.conf": (NULLS + text).encode()}, {}, 36)
    assert list(found.values["reservedMemory"][0]["limits"]) == ["memory"]


def test_an_empty_policy_is_the_default_in_the_file_and_unknown_as_a_flag() -> None:
    base = ("f.yaml", (NULLS + 'topologyManagerPolicy: ""\n').encode())
    assert settings(effective(base, {}, {}, 36).values, 36).topology_policy == "none"
    flagged = effective(base, {}, {"topology-manager-policy": [""]}, 36)
    assert settings(flagged.values, 36).topology_policy == ""


def test_a_null_in_a_list_of_texts_is_an_empty_text() -> None:
    found = effective(("f.yaml", (NULLS + "enforceNodeAllocatable: [null]\n").encode()), {}, {}, 36)
    assert found.values["enforceNodeAllocatable"] == [""]
