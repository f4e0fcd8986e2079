"""How near two PCI devices are to each other, in nvidia-smi's words, and which NICs are nearest to each GPU.

From the nearest: PIX, one switch or one bridge between the two; PXB, several bridges below one root port; PHB, they
meet at the host bridge; NODE, different host bridges on one known NUMA node; SYS, anything else.
Source: the legend of `nvidia-smi topo -m`; the PCI tree as sysfs nests it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numalign.machine import Link, LinkType, NearestNics

__all__ = ["LINK_TYPES", "MEANING", "Place", "all_links", "link_type", "nearest"]

LINK_TYPES: tuple[LinkType, ...] = ("PIX", "PXB", "PHB", "NODE", "SYS")

MEANING: dict[LinkType, str] = {
    "PIX": "at most one PCIe bridge or switch between the two",
    "PXB": "several PCIe bridges, not crossing the host bridge",
    "PHB": "across a PCIe host bridge",
    "NODE": "across host bridges of one NUMA node",
    "SYS": "across NUMA nodes, or not known to share one",
}

_RANK = {kind: rank for rank, kind in enumerate(LINK_TYPES)}

Place = tuple[tuple[str, ...], int | None]
"""A device's path (host bridge, bridges, itself) and its NUMA node; a path of one part means an unknown tree."""


def link_type(a: Place, b: Place) -> LinkType | None:
    """How near two different devices are; None where the PCI tree of one of them is not known."""
    (path_a, numa_a), (path_b, numa_b) = a, b
    if len(path_a) < 2 or len(path_b) < 2:
        return None
    shared = 0
    for part_a, part_b in zip(path_a[:-1], path_b[:-1], strict=False):
        if part_a != part_b:
            break
        shared += 1
    if shared == 0:
        return "NODE" if numa_a is not None and numa_a == numa_b else "SYS"
    if shared == 1:
        return "PHB"
    # Bridges below the shared one, on the longer side.
    below = max(len(path_a), len(path_b)) - shared - 1
    return "PIX" if below <= 1 else "PXB"


def all_links(places: Mapping[str, Place], nvlinks: Mapping[frozenset[str], int] | None) -> tuple[Link, ...]:
    """The link of every pair of devices, in the order of `places`; `nvlinks` counts those of two GPUs, if known."""
    names = list(places)
    links = []
    for i, a in enumerate(names):
        place = places[a]
        for b in names[i + 1 :]:
            count = None if nvlinks is None else nvlinks.get(frozenset((a, b)))
            links.append(Link(a=a, b=b, type=link_type(place, places[b]), nvlinks=count))
    return tuple(links)


def nearest(place: Place, nics: Iterable[tuple[str, Place]]) -> NearestNics | None:
    """The NICs of the nearest link type to a GPU at `place`; None where there are none or nothing is known."""
    by_type: dict[LinkType, list[str]] = {}
    for bdf, other in nics:
        kind = link_type(place, other)
        if kind is not None:
            by_type.setdefault(kind, []).append(bdf)
    if not by_type:
        return None
    best = min(by_type, key=_RANK.__getitem__)
    return NearestNics(type=best, nics=tuple(by_type[best]))
