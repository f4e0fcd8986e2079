"""How long a kubelet takes to decide about a pod, since it goes through every set of NUMA nodes and combines all hints.

Measured with a kubelet of 1.36 on 16 to 20 NUMA nodes (a set costs some 4 µs) and 8 (a combination some 0.3 µs).
"""

from __future__ import annotations

import math

from numalign.admission.decision import Decision, Round
from numalign.admission.node import Node
from numalign.admission.topology import ProviderHints

__all__ = ["STALLS_FROM", "in_words", "seconds"]

STALLS_FROM = 120.0
"""Seconds from which on nobody waits for the answer: the kubelet admits no other pod meanwhile."""
_OF_A_SET = 3.9e-6
_OF_A_COMBINATION = 0.3e-6
_UNITS = ((365 * 86400.0, "years"), (86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


def seconds(node: Node, decision: Decision) -> float:
    """About how long the kubelet computes for the rounds of a decision."""
    return sum(
        _sets(node, round) * _OF_A_SET + _combinations(node, round) * _OF_A_COMBINATION for round in decision.rounds
    )


def _sets(node: Node, round: Round) -> int:
    """How many sets of NUMA nodes the managers look at."""
    total = 0
    for name, hints in round.devices.items():
        if hints is not None:
            total += 1 << node.managers.devices.resources[name].nodes.bit_count()
    if round.cpus and node.managers.cpus is not None:
        total += 1 << node.managers.cpus.nodes.bit_count()
    if round.memory:
        total += 1 << len(node.view.nodes)
    return total


def _combinations(node: Node, round: Round) -> int:
    """How many combinations are merged; under single-numa-node only hints of one NUMA node are left."""
    if node.settings.topology_policy != "single-numa-node":
        return round.combinations
    return math.prod(_singles(node, provider) for provider in (round.devices, round.cpus, round.memory))


def _singles(node: Node, provider: ProviderHints) -> int:
    lists = [hints for hints in provider.values() if hints is not None]
    return math.prod(max(sum(hints.has(1 << each.id) for each in node.view.nodes), 1) for hints in lists)


def in_words(duration: float) -> str:
    """`about 20 minutes`, `about 3 hours`, `more than 1000 years`."""
    for unit, name in _UNITS:
        if duration >= 2 * unit:
            number = duration / unit
            return f"more than 1000 {name}" if number > 1000 and name == "years" else f"about {number:.0f} {name}"
    return f"about {max(duration, 1):.0f} seconds"
