"""verify's checks of device plugins, each seen passing, failing and unable to look, through the real command."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from numalign.cpuset import CpuSet
from numalign.kubelet.podresources import Allocatable, Devices
from tests import nvml_stub
from tests.conftest import Run
from tests.kubelet.pod_resources_server import Answers
from tests.testnode import BUSES, GPUS, KUBELET, MakeNode, Testnode, Verdict

GPU = "nvidia.com/gpu"
ALL = (
    *("device-state-unusable", "device-plugin-missing", "device-plugin-dead", "dra-beside-plugin"),
    *("device-not-there", "gpu-not-registered", "device-numa-differs", "device-without-topology", "pod-resources-odd"),
)


def gpus(nodes: Iterable[int | None] = (0, 0, 0, 0, 1, 1, 1, 1), resource: str = GPU) -> tuple[Devices, ...]:
    """The GPUs of a DGX H100, each on its NUMA node."""
    return tuple(
        Devices(resource, (id,), None if node is None else (node,)) for id, node in zip(GPUS, nodes, strict=False)
    )


def allocatable(*devices: Devices) -> Answers:
    return Answers(allocatable=Allocatable(devices or gpus(), CpuSet.parse("1-55,57-111,113-167,169-223")))


@pytest.fixture
def node(testnode: MakeNode) -> Testnode:
    """A DGX H100 on which everything is as it should be."""
    node = testnode()
    node.kubelet()
    node.cpu_state({}, "0-223")
    node.checkpoint({GPU: GPUS})
    node.listen("device-plugins/kubelet.sock")
    node.listen("device-plugins/nvidia-gpu.sock")
    return node


def answered(node: Testnode, run: Run, answers: Answers | None = None, *words: str) -> Verdict:
    """The verdict while the kubelet answers."""
    with node.pod_resources(answers or allocatable()):
        return node.verify(run, *words)


def test_a_healthy_node_passes_every_check(node: Testnode, run: Run) -> None:
    found = answered(node, run)
    assert {id: found.status(id) for id in ALL} == dict.fromkeys(ALL, "passed")
    assert found.status("mig-uneven") == found.status("mig-unused") == "not-applicable"
    assert found.exit_status == 0


def test_without_a_kubelets_directory_nothing_is_looked_at(testnode: MakeNode, run: Run) -> None:
    node = testnode()
    config = (node.root / KUBELET).rename(node.root / "etc-kubelet") / "config.yaml"
    found = node.verify(run, "--config", config)
    assert {found.status(id) for id in ALL} == {"not-looked-at"}
    assert {found.reason(id) for id in ALL} == {"no directory of a kubelet"}


def test_a_socket_that_cannot_be_asked_is_the_reason(node: Testnode, run: Run) -> None:
    found = node.verify(run)
    assert found.reason("device-without-topology").endswith("pod-resources/kubelet.sock: there is no such socket")
    assert found.status("gpu-not-registered") == "passed"  # by the checkpoint
    node.stale("pod-resources/kubelet.sock")
    assert node.verify(run).reason("device-without-topology").endswith("nobody listens on the socket; it is left over")
    off = Answers(errors={"GetAllocatableResources": ("UNKNOWN", "PodResources API GetAllocatable method disabled")})
    found = answered(node, run, off)
    assert found.reason("device-without-topology").endswith("the kubelet has GetAllocatableResources switched off")
    old = Answers(errors={"GetAllocatableResources": ("UNIMPLEMENTED", "unknown method")})
    assert "does not know GetAllocatableResources" in answered(node, run, old).reason("device-without-topology")


def test_gpus_that_nobody_hands_out_are_an_error(node: Testnode, run: Run) -> None:
    (node.root / KUBELET / "device-plugins/nvidia-gpu.sock").unlink()
    node.checkpoint({})
    found = node.verify(run)
    assert found.messages("device-plugin-missing") == [
        "a kubelet runs, and neither a device plugin nor a DRA driver hands out the 8 GPUs"
    ]
    assert (found.status("gpu-not-registered"), found.exit_status) == ("not-looked-at", 1)
    node.listen("plugins_registry/gpu.nvidia.com-reg.sock")
    found = node.verify(run)
    assert found.status("device-plugin-missing") == "passed"
    assert found.status("gpu-not-registered") == "not-applicable"


def test_without_a_running_kubelet_no_plugin_is_missed(testnode: MakeNode, run: Run) -> None:
    node = testnode()
    found = node.verify(run)
    assert (found.status("device-plugin-missing"), found.reason("device-plugin-missing")) == (
        "not-looked-at",
        "no running kubelet was found",
    )


def test_a_socket_on_which_nobody_listens_is_told(node: Testnode, run: Run) -> None:
    node.stale("device-plugins/nvidia-gpu.sock")
    node.stale("device-plugins/rdma\x1b[31m.sock")
    node.write(f"{KUBELET}/device-plugins/no-socket.sock", "")
    found = answered(node, run).findings("device-plugin-dead")
    assert [(one["severity"], one["place"].rpartition("/")[2]) for one in found] == [
        ("error", "nvidia-gpu.sock"),
        ("warning", "rdma\\x1b[31m.sock"),
    ]


def test_a_socket_left_beside_a_plugin_that_serves_every_gpu_is_no_fault(node: Testnode, run: Run) -> None:
    node.stale("device-plugins/nvidiaGPU-1700000000.sock")
    found = answered(node, run)
    (one,) = found.findings("device-plugin-dead")
    assert (found.exit_status, one["severity"], one["remedy"]) == (0, "info", "delete it")
    assert one["message"].endswith("the plugin has ended, and another hands out the GPUs")
    found = answered(node, run, allocatable(Devices(GPU, GPUS[:4], (0,))))
    assert found.findings("device-plugin-dead")[0]["severity"] == "error"


def test_device_plugins_are_at_their_own_place_whatever_the_root_dir(testnode: MakeNode, run: Run) -> None:
    node = testnode()
    node.kubelet(f"--config=/{KUBELET}/config.yaml", "--root-dir=/var/lib/k0s/kubelet")
    node.write("var/lib/k0s/kubelet/pods/x", "")
    node.checkpoint({GPU: GPUS[1:]})
    node.listen("device-plugins/nvidia-gpu.sock")
    node.stale("device-plugins/other.sock")
    found = node.verify(run)
    assert found.status("device-plugin-missing") == "passed"
    ids = ("gpu-not-registered", "device-plugin-dead")
    folder = f"{node.root}/{KUBELET}/device-plugins"
    assert [one["place"] for id in ids for one in found.findings(id)] == [
        f"{folder}/kubelet_internal_checkpoint",
        f"{folder}/other.sock",
    ]


def test_a_dra_driver_beside_the_plugin_is_an_error(node: Testnode, run: Run) -> None:
    node.listen("plugins_registry/gpu.nvidia.com-reg.sock")
    node.listen("plugins_registry/dra.net.sock")
    found = answered(node, run)
    (message,) = found.messages("dra-beside-plugin")
    assert message == (
        "the DRA driver gpu.nvidia.com is registered, and a device plugin hands out GPUs too (nvidia.com/gpu): neither "
        "knows what the other gave, so two pods can get one device"
    )
    vfs = (*gpus(), Devices("nvidia.com/vfs", ("0000:18:00.0",), (0,)))
    found = answered(node, run, allocatable(*vfs))
    assert ["dra.net" in message for message in found.messages("dra-beside-plugin")] == [False, True]


def test_a_gpu_that_is_not_registered_is_named(node: Testnode, run: Run) -> None:
    node.checkpoint({GPU: [id for id in GPUS if id != GPUS[3]]})
    (found,) = node.verify(run).findings("gpu-not-registered")
    assert (found["severity"], found["place"]) == (
        "error",
        f"{node.root}/{KUBELET}/device-plugins/kubelet_internal_checkpoint",
    )
    assert found["message"] == (
        f"GPU 3 (0000:61:00.0, {GPUS[3]}) is not among the healthy devices of nvidia.com/gpu: no pod gets them"
    )
    assert answered(node, run).status("gpu-not-registered") == "passed"  # the kubelet itself knows better
    shared = tuple(Devices(f"{GPU}.shared", tuple(f"{id}::{n}" for n in range(4)), (0,)) for id in GPUS[:4])
    (message,) = answered(node, run, allocatable(*shared)).messages("gpu-not-registered")
    assert message.startswith(f"GPU 4 (0000:9d:00.0, {GPUS[4]}), GPU 5")
    assert message.endswith("are not among the healthy devices of nvidia.com/gpu.shared: no pod gets them")


def test_devices_that_are_not_there_are_named(node: Testnode, run: Run) -> None:
    gone = "GPU-99999999-0000-4000-8000-000000000000"
    hami = Devices("example.com/vgpu", tuple(f"{GPUS[0]}-{number}" for number in range(10)), (0,))
    sriov = Devices("intel.com/vfs", ("0000:18:00.0", "0000:18:00.7", "7", "0000:29:00.1"), (0,))
    found = answered(node, run, allocatable(*gpus(), Devices(GPU, (f"{gone}::0", f"{gone}::1"), (0,)), hami, sriov))
    assert found.messages("device-not-there") == [
        f"nvidia.com/gpu: {gone} is registered, and not on this machine",
        "intel.com/vfs: 0000:18:00.7 is registered, and not on this machine",
    ]


def test_an_advertised_numa_node_that_is_not_the_kernels_is_an_error(node: Testnode, run: Run) -> None:
    found = answered(node, run, allocatable(*gpus((0,) * 8), Devices("intel.com/vfs", ("0000:18:00.0",), (0, 1))))
    (message,) = found.messages("device-numa-differs")
    assert message == (
        "nvidia.com/gpu: GPU 4, GPU 5, GPU 6, GPU 7 are advertised on NUMA node 0; the kernel has them on 1: the "
        "kubelet aligns CPUs and memory with the wrong NUMA node"
    )
    entry = {"PodUID": "a", "ContainerName": "b", "ResourceName": GPU, "DeviceIDs": {"1": [GPUS[0]], "0": [GPUS[1]]}}
    node.checkpoint({GPU: GPUS}, [entry])
    (message,) = node.verify(run).messages("device-numa-differs")
    assert message.startswith("nvidia.com/gpu: GPU 0 is advertised on NUMA node 1; the kernel has it on 0")


def test_node_zero_for_unknown_is_an_error(testnode: MakeNode, run: Run) -> None:
    node = testnode("vm-all-unknown")
    node.nvml(nvml_stub.dgx(tuple(f"00000000:0{bus}:00.0" for bus in range(1, 9))))
    node.kubelet()
    node.listen("device-plugins/nvidia-gpu.sock")
    found = answered(node, run, allocatable(*gpus((0, None))))
    (message,) = found.messages("device-numa-differs")
    assert "GPU 0 is advertised on NUMA node 0; the kernel knows no NUMA node of it" in message
    (blind,) = found.findings("device-without-topology")
    assert blind["message"] == (
        "nvidia.com/gpu: 1 of 2 devices advertised without a NUMA node: under an alignment policy they are never "
        "given to a pod that could be aligned"
    )
    assert "the kernel knows no NUMA node either" in blind["remedy"]


def test_resources_without_topology_are_told_with_what_to_do(node: Testnode, run: Run) -> None:
    rdma = Devices("rdma/hca_shared_devices_a", tuple(map(str, range(63))), None)
    pool = Devices("nvidia.com/ib_pf", ("0000:18:00.0",), None)
    fuse = Devices("smarter-devices/fuse", ("fuse0", "fuse1"), None)
    found = answered(node, run, allocatable(*gpus(), rdma, pool, fuse)).findings("device-without-topology")
    assert [(one["severity"], one["message"].partition("advertised ")[0]) for one in found] == [
        ("warning", "rdma/hca_shared_devices_a: all 63 devices "),
        ("warning", "nvidia.com/ib_pf: 1 device "),
        ("info", "smarter-devices/fuse: both devices "),
    ]
    assert {one["message"].partition("advertised ")[2] for one in found} == {
        "without a NUMA node: no policy aligns CPUs and memory with them"
    }
    assert [one.get("remedy") for one in found] == [
        "the shared RDMA plugin never sends NUMA nodes: make one resource for each NUMA node, or use SR-IOV",
        "the kernel knows the NUMA node: take excludeTopology out of the plugin's pool, or update the plugin",
        None,
    ]


def test_passed_through_gpus_are_known_by_their_iommu_group(testnode: MakeNode, run: Run) -> None:
    node = testnode("vfio-gpu")
    node.nvml({"init": 9})
    node.kubelet()
    node.listen("device-plugins/kubevirt-gpu.sock")
    machine = json.loads(run("inspect", "--root", node.root, "-o", "json").stdout)
    groups = [str(gpu["iommuGroup"]) for gpu in machine["gpus"] if gpu["driver"] == "vfio-pci"]
    passed = Devices("nvidia.com/GH100_H100_SXM5_80GB", tuple(groups), None)
    found = answered(node, run, allocatable(passed))
    (blind,) = found.findings("device-without-topology")
    assert blind["severity"] == "warning"
    assert found.status("device-plugin-missing") == "not-applicable"


def test_what_cannot_be_read_is_the_reason(node: Testnode, run: Run, tmp_path: Path) -> None:
    assert run("snapshot", tmp_path / "node.tar", "--root", node.root, env=node.environment).returncode == 0
    with tarfile.open(tmp_path / "node.tar") as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    denied = {f"{KUBELET}/device-plugins": 13, f"{KUBELET}/plugins_registry": 13}
    (tmp_path / "unpacked/numalign/errors.json").write_text(json.dumps(denied))
    with tarfile.open(tmp_path / "denied.tar", "w") as packed:
        packed.add(tmp_path / "unpacked", "")
    found = Verdict(run("verify", "--machine", tmp_path / "denied.tar", "-o", "json"))
    assert found.reason("device-plugin-missing").endswith("device-plugins: Permission denied")
    assert found.reason("dra-beside-plugin").endswith("plugins_registry: Permission denied")


def mig(layout: dict[int, int]) -> dict[str, object]:
    """NVML's settings where GPUs have so many MIG devices."""
    said = nvml_stub.dgx(BUSES)
    for gpu, slices in layout.items():
        said[f"{gpu}.mig"] = 1
        for slot in range(slices):
            said[f"{gpu}.mig.{slot}.uuid"] = mig_uuid(gpu, slot)
            said[f"{gpu}.mig.{slot}.name"] = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
            said[f"{gpu}.mig.{slot}.gi"] = slot
            said[f"{gpu}.mig.{slot}.ci"] = 0
    return said


