"""Knowing numalign's own comments again: the reasons that an earlier run wrote above its values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numalign.render.filters import comment_lines

__all__ = ["is_reason", "own_lines"]

_REASONS = re.compile(
    "|".join(
        (
            r"containers of Guaranteed pods that ask for whole CPUs get exclusive ones",
            r"exclusive CPUs come as whole cores: .*",
            r"a container's CPUs share an L3 where they fit: .*",
            r"kept from exclusive use: \d+ of \d+ CPUs .*",
            r"it keeps other pods off the reserved CPUs, but .*",
            r"nothing is aligned(: this machine has .*|; .*)?",
            r"a container is aligned where that can be, and admitted all the same where not(; .*)?",
            r"a container comes from as few NUMA nodes as could hold it, or it is refused(; .*)?",
            r"a container's CPUs and devices come from one NUMA node, or it is refused(; .*)?",
            r"each container is aligned for itself",
            r"all of a pod is aligned together",
            r"this machine has \d+ NUMA nodes, those without CPUs included, .*",
            r"of several NUMA nodes, those that are near each other",
            r"as asked for(: two containers can share a core)?",
            r"the kubelet reckons \d+ CPUs? a core here .*",
            r"as it was",
            r"memory comes from the NUMA node of the CPUs and devices",
            r"as EKS reckons for \d+ pods: .*",
            r"for the system's services",
            r"an amount: a share moves with MemTotal",
            r"in all \S+: kubeReserved \+ systemReserved \+ evictionHard memory\.available, .*",
            r"opens \S+, which is .* in Kubernetes 1\.\d+",
            r"\S+ excludes it",
            r"nothing is enforced on it, and the kubelet refuses it beside reservedSystemCPUs",
        )
    )
)
"""What the plan gives as reasons, and has given: rows are added, and none is taken out."""


def is_reason(text: str) -> bool:
    """Whether a text is one that the plan gives as a reason."""
    return _REASONS.fullmatch(text) is not None


def own_lines(comments: Sequence[str]) -> tuple[int, int] | None:
    """Which of the comment lines above a value are numalign's own, from and up to; the longest that are a reason as
    numalign breaks it into lines. None where all are a person's."""
    count = len(comments)
    ranges = [(i, i + size) for size in range(count, 0, -1) for i in range(count - size, -1, -1)]
    return next((found for found in ranges if _is_own(comments[slice(*found)])), None)


def _is_own(lines: Sequence[str]) -> bool:
    bare = [line.strip() for line in lines]
    text = " ".join(line.removeprefix("# ") for line in bare)
    indent = len(lines[0]) - len(lines[0].lstrip())
    return is_reason(text) and comment_lines(text, indent) == bare
