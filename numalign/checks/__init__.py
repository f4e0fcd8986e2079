"""verify's checks: what is wrong with the node, what the kubelet refuses, in its own words, and what starts and does
harm all the same.

checks/table.py has them from top to bottom; docs/checks has a page for each id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from numalign.checks import configuration
from numalign.checks.finding import SEVERITIES, Check, Finding, Gap, Node, Subject, T
from numalign.checks.itself import SELF, Own
from numalign.checks.remedy import in_flags
from numalign.checks.table import ANY_CONFIGURATION, CHECKS, KUBELETS_OWN, LOADING, MANAGERS_OWN, NODE_CHECKS, all_ids
from numalign.kubelet.document import Document, Refused
from numalign.kubelet.problem import Problem
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import settings
from numalign.kubelet.startup import stops_before_managers
from numalign.kubelet.static_cpus import reserved_cpus
from numalign.kubelet.view import kubelet_view
from numalign.machine import Machine
from numalign.words import nic_name

__all__ = ["Container", "Outcome", "Report", "VersionFrom", "judge", "judge_node", "judge_refused", "judge_self"]

_NOT_LOADED = Gap("not-looked-at", "the kubelet does not load the configuration")
_STOPS_AT = {"featureGates": "its feature gates", "validate": "validation", "start": "its start"}

VersionFrom = Literal["option", "kubelet", "assumed"]
"""Who says which version's rules hold: the person, the node's kubelet, or nobody, and the newest known one is taken."""

Gaps = dict[str, Gap]
"""The ids of checks that were not made, and why."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a check: `failed` where it found something; `reason` says why it was not made."""

    id: str
    status: Literal["passed", "failed", "not-applicable", "not-looked-at"]
    reason: str | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """What a container was given: CPUs and NUMA nodes as lists, GPUs by index, NICs by name; null cannot be told."""

    cpus: str | None
    numa_nodes: str = msgspec.field(name="NUMANodes")
    memory_numa_nodes: str | None = msgspec.field(name="memoryNUMANodes")
    gpus: tuple[int, ...] = ()
    nics: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What the checks found, the worst first, and what came of each check; without a version and a configuration where
    none was judged. `policy` is the file of the VerifyPolicy that held; `container`
    what the container had that was looked at."""

    api_version: str
    kind: Literal["VerifyReport"]
    kubernetes_version: str | None
    version_from: VersionFrom | None
    machine: str | None
    config: str | None
    findings: tuple[Finding, ...]
    checks: tuple[Outcome, ...]
    policy: str | None = None
    container: Container | None = None

    def count(self, status: str) -> int:
        """How many checks came to that."""
        return sum(outcome.status == status for outcome in self.checks)


def judge(node: Node, document: Document, minor: int, version_from: VersionFrom = "option") -> Report:
    """Everything that is found about a node and an effective configuration on it."""
    view, wanted = kubelet_view(node.machine), settings(document.values, minor)
    subject = Subject(
        node=node,
        view=view,
        settings=wanted,
        reserved=reserved_cpus(wanted, view),
        document=document,
    )
    refused = problems(wanted, view)
    of_node, node_gaps = _made(NODE_CHECKS, node)
    further, further_gaps = _made(CHECKS, subject)
    of_configuration = (*configuration.not_started(subject, refused), *further)
    found = [*of_node, *in_flags(of_configuration, document)]
    gaps = {**node_gaps, **_behind(refused), **further_gaps}
    return _report(node, document.source, (minor, version_from), found, gaps)


def judge_refused(node: Node, error: Refused, source: str, minor: int, version_from: VersionFrom = "option") -> Report:
    """The report on a node whose configuration the kubelet does not load."""
    found, gaps = _made(NODE_CHECKS, node)
    unseen = dict.fromkeys(set(all_ids()) - {*_ids(NODE_CHECKS)} - set(LOADING), _NOT_LOADED)
    found.append(configuration.refused(error, source))
    return _report(node, source, (minor, version_from), found, {**unseen, **gaps})


def judge_node(node: Node) -> Report:
    """The report on a node of which no configuration is looked at."""
    found, gaps = _made(ANY_CONFIGURATION, node)
    return _reported(node.machine, found, gaps, sorted(_ids(ANY_CONFIGURATION)))


def _ids(checks: Iterable[Check[T]]) -> list[str]:
    return [id for check in checks for id in check.ids]


def _made(checks: Iterable[Check[T]], of: T) -> tuple[list[Finding], Gaps]:
    """What the checks find, and which of them were not made."""
    found: list[Finding] = []
    gaps: Gaps = {}
    for check in checks:
        gap = check.gap(of)
        if gap is None:
            found += check.find(of)
        else:
            gaps.update(dict.fromkeys(check.ids, gap))
    return found, gaps


def _behind(refused: Sequence[Problem]) -> Gaps:
    """The kubelet's own rules that it does not come to, where something of a stage keeps it from starting."""
    if not refused:
        return {}
    if any(map(stops_before_managers, refused)):
        return dict.fromkeys(MANAGERS_OWN, Gap("not-looked-at", "the kubelet stops before, at its reservations"))
    stages, stage = list(KUBELETS_OWN), refused[0].stage
    later = stages[stages.index(stage) + 1 :]
    gap = Gap("not-looked-at", f"the kubelet stops before, at {_STOPS_AT[stage]}")
    return {id: gap for name in later for id in KUBELETS_OWN[name]}


def judge_self(own: Own) -> Report:
    """Whether what a container was given is on one NUMA node."""
    found, gaps = _made(SELF, own)
    report = _reported(own.machine, found, gaps, _ids(SELF))
    given = Container(
        cpus=None if own.given.cpus is None else str(own.given.cpus),
        numa_nodes=str(own.cpu_nodes),
        memory_numa_nodes=None if own.given.numa_nodes is None else str(own.given.numa_nodes),
        gpus=tuple(gpu.index for gpu in own.gpus),
        nics=tuple(map(nic_name, own.nics)),
    )
    return msgspec.structs.replace(report, container=given)


def _report(node: Node, source: str, version: tuple[int, VersionFrom], found: Iterable[Finding], gaps: Gaps) -> Report:
    report = _reported(node.machine, found, gaps, all_ids())
    return msgspec.structs.replace(report, kubernetes_version=f"1.{version[0]}", version_from=version[1], config=source)


def _reported(machine: Machine, found: Iterable[Finding], gaps: Gaps, ids: Iterable[str]) -> Report:
    findings = tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))
    return Report(
        api_version="numalign/v1",
        kind="VerifyReport",
        kubernetes_version=None,
        version_from=None,
        machine=machine.name,
        config=None,
        findings=findings,
        checks=tuple(_outcomes(ids, {finding.id for finding in findings}, gaps)),
    )


def _outcomes(ids: Iterable[str], failed: set[str], gaps: Gaps) -> Iterator[Outcome]:
    for id in ids:
        if id in failed:
            yield Outcome(id, "failed")
        elif id in gaps:
            yield Outcome(id, gaps[id].status, gaps[id].reason)
        else:
            yield Outcome(id, "passed")
