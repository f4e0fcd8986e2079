"""What a check looks at, what it finds, and why it could not look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.document import Document
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.machine import Machine
from numalign.probe.kubelet import NO_STATE, State

__all__ = ["NO_STATE", "SEVERITIES", "Check", "Finding", "Gap", "Node", "NodeCheck", "Severity", "State", "Subject"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that does not hold: where, what was seen, and what to write instead.

    An error keeps the kubelet from starting or makes the configuration fail in its purpose; a warning starts and does
    harm; an info is worth knowing.
    """

    id: str
    severity: Severity
    place: str
    message: str
    remedy: str | None = None


class Gap(msgspec.Struct, frozen=True):
    """Why a check was not made: there is nothing here that it is about, or it could not look."""

    status: Literal["not-applicable", "not-looked-at"]
    reason: str


class Node(msgspec.Struct, frozen=True):
    """The node beside its configuration: the machine, and what a kubelet left on it."""

    machine: Machine
    state: State = NO_STATE


class Subject(msgspec.Struct, frozen=True):
    """A configuration that a kubelet can be judged by, and the node: as it is, and as the kubelet sees it.

    `reserved` are the CPUs that are kept from exclusive use, whether they are listed or counted.
    """

    node: Node
    view: KubeletView
    settings: Settings
    reserved: CpuSet
    document: Document

    @property
    def machine(self) -> Machine:
        """The node's machine."""
        return self.node.machine

    @property
    def state(self) -> State:
        """What a kubelet left on the node."""
        return self.node.state


def _always(of: object) -> Gap | None:
    return None


class NodeCheck(NamedTuple):
    """A check of the node, whatever its configuration: the ids that it reports, and why it is not made, if so."""

    ids: tuple[str, ...]
    find: Callable[[Node], Iterable[Finding]]
    gap: Callable[[Node], Gap | None] = _always


class Check(NamedTuple):
    """A check of a configuration on its node: the ids that it reports, and why it is not made, if so."""

    ids: tuple[str, ...]
    find: Callable[[Subject], Iterable[Finding]]
    gap: Callable[[Subject], Gap | None] = _always
