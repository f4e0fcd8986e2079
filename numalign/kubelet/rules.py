"""Why a kubelet does not start on a configuration: feature gates, validation, then the start, in its own order.

Each rule yields Problems in the order in which the kubelet meets them and in its own words (1.36 where they changed).
"""

from __future__ import annotations

from numalign.kubelet.problem import Problem
from numalign.kubelet.settings import Settings
from numalign.kubelet.startup import START_RULES
from numalign.kubelet.validation import GATE_RULES, LOGGING_RULES, VALIDATION_RULES
from numalign.kubelet.view import KubeletView

__all__ = ["Problem", "problems"]


def problems(settings: Settings, view: KubeletView) -> list[Problem]:
    """Everything that keeps the kubelet from starting; of each stage that has any, only the first stage's.

    In the stage `start` the kubelet stops at the first; what comes after it is told too, as far as it is certain.
    """
    for rules in (GATE_RULES, LOGGING_RULES, VALIDATION_RULES, START_RULES):
        found = [problem for rule in rules for problem in rule(settings, view)]
        if found:
            return found
    return []
