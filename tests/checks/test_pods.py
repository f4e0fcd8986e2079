"""verify --pods: what running pods hold, by the pod-resources API of a real server or by state files."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from numalign.cpuset import CpuSet
from numalign.kubelet.podresources import Allocatable, Container, Devices, Memory, Pod
from tests import nvml_stub
from tests.checks.test_devices import gpus
from tests.conftest import Run
from tests.kubelet.pod_resources_server import Answers
from tests.testnode import CONFIG, GPUS, KUBELET, MakeNode, Testnode, Verdict

GPU, GIB, UID = "nvidia.com/gpu", 1 << 30, "11111111-2222-3333-4444-555555555555"
ABOUT_PODS = ("pod-not-aligned", "pod-cores-shared", "pod-gpu-nic-apart", "cpus-leaked", "devices-leaked")
ALL = (*ABOUT_PODS, "allocatable-differs", "pod-resources-silent")
ALLOCATABLE = Allocatable(gpus(), CpuSet.parse("1-55,57-111,113-167,169-223"))


def pod(cpus: str = "", *devices: Devices, memory: tuple[Memory, ...] = (), name: str = "trainer-0") -> Pod:
    return Pod("ml", name, (Container("main", devices, CpuSet.parse(cpus), memory),))


def of_gpus(*indices: int) -> Devices:
    return Devices(GPU, tuple(GPUS[index] for index in indices), (indices[0] // 4,))


@pytest.fixture
def node(testnode: MakeNode) -> Testnode:
    """A DGX H100 with a kubelet, its plugin, and one pod's cgroup."""
    node = testnode()
    node.kubelet()
    node.cpu_state({UID: {"main": "4-7,116-119"}}, "0-3,8-115,120-223")
    node.checkpoint({GPU: GPUS})
    node.listen("device-plugins/nvidia-gpu.sock")
    node.pod_cgroups(UID)
    return node


def asked(node: Testnode, run: Run, *pods: Pod, **more: object) -> Verdict:
    """The verdict where the kubelet names these pods."""
    with node.pod_resources(Answers(pods, ALLOCATABLE, **more)):  # type: ignore[arg-type]
        return node.verify(run, "--pods")


def test_aligned_pods_pass_every_check(node: Testnode, run: Run) -> None:
    nic = Devices("nvidia.com/ib_pf", ("0000:18:00.0",), (0,))
    found = asked(node, run, pod("4-7,116-119", of_gpus(0, 1), nic), pod(name="shared"))
    assert {id: found.status(id) for id in ALL} == dict.fromkeys(ALL, "passed")
    assert found.exit_status == 0


def test_without_pods_nobody_is_asked_about_them(node: Testnode, run: Run) -> None:
    found = node.verify(run)
    assert {found.status(id) for id in ABOUT_PODS} == {"not-applicable"}
    assert {found.reason(id) for id in ABOUT_PODS} == {"pods are looked at with --pods"}


def test_each_thing_on_another_numa_node_is_said_with_its_cost(node: Testnode, run: Run) -> None:
    found = asked(
        node,
        run,
        pod("13,20-27,60-61", of_gpus(0), of_gpus(4), memory=(Memory("memory", 64 * GIB, (1,)),)),
        pod("", of_gpus(1), of_gpus(5), name="b"),
        pod("30-31,142-143", memory=(Memory("memory", 8 * GIB, (0, 1)),), name="c"),
    )
    far = "is on NUMA node 1, its CPUs are on NUMA node 0 (distance 21 instead of 10)"
    memory = "64.0 GiB of its memory are on NUMA node 1, its CPUs are on NUMA node 0 (distance 21 instead of 10)"
    cpus = "2 of its 11 CPUs (60-61) are on NUMA node 1, most are on 0"
    b = "GPU 5 is on NUMA node 1, the others are on NUMA node 0 (distance 21 instead of 10)"
    assert found.messages("pod-not-aligned") == [
        f"pod ml/trainer-0, container main: {cpus}; GPU 4 {far}; {memory}",
        f"pod ml/b, container main: {b}",
        "pod ml/c, container main: 8.00 GiB of memory are spread over NUMA nodes 0-1",
    ]
    assert {one["severity"] for one in found.findings("pod-not-aligned")} == {"error"}
    assert found.exit_status == 1


