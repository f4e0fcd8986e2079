"""What the tests of predict share: its answer, machines and configurations."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

from tests.nodes import cpu_state, machine, memory_state

GIB = 1 << 30
P5 = machine(["0-47", "48-95"], "00001111", memory="1000 GiB")
ROOMY: dict[str, Any] = {"evictionHard": {"nodefs.available": "10%"}}
DEVICES = "device-plugins/kubelet_internal_checkpoint"
TWO = machine(["0-7", "8-15"], memory="64 GiB")
STATIC: dict[str, Any] = {
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    "systemReserved": {"memory": "1Gi"},
    **ROOMY,
}


class Answer:
    """What the command gave: its exit status and document, what it said on standard error, and the text for people."""

    def __init__(self, command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        self.command = command
        done = command("-o", "json")
        self.status, self.error = done.returncode, done.stderr
        self.document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}

    @property
    def text(self) -> str:
        return self.command().stdout

    def pod(self, number: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = self.document["pods"][number]
        return found

    def outcomes(self) -> list[str]:
        return [each["verdict"] or each["outcome"] for each in self.document["pods"]]

    def advice(self) -> list[str]:
        return [each["message"] for each in self.pod()["advice"]]

    def remarks(self, number: int = -1) -> dict[str, str]:
        each = self.pod(number)
        return {remark["id"]: remark["message"] for remark in (*each["costs"], *each["notes"])}


Predict = Callable[..., Answer]


def static_state(used: dict[int, int], blocks: dict[str, tuple[list[int], int]], **changed: Any) -> dict[str, str]:
    """Both state files of TWO: GiB in use on each NUMA node, and those of each pod (NUMA nodes, GiB)."""
    nodes: dict[int, dict[str, Any]] = {}
    for id, gib in used.items():
        kept = GIB if id == 0 else 0
        left = 64 * GIB - kept
        groups = [cells for cells, _ in blocks.values() if id in cells]
        nodes[id] = {
            "assignments": len(groups),
            "cells": groups[0] if groups else [id],
            "memory": {
                "total": 64 * GIB + changed.get("more", 0),
                "systemReserved": kept,
                "allocatable": left,
                "reserved": gib * GIB,
                "free": left - gib * GIB,
            },
            **changed.get("nodes", {}).get(id, {}),
        }
    entries = {
        uid: [{"numaAffinity": cells, "type": "memory", "size": gib * GIB}] for uid, (cells, gib) in blocks.items()
    }
    return {"cpu_manager_state": cpu_state("0-15", {}), "memory_manager_state": memory_state(nodes, entries)}
