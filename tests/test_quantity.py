"""Quantities: exact, in the notation of the API machinery."""

from __future__ import annotations

import doctest
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import numalign.quantity
from numalign.quantity import MAX, Endless, Quantity


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("0", 0, "0"),
        ("100Mi", 100 << 20, "100Mi"),
        ("1024Ki", 1 << 20, "1Mi"),
        ("1000Ki", 1024000, "1000Ki"),
        ("512", 512, "512"),
        ("0.5Ki", 512, "512"),
        ("1.5Gi", 3 << 29, "1536Mi"),
        ("4400873472", 4400873472, "4400873472"),
        ("1500m", Fraction(3, 2), "1500m"),
        ("2.0", 2, "2"),
        ("12e6", 12000000, "12e6"),
        ("1E3", 1000, "1e3"),
        ("1E", 10**18, "1E"),
        ("+5k", 5000, "5k"),
        ("-1Gi", -(1 << 30), "-1Gi"),
        ("0.0000000001", Fraction(1, 10**9), "1n"),
        ("100Ei", MAX, "9223372036854775807"),
        ("1e999", MAX, "9223372036854775807"),
        ("Ki", 0, "0"),
    ],
)
def test_a_quantity_is_exact_and_canonical(text: str, value: Fraction, canonical: str) -> None:
    found = Quantity.parse(text)
    assert (found.value, str(found)) == (value, canonical)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must match"),
        ("1GB", "must match"),
        ("1 Gi", "must match"),
        ("1.1.1", "must match"),
        ("1i", "parse quantity's suffix"),
        ("1e", "parse quantity's suffix"),
        ("1Kim", "parse quantity's suffix"),
        ("1" * 2000, "must match"),
    ],
)
def test_what_is_no_quantity_says_so_in_the_api_machinerys_words(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Quantity.parse(text)


@given(st.integers(0, MAX), st.sampled_from(("", "Ki", "Mi", "m", "k")))
def test_the_canonical_text_reads_back_as_the_same_amount(number: int, suffix: str) -> None:
    found = Quantity.parse(f"{number}{suffix}")
    assert Quantity.parse(str(found)) == found


def test_a_sum_keeps_the_first_notation_unless_that_is_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1000")) == "1073742824"
    assert str(Quantity() + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("1k") + Quantity.parse("24")) == "1024"
    assert (Quantity.parse("1500m").whole, Quantity.parse("-1500m").whole, Quantity.parse("310m").milli) == (2, -2, 310)


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.quantity)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("text", ["1e100000000", "1e2147483647", "1e-100000000", "1e2147483648", "1.5E200000000"])
def test_a_quantity_on_which_the_kubelet_hangs_is_told(text: str) -> None:
    with pytest.raises(Endless, match="the kubelet never comes to an end with so large an exponent"):
        Quantity.parse(text)


def test_an_exponent_beyond_32_bits_begins_anew() -> None:
    assert str(Quantity.parse("1e9223372036854775807")) == "100e-3"
    assert str(Quantity.parse("1e4294967296")) == "1"
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        Quantity.parse("1e9223372036854775808")
