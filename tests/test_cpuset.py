"""CPU sets: lists and masks, both ways."""

from __future__ import annotations

import doctest
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import numalign.bdf
import numalign.cpuset
from numalign.cpuset import MAX_CPUS, CpuSet

cpus = st.sets(st.integers(min_value=0, max_value=1100), max_size=80)


@given(cpus)
def test_a_list_reads_back_as_the_same_set(members: set[int]) -> None:
    found = CpuSet.parse(str(CpuSet(members)))
    assert (set(found), len(found)) == (members, len(members))


@given(cpus, st.integers(min_value=0, max_value=4))
def test_a_kernel_mask_reads_back_as_the_same_set(members: set[int], leading_groups: int) -> None:
    bits = sum(1 << cpu for cpu in members)
    groups = max(1, -(-bits.bit_length() // 32)) + leading_groups
    text = ",".join(f"{bits >> 32 * i & 0xFFFFFFFF:08x}" for i in reversed(range(groups)))
    assert CpuSet.parse_mask(text) == CpuSet(members)


@given(cpus, cpus)
def test_the_operators_are_those_of_sets(a: set[int], b: set[int]) -> None:
    left, right = CpuSet(a), CpuSet(b)
    assert [set(left | right), set(left & right), set(left - right)] == [a | b, a & b, a - b]
    assert [left <= right, left == right, bool(left)] == [a <= b, a == b, bool(a)]
    assert all(cpu in left for cpu in a)


@given(st.text(max_size=30))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    for parse in (CpuSet.parse, CpuSet.parse_mask):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert found.bits.bit_length() <= MAX_CPUS + 32


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("0-", "no CPU number"),
        ("3-1", "backwards"),
        ("a", "no CPU number"),
        ("0,,1", "no CPU number"),
        ("0-99999999999", "beyond"),
        ("²", "no CPU number"),
        ("-1", "no CPU number"),
    ],
)
def test_what_is_no_list_says_why(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        CpuSet.parse(text)


def test_an_empty_text_and_one_that_ends_in_nul_are_read() -> None:
    assert CpuSet.parse("\n") == CpuSet()
    assert CpuSet.parse("0-3\0\n") == CpuSet(range(4))
    assert CpuSet.parse_mask("00000000,00001111\0") == CpuSet((0, 4, 8, 12))


@pytest.mark.parametrize("module", [numalign.cpuset, numalign.bdf])
def test_the_examples_hold(module: object) -> None:
    failed, tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert (failed, tried > 0) == (0, True)


def test_hundreds_of_thousands_of_single_cpus_are_printed_at_once() -> None:
    sparse = CpuSet.from_mask(int("01" * 200_000, 2))
    begin = time.monotonic()
    text = str(sparse)
    assert (text[:6], text.count(","), time.monotonic() - begin < 5) == ("0,2,4,", 199_999, True)
