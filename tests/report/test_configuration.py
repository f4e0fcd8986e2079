"""`kubelet config` as text: what holds, and where it is from."""

from __future__ import annotations

import io

from rich.console import Console

from numalign.kubelet.effective import effective
from numalign.kubelet.flags import parse_flags
from numalign.report.configuration import draw

FILE = b"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {memory.available: 200Mi, nodefs.available: 10%}
featureGates: {CPUManagerPolicyBetaOptions: true}
kubeReserved: {memory: 1Gi, cpu: "1"}
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]
"""
FLAGS = """\
--eviction-hard='nodefs.available<5%' --kube-reserved=memory=2Gi --reserved-memory=0:memory=2Gi
--feature-gates=CPUManagerPolicyAlphaOptions=true
"""


def rows(flags: str) -> dict[str, tuple[str, str]]:
    document = effective(("f.yaml", FILE), {}, parse_flags(flags), 36)
    text = io.StringIO()
    draw(Console(file=text, width=200), document)
    found = (line.split() for line in text.getvalue().splitlines()[1:])
    return {field: (value, place) for field, value, place in found if place != "default"}


def test_what_a_flag_replaces_is_not_shown_as_its_own() -> None:
    assert rows(FLAGS) == {
        "reservedMemory": ('[{"numaNode":0,"limits":{"memory":"2Gi"}}]', "--reserved-memory"),
        "kubeReserved.memory": ("2Gi", "--kube-reserved"),
        "evictionHard.nodefs.available": ("5%", "--eviction-hard"),
        "featureGates.CPUManagerPolicyBetaOptions": ("true", "f.yaml:4"),
        "featureGates.CPUManagerPolicyAlphaOptions": ("true", "--feature-gates"),
    }


def test_without_flags_the_file_is_shown() -> None:
    assert rows("") == {
        "reservedMemory": ('[{"limits":{"memory":"1Gi"},"numaNode":0}]', "f.yaml:6"),
        "kubeReserved.memory": ("1Gi", "f.yaml:5"),
        "kubeReserved.cpu": ("1", "f.yaml:5"),
        "evictionHard.memory.available": ("200Mi", "f.yaml:3"),
        "evictionHard.nodefs.available": ("10%", "f.yaml:3"),
        "featureGates.CPUManagerPolicyBetaOptions": ("true", "f.yaml:4"),
    }
