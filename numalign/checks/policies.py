"""Checks of the managers' policies and options.

Source of the rules: kubelet pkg/kubelet/cm/{cpumanager,topologymanager}, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numalign.checks.finding import Finding
from numalign.kubelet.config import KubeletConfig
from numalign.machine import Machine
from numalign.probe.warn import KUBELET_MAX_NUMA_NODES

__all__ = [
    "cpu_manager",
    "cpu_manager_options",
    "device_numa_nodes",
    "document",
    "misspelt",
    "numa_node_limit",
    "topology_manager",
    "topology_scope",
]

API_VERSION = "kubelet.config.k8s.io/v1beta1"
KIND = "KubeletConfiguration"

FIELDS = (
    *("cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "reservedSystemCPUs"),
    *("topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope"),
    *("memoryManagerPolicy", "reservedMemory", "kubeReserved", "systemReserved"),
    *("kubeReservedCgroup", "systemReservedCgroup", "enforceNodeAllocatable", "evictionHard", "featureGates"),
)
"""The fields that decide about alignment."""

_CPU_POLICIES = ("none", "static")
_TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_SCOPES = ("container", "pod")
_MAX_NUMA_NODES_OPTION = "max-allowable-numa-nodes"


def document(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """apiVersion and kind."""
    for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        value = config.fields.get(field)
        if value != wanted:
            saw = f"{field} is {value!r}" if value is not None else f"{field} is missing"
            yield _error(config, field, f"{saw}: the kubelet does not load it", f"write {field}: {wanted}")


def misspelt(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """Names that are nearly a field of ours: the kubelet skips unknown fields without failing."""
    strangers = [name for name in config.fields if name not in FIELDS and name not in ("apiVersion", "kind")]
    if not strangers:
        return
    from difflib import get_close_matches

    lower = {field.lower(): field for field in FIELDS}
    for name in strangers:
        near = lower.get(name.lower()) or next(iter(get_close_matches(name, FIELDS, n=1, cutoff=0.86)), None)
        if near is None and name.lower() in ("reservedcpus", "reservedsystemcpu"):
            near = "reservedSystemCPUs"
        if near is not None:
            yield _error(config, name, f"{name} is no field; the kubelet skips it", f"did you mean {near}?")


def cpu_manager(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """cpuManagerPolicy: static."""
    policy = config.fields.get("cpuManagerPolicy", "none")
    if policy not in _CPU_POLICIES:
        message = f"cpuManagerPolicy is {policy!r}, which no kubelet has: it does not start"
        yield _error(config, "cpuManagerPolicy", message, "write cpuManagerPolicy: static")
    elif policy == "none":
        message = "cpuManagerPolicy is none: no container gets exclusive CPUs, so none can be aligned"
        yield _warning(config, "cpuManagerPolicy", message, "write cpuManagerPolicy: static")


def cpu_manager_options(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """cpuManagerPolicyOptions: strings, with full-pcpus-only."""
    options = config.fields.get("cpuManagerPolicyOptions") or {}
    yield from _string_values(config, "cpuManagerPolicyOptions", options)
    if config.fields.get("cpuManagerPolicy") != "static" or not isinstance(options, Mapping):
        return
    shared = any(len(core.cpus) > 1 for core in machine.cores)
    if shared and str(options.get("full-pcpus-only", "false")).lower() != "true":
        message = "full-pcpus-only is not set: two containers can get CPUs of one core and slow each other down"
        yield _warning(
            config, "cpuManagerPolicyOptions", message, 'write cpuManagerPolicyOptions: {full-pcpus-only: "true"}'
        )


def topology_manager(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """topologyManagerPolicy: one that aligns."""
    field = "topologyManagerPolicy"
    policy = config.fields.get(field, "none")
    yield from _string_values(
        config, "topologyManagerPolicyOptions", config.fields.get("topologyManagerPolicyOptions") or {}
    )
    if policy not in _TOPOLOGY_POLICIES:
        message = f"{field} is {policy!r}, which no kubelet has: it does not start"
        yield _error(config, field, message, f"write {field}: single-numa-node")
    elif policy == "none":
        yield _warning(config, field, f"{field} is none: nothing is aligned", f"write {field}: single-numa-node")
    elif policy == "best-effort":
        message = f"{field} is best-effort: a pod whose CPUs and devices cannot be aligned is admitted all the same"
        yield Finding(severity="info", place=config.place(field), message=message)


def topology_scope(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """topologyManagerScope: container or pod."""
    scope = config.fields.get("topologyManagerScope", "container")
    if scope not in _SCOPES:
        message = f"topologyManagerScope is {scope!r}, which no kubelet has: it does not start"
        yield _error(config, "topologyManagerScope", message, "write topologyManagerScope: container")


def numa_node_limit(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """No more NUMA nodes than a topology policy allows."""
    nodes = len(machine.numa_nodes)
    if config.fields.get("topologyManagerPolicy", "none") == "none" or nodes <= KUBELET_MAX_NUMA_NODES:
        return
    field = "topologyManagerPolicyOptions"
    options = config.fields.get(field)
    allowed = options.get(_MAX_NUMA_NODES_OPTION) if isinstance(options, Mapping) else None
    if allowed is None:
        what = f"this machine has {nodes} NUMA nodes"
    elif str(allowed).isdecimal() and len(str(allowed)) < 10:
        if int(str(allowed)) >= nodes:
            return
        what = f"{_MAX_NUMA_NODES_OPTION} is {allowed}, this machine has {nodes} NUMA nodes"
    else:
        what = f"{_MAX_NUMA_NODES_OPTION} is {allowed!r}, not a number"
    yield _error(
        config,
        field,
        f"{what}: the kubelet does not start (unsupported on machines with more than {KUBELET_MAX_NUMA_NODES} NUMA "
        "Nodes)",
        f'write {field}: {{{_MAX_NUMA_NODES_OPTION}: "{nodes}"}}, Kubernetes 1.31 or newer',
    )


def device_numa_nodes(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """GPUs without a NUMA node are not aligned, whatever the policy."""
    if config.fields.get("topologyManagerPolicy", "none") == "none" or len(machine.numa_nodes) < 2:
        return
    lost = [gpu.bdf for gpu in machine.gpus if gpu.numa_node is None]
    if lost:
        message = (
            f"{len(lost)} of {len(machine.gpus)} GPUs have no NUMA node, and no policy aligns them: {', '.join(lost)}"
        )
        remedy = "give the guest a virtual NUMA topology with its devices, or correct the firmware's"
        yield _warning(config, "topologyManagerPolicy", message, remedy)


def _string_values(config: KubeletConfig, field: str, options: object) -> Iterator[Finding]:
    """The values of an option map are strings; a bare true is refused."""
    if not isinstance(options, Mapping):
        yield _error(config, field, f"{field} is no mapping of options to strings: the kubelet does not load it", None)
        return
    for option, value in options.items():
        if not isinstance(value, str):
            shown = str(value).lower() if isinstance(value, bool) else value
            message = f"{field}.{option} is {shown}, not a string: the kubelet does not load it"
            yield _error(config, field, message, f'write {option}: "{shown}"')


def _error(config: KubeletConfig, field: str, message: str, remedy: str | None) -> Finding:
    return Finding(severity="error", place=config.place(field), message=message, remedy=remedy)


def _warning(config: KubeletConfig, field: str, message: str, remedy: str | None) -> Finding:
    return Finding(severity="warning", place=config.place(field), message=message, remedy=remedy)
