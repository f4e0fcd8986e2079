"""What a check looks at, what it finds, and why it could not look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Literal, TypeVar

import msgspec

from numalign.checks.resources import NOT_ASKED, Resources
from numalign.cpuset import CpuSet
from numalign.kubelet.document import Document
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.machine import Machine
from numalign.probe.kubelet import NO_STATE, Process, State
from numalign.probe.system import NO_SYSTEM, Health, System

__all__ = ["NO_STATE", "SEVERITIES", "Check", "Expected", "Finding", "Gap", "Node", "Running", "Severity", "State"]
__all__ += ["Subject", "unseen"]

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


class Expected(msgspec.Struct, frozen=True):
    """What the machine should be: numbers of GPUs and of NICs (physical functions), and a map of it; None: anything.

    `source` and `machine_source` say where that was said.
    """

    gpus: int | None = None
    nics: int | None = None
    machine: Machine | None = None
    source: str = "command line"
    machine_source: str = ""


class Running(msgspec.Struct, frozen=True):
    """The kubelet that runs on the node, if one does.

    `version` is what its binary says; `written` has the files that it was started with and that are judged, and when
    each was last written (seconds since 1970); `health` is what its /healthz said, None where it was not asked.
    """

    process: Process
    version: str | None = None
    written: Mapping[str, float] = {}
    health: Health | None = None
    configz: Settings | str | None = None


class Node(msgspec.Struct, frozen=True):
    """The node beside its configuration: the machine, what a kubelet left on it, the system, the running kubelet and
    what it says, and what is expected."""

    machine: Machine
    state: State = NO_STATE
    system: System = NO_SYSTEM
    running: Running | None = None
    resources: Resources = NOT_ASKED
    expected: Expected = Expected()


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


T = TypeVar("T")


def _nothing(of: object) -> tuple[Finding, ...]:
    return ()


def _no_gap(of: object) -> Gap | None:
    return None


class Check(msgspec.Struct, Generic[T], frozen=True):
    """A check of the node alone, of a configuration on it, or of what a container was given: the ids that it reports,
    what it finds, and why it is not made, if so. One that finds nothing only says when the checks of its ids are not
    made, which others make."""

    ids: tuple[str, ...]
    find: Callable[[T], Iterable[Finding]] = _nothing
    gap: Callable[[T], Gap | None] = _no_gap


def unseen(subject: Subject) -> Gap | None:
    """Why nothing is known of the system around the kubelet, where that is so."""
    if subject.node.system == NO_SYSTEM:
        return Gap("not-looked-at", "of the system around the kubelet nothing is seen")
    return None
