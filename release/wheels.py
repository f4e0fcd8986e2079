"""The wheels that requirements.lock names: which of its lines hold for a Python, and fetching them by their hashes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from packaging.markers import default_environment
from packaging.requirements import Requirement

__all__ = ["LOCK", "PYTHONS", "Locked", "fetch", "locked"]

LOCK = Path(__file__).parent.parent / "requirements.lock"
PYTHONS = ((3, 10), (3, 11), (3, 12), (3, 13), (3, 14))
"""The Pythons (major, minor) that numalign.pyz is packed for."""
_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux_2_5", "manylinux1")
_AT_ONCE = 3


class Locked(NamedTuple):
    """A requirement of the lock, with the sha256 sums of the files that it may be."""

    requirement: Requirement
    sums: tuple[str, ...]

    def holds(self, python: tuple[int, int], machine: str) -> bool:
        """Whether it is needed on Linux with this Python and machine."""
        if self.requirement.marker is None:
            return True
        version = "{}.{}".format(*python)
        there = {
            **default_environment(),
            "python_version": version,
            "python_full_version": f"{version}.0",
            "platform_machine": machine,
        }
        return self.requirement.marker.evaluate(there)  # type: ignore[arg-type]

    def line(self) -> str:
        """The line for pip, without the marker, which pip reads for the Python that it runs on itself."""
        sums = " ".join(f"--hash=sha256:{digest}" for digest in self.sums)
        return f"{self.requirement.name}=={self.version} {sums}\n"

    @property
    def version(self) -> str:
        """The version that is pinned."""
        (pin,) = self.requirement.specifier
        return pin.version


def locked(text: str) -> list[Locked]:
    """The requirements of a lock's text."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words, *sums = line.split("--hash=sha256:")
        if words.strip() and not words.startswith("#"):
            found.append(Locked(Requirement(words.strip()), tuple(digest.strip() for digest in sums)))
    return found


def fetch(folder: Path, pythons: tuple[tuple[int, int], ...], machine: str) -> dict[tuple[int, int], list[Path]]:
    """The wheels for each Python in the folder, fetched with pip, which compares their hashes.

    Raises CalledProcessError where one cannot be had.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        fetched = pool.map(lambda python: _fetch(folder, python, machine), pythons)
        return dict(zip(pythons, fetched, strict=True))


def _fetch(folder: Path, python: tuple[int, int], machine: str) -> list[Path]:
    version = "{}{}".format(*python)
    target = folder / version
    lines = [one.line() for one in locked(LOCK.read_text()) if one.holds(python, machine)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("".join(lines))
        wanted.flush()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--only-binary", ":all:", "--implementation", "cp", "--abi", f"cp{version}"]
        command += ["--python-version", version, "--requirement", wanted.name, "--dest", str(target)]
        for glibc in _GLIBC:
            command += ["--platform", f"{glibc}_{machine}"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    found = sorted(target.glob("*.whl"))
    if len(found) != len(lines):
        raise RuntimeError(f"{len(lines)} wheels are wanted for Python {python}, {len(found)} are there")
    return found