def test_what_no_numa_node_could_hold_is_only_worth_knowing(node: Testnode, run: Run) -> None:
    found = asked(node, run, pod("", of_gpus(0, 1, 2, 3), of_gpus(4, 5, 6, 7)))
    assert [one["severity"] for one in found.findings("pod-not-aligned")] == ["info"]
    node.write(f"{KUBELET}/config.yaml", CONFIG.replace("single-numa-node", "restricted"))
    assert [one["severity"] for one in asked(node, run, pod("4,60")).findings("pod-not-aligned")] == ["warning"]


def test_with_scope_pod_the_pod_is_one(node: Testnode, run: Run) -> None:
    first, second = (Container(name, (), CpuSet.parse(cpus)) for name, cpus in (("a", "4,116"), ("b", "60,172")))
    two = Pod("ml", "two", (first, second))
    assert asked(node, run, two).status("pod-not-aligned") == "passed"
    node.write(f"{KUBELET}/config.yaml", CONFIG.replace("topologyManagerScope: container", "topologyManagerScope: pod"))
    (message,) = asked(node, run, two).messages("pod-not-aligned")
    assert message == "pod ml/two, containers a, b: 2 of its 4 CPUs (60,172) are on NUMA node 1, most are on 0"


def test_devices_are_where_the_kernel_has_them_whatever_is_advertised(node: Testnode, run: Run) -> None:
    lie = Devices(GPU, (f"{GPUS[4]}::2",), (0,))
    found = asked(node, run, pod("4-5,116-117", lie, Devices("rdma/a", ("7",), None)))
    (message,) = found.messages("pod-not-aligned")
    assert "GPU 4 is on NUMA node 1" in message


def test_containers_that_share_a_core_are_named(node: Testnode, run: Run) -> None:
    found = asked(node, run, pod("4-5"), pod("116,6,118", name="b"), pod("6,118", name="c"))
    assert sorted(found.messages("pod-cores-shared")) == [
        "CPUs 6,118 are given to two containers: pod ml/b, container main, and pod ml/c, container main",
        "pod ml/b, container main shares the cores of CPUs 4,116 with pod ml/trainer-0, container main",
        "pod ml/trainer-0, container main shares the cores of CPUs 5,117 with the shared pool",
    ]


@pytest.mark.parametrize(
    ("nic", "expected"),
    [
        ("0000:18:00.0", []),
        ("0000:40:00.0", ["info"]),
        ("0000:9a:00.0", ["warning"]),
    ],
)
def test_a_gpu_and_a_nic_that_are_apart_are_told(nic: str, expected: list[str], node: Testnode, run: Run) -> None:
    found = asked(node, run, pod("", of_gpus(0), Devices("nvidia.com/ib_pf", (nic,), None)))
    assert [one["severity"] for one in found.findings("pod-gpu-nic-apart")] == expected


