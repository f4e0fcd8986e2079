"""numalign inspect."""

from __future__ import annotations

from numalign.cli.files import emit, emit_document
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
    if output == "yaml":
        from numalign.report.document import to_yaml

        emit(to_yaml(found), out)
    else:
        emit_document(found, output, f"{output}:draw", out)
    return 0
