"""verify's answer as a feature file of Node Feature Discovery: labels of the node.

Source: the customization guide of Node Feature Discovery, "Local feature source"; label values: Kubernetes, "Labels and
Selectors".
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from numalign.checks.answer import Answer
from numalign.fingerprint import fingerprint
from numalign.machine import Machine

__all__ = ["gpu_layout", "text"]

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_LIFETIME = 3600
"""Seconds for which the labels hold. A node that is not verified any more is not called aligned for ever."""


def text(answer: Answer) -> str:
    """The labels, a line each; one whose value no label can have is left out."""
    labels = {
        "aligned": str(answer.holds).lower(),
        "gpu-numa-layout": gpu_layout(answer.machine),
        "topology": fingerprint(answer.machine),
    }
    until = datetime.fromtimestamp(int(answer.at) + _LIFETIME, timezone.utc)
    lines = [f"# +expiry-time={until.strftime('%Y-%m-%dT%H:%M:%SZ')}"]
    lines += [f"numalign.io/{name}={value}" for name, value in labels.items() if _LABEL_VALUE.fullmatch(value)]
    return "\n".join(lines) + "\n"


def gpu_layout(machine: Machine) -> str:
    """How many GPUs each NUMA node with CPUs has (`4-4`), then those whose NUMA node is not among them (`0-0-x8`);
    empty where there are none."""
    if not machine.gpus:
        return ""
    nodes = [node.id for node in machine.numa_nodes if node.cpus]
    counts = [str(sum(gpu.numa_node == id for gpu in machine.gpus)) for id in nodes]
    elsewhere = sum(gpu.numa_node not in nodes for gpu in machine.gpus)
    return "-".join([*counts, *([f"x{elsewhere}"] if elsewhere else [])])
