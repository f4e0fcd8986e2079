"""A problem that keeps a kubelet from starting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["Problem", "Rule", "Stage"]

Stage = Literal["featureGates", "validate", "start"]


class Problem(msgspec.Struct, frozen=True):
    """What keeps the kubelet from starting: the rule's id, the kubelet's message, the field, and what to write."""

    id: str
    stage: Stage
    message: str
    path: tuple[str | int, ...]
    remedy: str | None = None


Rule = Callable[[Settings, KubeletView], Iterator[Problem]]
"""A rule yields what it finds, in the order in which the kubelet meets it."""
