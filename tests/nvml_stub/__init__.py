"""A library that stands in for libnvidia-ml.so.1, and the settings that tell it what to answer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["build", "dgx", "environment", "settings"]


def build(folder: Path) -> Path:
    """Compiles the library into `folder` and gives the folder."""
    source = Path(__file__).parent / "nvml_stub.c"
    target = folder / "libnvidia-ml.so.1"
    command = [
        os.environ.get("CC", "cc"),
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-Wl,-soname,libnvidia-ml.so.1",
    ]
    subprocess.run([*command, "-o", str(target), str(source)], check=True)
    return folder


def settings(folder: Path, said: Mapping[str, object]) -> Path:
    """Writes a settings file: `key = value` lines (see nvml_stub.c)."""
    path = folder / "nvml.settings"
    lines = (
        f"{key} = ".encode() + (value if isinstance(value, bytes) else str(value).encode())
        for key, value in said.items()
    )
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def environment(library: Path, said: Path) -> dict[str, str]:
    """The variables under which a process finds the library and the library its settings."""
    return {"LD_LIBRARY_PATH": str(library), "NVML_STUB_FILE": str(said)}


def dgx(buses: tuple[str, ...]) -> dict[str, object]:
    """Settings of a healthy machine with an H100 at each bus id (as NVML prints them)."""
    said: dict[str, object] = {"driver": "570.124.06", "nvml": "12.570.124.06", "gpus": len(buses)}
    for index, bus in enumerate(buses):
        said[f"{index}.bus"] = bus
        said[f"{index}.uuid"] = f"GPU-{index:08d}-0000-4000-8000-000000000000"
        said[f"{index}.name"] = "NVIDIA H100 80GB HBM3"
        said[f"{index}.memory"] = 85520809984
        said[f"{index}.minor"] = index
    return said
