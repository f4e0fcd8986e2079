"""What a check looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.document import Document
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView
from numalign.machine import Machine

__all__ = ["NO_STATE", "SEVERITIES", "Finding", "Severity", "State", "Subject"]

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


class State(msgspec.Struct, frozen=True):
    """What an earlier kubelet left in its directory: its managers' files, and the names of its plugins' sockets."""

    folder: str
    files: Mapping[str, bytes]
    plugins: tuple[str, ...] = ()


NO_STATE = State("", {})


class Subject(msgspec.Struct, frozen=True):
    """A configuration that a kubelet can be judged by, and the machine: as it is, and as the kubelet sees it.

    `reserved` are the CPUs that are kept from exclusive use, whether they are listed or counted.
    """

    machine: Machine
    view: KubeletView
    settings: Settings
    reserved: CpuSet
    document: Document
    state: State