def mig_uuid(gpu: int, slot: int) -> str:
    return f"MIG-{gpu:08d}-{slot:04d}-4000-8000-000000000000"


def test_mig_devices_count_for_their_gpu_under_every_strategy(node: Testnode, run: Run) -> None:
    node.nvml(mig(dict.fromkeys(range(8), 2)))
    single = tuple(Devices(GPU, (mig_uuid(gpu, 0), mig_uuid(gpu, 1)), (gpu // 4,)) for gpu in range(8))
    found = answered(node, run, allocatable(*single))
    ids = ("gpu-not-registered", "device-not-there", "mig-uneven", "mig-unused", "device-numa-differs")
    assert {id: found.status(id) for id in ids} == dict.fromkeys(ids, "passed")
    short = (Devices(GPU, (mig_uuid(0, 0),), (0,)), *single[1:])
    (message,) = answered(node, run, allocatable(*short)).messages("gpu-not-registered")
    assert message.startswith("1 of 2 MIG devices of GPU 0 are not among the healthy devices of nvidia.com/gpu")
    none = answered(node, run)
    assert none.status("gpu-not-registered") == "passed"
    assert none.messages("mig-unused")[0] == (
        "GPU 0 has MIG on and the plugin gives it out whole (strategy none), so a container sees one of its MIG "
        "devices at most"
    )


def test_uneven_mig_is_an_error_where_the_plugin_takes_them_for_alike(node: Testnode, run: Run) -> None:
    node.nvml(mig({6: 2, 7: 0}))
    mixed = (*gpus()[:6], Devices("nvidia.com/mig-1g.10gb", (mig_uuid(6, 0), mig_uuid(6, 1)), (1,)))
    found = answered(node, run, allocatable(*mixed))
    assert [one["severity"] for one in found.findings("mig-uneven")] == ["info"]
    assert found.status("gpu-not-registered") == "passed"
    assert found.messages("mig-unused") == ["GPU 7 has MIG on and no MIG device on it, so nothing of it can be used"]
    single = (Devices(GPU, (mig_uuid(6, 0), mig_uuid(6, 1)), (1,)),)
    (uneven,) = answered(node, run, allocatable(*single)).findings("mig-uneven")
    assert uneven["severity"] == "error"
    assert uneven["message"] == (
        "the GPUs are not divided alike: GPU 0, 1, 2, 3, 4, 5: MIG off; GPU 6: 2 x NVIDIA H100 80GB HBM3 MIG 1g.10gb; "
        "GPU 7: MIG on, not divided, and nvidia.com/gpu counts them as if they were alike (strategy single)"
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "unexpected end"),
        (b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}', "checkpoint is corrupted"),
        (b'{"Data":', "unexpected end"),
        (b"\xff" * 100, "invalid character"),
        (b"[" * 100_000, "exceeded max depth"),
        (b" " * (5 << 20), "more than 4 MiB"),
    ],
    ids=["empty", "checksum", "truncated", "bytes", "nested", "enormous"],
)
def test_a_bad_checkpoint_is_one_finding(content: bytes, says: str, node: Testnode, run: Run) -> None:
    node.write(f"{KUBELET}/device-plugins/kubelet_internal_checkpoint", content)
    found = node.verify(run)
    (message,) = found.messages("device-state-unusable")
    assert says in message
    assert found.reason("gpu-not-registered").endswith("kubelet_internal_checkpoint cannot be read")
