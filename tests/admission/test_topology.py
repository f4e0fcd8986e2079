"""Merging without trying every combination gives what trying every combination gives."""

from __future__ import annotations

import random
import time
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numalign.admission.hints
from numalign.admission.hints import Box, Distances, Hint, Hints, Sockets, exactly, ids
from numalign.admission.topology import Topology, decide, distances, merge
from tests.admission.exhaustive import merge_exhaustively

NODES = 4


def boxes(draw: st.DrawFn, nodes: int, *, small: bool = False) -> tuple[Box, ...]:
    """One box with sums, needed NUMA nodes and devices on several of them, if it has any set."""
    weights = st.tuples(*[st.integers(0, 4)] * NODES)
    sums = draw(st.lists(st.tuples(weights, st.integers(0, 9)), min_size=1, max_size=2))
    must = 0 if small else draw(st.sampled_from((0, 0, 0, 1, 2, 8))) & nodes
    devices = st.tuples(*[st.integers(0, 2**NODES - 1)] * 3)
    covers = () if small else tuple(draw(st.lists(st.tuples(devices, st.integers(0, 3)), max_size=1)))
    box = Box(nodes, must, tuple(sums), covers)
    return (box,) if nodes and box.holds(nodes) else ()


@st.composite
def plain_hints(draw: st.DrawFn) -> Hints:
    """Hints as for CPUs or devices."""
    nodes = draw(st.integers(1, 2**NODES - 1) | st.just(2**NODES - 1))
    return Hints(boxes(draw, nodes), draw(st.integers(1, NODES)))


@st.composite
def grouped_hints(draw: st.DrawFn) -> Hints:
    """Hints as for memory: single NUMA nodes and groups in use, and any set of the rest."""
    order = draw(st.permutations(range(NODES)))
    cuts = sorted(draw(st.sets(st.integers(0, NODES), max_size=3)))
    groups = [order[first:last] for first, last in zip([0, *cuts], [*cuts, NODES], strict=True) if first < last]
    rest = sum(1 << node for node in groups.pop())
    used = draw(st.lists(st.sampled_from(groups), unique_by=tuple)) if groups else []
    found = [exactly(sum(1 << node for node in group)) for group in used]
    return Hints((*found, *boxes(draw, rest, small=True)), draw(st.integers(1, NODES)))


@st.composite
def lists(draw: st.DrawFn) -> list[Hints | None]:
    """The lists of up to four resources; memory's can come twice, CPUs' can prefer whole sockets."""
    found: list[Hints | None] = list(draw(st.lists(st.none() | plain_hints(), max_size=2)))
    if draw(st.booleans()):
        memory = draw(grouped_hints())
        found += [memory] * draw(st.integers(1, 2)) if memory.boxes else [None]
    if draw(st.integers(0, 3)) == 0:
        cpus = draw(plain_hints())
        found.append(Hints(cpus.boxes, cpus.size, Sockets((1, 1, 2, 2), draw(st.integers(1, 2)))))
    return found


def near() -> st.SearchStrategy[Distances | None]:
    row = st.tuples(*[st.sampled_from((10, 12, 20, 32))] * NODES)
    return st.none() | st.lists(row, min_size=NODES, max_size=NODES).map(lambda rows: distances(dict(enumerate(rows))))


def listed(hints: Hints | None) -> list[Hint] | None:
    return None if hints is None else list(hints)


@settings(max_examples=3000, deadline=None)
@given(lists=lists(), far=near(), small=st.sampled_from((0, 6)), many=st.sampled_from((0, 4096)))
def test_the_fast_merge_is_the_exhaustive_one(
    lists: list[Hints | None], far: Distances | None, small: int, many: int
) -> None:
    # few NUMA nodes are looked at as many are: for twins among them, and where there are too many counts
    all_nodes = 2**NODES - 1
    module = numalign.admission.hints
    with patch.object(module, "_SMALL", small), patch.object(module, "_MANY_COUNTS", many):
        found = merge(lists, all_nodes, far)
    assert found == merge_exhaustively([listed(hints) for hints in lists], all_nodes, far)


@settings(max_examples=1000, deadline=None)
@given(lists=st.lists(st.none() | plain_hints() | grouped_hints(), max_size=4), nodes=st.integers(1, NODES))
def test_single_numa_node_merges_as_exhaustively(lists: list[Hints | None], nodes: int) -> None:
    all_nodes = 2**nodes - 1
    kept = [hints for hints in lists if hints is None or all(box.nodes <= all_nodes for box in hints.boxes)]
    policy = Topology("single-numa-node", "container", all_nodes, None)
    hint, admitted = decide(policy, [{str(number): hints} for number, hints in enumerate(kept)])
    assert hint == merge_exhaustively([listed(hints) for hints in kept], all_nodes, None, single=True)
    assert admitted == hint.preferred


@settings(max_examples=500, deadline=None)
@given(hints=plain_hints() | grouped_hints(), within=st.integers(0, 2**NODES - 1))
def test_the_narrowest_hint_is_found_without_a_list(hints: Hints, within: int) -> None:
    known = [hint.mask for hint in hints if hint.mask is not None and within & ~hint.mask == 0]
    best = min(known, key=lambda mask: (mask.bit_count(), mask), default=None)
    assert hints.narrowest(within) == best


@settings(max_examples=500, deadline=None)
@given(hints=plain_hints() | grouped_hints())
def test_hints_are_counted_without_a_list(hints: Hints) -> None:
    assert hints.count() == len(list(hints))


def test_a_list_is_in_the_kubelets_order() -> None:
    hints = Hints((Box(0b111, sums=(((2, 1, 1), 2),)),), 1)
    assert [(ids(hint.mask or 0), hint.preferred) for hint in hints] == [
        ((0,), True),
        ((0, 1), False),
        ((0, 2), False),
        ((1, 2), False),
        ((0, 1, 2), False),
    ]


def test_without_hints_all_numa_nodes_are_preferred() -> None:
    assert merge([None, None], 0b11) == Hint(0b11, preferred=True)
    assert merge([None, Hints((), 1)], 0b11) == Hint(0b11, preferred=False)


@pytest.mark.parametrize("policy", ["best-effort", "restricted"])
def test_thirty_four_uneven_numa_nodes_are_merged_at_once(policy: str) -> None:
    chance = random.Random(7)
    rows = {id: [10 if id == to else 12 if id // 17 == to // 17 else 32 for to in range(34)] for id in range(34)}
    far = distances(rows)
    start = time.process_time()
    for _ in range(20):
        found: dict[str, Hints | None] = {}
        for name in ("cpu", "memory", "gpu", "nic"):
            weights = tuple(chance.randint(0, 1 << 40 if name == "memory" else 16) for _ in range(34))
            need = int(sum(weights) * chance.uniform(0.02, 0.95))
            found[name] = Hints((Box((1 << 34) - 1, sums=((weights, need),)),), chance.randint(1, 34))
        decide(Topology(policy, "container", (1 << 34) - 1, far), [found])
    assert time.process_time() - start < 20
