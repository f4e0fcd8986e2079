"""CPU sets: one immutable type with an int bit set inside, written and read as the kernel and the kubelet do.

Sources: the kernel's Documentation/admin-guide/cputopology.rst (list and mask formats) and k8s.io/utils/cpuset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["MAX_CPUS", "CpuSet"]

MAX_CPUS = 1 << 16
"""CPU numbers at or above this are refused: no kernel has them, and a bit set would grow without bound."""
_RUN = re.compile("1+")


class CpuSet:
    """An immutable set of CPU numbers (also used for NUMA node numbers).

    >>> cpus = CpuSet.parse("0-3,8")
    >>> len(cpus), list(cpus), str(cpus | CpuSet.parse("4"))
    (5, [0, 1, 2, 3, 8], '0-4,8')
    >>> str(CpuSet.parse_mask("00000001,00000103"))
    '0-1,8,32'
    """

    __slots__ = ("bits",)

    bits: int

    def __init__(self, ids: Iterable[int] = (), /) -> None:
        bits = 0
        for cpu in ids:
            bits |= 1 << cpu
        self.bits = bits

    @classmethod
    def from_mask(cls, bits: int, /) -> CpuSet:
        """The set whose members are the one bits of `bits`."""
        new = cls.__new__(cls)
        new.bits = bits
        return new

    @classmethod
    def parse(cls, text: str, /) -> CpuSet:
        """Reads a CPU list such as `0-3,8`; blanks and NUL bytes around it do not count, no text is the empty set.

        Raises ValueError where the text is no CPU list.
        """
        bits = 0
        text = text.strip("\0 \t\r\n")
        if not text:
            return cls.from_mask(0)
        for part in text.split(","):
            low, dash, high = part.partition("-")
            if not (low.isascii() and low.isdigit() and (not dash or (high.isascii() and high.isdigit()))):
                raise ValueError(f"{_shown(part)} is no CPU number and no range of them")
            first = _number(low)
            last = _number(high) if dash else first
            if last < first:
                raise ValueError(f"the range {part} runs backwards")
            bits |= ((1 << (last - first + 1)) - 1) << first
        return cls.from_mask(bits)

    @classmethod
    def parse_mask(cls, text: str, /) -> CpuSet:
        """Reads a kernel mask: groups of hex digits with commas between, the highest CPUs first.

        Raises ValueError where the text is no mask.
        """
        groups = text.strip("\0 \t\r\n").split(",")
        if len(groups) * 32 > MAX_CPUS + 32:
            raise ValueError("the mask has more CPUs than any machine")
        bits = 0
        for group in groups:
            if not group or len(group) > 16 or not all(c in "0123456789abcdefABCDEF" for c in group):
                raise ValueError(f"{_shown(group)} is no group of hex digits")
            bits = bits << max(32, 4 * len(group)) | int(group, 16)
        return cls.from_mask(bits)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The runs of neighbouring CPUs as (first, last), ascending."""
        # one pass over the digits: shifting the number by each run takes quadratic time
        for run in _RUN.finditer(bin(self.bits)[:1:-1]):
            yield run.start(), run.end() - 1

    def __str__(self) -> str:
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"CpuSet.parse({str(self)!r})"

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __contains__(self, cpu: int) -> bool:
        return self.bits >> cpu & 1 == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpuSet) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash(self.bits)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.bits | other.bits)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.bits & other.bits)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet.from_mask(self.bits & ~other.bits)

    def __le__(self, other: CpuSet) -> bool:
        """Whether every CPU of this set is in the other."""
        return self.bits & ~other.bits == 0

    def first(self) -> int:
        """The lowest CPU; raises ValueError where the set is empty."""
        if not self.bits:
            raise ValueError("an empty CPU set has no first CPU")
        return (self.bits & -self.bits).bit_length() - 1


def _number(digits: str) -> int:
    number = int(digits) if len(digits) <= 6 else MAX_CPUS
    if number >= MAX_CPUS:
        raise ValueError(f"{_shown(digits)} is beyond any machine's CPUs")
    return number


def _shown(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:20] + "…")
