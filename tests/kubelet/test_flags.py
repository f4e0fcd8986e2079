"""The kubelet's command line: what repeated flags add up to, and what it does not take."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import numalign.kubelet.flags
from numalign.errors import WrongUsage
from numalign.kubelet.document import Refused
from numalign.kubelet.effective import effective
from numalign.kubelet.flags import parse_flags


def values(text: str) -> Any:
    return effective(None, {}, parse_flags(text), 36).values


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("--kube-reserved cpu=1 --kube-reserved=memory=1Gi", "kubeReserved", {"cpu": "1", "memory": "1Gi"}),
        ("--kube-reserved='memory=1Gi, cpu = 1'", "kubeReserved", {"memory": "1Gi", "cpu": "1"}),
        ("--feature-gates=A=true --feature-gates A=0,B=T", "featureGates", {"A": False, "B": True}),
        ("--eviction-hard 'a<1' --eviction-hard 'b < 2'", "evictionHard", {"a": "1", "b": "2"}),
        (
            "--enforce-node-allocatable=pods --enforce-node-allocatable=x,y",
            "enforceNodeAllocatable",
            ["pods", "x", "y"],
        ),
        ("--enforce-node-allocatable=", "enforceNodeAllocatable", []),
        ("--reserved-cpus=0 --reserved-cpus=1", "reservedSystemCPUs", "1"),
        ("--cgroups-per-qos=false --cgroups-per-qos", "cgroupsPerQOS", True),
        ("--cpu-manager-policy-options=a=true,b=true", "cpuManagerPolicyOptions", {"a": "true,b=true"}),
        ("--topology-manager-policy-options=a=1,b=2", "topologyManagerPolicyOptions", {"a": "1", "b": "2"}),
    ],
)
def test_flags_are_taken_in_as_the_kubelet_does(text: str, field: str, value: Any) -> None:
    assert values(text)[field] == value


def test_reserved_memory_is_appended_flag_by_flag() -> None:
    found = values("--reserved-memory 0:memory=50Mi --reserved-memory '1:memory=60Mi;2:hugepages-2Mi=2Mi'")
    assert [
        (entry["numaNode"], {name: str(amount) for name, amount in entry["limits"].items()})
        for entry in found["reservedMemory"]
    ] == [(0, {"memory": "50Mi"}), (1, {"memory": "60Mi"}), (2, {"hugepages-2Mi": "2Mi"})]


@pytest.mark.parametrize(
    ("text", "flag", "value", "why"),
    [
        ("--cgroups-per-qos=maybe", "cgroups-per-qos", "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (
            "--feature-gates=X=maybe",
            "feature-gates",
            "X=maybe",
            'invalid value of X: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("--feature-gates=X", "feature-gates", "X", "malformed pair, expect string=bool"),
        ("--kube-reserved=cpu", "kube-reserved", "cpu", "malformed pair, expect string=string"),
        ("--eviction-hard=a=1", "eviction-hard", "a=1", "malformed pair, expect string<string"),
        (
            "--reserved-memory=a:memory=1",
            "reserved-memory",
            "a:memory=1",
            "failed to convert the NUMA node ID, expected integer, got a",
        ),
        (
            "--reserved-memory=0:cpu=1",
            "reserved-memory",
            "0:cpu=1",
            'memory type conversion error, unknown type: "cpu"',
        ),
        ("--reserved-memory=0:memory=x", "reserved-memory", "0:memory=x", "failed to parse the quantity: x"),
        (
            "--cpu-manager-reconcile-period=x",
            "cpu-manager-reconcile-period",
            "x",
            'time: invalid duration "x"',
        ),
    ],
)
def test_what_a_flag_does_not_take_is_refused_at_the_flag(text: str, flag: str, value: str, why: str) -> None:
    with pytest.raises(Refused) as caught:
        values(text)
    said = f'failed to parse kubelet flag: invalid argument "{value}" for "--{flag}" flag: {why}'
    assert (caught.value.message, caught.value.placed("f.yaml")) == (said, f"--{flag}")


def test_a_flag_that_is_nearly_one_is_asked_about_and_others_are_skipped() -> None:
    with pytest.raises(WrongUsage, match="unknown flag: --reserved-cpu,") as caught:
        parse_flags("--reserved-cpu=0-3")
    assert caught.value.hint == "did you mean --reserved-cpus?"
    assert parse_flags("--node-ip=::1 --max-pods 7 --v=2 --some-thing-of-a-vendor x --container-runtime=remote") == {}


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.kubelet.flags)
    assert (failed, tried > 0) == (0, True)
