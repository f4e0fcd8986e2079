"""verify's checks: what the kubelet refuses, in its own words, and what starts and does harm all the same.

CHECKS is the list of those beyond the kubelet, to be read from top to bottom; its own are behind kubelet/rules.py.
docs/checks has a page for each id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from numalign.checks import configuration, dra, memory, policies, reserved
from numalign.checks.finding import NO_STATE, SEVERITIES, Finding, State, Subject
from numalign.checks.pages import ids
from numalign.kubelet.document import Document, Refused
from numalign.kubelet.settings import settings
from numalign.kubelet.static_cpus import reserved_cpus
from numalign.kubelet.view import kubelet_view
from numalign.machine import Machine

__all__ = ["CHECKS", "Report", "judge", "judge_refused"]

CHECKS: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    policies.cpu_manager,
    policies.whole_cores_only,
    policies.cpus_per_core,
    policies.topology_manager,
    policies.options_without_effect,
    policies.options_at_odds,
    policies.distribute_hangs,
    policies.device_numa_nodes,
    policies.gpu_request_limit,
    policies.admission_cost,
    reserved.everything,
    reserved.most,
    reserved.split_core,
    reserved.numa_nodes,
    reserved.isolated,
    reserved.shared_pool,
    reserved.overwritten,
    memory.manager_off,
    memory.eviction_percentage,
    memory.exceeds_node,
    memory.on_cpuless_nodes,
    memory.uneven_hugepages,
    dra.cpus,
    dra.devices,
)


_OF_STATE = ("cpu-state-", "memory-state-", "dra-")
"""The beginnings of the ids that nothing is known of without the kubelet's directory."""


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What the checks found, and how many were made and found nothing."""

    api_version: str
    kind: Literal["VerifyReport"]
    kubernetes_version: str
    machine: str | None
    config: str
    findings: tuple[Finding, ...]
    passed: int


def judge(machine: Machine, document: Document, minor: int, state: State = NO_STATE) -> Report:
    """Everything that is found about an effective configuration on a machine: the kubelet's own refusals first."""
    view, wanted = kubelet_view(machine), settings(document.values, minor)
    subject = Subject(
        machine=machine,
        view=view,
        settings=wanted,
        reserved=reserved_cpus(wanted, view),
        document=document,
        state=state,
    )
    found = [*configuration.ignored(document, minor), *configuration.drop_ins(document, minor)]
    found += [*configuration.gates_not_judged(document, minor), *configuration.not_started(subject)]
    found += configuration.state(subject)
    for check in CHECKS:
        found += check(subject)
    unseen = 0 if state.folder else sum(id.startswith(_OF_STATE) for id in ids())
    passed = len(ids()) - len({finding.id for finding in found}) - unseen
    return _report(machine, document.source, minor, found, passed)


def judge_refused(machine: Machine, error: Refused, source: str, minor: int) -> Report:
    """The report on a configuration that the kubelet does not load."""
    return _report(machine, source, minor, [configuration.refused(error, source)], passed=0)


def _report(machine: Machine, source: str, minor: int, found: list[Finding], passed: int) -> Report:
    return Report(
        api_version="numalign/v1",
        kind="VerifyReport",
        kubernetes_version=f"1.{minor}",
        machine=machine.name,
        config=source,
        findings=tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))),
        passed=passed,
    )
