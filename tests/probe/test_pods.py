"""The pods on a node are known by their cgroups, whatever driver and version of cgroups made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from numalign.probe.host import Host
from numalign.probe.pods import read_pod_uids

A, B, C = (f"{number}1111111-2222-3333-4444-555555555555" for number in "abc")
STATIC = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "folders",
    [
        [
            f"kubepods.slice/kubepods-pod{A.replace('-', '_')}.slice",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{B.replace('-', '_')}.slice",
            f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{C.replace('-', '_')}.slice",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{STATIC}.slice/cri-containerd-x.scope",
        ],
        [f"kubepods/pod{A}", f"kubepods/burstable/pod{B}", f"kubepods/besteffort/pod{C}/x", f"kubepods/pod{STATIC}"],
        [
            f"cpuset/kubepods/pod{A}",
            f"cpuset/kubepods/burstable/pod{B}",
            f"systemd/kubepods/pod{C}",
            f"systemd/kubepods/pod{STATIC}",
        ],
        [
            f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{uid.replace('-', '_')}.slice"
            for uid in (A, B, C, STATIC)
        ],
    ],
    ids=["systemd", "cgroupfs", "v1", "kind"],
)
def test_pods_have_cgroups(folders: list[str], tmp_path: Path) -> None:
    for folder in folders:
        (tmp_path / "sys/fs/cgroup" / folder).mkdir(parents=True)
    assert read_pod_uids(Host(str(tmp_path))) == frozenset((A, B, C, STATIC))


def test_no_pods_are_not_unknown_pods(tmp_path: Path) -> None:
    assert read_pod_uids(Host(str(tmp_path))) is None
    (tmp_path / "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice").mkdir(parents=True)
    assert read_pod_uids(Host(str(tmp_path))) == frozenset()
