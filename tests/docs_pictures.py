"""The pictures of the documentation, as the commands draw them.

usage: python -m tests.docs_pictures DIR        writes them into DIR (make pictures: docs/images)
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests import machines

__all__ = ["PICTURES", "drawn"]

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: 0-3,56-59,112-115,168-171
topologyManagerPolicy: single-numa-node
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  containers:
    - name: server
      resources: {limits: {cpu: 52, memory: 400Gi, nvidia.com/gpu: 2}}
    - name: tokenizer
      resources: {limits: {cpu: 4, memory: 16Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  containers:
    - name: main
      resources: {limits: {cpu: 96, memory: 800Gi, nvidia.com/gpu: 4}}
"""
FILES = {"kubelet.yaml": CONFIG, "pods.yaml": PODS}

PICTURES: Mapping[str, tuple[str, str]] = {
    # the file -> the machine, the command line beside its tree and FILES
    "inspect-dgx-h100.svg": ("dgx-h100", "inspect -o svg --root dgx-h100"),
    "inspect-dgx-a100-nps4.svg": ("dgx-a100-nps4", "inspect -o svg --root dgx-a100-nps4"),
    "plan-dgx-h100.svg": ("dgx-h100", "plan -o svg --root dgx-h100"),
    "predict-dgx-h100.svg": ("dgx-h100", "predict pods.yaml --config kubelet.yaml -o svg --root dgx-h100"),
    "inspect-vm-all-unknown.svg": ("vm-all-unknown", "inspect -o svg --root vm-all-unknown"),
}


def drawn(name: str, folder: Path) -> str:
    """The picture of that name, drawn in a folder of its own."""
    machine, words = PICTURES[name]
    if not (folder / machine).exists():
        machines.build(machine, folder / machine)
    for file, text in FILES.items():
        (folder / file).write_text(text)
    command = [sys.executable, "-m", "numalign", *words.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Writes all of them."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for name in PICTURES:
            (target / name).write_text(drawn(name, Path(folder)))


if __name__ == "__main__":
    main()
