"""What is drawn over a machine: which CPUs are kept, free or taken, and who has which device. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

__all__ = ["NOTHING", "Fact", "Holder", "Overlay", "State", "letter"]

State = Literal["reserved", "free", "shared"]
"""`reserved` for the system; `free`: a container can have it exclusively; `shared`: only ever shared."""


class Holder(NamedTuple):
    """A container that has CPUs, devices or memory: how it is marked, and what it has, in words."""

    mark: str
    name: str
    has: tuple[str, ...]


class Fact(NamedTuple):
    """A line of text beside the picture; `tone` is `plain`, `good` or `bad`."""

    text: str
    tone: Literal["plain", "good", "bad"] = "plain"


class Overlay(NamedTuple):
    """`cpus` is the state of each CPU (none where it is left out), `cpu_holders` and `device_holders` are the marks of
    those that have a CPU or a device (by BDF; several where it is divided)."""

    facts: tuple[Fact, ...] = ()
    cpus: Mapping[int, State] = {}
    holders: tuple[Holder, ...] = ()
    cpu_holders: Mapping[int, str] = {}
    device_holders: Mapping[str, tuple[str, ...]] = {}


NOTHING = Overlay()


def letter(number: int) -> str:
    """The mark of the holder of that number from 0: A to Z, then A2 and so on.

    >>> [letter(number) for number in (0, 25, 26, 52)]
    ['A', 'Z', 'A2', 'A3']
    """
    turn, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(turn + 1) if turn else "")
