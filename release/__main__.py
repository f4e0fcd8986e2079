"""`make build`: wheel and sdist, numalign.pyz, and what is in it as a CycloneDX document.

usage: python -m release DIST [MACHINE]

Everything goes to the folder DIST. MACHINE is x86_64, or aarch64, for which it makes numalign-aarch64.pyz.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from release.pyz import USUAL, made
from release.sbom import document

CHECKOUT = Path(__file__).parent.parent


def build(dist: Path, machine: str = USUAL) -> None:
    """Builds everything. Raises CalledProcessError where something cannot be built or fetched."""
    command = [sys.executable, "-m", "build", "--quiet", "--outdir", str(dist), str(CHECKOUT)]
    subprocess.run(command, check=True, cwd=dist, stdout=subprocess.DEVNULL)
    pyz = made(dist, machine)
    (dist / f"{pyz.stem}.cdx.json").write_text(document(pyz))


def main() -> None:
    """Builds what the command line asks for."""
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    dist = Path(sys.argv[1]).absolute()
    dist.mkdir(parents=True, exist_ok=True)
    build(dist, *sys.argv[2:])


if __name__ == "__main__":
    main()