def test_virtual_functions_are_where_their_card_is(testnode: MakeNode, run: Run) -> None:
    node = testnode("sriov-vfs")
    node.nvml(nvml_stub.dgx(("00000000:01:00.0", "00000000:81:00.0")))
    node.write(f"{KUBELET}/config.yaml", CONFIG.replace("0,56,112,168", "0,64"))
    node.kubelet()
    node.listen("device-plugins/sriov.sock")
    vfs = (Devices("intel.com/vfs", ("0000:02:00.2",), (1,)), Devices("intel.com/vfs", ("0000:02:01.1",), (0,)))
    one = pod("", Devices(GPU, (GPUS[1],), (1,)), vfs[0])
    with node.pod_resources(Answers((one,), Allocatable(vfs))):
        found = node.verify(run, "--pods")
    (differs,) = found.messages("device-numa-differs")
    assert "mlx5_2 (0000:02:00.2) is advertised on NUMA node 1; the kernel has it on 0" in differs
    assert found.status("pod-not-aligned") == "failed"
    (apart,) = found.findings("pod-gpu-nic-apart")
    assert apart["message"] == (
        "pod ml/trainer-0, container main: GPU 1 and mlx5_2 (0000:02:00.2) are joined by SYS only, and there are NICs "
        "at PHB"
    )


def test_assignments_of_pods_that_are_gone_are_told(node: Testnode, run: Run) -> None:
    other = UID.replace("1", "9")
    node.cpu_state({UID: {"main": "4-7,116-119"}, other: {"main": "8,120"}}, "0-3,9-115,121-223")
    ids = {"PodUID": other, "ContainerName": "main", "ResourceName": GPU, "DeviceIDs": {"0": [GPUS[0]], "-1": ["x"]}}
    node.checkpoint({GPU: GPUS}, [ids])
    found = asked(node, run)
    assert found.messages("cpus-leaked") == [
        f"pod {other}, container main, which is not on this node (any more), has CPUs 8,120"
    ]
    assert found.messages("devices-leaked") == [
        f"pod {other}, container main, which is not on this node (any more), has nvidia.com/gpu: x, {GPUS[0]}"
    ]
    named = asked(node, run, pod("8,120", Devices(GPU, (GPUS[0], "x"), None)))  # its cgroup has another name
    assert named.status("cpus-leaked") == named.status("devices-leaked") == "passed"


def test_leaks_cannot_be_seen_without_cgroups_or_kubelet(testnode: MakeNode, run: Run) -> None:
    node = testnode()
    node.cpu_state({UID: {"main": "4-7,116-119"}}, "0-3,8-115,120-223")
    assert node.verify(run, "--pods").reason("cpus-leaked") == "no running kubelet was found"
    node.kubelet()
    found = node.verify(run, "--pods")
    assert found.reason("cpus-leaked") == "no cgroups of pods can be seen"
    assert (found.status("devices-leaked"), found.reason("devices-leaked")) == ("not-applicable", "no state files")


def test_a_kubelet_that_was_started_otherwise_is_told(node: Testnode, run: Run) -> None:
    static = "reservedMemory: [{numaNode: 0, limits: {memory: 1124Mi}}]\nkubeReserved: {memory: 1Gi}\n"
    node.write(f"{KUBELET}/config.yaml", f"{CONFIG}memoryManagerPolicy: Static\n{static}")
    found = asked(node, run).messages("allocatable-differs")
    assert len(found) == 1
    assert found[0] == (
        "by the kubelet that runs allocatable memory is none on NUMA node 0, not 1006.9 GiB (1081153159168 bytes), "
        "none on NUMA node 1, not 1008.0 GiB (1082331758592 bytes) by this configuration"
    )
    memory = (Memory("memory", 1081153159168, (0,)), Memory("memory", 1082331758592, (1,)))
    with node.pod_resources(Answers((), Allocatable(gpus(), CpuSet.parse("4-223"), memory))):
        (message,) = node.verify(run).messages("allocatable-differs")
    assert message == (
        "by the kubelet that runs exclusive CPUs are 4-223, should be 1-55,57-111,113-167,169-223 by this configuration"
    )


