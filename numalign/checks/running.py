"""Checks of the kubelet that runs on the node, and of what it needs of the system to start.

Source: cmd/kubelet/app/server.go, pkg/kubelet/cm/container_manager_linux.go and
pkg/kubelet/apis/config/validation/validation_linux.go, 1.27 to 1.36.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from numalign.checks.finding import Check, Finding, Gap, Node, Subject, unseen
from numalign.kubelet.running import minor_of
from numalign.kubelet.settings import Settings

__all__ = ["RUNNING", "RUNNING_NODE"]

_NOT_RUNNING = Gap("not-applicable", "no kubelet is seen running")
_FAIL_CGROUP_V1_SINCE = 35
"""The version from which failCgroupV1 is true unless it is written; the field is there since 1.31."""
_SETTLES = 20.0
"""Seconds that a kubelet may take until it answers."""


def _config_newer(node: Node) -> Iterator[Finding]:
    """What runs is what the files say, as far as their times tell."""
    running = node.running
    started = running.process.started if running else None
    if running is None or started is None:
        return
    for file, written in running.written.items():
        if written > started + 1:
            message = (
                f"it was written {_ago(written - started)} after the kubelet (process {running.process.pid}) was "
                "started, which runs with what stood there before"
            )
            yield Finding(
                id="kubelet-config-newer",
                severity="warning",
                place=file,
                message=message,
                remedy="restart the kubelet: where its policies or reservations change, drain the node before",
            )


def _no_times(node: Node) -> Gap | None:
    if node.running is None:
        return _NOT_RUNNING
    if not node.running.written:
        return Gap("not-applicable", "the running kubelet's own configuration is not the one that is judged")
    if node.running.process.started is None:
        return Gap("not-looked-at", f"process {node.running.process.pid} does not tell when it was started")
    return None


def _ago(seconds: float) -> str:
    """A duration in its largest unit: `3 days`.

    >>> _ago(90), _ago(7200), _ago(3 * 86400)
    ('90 seconds', '2 hours', '3 days')
    """
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _version(subject: Subject) -> Iterator[Finding]:
    """The version that is judged by is that of the kubelet that runs."""
    running = subject.node.running
    told = minor_of(running.version) if running and running.version else None
    judged = subject.settings.minor
    if running is not None and told is not None and told != judged:
        yield Finding(
            id="kubelet-version",
            severity="warning",
            place=f"process {running.process.pid}",
            message=f"the kubelet that runs says {running.version}; its configuration was judged by the rules of "
            f"1.{judged}",
            remedy="leave --kubernetes-version out, and have a numalign that knows the kubelet's version",
        )


def _no_version(subject: Subject) -> Gap | None:
    running = subject.node.running
    if running is None:
        return _NOT_RUNNING
    return None if running.version else Gap("not-looked-at", "the running kubelet's binary does not say its version")


def _health(subject: Subject) -> Iterator[Finding]:
    """The kubelet answers, and is well."""
    running = subject.node.running
    health = running.health if running else None
    if running is not None and health is not None and health.text != "ok":
        what = "does not answer on" if not health.answered else "is not well, says"
        yield Finding(
            id="kubelet-health",
            severity="error",
            place=f"process {running.process.pid}",
            message=f"the kubelet {what} its /healthz: {health.text}",
            remedy="journalctl -u kubelet has why: one that stops at its start is started again every few seconds",
        )


def _no_health(subject: Subject) -> Gap | None:
    running = subject.node.running
    if running is None:
        return _NOT_RUNNING
    if running.health is None:
        return Gap(
            "not-looked-at", "the kubelet's /healthz is asked on the node itself only, where healthzPort is not 0"
        )
    confinement = subject.machine.confinement
    if not running.health.answered and confinement is not None and confinement.container:
        return Gap("not-looked-at", "a container without the host's network does not reach the kubelet's /healthz")
    started = running.process.started
    if not running.health.answered and started is not None and time.time() - started < _SETTLES:
        return Gap("not-looked-at", "the kubelet was started a moment ago and does not answer on its /healthz yet")
    return None


_SAID_BY = {
    # the settings that decide about CPUs, memory and devices -> their fields
    "cpu_policy": "cpuManagerPolicy",
    "cpu_options": "cpuManagerPolicyOptions",
    "listed_cpus": "reservedSystemCPUs",
    "topology_policy": "topologyManagerPolicy",
    "topology_scope": "topologyManagerScope",
    "topology_options": "topologyManagerPolicyOptions",
    "memory_policy": "memoryManagerPolicy",
    "reserved_memory": "reservedMemory",
    "kube_reserved": "kubeReserved",
    "system_reserved": "systemReserved",
    "enforce": "enforceNodeAllocatable",
    "eviction_hard": "evictionHard",
}


def _other(subject: Subject) -> Iterator[Finding]:
    """The kubelet runs with what its files say."""
    running = subject.node.running
    said = running.configz if running else None
    if not isinstance(said, Settings):
        return
    for name, field in _SAID_BY.items():
        runs, written = getattr(said, name), getattr(subject.settings, name)
        if (runs or None) != (written or None):
            yield Finding(
                id="kubelet-runs-other",
                severity="error",
                place=subject.document.place(field),
                message=f"the kubelet runs with {field} {_shown(runs)}, and its files and flags say {_shown(written)}",
                remedy="restart the kubelet, or look for another file or flag that it takes",
            )


def _shown(value: object) -> str:
    """A setting as a person reads it; "nothing" where it is empty."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={value[key]}" for key in sorted(value)) or "nothing"
    if isinstance(value, tuple):
        return (
            ", ".join(item if isinstance(item, str) else f"{item[0]}:{_shown(item[1])}" for item in value) or "nothing"
        )
    return str(value) or "nothing"


