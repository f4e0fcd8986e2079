"""What a check finds."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["SEVERITIES", "Finding", "Severity"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that does not hold: where, what was seen, and what to write instead.

    An error keeps the kubelet from starting or makes the configuration fail in its purpose; a warning starts and does
    harm; an info is worth knowing. `id` is the check's.
    """

    id: str = ""
    severity: Severity
    place: str
    message: str
    remedy: str | None = None
