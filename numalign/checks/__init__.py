"""verify's checks: each has an id, and says what it saw and what to write instead.

CHECKS is the list of them, to be read from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from numalign.checks import policies, reserved
from numalign.checks.finding import Finding, Severity
from numalign.kubelet.config import KubeletConfig
from numalign.machine import Machine

__all__ = ["CHECKS", "Check", "Finding", "Report", "Severity", "run"]


class Check(msgspec.Struct, frozen=True):
    """A check: `run` yields what it finds wrong, nothing where all is well."""

    id: str
    title: str
    run: Callable[[Machine, KubeletConfig], Iterator[Finding]]


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What the checks found, and how many found nothing."""

    api_version: str
    kind: Literal["VerifyReport"]
    machine: str | None
    config: str
    findings: tuple[Finding, ...]
    passed: int


CHECKS: tuple[Check, ...] = (
    Check("kubelet-document", "the document is a KubeletConfiguration", policies.document),
    Check("kubelet-field-unknown", "no field that matters here is misspelt", policies.misspelt),
    Check("cpu-manager-policy", "the CPU manager gives out exclusive CPUs", policies.cpu_manager),
    Check("cpu-manager-options", "exclusive CPUs are whole cores", policies.cpu_manager_options),
    Check("topology-manager-policy", "the topology manager aligns CPUs and devices", policies.topology_manager),
    Check(
        "topology-manager-scope", "the topology manager's scope is one that the kubelet has", policies.topology_scope
    ),
    Check("numa-node-limit", "the kubelet starts with this many NUMA nodes", policies.numa_node_limit),
    Check("device-numa-nodes", "the devices to align have NUMA nodes", policies.device_numa_nodes),
    Check("reserved-cpus-missing", "the static CPU manager has a reservation", reserved.missing),
    Check("reserved-cpus-cgroups", "reservedSystemCPUs stands without reserved cgroups", reserved.cgroups),
    Check("reserved-cpus-list", "reservedSystemCPUs is a CPU list", reserved.malformed),
    Check("reserved-cpus-offline", "the reserved CPUs are online", reserved.offline),
    Check("reserved-cpus-everything", "CPUs are left for the pods", reserved.everything),
    Check("reserved-cpus-split-core", "the reserved CPUs are whole cores", reserved.split_core),
    Check(
        "reserved-cpus-numa-nodes", "each NUMA node with CPUs has a reserved and an exclusive one", reserved.numa_nodes
    ),
)


def run(machine: Machine, config: KubeletConfig) -> Report:
    """Every check of the configuration against the machine; findings come in the order of CHECKS."""
    found: list[Finding] = []
    passed = 0
    for check in CHECKS:
        findings = [msgspec.structs.replace(finding, id=check.id) for finding in check.run(machine, config)]
        passed += not findings
        found += findings
    return Report(
        api_version="numalign/v1",
        kind="VerifyReport",
        machine=machine.name,
        config=config.source,
        findings=tuple(found),
        passed=passed,
    )