def test_without_the_api_the_state_files_say_it(node: Testnode, run: Run) -> None:
    node.cpu_state({UID: {"main": "13,20-27,60"}}, "0-12,14-19,28-59,61-223")
    entry = {"PodUID": UID, "ContainerName": "main", "ResourceName": GPU, "DeviceIDs": {"1": [GPUS[4]], "0": []}}
    node.checkpoint({GPU: GPUS}, [entry])
    found = node.verify(run, "--pods")
    (silent,) = found.findings("pod-resources-silent")
    assert silent["severity"] == "info"
    assert silent["message"].endswith("pod-resources/kubelet.sock: there is no such socket")
    (message,) = found.messages("pod-not-aligned")
    assert message == (
        f"pod {UID}, container main: 1 of its 10 CPUs (60) is on NUMA node 1, most are on 0; GPU 4 is on NUMA node "
        "1, its CPUs are on NUMA node 0 (distance 21 instead of 10)"
    )


def test_a_snapshot_has_the_answers(node: Testnode, run: Run, tmp_path: Path) -> None:
    packed = tmp_path / "node.tar.gz"
    with node.pod_resources(Answers((pod("13,60"),), ALLOCATABLE)):
        assert run("snapshot", packed, "--root", node.root, env=node.environment).returncode == 0
        assert (
            run("snapshot", tmp_path / "r.tar.gz", "--root", node.root, "--redact", env=node.environment).returncode
            == 0
        )
    found = Verdict(run("verify", "--machine", packed, "--pods", "-o", "json"))
    assert len(found.messages("pod-not-aligned")) == 1
    assert found.status("device-without-topology") == found.status("gpu-not-registered") == "passed"
    assert found.reason("device-plugin-dead") == "sockets are tried on the host itself only"
    words = ("--config", node.root / KUBELET / "config.yaml", "--pods", "-o", "json")
    found = Verdict(run("verify", "--machine", tmp_path / "r.tar.gz", *words))
    assert found.reason("pod-not-aligned") == "the snapshot holds no answer of the pod-resources API"
    document = run("inspect", "--root", node.root, "-o", "json", env=node.environment).stdout
    (tmp_path / "machine.json").write_text(document)
    found = Verdict(run("verify", "--machine", tmp_path / "machine.json", *words))
    assert found.reason("pod-not-aligned") == "a Machine document has no kubelet"


# --- whoever else listens ---


@contextmanager
def listening(node: Testnode, act: Callable[[socket.socket], None]) -> Iterator[None]:
    """Somebody at the API's socket who does `act` with every connection."""
    bound = node.listen("pod-resources/kubelet.sock")

    def work() -> None:
        while True:
            try:
                visitor, _ = bound.accept()
            except OSError:
                return
            with visitor:
                try:
                    act(visitor)
                except OSError:
                    continue

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        bound.shutdown(socket.SHUT_RDWR)
        bound.close()
        thread.join(10)


def garbage(visitor: socket.socket) -> None:
    visitor.sendall(b"\x1b[31m<b>no gRPC</b>\n" * 1000)


def silence(visitor: socket.socket) -> None:
    visitor.settimeout(8)
    while visitor.recv(4096):
        pass


def flood(visitor: socket.socket) -> None:
    end = time.monotonic() + 8
    while time.monotonic() < end:
        visitor.sendall(b"\0" * (1 << 20))


@pytest.mark.parametrize(
    "act", [garbage, silence, flood, lambda visitor: None], ids=["garbage", "hang", "flood", "end"]
)
def test_whoever_listens_the_answer_is_clear_and_in_time(
    act: Callable[[socket.socket], None], node: Testnode, run: Run
) -> None:
    (node.root / KUBELET / "cpu_manager_state").unlink()
    (node.root / KUBELET / "device-plugins/kubelet_internal_checkpoint").unlink()
    with listening(node, act):
        found = node.verify(run, "--pods")
    assert found.status("pod-not-aligned") == "not-looked-at"
    assert any(words in found.reason("pod-not-aligned") for words in ("speaks no gRPC", "no answer to"))
    assert found.reason("pod-not-aligned").isprintable()
    assert found.status("gpu-lost") == "passed"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (("UNIMPLEMENTED", "unknown service v1.PodResourcesLister"), "does not know List"),
        (("UNKNOWN", "PodResources API List method disabled"), "has List switched off"),
        (("RESOURCE_EXHAUSTED", "rejected by rate limit"), "is asked too often"),
        (("INTERNAL", "\x1b[31m<script>\n[bold]"), "List failed: INTERNAL: \\x1b[31m<script>\\n[bold]"),
    ],
)
def test_a_kubelet_that_refuses_is_quoted(error: tuple[str, str], says: str, node: Testnode, run: Run) -> None:
    found = asked(node, run, errors={"List": error})
    (message,) = found.messages("pod-resources-silent")
    assert says in message
    assert found.status("device-without-topology") == "passed"


