"""numalign render."""

from __future__ import annotations

import sys
from typing import Any

from numalign.cli.files import emit
from numalign.cli.source import load_machine
from numalign.words import printable

__all__ = ["kubelet_config"]

_WORTH_SAYING = frozenset(
    {
        "gpu-numa-unknown",
        "no-numa-directory",
        "numa-off",
        "core-ids-not-believable",
        "gpu-no-driver",
        "gpu-other-driver",
    }
)
"""The map's warnings that make a configuration achieve less than it says."""


def kubelet_config(
    *,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Write a KubeletConfiguration that aligns CPUs and GPUs on this machine, with the reason for each choice."""
    from numalign.cli.wishes import plan_wishes
    from numalign.plan import make_plan
    from numalign.render import kubelet_config as render

    found = load_machine(root, machine, nvml)
    text = render(found, make_plan(found, plan_wishes(**wishes)))
    emit(text.encode(), out)
    for warning in found.warnings:
        if warning.id in _WORTH_SAYING:
            print(f"warning  {warning.id}  {printable(warning.message)}", file=sys.stderr)
    return 0
