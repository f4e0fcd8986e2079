"""verify's checks, from top to bottom: the ids of each, and when it is not made."""

from __future__ import annotations

from numalign.checks import configuration, dra, memory, policies, reserved
from numalign.checks.assignments import ASSIGNMENTS
from numalign.checks.devices import DEVICES
from numalign.checks.expected import EXPECTED
from numalign.checks.finding import Check, Gap, Node, Subject
from numalign.checks.gaps import no_folder, unreadable
from numalign.checks.hardware import HARDWARE
from numalign.checks.pods import PODS
from numalign.checks.running import RUNNING, RUNNING_NODE
from numalign.checks.system import SYSTEM
from numalign.kubelet.checkpoint import CPU_FILE, MEMORY_FILE
from numalign.kubelet.problem import Stage
from numalign.probe.kubelet import PLUGINS

__all__ = ["ANY_CONFIGURATION", "CHECKS", "KUBELETS_OWN", "LOADING", "NODE_CHECKS", "all_ids"]

ANY_CONFIGURATION: tuple[Check[Node], ...] = (*HARDWARE, *EXPECTED, *DEVICES)
"""Checks that need no configuration to be there."""
NODE_CHECKS: tuple[Check[Node], ...] = (*ANY_CONFIGURATION, *RUNNING_NODE)
"""Checks of the node, which are made whatever its configuration is."""

LOADING = ("config-not-loaded",)
"""What stands in the way of every check of the configuration."""

MANAGERS_OWN = (
    "topology-options-gate",
    "topology-option-value",
    "numa-node-limit",
    "cpu-options-without-static",
    "cpu-policy-unknown",
    "reserved-cpus-missing",
    "cpu-option-value",
    "cpu-options-exclusive",
    "align-by-socket",
    "reserved-cpus-too-many",
    "policy-option-unknown",
    "policy-option-gate",
    "memory-policy-unknown",
    "reserved-memory-node",
    "reserved-memory-sum",
    "reserved-memory-whole",
    "reserved-memory-missing",
    "reservation-exceeds-capacity",
    "eviction-grace-period",
    "eviction-minimum-reclaim",
)
"""What the kubelet refuses at its start once it has taken the reservations."""

KUBELETS_OWN: dict[Stage, tuple[str, ...]] = {
    # the stage of a kubelet's start -> what it refuses there; it does not come to the next one
    "featureGates": ("feature-gate-unknown", "feature-gate-locked", "feature-gate-dependency"),
    "validate": (
        "topology-policy-unknown",
        "topology-scope-unknown",
        "enforce-without-qos-cgroups",
        "enforce-both",
        "enforce-duplicate",
        "enforce-none-and-more",
        "enforce-without-cgroup",
        "enforce-unknown",
        "reserved-cpus-cgroups",
        "reserved-cpus-list",
        "reserved-memory-type",
        "reserved-memory-zero",
        "reserved-memory-duplicate",
        "cfs-quota-period",
        "swap-behavior",
        "memory-throttling-factor",
        "memory-reservation-policy",
        "system-cgroups",
        "configuration-invalid",
    ),
    "start": (
        "reserved-cpus-offline",
        "reservation-unusable",
        "eviction-threshold",
        "cpu-options-gate",
        *MANAGERS_OWN,
    ),
}


def _no_static_cpus(subject: Subject) -> Gap | None:
    return None if subject.settings.cpu_policy == "static" else Gap("not-applicable", "no static CPU manager")


def _no_alignment(subject: Subject) -> Gap | None:
    return None if subject.settings.topology_policy != "none" else Gap("not-applicable", "no topology policy")


def _no_static_memory(subject: Subject) -> Gap | None:
    return None if subject.settings.memory_policy == "Static" else Gap("not-applicable", "no static memory manager")


def _no_gpus(subject: Subject) -> Gap | None:
    return None if subject.machine.gpus else Gap("not-applicable", "no GPUs")


def _no_isolated(subject: Subject) -> Gap | None:
    return None if subject.machine.isolated_cpus else Gap("not-applicable", "no isolated CPUs")


def _no_drop_ins(subject: Subject) -> Gap | None:
    return None if subject.document.drop_ins else Gap("not-applicable", "no drop-ins")


def _no_cpu_state(subject: Subject) -> Gap | None:
    return _no_file(subject, CPU_FILE)


def _no_memory_state(subject: Subject) -> Gap | None:
    return _no_file(subject, MEMORY_FILE)


def _no_plugins(subject: Subject) -> Gap | None:
    return no_folder(subject.state) or unreadable(subject.state, PLUGINS)


def _no_file(subject: Subject, name: str) -> Gap | None:
    gap = no_folder(subject.state) or unreadable(subject.state, name)
    if gap is None and name not in subject.state.files:
        return Gap("not-applicable", f"no {name}")
    return gap


CHECKS: tuple[Check[Subject], ...] = (
    Check(("field-ignored", "field-repeated"), configuration.ignored),
    Check(("drop-ins-alpha",), configuration.drop_ins, _no_drop_ins),
    Check(("feature-gate-not-judged",), configuration.gates_not_judged),
    Check((), configuration.state),
    Check(("cpu-state-unusable", "cpu-state-differs"), gap=_no_cpu_state),
    Check(("memory-state-unusable", "memory-state-differs"), gap=_no_memory_state),
    Check(("cpu-manager-off",), policies.cpu_manager),
    Check(("shared-cores",), policies.whole_cores_only, _no_static_cpus),
    Check(("cpus-per-core",), policies.cpus_per_core, _no_static_cpus),
    Check(("topology-manager-off", "topology-best-effort"), policies.topology_manager),
    Check(("topology-options-unused",), policies.options_without_effect),
    Check(("options-at-odds",), policies.options_at_odds, _no_static_cpus),
    Check(("distribute-hangs",), policies.distribute_hangs, _no_static_cpus),
    Check(("gpu-request-limit",), policies.gpu_request_limit, _no_gpus),
    Check(("admission-cost",), policies.admission_cost, _no_alignment),
    Check(("reserved-cpus-everything",), reserved.everything),
    Check(("reserved-cpus-most",), reserved.most),
    Check(("reserved-cpus-split-core",), reserved.split_core),
    Check(("reserved-cpus-numa-nodes",), reserved.numa_nodes),
    Check(("isolated-cpus",), reserved.isolated, _no_isolated),
    Check(("reserved-cpus-shared",), reserved.shared_pool, _no_static_cpus),
    Check(("reservation-overwritten",), reserved.overwritten),
    Check(("memory-manager-off",), memory.manager_off),
    Check(("eviction-percentage",), memory.eviction_percentage, _no_static_memory),
    Check(("reserved-memory-exceeds-node",), memory.exceeds_node, _no_static_memory),
    Check(("reserved-memory-without-cpus",), memory.on_cpuless_nodes, _no_static_memory),
    Check(("hugepages-uneven",), memory.uneven_hugepages, _no_alignment),
    Check(("dra-cpus",), dra.cpus, _no_plugins),
    Check(("dra-devices",), dra.devices, _no_plugins),
    *RUNNING,
    *SYSTEM,
    *PODS,
    *ASSIGNMENTS,
)
"""Checks of a configuration that is loaded, beyond what the kubelet itself refuses."""


def all_ids() -> list[str]:
    """The ids of all checks, sorted."""
    rows = (LOADING, *KUBELETS_OWN.values(), *(check.ids for check in NODE_CHECKS), *(check.ids for check in CHECKS))
    return sorted({id for ids in rows for id in ids})
