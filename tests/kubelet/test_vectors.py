"""What a real kubelet decided, numalign decides too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from numalign.kubelet.checkpoint import cpu_checksum, memory_checksum, read_cpu_state, read_memory_state
from tests.vectors import HERE, differences


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("kubelet-config", 58),
        ("state", 18),
        ("take-cpus", 869),
        ("admission", 489),
        ("admission-podlevel", 71),
        ("admission-versions", 14),
        ("functions", 516),
    ],
)
def test_every_row_of_a_file_agrees(name: str, rows: int) -> None:
    total, wrong = differences(HERE / f"{name}.jsonl")
    assert (total, wrong) == (rows, [])


@pytest.mark.parametrize("folder", sorted((HERE / "state").iterdir()), ids=lambda folder: folder.name)
def test_the_checksums_of_state_files_are_the_kubelets(folder: Path) -> None:
    cpu = json.loads((folder / "cpu_manager_state").read_text())
    assert cpu_checksum(cpu) == cpu["checksum"]
    memory = read_memory_state((folder / "memory_manager_state").read_bytes())
    assert memory_checksum(memory) == memory.checksum
    assert read_cpu_state((folder / "cpu_manager_state").read_bytes()).policy == cpu["policyName"]
