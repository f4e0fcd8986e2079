"""The merge as the kubelet does it: every combination of one hint of each list, compared one after another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from numalign.admission.hints import Distances, Hint

__all__ = ["merge_exhaustively"]

ANY = Hint(None, preferred=True)
NEVER = Hint(None, preferred=False)


def merge_exhaustively(
    lists: Sequence[Sequence[Hint] | None], nodes: int, distances: Distances | None, *, single: bool = False
) -> Hint:
    """The best hint of lists; None is a list without a preference, an empty one cannot be met."""
    filled = [(ANY,) if hints is None else tuple(hints) or (NEVER,) for hints in lists]
    if single:
        filled = [
            tuple(hint for hint in hints if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1))
            for hints in filled
        ]
    narrowest = [min((hint.mask.bit_count() for hint in hints if hint.mask is not None), default=0) for hints in filled]
    best: Hint | None = None
    for combination in product(*filled):
        best = _better(best, _of(combination, nodes), max(narrowest, default=0), distances)
    found = best or Hint(nodes, preferred=False)
    return Hint(None, found.preferred) if single and found.mask == nodes else found


def _of(combination: Sequence[Hint], nodes: int) -> Hint:
    masks = [hint.mask for hint in combination if hint.mask is not None]
    for mask in masks:
        nodes &= mask
    return Hint(nodes, all(hint.preferred for hint in combination) and len(set(masks)) <= 1)


def _better(best: Hint | None, new: Hint, wanted: int, distances: Distances | None) -> Hint:
    assert new.mask is not None
    if new.mask == 0:
        return best  # type: ignore[return-value]
    if best is None or best.preferred != new.preferred:
        return new if best is None or new.preferred else best
    assert best.mask is not None
    have, offered = best.mask.bit_count(), new.mask.bit_count()
    if not best.preferred and have <= wanted:
        if have == wanted and offered != wanted:
            return best
        if have < wanted and offered != have:
            return new if have < offered <= wanted else best
    return new if _key(new.mask, distances) < _key(best.mask, distances) else best


def _key(mask: int, distances: Distances | None) -> tuple[int, int, int]:
    return mask.bit_count(), distances.of(mask) if distances else 0, mask
