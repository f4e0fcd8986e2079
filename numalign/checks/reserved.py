"""Checks of the reserved CPUs.

Source of the rules: kubelet cmd/kubelet/app/server.go, pkg/kubelet/cm/cpumanager/policy_static.go, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numalign.checks.finding import Finding, Severity
from numalign.cpuset import CpuSet
from numalign.kubelet.config import KubeletConfig
from numalign.machine import Machine
from numalign.plan import whole_cores

__all__ = ["cgroups", "everything", "malformed", "missing", "numa_nodes", "offline", "split_core"]

FIELD = "reservedSystemCPUs"


def missing(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """The static policy wants more than no CPU reserved."""
    if config.fields.get("cpuManagerPolicy") != "static" or config.fields.get(FIELD):
        return
    reserved = (config.fields.get(field) for field in ("kubeReserved", "systemReserved"))
    if not any(isinstance(part, Mapping) and part.get("cpu") for part in reserved):
        message = "the static CPU manager has no CPUs reserved: the kubelet does not start"
        first = machine.cores[0].cpus if machine.cores else CpuSet((0,))
        yield _found(
            "error", config, message, f'write {FIELD}: "{first}", or what numalign render kubelet-config writes'
        )


def cgroups(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """reservedSystemCPUs is refused beside systemReservedCgroup or kubeReservedCgroup."""
    if not config.fields.get(FIELD):
        return
    for field in ("systemReservedCgroup", "kubeReservedCgroup"):
        if config.fields.get(field):
            yield Finding(
                severity="error",
                place=config.place(field),
                message=f"{field} beside {FIELD}: the kubelet does not start (can't use reservedSystemCPUs "
                "(--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup "
                "(--kube-reserved-cgroup))",
                remedy=f'write {field}: ""',
            )


def malformed(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """reservedSystemCPUs is a string that holds a CPU list."""
    value = config.fields.get(FIELD)
    if value is None or _reserved(config) is not None:
        return
    if not isinstance(value, str):
        message = f"{FIELD} is {value!r}, not a string: the kubelet does not load it"
        yield _found("error", config, message, f'write {FIELD}: "{value}"')
        return
    try:
        CpuSet.parse(value)
    except ValueError as error:
        yield _found("error", config, f"{FIELD} is no CPU list: {error}", f'write a list such as {FIELD}: "0-3,64-67"')


def offline(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """Only online CPUs can be reserved."""
    reserved = _reserved(config)
    if reserved is not None and not reserved <= machine.online_cpus:
        lost = reserved - machine.online_cpus
        kept = reserved & machine.online_cpus
        message = (
            f"{FIELD} {reserved}: {lost} {'is' if len(lost) == 1 else 'are'} not online (online: {machine.online_cpus})"
        )
        yield _found("error", config, message, f'write {FIELD}: "{kept}"' if kept else None)


def everything(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """Something is left for exclusive use."""
    reserved = _reserved(config)
    if reserved and machine.online_cpus <= reserved:
        yield _found("error", config, f"{FIELD} {reserved} are all CPUs: none is left for exclusive use", None)


def split_core(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """A reserved CPU whose sibling is not reserved strands that sibling under full-pcpus-only."""
    reserved = _reserved(config)
    if not reserved:
        return
    online = reserved & machine.online_cpus
    whole = whole_cores(machine, online)
    lost = whole - online
    if lost:
        options = config.fields.get("cpuManagerPolicyOptions")
        full = isinstance(options, Mapping) and str(options.get("full-pcpus-only")).lower() == "true"
        siblings = "its sibling" if len(lost) == 1 == len(online) else "their siblings"
        harm = (
            f"{len(lost)} {'CPU' if len(lost) == 1 else 'CPUs'} that full-pcpus-only can never give out"
            if full
            else "containers on them share a core with the system"
        )
        message = f"{FIELD} {reserved} leaves {siblings} {lost}: {harm}"
        yield _found("error" if full else "warning", config, message, f'write {FIELD}: "{whole}"')


def numa_nodes(machine: Machine, config: KubeletConfig) -> Iterator[Finding]:
    """How the reservation lies over the NUMA nodes."""
    reserved = _reserved(config)
    if not reserved or machine.online_cpus <= reserved:
        return
    nodes = [node for node in machine.numa_nodes if node.cpus]
    full = [node.id for node in nodes if node.cpus <= reserved]
    bare = [str(node.id) for node in nodes if not node.cpus.bits & reserved.bits]
    for id in full:
        gpus = sum(gpu.numa_node == id for gpu in machine.gpus)
        severity: Severity = "warning" if gpus else "info"
        held = f", but it has {gpus} GPUs" if gpus > 1 else ", but it has a GPU" if gpus else ""
        message = f"all CPUs of NUMA node {id} are reserved: nothing can be aligned there{held}"
        yield _found(severity, config, message, None)
    if bare and not full:  # with a NUMA node of its own the system is meant to keep to it
        noun, verb = ("NUMA node", "has") if len(bare) == 1 else ("NUMA nodes", "have")
        message = (
            f"{noun} {', '.join(bare)} {verb} no reserved CPU: the system's work for its devices runs on other nodes"
        )
        yield _found("info", config, message, None)


def _reserved(config: KubeletConfig) -> CpuSet | None:
    """The reserved CPUs, None where the field is missing or no CPU list."""
    value = config.fields.get(FIELD)
    if not isinstance(value, str):
        return None
    try:
        return CpuSet.parse(value)
    except ValueError:
        return None


def _found(severity: Severity, config: KubeletConfig, message: str, remedy: str | None) -> Finding:
    return Finding(severity=severity, place=config.place(FIELD), message=message, remedy=remedy)