def _not_asked(subject: Subject) -> Gap | None:
    said = subject.node.running.configz if subject.node.running else None
    if said is None:
        return Gap("not-applicable", "the kubelet is asked what it runs with where --kubeconfig says how")
    return Gap("not-looked-at", said) if isinstance(said, str) else None


def _swap(subject: Subject) -> Iterator[Finding]:
    """A kubelet does not start with swap on unless it is told to."""
    swaps = subject.node.system.swaps or ()
    if swaps and subject.document.values.get("failSwapOn", True):
        message = (
            "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
            if subject.settings.minor >= 31
            else "running with swap on is not supported, please disable swap! or set --fail-swap-on flag to false"
        )
        yield Finding(
            id="swap-on",
            severity="error",
            place="/proc/swaps",
            message=f"the kubelet does not start: {message} ({', '.join(swaps[:3])})",
            remedy="swapoff -a, and take it out of /etc/fstab; or write failSwapOn: false",
        )


def _no_swaps(subject: Subject) -> Gap | None:
    no_file = Gap("not-looked-at", "/proc/swaps is not there") if subject.node.system.swaps is None else None
    return unseen(subject) or no_file


def _cgroups(subject: Subject) -> Iterator[Finding]:
    """What the kubelet asks of the host's cgroups."""
    minor, values = subject.settings.minor, subject.document.values
    if subject.node.system.cgroup_version != 1:
        return
    fails = values.get("failCgroupV1", minor >= _FAIL_CGROUP_V1_SINCE)
    if minor >= 31 and fails:
        way = "is unsupported and will be removed in a future release" if minor >= 35 else "is in maintenance mode"
        message = f"kubelet is configured to not run on a host using cgroup v1. cgroup v1 support {way}"
        yield _on_v1(subject, message, "failCgroupV1", "write failCgroupV1: false")
    elif minor >= 32 and values.get("singleProcessOOMKill") is False:
        message = "invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1"
        yield _on_v1(subject, message, "singleProcessOOMKill", "take singleProcessOOMKill out")
    elif minor >= 30 and subject.settings.enabled("NodeSwap") and subject.settings.swap_behavior == "LimitedSwap":
        message = "swap feature is enabled and LimitedSwap but it is only supported with cgroupv2"
        yield _on_v1(subject, message, "memorySwap", "write swapBehavior: NoSwap")


def _on_v1(subject: Subject, message: str, field: str, otherwise: str) -> Finding:
    return Finding(
        id="cgroup-v1",
        severity="error",
        place=subject.document.place(field),
        message=f"the kubelet does not start: {message}",
        remedy=f"boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1 on the kernel's command line), or {otherwise}",
    )


def _no_cgroups(subject: Subject) -> Gap | None:
    none = Gap("not-looked-at", "/sys/fs/cgroup is not there") if subject.node.system.cgroup_version is None else None
    return unseen(subject) or none


def _driver(subject: Subject) -> Iterator[Finding]:
    """The pods' cgroups are where this configuration's driver keeps them."""
    there = subject.node.system.pods_driver
    wanted = subject.document.values.get("cgroupDriver") or "cgroupfs"
    if there is not None and there != wanted:
        yield Finding(
            id="cgroup-driver",
            severity="warning",
            place=subject.document.place("cgroupDriver"),
            message=f"the pods of this node are in cgroups of the driver {there}, and a kubelet with this "
            f"configuration makes them with {wanted}: those that run stay where no kubelet looks after them",
            remedy=f"write cgroupDriver: {there}, as the container runtime has it; to change it, drain the node before",
        )


def _no_driver(subject: Subject) -> Gap | None:
    if subject.settings.enabled("KubeletCgroupDriverFromCRI"):
        return Gap("not-applicable", f"Kubernetes 1.{subject.settings.minor} asks the container runtime for the driver")
    none = None if subject.node.system.pods_driver else Gap("not-looked-at", "no cgroups of pods are there")
    return unseen(subject) or none


RUNNING_NODE: tuple[Check[Node], ...] = (Check(("kubelet-config-newer",), _config_newer, _no_times),)
RUNNING: tuple[Check[Subject], ...] = (
    Check(("kubelet-version",), _version, _no_version),
    Check(("kubelet-health",), _health, _no_health),
    Check(("kubelet-runs-other",), _other, _not_asked),
    Check(("swap-on",), _swap, _no_swaps),
    Check(("cgroup-v1",), _cgroups, _no_cgroups),
    Check(("cgroup-driver",), _driver, _no_driver),
)