def test_names_with_escapes_and_markup_are_only_names(node: Testnode, run: Run) -> None:
    odd = Pod("ml", "\x1b[31m[bold]<b>", (Container("a\nb", (), CpuSet.parse("4,60")),))
    with node.pod_resources(Answers((odd,), ALLOCATABLE)):
        text = run("verify", "--root", node.root, "--pods", env=node.environment).stdout
        found = node.verify(run, "--pods")
    assert "pod ml/\\x1b[31m[bold]<b>, container a\\nb: 1 of its 2 CPUs (60)" in " ".join(text.split())
    assert "\x1b" not in text
    assert found.messages("pod-resources-odd")


def test_enormous_answers_end_in_time(node: Testnode, run: Run) -> None:
    many = tuple(pod(name="x" * 200 + str(number)) for number in range(100_000))
    found = asked(node, run, *many)
    assert "more than 16 MiB" in found.messages("pod-resources-silent")[0]
    assert json.dumps(found.report).count("x" * 200) == 0


def test_garbage_in_state_files_is_the_reason(node: Testnode, run: Run) -> None:
    node.write(f"{KUBELET}/cpu_manager_state", b"{\xff")
    found = node.verify(run, "--pods")
    assert found.reason("pod-not-aligned").endswith(f"{KUBELET}/cpu_manager_state cannot be read")


def test_a_machine_without_numa_nodes_has_nothing_to_align(testnode: MakeNode, run: Run) -> None:
    node = testnode("laptop")
    node.nvml(nvml_stub.dgx(()))
    with node.pod_resources(Answers()):
        found = node.verify(run, "--pods")
    assert found.status("pod-not-aligned") == "not-applicable"


def test_a_device_that_two_pods_have_is_an_error_where_no_ended_pod_is_listed(node: Testnode, run: Run) -> None:
    twice = pod("", of_gpus(0, 1)), pod("", of_gpus(1), name="b")
    found = asked(node, run, *twice)
    (message,) = found.messages("pod-device-twice")
    names = "pod ml/trainer-0, container main, and pod ml/b, container main"
    assert message == f"nvidia.com/gpu: {GPUS[1]} is given to two containers: {names}"
    assert found.exit_status == 1
    with node.pod_resources(Answers(twice, ALLOCATABLE)):
        older = node.verify(run, "--pods", "--kubernetes-version", "1.33")
    assert [one["severity"] for one in older.findings("pod-device-twice")] == ["info"]
    replicas = (Devices(GPU, (f"{GPUS[0]}::{number}",), (0,)) for number in range(2))
    shared = [pod("", one, name=str(number)) for number, one in enumerate(replicas)]
    assert asked(node, run, *shared).status("pod-device-twice") == "passed"


def test_nobody_is_told_to_write_the_option_that_is_written(node: Testnode, run: Run) -> None:
    found = asked(node, run, pod("1-2,113", name="a"), pod("2", name="b"))
    remedies = {one["remedy"] for one in found.findings("pod-cores-shared")}
    assert remedies == {
        "drain the node, stop the kubelet, delete cpu_manager_state, start the kubelet",
        "delete the pod: the kubelet decides anew when its controller makes another",
    }
