"""The pods on a node as their cgroups show them.

Source: pkg/kubelet/cm (pod_container_manager_linux.go, cgroup_manager_linux.go): `kubepods/burstable/podUID` with the
cgroupfs driver, `kubepods-burstable-podUID.slice` with systemd's, in which the dashes of the UID are underscores.
"""

from __future__ import annotations

from collections.abc import Iterator

from numalign.probe.host import Host

__all__ = ["read_pod_uids"]

_ROOTS = ("sys/fs/cgroup", "sys/fs/cgroup/cpuset", "sys/fs/cgroup/systemd")
"""Of one hierarchy, and of two among those of cgroup v1, where every pod is in each."""
_PARENTS = ("kubepods.slice", "kubepods", "kubelet/kubepods", "kubelet.slice/kubelet-kubepods.slice")
_CLASSES = ("burstable", "besteffort")


def read_pod_uids(host: Host) -> frozenset[str] | None:
    """The UIDs of the pods that have cgroups; None where there are no cgroups of pods, or they cannot be seen."""
    found: frozenset[str] | None = None
    for root in _ROOTS:
        for parent in _PARENTS:
            folder = f"{root}/{parent}"
            if names := host.names(folder):
                found = (found or frozenset()) | frozenset(_uids(host, folder, names))
    return found


def _uids(host: Host, folder: str, names: list[str]) -> Iterator[str]:
    for name in names:
        whole = name.removesuffix(".slice")
        uid = whole.removeprefix("pod") if whole.startswith("pod") else whole.partition("-pod")[2]
        if uid:
            yield uid.replace("_", "-")
        elif whole.rpartition("-")[2] in _CLASSES:
            yield from _uids(host, f"{folder}/{name}", host.names(f"{folder}/{name}"))
