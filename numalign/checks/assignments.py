"""Checks of the kubelet's books: what is assigned to pods that are gone, and what it gives out against what its
configuration says that it should.

Source: pkg/kubelet/cm/cpumanager (removeStaleState), devicemanager (UpdateAllocatedDevices), 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numalign.checks.devices import no_allocatable
from numalign.checks.finding import Check, Finding, Gap, Severity, Subject
from numalign.checks.pods import not_about_pods
from numalign.checks.resources import Held, held_by_api, held_by_state
from numalign.cpuset import CpuSet
from numalign.kubelet.allocatable import allocatable
from numalign.kubelet.checkpoint import CPU_FILE, MEMORY_FILE
from numalign.kubelet.restart import formats
from numalign.probe.kubelet import DEVICE_STATE
from numalign.words import few, size

__all__ = ["ASSIGNMENTS"]

_STARTED_OTHERWISE = "the kubelet that runs was started with another configuration: restart it, on a drained node"


def _leaked(subject: Subject) -> Iterator[Held]:
    """Assignments of pods that have no cgroup and that the kubelet does not name."""
    resources = subject.node.resources
    named = held_by_api(resources.pods, "") if resources.pods is not None else ()
    for one in held_by_state(subject.state, formats(subject.settings)):
        known = one.pod.removeprefix("pod ") in (resources.pod_uids or ())
        if not known and not any(_same(one, other) for other in named):
            yield one


def _same(entry: Held, named: Held) -> bool:
    """Whether an entry by UID can be the container that the API names: it has the name, and holds the same."""
    ids = {id for group in entry.devices for id in group.ids}
    theirs = {id for group in named.devices for id in group.ids}
    return entry.container == named.container and entry.cpus <= named.cpus and ids <= theirs


def _cpus_leaked(subject: Subject) -> Iterator[Finding]:
    """CPUs and memory that nobody can get because a pod that is gone has them."""
    for one in _leaked(subject):
        amounts = [f"CPUs {one.cpus}"] if one.cpus else []
        amounts += [f"{size(block.bytes)} of {block.type}" for block in one.memory]
        if amounts:
            file = CPU_FILE if one.cpus else MEMORY_FILE
            yield _found(subject, "cpus-leaked", "warning", file, one, " and ".join(amounts))


def _devices_leaked(subject: Subject) -> Iterator[Finding]:
    """Devices of pods that are gone: the kubelet takes them back when the next pod is admitted."""
    for one in _leaked(subject):
        if one.devices:
            told = "; ".join(f"{resource}: {few(ids)}" for resource, ids in _by_resource(one).items())
            yield _found(subject, "devices-leaked", "info", DEVICE_STATE, one, told)


def _by_resource(one: Held) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for group in one.devices:
        found.setdefault(group.resource, []).extend(group.ids)
    return found


def _found(subject: Subject, id: str, severity: Severity, file: str, one: Held, what: str) -> Finding:
    return Finding(
        id=id,
        severity=severity,
        place=subject.state.place(file),
        message=f"{one.name}, which is not on this node (any more), has {what}",
        remedy="look again in a minute; if it stays: drain the node, stop the kubelet, delete the file, start it again",
    )


def _allocatable_differs(subject: Subject) -> Iterator[Finding]:
    """What the kubelet that runs gives out is not what it would give out with this configuration."""
    told = subject.node.resources.allocatable
    if told is None:
        return
    try:
        pools = allocatable(subject.settings, subject.view).numa_nodes
    except ValueError:
        return  # a reservation is no quantity, which is a finding of its own
    cpus = CpuSet(cpu for pool in pools for cpu in pool.exclusive)
    if cpus != told.cpus:
        yield _differs(subject, "cpuManagerPolicy", f"exclusive CPUs are {_list(told.cpus)}, should be {_list(cpus)}")
    given: dict[int, int] = {}
    for block in told.memory:
        for node in block.numa_nodes or () if block.type == "memory" else ():
            given[node] = given.get(node, 0) + block.bytes
    expected = {pool.numa_node: pool.memory_bytes for pool in pools if pool.memory_bytes is not None}
    wrong = [node for node in sorted({*given, *expected}) if given.get(node) != expected.get(node)]
    if wrong:
        said = few(
            [f"{_bytes(given.get(node))} on NUMA node {node}, not {_bytes(expected.get(node))}" for node in wrong]
        )
        yield _differs(subject, "memoryManagerPolicy", f"allocatable memory is {said}")


def _list(cpus: CpuSet) -> str:
    return str(cpus) or "none"


def _bytes(amount: int | None) -> str:
    return "none" if amount is None else f"{size(amount)} ({amount} bytes)"


def _differs(subject: Subject, field: str, message: str) -> Finding:
    return Finding(
        id="allocatable-differs",
        severity="error",
        place=subject.document.place(field),
        message=f"by the kubelet that runs {message} by this configuration",
        remedy=_STARTED_OTHERWISE,
    )


def _no_books(subject: Subject, files: Iterable[str]) -> Gap | None:
    gap = not_about_pods(subject)
    if gap is not None:
        return gap
    if not any(name in subject.state.files for name in files):
        return Gap("not-applicable", "no state files")
    if not subject.node.resources.running:
        return Gap("not-looked-at", "no running kubelet was found")
    if subject.node.resources.pod_uids is None:
        return Gap("not-looked-at", "no cgroups of pods can be seen")
    return None


def _no_cpu_books(subject: Subject) -> Gap | None:
    return _no_books(subject, (CPU_FILE, MEMORY_FILE))


def _no_device_books(subject: Subject) -> Gap | None:
    return _no_books(subject, (DEVICE_STATE,))


def _no_allocatable(subject: Subject) -> Gap | None:
    return no_allocatable(subject.node)


ASSIGNMENTS: tuple[Check[Subject], ...] = (
    Check(("cpus-leaked",), _cpus_leaked, _no_cpu_books),
    Check(("devices-leaked",), _devices_leaked, _no_device_books),
    Check(("allocatable-differs",), _allocatable_differs, _no_allocatable),
)
"""Checks of what the kubelet has given out and has to give."""
