"""`make demo`: the topology of a DGX H100, a configuration made for it, and the two verified against each other.

Everything runs through the command itself, on a machine that tests/fixtures/sysfs describes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests import machines

__all__ = ["MACHINE", "STEPS"]

MACHINE = "dgx-h100"
STEPS = (
    "inspect --root {root}",
    "render kubelet-config --root {root} --out kubelet.yaml",
    "verify --config kubelet.yaml --root {root}",
)


def main(numalign: str) -> int:
    """Runs the steps; gives the first exit status that is not 0."""
    command = str(Path(numalign).absolute())
    with tempfile.TemporaryDirectory() as folder:
        machines.build(MACHINE, Path(folder) / MACHINE)
        for step in STEPS:
            words = step.format(root=MACHINE).split()
            print(f"$ numalign {' '.join(words)}", flush=True)
            status = subprocess.run([command, *words], cwd=folder, check=False).returncode
            if status:
                return status
            if words[0] == "render":
                print("$ cat kubelet.yaml")
                print(Path(folder, "kubelet.yaml").read_text(), end="")
            print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
