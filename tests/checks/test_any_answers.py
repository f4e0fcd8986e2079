"""Whatever a kubelet says of its devices and pods, on any machine: a report, and nothing that is said breaks it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st

from numalign.checks import judge
from numalign.checks.finding import Expected, Node, State
from numalign.checks.pages import ids
from numalign.checks.resources import Resources
from numalign.cpuset import CpuSet
from numalign.kubelet.effective import effective
from numalign.kubelet.podresources import Allocatable, Container, Devices, Memory, Pod, Pods
from numalign.machine import Machine
from numalign.probe.kubelet import DEVICE_STATE
from tests.checks.test_garbage import MACHINES
from tests.testnode import CONFIG

MORE = (*MACHINES, "sriov-vfs", "mig-a100", "vm-all-unknown", "vfio-gpu", "wide-domain")
IDS = st.sampled_from(["GPU-0", "GPU-0::1", "MIG-0", "MIG-GPU-0/1/0", "nvidia0", "7", "", "::", "\x1b[31m"])
IDS |= st.sampled_from(["0000:18:00.0", "0000:1b:00.0", "1b:00.0", "ffff:1b:00.0"])
NODES = st.none() | st.lists(st.sampled_from([0, 1, 2, 7, 63, 1023]), max_size=3).map(tuple)
DEVICES = st.builds(
    Devices, st.sampled_from(["nvidia.com/gpu", "rdma/a", "", "a/b"]), st.lists(IDS, max_size=4).map(tuple), NODES
)
MEMORY = st.builds(Memory, st.sampled_from(["memory", "hugepages-1Gi", ""]), st.integers(0, (1 << 64) - 1), NODES)
CPUS = st.sampled_from(["", "0", "0-3", "4,60", "200-300", "65535"]).map(CpuSet.parse)
GROUPS, BLOCKS = st.lists(DEVICES, max_size=4).map(tuple), st.lists(MEMORY, max_size=3).map(tuple)
PODS = st.lists(
    st.builds(
        Pod,
        st.sampled_from(["ml", ""]),
        st.sampled_from(["a", "b"]),
        st.lists(st.builds(Container, st.sampled_from(["c", "d"]), GROUPS, CPUS, BLOCKS), max_size=3).map(tuple),
    ),
    max_size=4,
).map(tuple)
FILES = st.dictionaries(
    st.sampled_from(["cpu_manager_state", "memory_manager_state", DEVICE_STATE]),
    st.sampled_from(
        [b"", b"{}", b'{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":{"c":"4-5"}}}', b"\xff"]
    ),
)


@options(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    pods=st.none() | PODS,
    devices=st.none() | st.builds(Allocatable, GROUPS, CPUS, BLOCKS),
    files=FILES,
    uids=st.none() | st.just(frozenset(["u"])) | st.just(frozenset(["v"])),
    name=st.sampled_from(MORE),
    accepted=st.none() | st.sampled_from(MORE),
)
def test_any_answers_are_judged(
    pods: tuple[Pod, ...] | None,
    devices: Allocatable | None,
    files: dict[str, bytes],
    uids: frozenset[str] | None,
    name: str,
    accepted: str | None,
    machine_of: Callable[[str], Machine],
) -> None:
    told = Resources(
        running=True,
        about_pods=True,
        socket="/s",
        pods=None if pods is None else Pods(pods),
        allocatable=devices,
        pod_uids=uids,
        dead_sockets=("a.sock",),
    )
    state = State("/state", files, ("gpu.nvidia.com.sock",), ("nvidia-gpu.sock",))
    expected = Expected(1, 1, None if accepted is None else machine_of(accepted))
    document = effective(("f.yaml", CONFIG.encode()), {}, {}, 36)
    node = Node(machine_of(name), state, resources=told, expected=expected)
    report = judge(node, document, 36)
    assert {finding.id for finding in report.findings} <= set(ids())
    assert all(finding.message for finding in report.findings)
