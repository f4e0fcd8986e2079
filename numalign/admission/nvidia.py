"""Which GPUs NVIDIA's device plugin prefers: those that, with all others divided alike, are linked best.

Source: go-gpuallocator (gpuallocator/besteffort_policy.go) and k8s-device-plugin (internal/rm/nvml_manager.go), the
policy for whole GPUs without replicas. Of equal divisions the plugin takes the first in an order that the kubelet
leaves to chance; here it is the plugin's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations

from numalign.admission.device import Prefer
from numalign.machine import LinkType, Machine

__all__ = ["aligned", "link_scores"]

_OF_LINK: dict[LinkType | None, int] = {"PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10, None: 0}
_OF_NVLINK = 100

_Found = tuple[int, tuple[tuple[int, ...], ...]]
"""The score of a division of GPUs, and its sets."""


def link_scores(machine: Machine, ids: Mapping[str, str]) -> dict[frozenset[str], int]:
    """How well each pair of GPUs is linked, as the plugin reckons it; `ids` are the devices' ids by bus address."""
    return {
        frozenset((ids[link.a], ids[link.b])): _OF_LINK[link.type] + _OF_NVLINK * (link.nvlinks or 0)
        for link in machine.links
        if link.a in ids and link.b in ids
    }


def aligned(scores: Mapping[frozenset[str], int]) -> Prefer:
    """The plugin's preference on GPUs that are linked so well."""

    def prefer(available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        if not 0 < size <= len(available) or len(must) > size:
            return ()
        pairs = [[scores.get(frozenset((a, b)), 0) if a != b else 0 for b in available] for a in available]
        needed = frozenset(available.index(id) for id in must if id in available)
        return tuple(available[number] for number in _best(pairs, needed, size))

    return prefer


def _best(pairs: Sequence[Sequence[int]], needed: frozenset[int], size: int) -> tuple[int, ...]:
    """The best set of the best division into sets of so many GPUs, one of which has all that are needed and is full.
    Where the GPUs cannot be divided evenly a single set is short."""
    count = len(pairs)
    short = -count % size

    def score(some: tuple[int, ...]) -> int:
        return sum(pairs[a][b] for a, b in combinations(some, 2))

    def sets(left: tuple[int, ...], gaps: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """The sets with the first GPU, in the plugin's order, in which the gaps come last; and the gaps after each."""
        for some in combinations((*left[1:], *(-1 for _ in range(gaps))), size - 1):
            filled = (left[0], *(number for number in some if number >= 0))
            missing = size - len(filled)
            if missing in (0, gaps):
                yield filled, gaps - missing

    @cache
    def divide(left: tuple[int, ...], gaps: int, kept: bool) -> _Found | None:
        """The first of the best divisions of what is left; `kept` says that a set has what is needed."""
        if not left:
            return (0, ()) if kept else None
        best: _Found | None = None
        for some, after in sets(left, gaps):
            holds = kept or (len(some) == size and needed <= frozenset(some))
            rest = divide(tuple(number for number in left if number not in some), after, holds)
            if rest is not None and (best is None or score(some) + rest[0] > best[0]):
                best = (score(some) + rest[0], (some, *rest[1]))
        return best

    if size == 1:
        return (min(needed, default=0),)
    found = divide(tuple(range(count)), short, False)
    full = [some for some in (found[1] if found else ()) if len(some) == size and needed <= frozenset(some)]
    return max(full, key=score, default=())
