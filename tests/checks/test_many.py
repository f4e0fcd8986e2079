"""Of a text with very many names that are none, what was meant is looked for of the first ones alone."""

from __future__ import annotations

from collections.abc import Callable

from numalign.checks import judge
from numalign.checks.finding import Node
from numalign.kubelet.effective import effective
from numalign.kubelet.fields import MOST_LOOKED_FOR
from numalign.machine import Machine

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_the_name_that_is_meant_is_looked_for_of_the_first_ones(machine_of: Callable[[str], Machine]) -> None:
    text = HEADER + "".join(f"maxPods{number:03}: 1\n" for number in range(MOST_LOOKED_FOR + 2))
    found = judge(Node(machine_of("dgx-h100")), effective(("f.yaml", text.encode()), {}, {}, 36), 36).findings
    remedies = [finding.remedy for finding in found if finding.id == "field-ignored"]
    assert (remedies.count("did you mean maxPods?"), remedies.count(None)) == (MOST_LOOKED_FOR, 2)
