"""The test node is what it says: numalign finds its kubelet, its state, its sockets and its GPUs."""

from __future__ import annotations

import shutil
from pathlib import Path

from numalign.kubelet.devices import read_device_state
from numalign.kubelet.podresources import Pod, PodResources, Pods
from numalign.probe.host import Host
from numalign.probe.kubelet import find_process, version_of
from tests.conftest import Run
from tests.kubelet.pod_resources_server import Answers
from tests.testnode import GPUS, KUBELET, MakeNode


def test_its_kubelet_is_found_and_says_its_version(testnode: MakeNode) -> None:
    node = testnode()
    pid = node.kubelet("--config=/var/lib/kubelet/config.yaml", version="v1.33.2")
    host = Host(str(node.root))
    process = find_process(host)
    assert process is not None
    assert (process.pid, process.arguments[1:]) == (pid, ("--config=/var/lib/kubelet/config.yaml",))
    assert version_of(host, process) == "Kubernetes v1.33.2"


def test_its_checkpoint_is_one_that_a_kubelet_takes(testnode: MakeNode) -> None:
    node = testnode()
    entry = {"PodUID": "a", "ContainerName": "b", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"0": [GPUS[0]]}}
    node.checkpoint({"nvidia.com/gpu": GPUS}, [entry])
    state = read_device_state((node.root / KUBELET / "device-plugins/kubelet_internal_checkpoint").read_bytes())
    assert (state.registered, state.entries["a"]["b"]["nvidia.com/gpu"].ids) == (
        {"nvidia.com/gpu": GPUS},
        {0: (GPUS[0],)},
    )


def test_its_pod_resources_api_answers(testnode: MakeNode) -> None:
    node = testnode()
    with (
        node.pod_resources(Answers((Pod("ml", "a"),))),
        PodResources(f"{node.root}/{KUBELET}/pod-resources/kubelet.sock") as api,
    ):
        assert api.list() == Pods((Pod("ml", "a"),))


def test_it_passes_as_it_is(testnode: MakeNode, run: Run) -> None:
    node = testnode()
    node.kubelet()
    node.cpu_state({}, "0-223")
    node.listen("device-plugins/nvidia-gpu.sock")
    found = node.verify(run)
    assert (found.exit_status, found.report["kubernetesVersion"]) == (0, "1.34")
    assert found.status("gpu-lost") == found.status("cpu-state-differs") == "passed"


def test_nvml_of_a_driver_in_a_container_is_found(testnode: MakeNode, run: Run, tmp_path: Path) -> None:
    node = testnode()
    library = Path(node.environment.pop("LD_LIBRARY_PATH"), "libnvidia-ml.so.1")
    folder = tmp_path / "driver/usr/lib64"
    folder.mkdir(parents=True)
    copy = Path(shutil.copy(library, folder))
    copy.chmod(0o755)
    node.environment["NVIDIA_DRIVER_ROOT"] = str(tmp_path / "driver")
    assert node.verify(run).status("nvml-error") == "passed"
    copy.chmod(0o777)
    assert node.verify(run).status("nvml-error") == "failed"
