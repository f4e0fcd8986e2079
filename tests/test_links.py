"""Link types and nearest NICs."""

from __future__ import annotations

import pytest

from numalign.links import LINK_TYPES, MEANING, Place, all_links, link_type, nearest
from numalign.machine import NearestNics

GPU: Place = (("pci0000:15", "15:01.0", "16:00.0", "17:01.0", "18:00.0"), 0)


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ((("pci0000:15", "15:01.0", "16:00.0", "17:00.0", "19:00.0"), 0), "PIX"),
        ((("pci0000:15", "15:01.0", "16:00.0", "17:01.0", "18:00.1"), 0), "PIX"),
        ((("pci0000:15", "15:01.0", "16:00.0", "17:00.0", "20:00.0", "21:00.0", "22:00.0"), 0), "PXB"),
        ((("pci0000:15", "15:02.0", "1a:00.0"), 0), "PHB"),
        ((("pci0000:26", "26:01.0", "27:00.0"), 0), "NODE"),
        ((("pci0000:97", "97:01.0", "98:00.0"), 1), "SYS"),
        ((("pci0000:97", "97:01.0", "98:00.0"), None), "SYS"),
        ((("98:00.0",), 0), None),
    ],
)
def test_the_link_type_is_where_two_paths_part(other: Place, kind: str | None) -> None:
    assert link_type(GPU, other) == kind
    assert link_type(other, GPU) == kind


def test_devices_of_unknown_numa_nodes_are_never_node() -> None:
    a, b = (("pci0001:00", "0001:00:00.0"), None), (("pci0002:00", "0002:00:00.0"), None)
    assert link_type(a, b) == "SYS"


def test_the_nearest_nics_are_all_those_of_the_best_type() -> None:
    nics: list[tuple[str, Place]] = [
        ("far", (("pci0000:97", "97:01.0", "98:00.0"), 1)),
        ("near", (("pci0000:15", "15:01.0", "16:00.0", "17:00.0", "19:00.0"), 0)),
        ("near too", (("pci0000:15", "15:01.0", "16:00.0", "17:00.0", "19:00.1"), 0)),
    ]
    assert nearest(GPU, nics) == NearestNics(type="PIX", nics=("near", "near too"))
    assert nearest(GPU, []) is None


def test_every_pair_has_one_link_and_nvlinks_where_they_are_known() -> None:
    places = dict.fromkeys("abc", GPU)
    links = all_links(places, {frozenset("ab"): 18})
    assert [(link.a, link.b, link.nvlinks) for link in links] == [("a", "b", 18), ("a", "c", None), ("b", "c", None)]
    assert {link.nvlinks for link in all_links(places, None)} == {None}


def test_every_type_has_its_meaning() -> None:
    assert tuple(MEANING) == LINK_TYPES
