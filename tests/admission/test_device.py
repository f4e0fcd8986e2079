"""Which devices are taken, and what plugins prefer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.admission.device import Device
from numalign.admission.nvidia import aligned, link_scores
from numalign.machine import Machine
from tests.admission.test_node import node_of, pod

GPU = "nvidia.com/gpu"


def taken(policy: str, homes: str, count: str, prefer: Callable[..., Sequence[str]] | None = None) -> tuple[str, ...]:
    devices = [
        Device(GPU, str(number), None if home == "-" else tuple(map(int, home.split(","))))
        for number, home in enumerate(homes.split())
    ]
    node = node_of("2s-8c16t", policy, memory=False, devices=devices, prefer={GPU: prefer} if prefer else {})
    decision = node.admit(pod("p", {"cpu": "2", "memory": "1Gi", GPU: count}))
    assert decision.admitted, decision.message
    return decision.containers[0].devices[GPU]


@pytest.mark.parametrize(
    ("policy", "homes", "count", "ids"),
    [
        ("single-numa-node", "0 0 1 1", "2", ("0", "1")),
        ("single-numa-node", "0 1 1 0,1", "3", ("1", "2", "3")),
        ("best-effort", "1 0 - 0", "3", ("0", "1", "3")),
        ("best-effort", "- - 1", "2", ("0", "2")),
        ("none", "1 0 0", "2", ("0", "1")),
    ],
)
def test_devices_of_the_hint_come_first(policy: str, homes: str, count: str, ids: tuple[str, ...]) -> None:
    assert taken(policy, homes, count) == ids


def test_a_plugin_chooses_among_those_of_the_hint() -> None:
    asked = []

    def last(available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        asked.append((tuple(available), tuple(must), size))
        return available[-size:]

    assert taken("single-numa-node", "0 0 0 1 1 1", "2", last) == ("1", "2")
    assert taken("none", "0 0 0 1 1 1", "2", last) == ("4", "5")
    # all that are on the NUMA node are taken without asking
    assert taken("single-numa-node", "0 0 0 1 1", "3", last) == ("0", "1", "2")
    assert asked == [(("0", "1", "2"), (), 2), (("0", "1", "2", "3", "4", "5"), (), 2)]


def test_what_the_kubelet_leaves_to_chance_is_said() -> None:
    devices = [Device(GPU, str(number), (number,)) for number in range(2)]
    node = node_of("2s-8c16t", "none", memory=False, devices=devices)
    decision = node.admit(pod("p", {"cpu": "2", "memory": "1Gi", GPU: "1"}))
    assert decision.containers[0].open == (GPU,)
    decision = node.admit(pod("q", {"cpu": "2", "memory": "1Gi", GPU: "1"}))
    assert decision.containers[0].open == ()


def test_unhealthy_devices_are_not_given_out() -> None:
    node = node_of("2s-8c16t", "none", memory=False, devices=[Device(GPU, "0", (0,), healthy=False)])
    decision = node.admit(pod("p", {"cpu": "2", "memory": "1Gi", GPU: "1"}))
    assert decision.message == (
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is "
        "unexpected"
    )


def test_a_resource_that_no_plugin_offers_is_overlooked() -> None:
    node = node_of("2s-8c16t", "restricted", memory=False)
    decision = node.admit(pod("p", {"cpu": "2", "memory": "1Gi", GPU: "1"}))
    assert decision.admitted
    assert decision.containers[0].devices == {}


def divided(pairs: dict[frozenset[str], int], ids: list[str], must: list[str], size: int) -> int:
    """The score of the best division into sets of so many, one short set at most, one full set with what must be."""
    gaps = -len(ids) % size
    best = -1
    for order in permutations([*ids, *[""] * gaps]):
        parts = [frozenset(order[first : first + size]) - {""} for first in range(0, len(order), size)]
        if not any(frozenset(must) <= part and len(part) == size for part in parts):
            continue
        if any(0 < size - len(part) != gaps for part in parts):
            continue
        best = max(best, sum(pairs[frozenset(pair)] for part in parts for pair in combinations(sorted(part), 2)))
    return best


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(2, 6))
def test_nvidias_plugin_divides_all_gpus_well(data: st.DataObject, count: int) -> None:
    ids = [str(number) for number in range(count)]
    pairs = {frozenset(pair): data.draw(st.integers(1, 9)) for pair in combinations(ids, 2)}
    size = data.draw(st.integers(2, count))
    must = data.draw(st.lists(st.sampled_from(ids), max_size=size, unique=True))
    chosen = aligned(pairs)(ids, must, size)
    assert len(chosen) == size
    assert set(must) <= set(chosen)
    rest = [id for id in ids if id not in chosen]
    own = sum(pairs[frozenset(pair)] for pair in combinations(chosen, 2))
    if len(rest) <= size:
        others = sum(pairs[frozenset(pair)] for pair in combinations(rest, 2))
        assert own + others == divided(pairs, ids, must, size)


def test_nvidias_plugin_prefers_what_is_near(machine_of: Callable[[str], Machine]) -> None:
    # two GPUs of this machine share a switch each: 0 and 1, 2 and 3, 4 and 5, 6 and 7
    machine = machine_of("dgx-a100-nps4")
    scores = link_scores(machine, {gpu.bdf: str(gpu.index) for gpu in machine.gpus})
    assert scores[frozenset("23")] == 40
    assert scores[frozenset("03")] == 10
    prefer = aligned(scores)
    assert prefer(["1", "2", "3", "4"], [], 2) == ("2", "3")
    assert prefer(["1", "2", "3", "4"], ["4"], 2) == ("1", "4")
    assert prefer(["1", "2", "3"], [], 1) == ("1",)
    assert prefer(["1", "2", "3"], [], 4) == ()
