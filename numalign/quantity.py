"""Kubernetes quantities, exact: `1Gi`, `500m`, `1e3`, read, added and written as the API machinery does.

Source: k8s.io/apimachinery/pkg/api/resource, 1.27 to 1.36.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

__all__ = ["MAX", "Endless", "Quantity"]

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

MAX = (1 << 63) - 1
"""The largest whole value; larger ones are taken for it."""

_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,30})")
_LARGEST_EXPONENT = 1000
_ENDLESS_EXPONENT = 10**8
"""From here on the API machinery computes for minutes and more (measured, 1.36)."""
_MAX_TEXT = 1024
_MOST_DIGITS = 18


class Endless(ValueError):
    """A quantity with which the API machinery never comes to an end."""


class Quantity:
    """An exact amount and the notation in which it is written.

    >>> str(Quantity.parse("1Gi") + Quantity.parse("100Mi")), str(Quantity.parse("0.5")), str(Quantity.parse("2000"))
    ('1124Mi', '500m', '2k')
    >>> Quantity.parse("1GB")
    Traceback (most recent call last):
    ...
    ValueError: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
    """

    __slots__ = ("format", "is_int64", "value")

    def __init__(
        self, value: int | Fraction = 0, format: Format = "DecimalSI", /, *, is_int64: bool | None = None
    ) -> None:
        self.value = Fraction(value)
        self.format = format
        self.is_int64 = self.value.denominator == 1 if is_int64 is None else is_int64
        """Whether the API machinery hands it out as a whole number (AsInt64): not what is written `1.5Gi` or `1.0`."""

    @classmethod
    def parse(cls, text: str, /) -> Quantity:
        """Reads a quantity; more than nano precision rounds up, and no digits are zero.

        Raises ValueError with the API machinery's message, Endless where it would compute for ever.
        """
        match = _SHAPE.fullmatch(text) if len(text) <= _MAX_TEXT else None
        if match is None or not text:
            raise ValueError(_WRONG_FORMAT)
        sign, whole, fraction, suffix = match.groups()
        base, exponent, notation = _scale(suffix)
        number = Fraction(int((whole or "0") + (fraction or "")), 10 ** len(fraction or ""))
        if number and abs(exponent) >= _ENDLESS_EXPONENT:
            raise Endless(f"the kubelet never comes to an end with so large an exponent: {text}")
        exponent = max(-_LARGEST_EXPONENT, min(exponent, _LARGEST_EXPONENT))
        value = number * Fraction(base) ** exponent
        value = Fraction(-(-value.numerator * 10**9 // value.denominator), 10**9)
        is_int64 = _is_int64(whole.lstrip("0") or "0", fraction or "", base, exponent)
        return cls(min(value, Fraction(MAX)) * (-1 if sign == "-" else 1), notation, is_int64=is_int64)

    @property
    def whole(self) -> int:
        """The amount in whole units, fractions rounded up (away from zero)."""
        return self.value.numerator if self.value.denominator == 1 else _up(self.value)

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded up."""
        return self.value.numerator * 1000 if self.value.denominator == 1 else _up(self.value * 1000)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.value + other.value, self.format if self.value else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.value - other.value, self.format if self.value else other.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Quantity) -> bool:
        return self.value < other.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"

    def __str__(self) -> str:
        """The canonical text: no fraction, and the largest suffix that keeps the amount whole."""
        if self.format == "BinarySI" and abs(self.value) >= 1024:
            number, power = self.whole, 0
            while number % 1024 == 0 and power < 60:
                number, power = number // 1024, power + 10
            return f"{number}{next((name for name, bits in _BINARY.items() if bits == power), '')}"
        return self._decimal()

    def _decimal(self) -> str:
        number, exponent = self.value * 10**9, -9
        mantissa = _up(number)
        if mantissa == 0:
            return "0"
        while mantissa % 1000 == 0 and exponent < 18:
            mantissa, exponent = mantissa // 1000, exponent + 3
        if self.format == "DecimalExponent":
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        return f"{mantissa}{next(name for name, power in _DECIMAL.items() if power == exponent)}"


def _scale(suffix: str) -> tuple[int, int, Format]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return 2, _BINARY[suffix], "BinarySI"
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise ValueError(_WRONG_SUFFIX)
    exponent = int(match.group(1))
    if not -(1 << 63) <= exponent < 1 << 63:
        raise ValueError(_WRONG_SUFFIX)
    # what is beyond 32 bits begins anew
    return 10, (exponent + (1 << 31)) % (1 << 32) - (1 << 31), "DecimalExponent"


def _is_int64(whole: str, fraction: str, base: int, exponent: int) -> bool:
    """Whether a quantity is read into 64 bits, and without a negative power of ten (quantity.go, ParseQuantity)."""
    if not (whole + fraction).strip("0"):
        return not fraction
    if base == 2:
        digits_left = 15 - len(whole) - exponent * 3 // 10 - 1
        return not fraction and digits_left >= 0
    scale = exponent - len(fraction)
    digits = len(whole) + len(fraction)
    return digits <= _MOST_DIGITS and 0 <= scale <= _MOST_DIGITS and int(whole + fraction) * 10**scale <= MAX


def _up(value: Fraction) -> int:
    """The next whole number away from zero."""
    magnitude = -(-abs(value.numerator) // value.denominator)
    return -magnitude if value < 0 else magnitude
