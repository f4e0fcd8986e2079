"""Checks of the reserved CPUs, beyond what the kubelet refuses."""

from __future__ import annotations

from collections.abc import Iterator

from numalign.checks.finding import Finding, Severity, Subject
from numalign.reserve import whole_cores

__all__ = [
    "everything",
    "isolated",
    "most",
    "numa_nodes",
    "overwritten",
    "shared_pool",
    "split_core",
]

FIELD = "reservedSystemCPUs"


def everything(subject: Subject) -> Iterator[Finding]:
    """Something is left for exclusive use."""
    reserved = subject.reserved
    if reserved and subject.view.cpus <= reserved:
        message = f"{_source(subject)} are all CPUs: none is left for exclusive use"
        yield _found(subject, "reserved-cpus-everything", "error", message, None)


def most(subject: Subject) -> Iterator[Finding]:
    """More than half reserved is most often the list of the CPUs that pods may use, by mistake."""
    reserved, online = subject.reserved & subject.view.cpus, subject.view.cpus
    if 2 * len(reserved) <= len(online) or online <= reserved:
        return
    share = f"{round(100 * len(reserved) / len(online))} % of the CPUs are reserved"
    if subject.settings.listed_cpus:
        message = f"{share}: {FIELD} lists those kept from pods, not those they may use"
        yield _found(subject, "reserved-cpus-most", "warning", message, f'did you mean {FIELD}: "{online - reserved}"?')
    else:
        message = f"{share} by {_source(subject)}: those are the CPUs kept from pods, not those they may use"
        yield _found(subject, "reserved-cpus-most", "warning", message, "reserve as many as the system needs")


def split_core(subject: Subject) -> Iterator[Finding]:
    """A reserved CPU whose sibling is not reserved strands that sibling under full-pcpus-only.

    Where CPUs are counted the kubelet splits one core at most, and takes whole ones before.
    """
    reserved = subject.reserved & subject.machine.online_cpus
    whole = whole_cores(subject.machine, reserved)
    lost = whole - reserved
    if lost:
        full = subject.settings.option("full-pcpus-only")
        harm = (
            f"{len(lost)} {'CPU' if len(lost) == 1 else 'CPUs'} that full-pcpus-only can never give out"
            if full
            else "containers on them share a core with the system"
        )
        siblings = "its sibling" if len(reserved) == 1 else "their siblings"
        message = f"{_source(subject)} leaves {siblings} {lost}: {harm}"
        severity: Severity = "error" if full and subject.settings.listed_cpus else "warning"
        yield _found(subject, "reserved-cpus-split-core", severity, message, f'write {FIELD}: "{whole}"')


def numa_nodes(subject: Subject) -> Iterator[Finding]:
    """How the reservation lies over the NUMA nodes."""
    machine, reserved = subject.machine, subject.reserved
    if not reserved or machine.online_cpus <= reserved:
        return
    nodes = [node for node in machine.numa_nodes if node.cpus]
    full = [node.id for node in nodes if node.cpus <= reserved]
    bare = [str(node.id) for node in nodes if not node.cpus.bits & reserved.bits]
    for id in full:
        gpus = sum(gpu.numa_node == id for gpu in machine.gpus)
        held = f", but it has {gpus} GPUs" if gpus > 1 else ", but it has a GPU" if gpus else ""
        by = "" if subject.settings.listed_cpus else f" by {_source(subject)}"
        message = f"all CPUs of NUMA node {id} are reserved{by}: nothing can be aligned there{held}"
        yield _found(subject, "reserved-cpus-numa-nodes", "warning" if gpus else "info", message, None)
    # with a NUMA node of its own the system is meant to keep to it, and with a number nobody chose a place for it
    if bare and not full and subject.settings.listed_cpus:
        noun, verb = ("NUMA node", "has") if len(bare) == 1 else ("NUMA nodes", "have")
        message = (
            f"{noun} {', '.join(bare)} {verb} no reserved CPU: the system's work for its devices runs on other nodes"
        )
        yield _found(subject, "reserved-cpus-numa-nodes", "info", message, None)


def isolated(subject: Subject) -> Iterator[Finding]:
    """isolcpus and the reservation divide the CPUs in two ways that have to agree."""
    machine, reserved = subject.machine, subject.reserved
    if not machine.isolated_cpus or subject.settings.cpu_policy != "static":
        return
    both = machine.isolated_cpus & reserved
    if both:
        message = f"CPUs {both} are isolated from the scheduler and reserved for the system, which stays on one of them"
        yield _found(subject, "isolated-cpus", "warning", message, f"take {both} out of isolcpus, or reserve others")
    pool = machine.isolated_cpus - reserved
    if pool:
        message = (
            f"CPUs {pool} are isolated and in the shared pool: pods without exclusive CPUs run there without load "
            "balancing, several processes on one CPU"
        )
        yield _found(subject, "isolated-cpus", "warning", message, "take isolcpus off the kernel's command line")


def shared_pool(subject: Subject) -> Iterator[Finding]:
    """A reservation guards against exclusive use only."""
    settings = subject.settings
    if settings.cpu_policy == "static" and subject.reserved and not settings.option("strict-cpu-reservation"):
        message = f"pods without exclusive CPUs run on the reserved CPUs {subject.reserved} too"
        remedy = 'cpuManagerPolicyOptions: {strict-cpu-reservation: "true"} keeps them off (Kubernetes 1.33 and newer)'
        yield _found(subject, "reserved-cpus-shared", "info", message, remedy)


def overwritten(subject: Subject) -> Iterator[Finding]:
    """reservedSystemCPUs takes the place of the cpu in kubeReserved and systemReserved."""
    settings = subject.settings
    lost = [f"{field}.cpu {amount}" for field, amount in _amounts(subject).items()]
    if settings.reserved_cpus and lost:
        count = len(subject.settings.listed_cpus)
        verb = "have" if len(lost) > 1 else "has"
        message = f"{' and '.join(lost)} {verb} no effect: {FIELD} reserves {count} CPUs instead"
        remedy = "provisioners that simulate allocatable have to know"
        yield _found(subject, "reservation-overwritten", "info", message, remedy)


def _source(subject: Subject) -> str:
    """What reserves the CPUs, and which they are: a list, or amounts that the kubelet takes CPUs for."""
    reserved = subject.reserved
    if subject.settings.listed_cpus:
        return f"{FIELD} {reserved}"
    amounts = " and ".join(f"{field}.cpu {amount}" for field, amount in _amounts(subject).items())
    return f"{amounts} ({'CPU' if len(reserved) == 1 else 'CPUs'} {reserved})"


def _amounts(subject: Subject) -> dict[str, str]:
    """The fields that reserve a number of CPUs, and how many."""
    kept = {"kubeReserved": subject.settings.kube_reserved, "systemReserved": subject.settings.system_reserved}
    return {field: amounts["cpu"] for field, amounts in kept.items() if "cpu" in amounts}


def _found(subject: Subject, id: str, severity: Severity, message: str, remedy: str | None) -> Finding:
    field = FIELD if subject.settings.reserved_cpus else next(iter(_amounts(subject)), FIELD)
    return Finding(id=id, severity=severity, place=subject.document.place(field), message=message, remedy=remedy)
