"""numalign inspect."""

from __future__ import annotations

from numalign.cli.files import emit
from numalign.cli.source import load_machine

__all__ = ["inspect"]


def inspect(
    *,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Print the topology map: NUMA nodes, CPUs, memory, GPUs, NICs, and how near each is to each."""
    found = load_machine(root, machine, nvml)
    if output == "json":
        from numalign.machine import encode

        emit(encode(found), out)
    elif output == "yaml":
        from numalign.report.document import to_yaml

        emit(to_yaml(found), out)
    else:
        from importlib import import_module

        from numalign.report.terminal import show

        show(import_module(f"numalign.report.{output}").draw, found, emit, out)
    return 0
