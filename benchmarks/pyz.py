"""How long numalign.pyz takes, once it is unpacked, beside the installed command: at most 1.3 times as long.

usage: python -m benchmarks.pyz [NUMALIGN.PYZ]

Without a file it is dist/numalign.pyz of `make build`. The wheel in it is installed into an environment of its own, so
that both start in one like the other. The commands run in turn; what counts are the ratios, taken round by round.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from benchmarks.inspect import seconds
from tests import machines

ROUNDS = 15
WORDS = (
    ("--version",),
    ("checks", "list"),
    ("inspect", "--root", "{root}"),
    ("inspect", "-o", "json", "--root", "{root}"),
    ("render", "kubelet-config", "--root", "{root}"),
)


def installed(pyz: Path, folder: Path) -> tuple[Path, Path]:
    """The command of numalign.pyz's own wheel, installed below the folder, and the Python of an environment without."""
    with zipfile.ZipFile(pyz) as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("wheels/numalign-"))
        wheel = archive.extract(name, folder)
    for environment in ("with", "without"):
        venv.create(folder / environment, with_pip=environment == "with")
    command = [str(folder / "with/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(command, check=True)
    return folder / "with/bin/numalign", folder / "without/bin/python"


def measure(pyz: Path, folder: Path) -> None:
    """Prints the first run in milliseconds, then medians of both commands and the ratio."""
    numalign, python = installed(pyz, folder)
    root = folder / "dgx-h100"
    machines.build("dgx-h100", root)
    hidden = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["NUMALIGN_PYZ_CACHE"] = str(folder / "cache")
    packed = [str(python), str(pyz)]
    print(f"first run, which unpacks: {seconds([*packed, '--version'], environment) * 1000:.0f} ms")
    print(f"{'':40}{'pyz ms':>10}{'installed ms':>14}   ratio")
    for line in WORDS:
        words = [word.format(root=root) for word in line]
        pair = ([*packed, *words], [str(numalign), *words])
        for command in pair:
            seconds(command, environment)
        rounds = [[seconds(command, environment) for command in pair] for _ in range(ROUNDS)]
        ours, theirs = (statistics.median(times) * 1000 for times in zip(*rounds, strict=True))
        ratio = statistics.median(one / other for one, other in rounds)
        print(f"{' '.join(line):40}{ours:10.1f}{theirs:14.1f}   {ratio:.2f}")


def main() -> None:
    """Measures the file of the command line, or that of `make build`."""
    pyz = Path(sys.argv[1] if len(sys.argv) > 1 else "dist/numalign.pyz").absolute()
    with tempfile.TemporaryDirectory() as folder:
        measure(pyz, Path(folder))


if __name__ == "__main__":
    main()
