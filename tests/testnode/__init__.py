"""A node to verify: a machine's root directory with a kubelet's files, state, sockets and cgroups, a process that looks
like a kubelet, the stand-in NVML library, and the pod-resources API over a real unix socket.

    def test_it(testnode: MakeNode, run: Run) -> None:
        node = testnode()                       # a DGX H100 with a configuration and nothing else
        node.kubelet()                          # its process runs from here on
        with node.pod_resources(Answers(…)):
            found = node.verify(run, "--pods")
        assert found.status("gpu-not-registered") == "passed"

The root has the running kernel's boot id, so that numalign takes it for the host itself and asks NVML, the kubelet's
binary and its sockets.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from numalign.kubelet import devices
from numalign.kubelet.checkpoint import cpu_checksum, fnv
from tests import nvml_stub
from tests.kubelet.pod_resources_server import Answers, serve

__all__ = ["BUSES", "CONFIG", "GPUS", "KUBELET", "MakeNode", "Testnode", "Verdict", "build_kubelet", "uuid"]

KUBELET = "var/lib/kubelet"
BUSES = tuple(f"00000000:{bus}:00.0" for bus in ("1B", "43", "52", "61", "9D", "C3", "D1", "DF"))
"""The GPUs of the machine dgx-h100 as NVML prints their addresses; the first four are on NUMA node 0."""
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,56,112,168"
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
"""
_BOOT_ID = "proc/sys/kernel/random/boot_id"


def uuid(index: int) -> str:
    """The UUID of a GPU of the stand-in library."""
    return f"GPU-{index:08d}-0000-4000-8000-000000000000"


GPUS = tuple(map(uuid, range(len(BUSES))))


class Verdict:
    """What `numalign verify -o json` said."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.exit_status = done.returncode
        self.stderr = done.stderr
        assert done.stdout, done.stderr
        self.report: dict[str, Any] = json.loads(done.stdout)
        self._outcomes = {outcome["id"]: outcome for outcome in self.report["checks"]}

    def status(self, id: str) -> str:
        """What came of a check: passed, failed, not-applicable or not-looked-at."""
        return str(self._outcomes[id]["status"])

    def reason(self, id: str) -> str:
        """Why a check was not made."""
        return str(self._outcomes[id]["reason"])

    def messages(self, id: str) -> list[str]:
        """What a check found."""
        return [finding["message"] for finding in self.findings(id)]

    def findings(self, id: str) -> list[dict[str, str]]:
        """The findings of a check, whole."""
        return [finding for finding in self.report["findings"] if finding["id"] == id]


class Testnode:
    """A node below `root`; what a test changes of it is files, and the methods below."""

    __test__ = False

    def __init__(self, root: Path, library: Path, binary: Path) -> None:
        self.root = root
        self._library = library
        self._binary = binary
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sockets: list[socket.socket] = []
        self.environment: dict[str, str] = {}
        self.write(_BOOT_ID, Path("/", _BOOT_ID).read_text())
        self.write(f"{KUBELET}/config.yaml", CONFIG)
        self.nvml(nvml_stub.dgx(BUSES))

    def write(self, path: str, content: str | bytes) -> Path:
        """A file of the node, with the directories above it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    # -- the kubelet

    def kubelet(self, *words: str, version: str = "v1.34.1", comm: str = "kubelet") -> int:
        """Starts a process that looks like a kubelet called with `words`, by default with --config; gives its number.
        It is in the node's /proc as it is in the real one."""
        words = words or (f"--config=/{KUBELET}/config.yaml",)
        binary = Path(tempfile.mkdtemp(dir=self.root.parent), comm)
        shutil.copy2(self._binary, binary)
        binary.with_name(f"{comm}.version").write_text(f"Kubernetes {version}\n")
        process = subprocess.Popen([binary, *words])
        self._processes.append(process)
        real = Path("/proc", str(process.pid))
        while (real / "comm").read_text() != f"{comm}\n":  # it is not yet what was started
            time.sleep(0.001)
        for name in ("comm", "cmdline", "stat"):
            self.write(f"proc/{process.pid}/{name}", (real / name).read_bytes())
        return process.pid

    def cpu_state(self, entries: Mapping[str, Mapping[str, str]], default: str, policy: str = "static") -> None:
        """Writes cpu_manager_state: exclusive CPUs by pod UID and container, and the shared pool."""
        state: dict[str, Any] = {"policyName": policy, "defaultCpuSet": default, "entries": entries}
        if not entries:
            del state["entries"]
        self.write(f"{KUBELET}/cpu_manager_state", json.dumps({**state, "checksum": cpu_checksum(state)}))

    def checkpoint(self, registered: Mapping[str, Sequence[str]], entries: Sequence[Mapping[str, Any]] = ()) -> None:
        """Writes kubelet_internal_checkpoint: devices by resource, and {PodUID, ContainerName, ResourceName, DeviceIDs
        by NUMA node}."""
        content = {
            "PodDeviceEntries": [{"AllocResp": "", **entry} for entry in entries],
            "RegisteredDevices": {name: list(ids) for name, ids in registered.items()},
        }
        checksum = fnv(devices._dump(msgspec.convert(content, devices._Content, str_keys=True)))
        self.write(
            f"{KUBELET}/device-plugins/kubelet_internal_checkpoint",
            json.dumps({"Data": content, "Checksum": checksum}),
        )

    def pod_cgroups(self, *uids: str) -> None:
        """Makes the cgroups of Guaranteed pods, as the systemd driver names them."""
        kubepods = self.root / "sys/fs/cgroup/kubepods.slice"
        for folder in ("", "kubepods-burstable.slice", "kubepods-besteffort.slice"):
            (kubepods / folder).mkdir(parents=True, exist_ok=True)
        for uid in uids:
            (kubepods / f"kubepods-pod{uid.replace('-', '_')}.slice").mkdir()

    # -- sockets

    def listen(self, path: str) -> socket.socket:
        """A socket below the kubelet's directory on which somebody listens, and nobody answers."""
        bound = socket.socket(socket.AF_UNIX)
        with self._address(path) as address:
            bound.bind(address)
        bound.listen(8)
        self._sockets.append(bound)
        return bound

    def stale(self, path: str) -> None:
        """A socket below the kubelet's directory that is left over from a process that ended."""
        self.listen(path).close()

    @contextmanager
    def pod_resources(self, answers: Answers, **options: Any) -> Iterator[None]:
        """Serves the pod-resources API at its place while the block runs."""
        with self._address("pod-resources/kubelet.sock") as address, serve(address, answers, **options):
            yield

    @contextmanager
    def _address(self, path: str) -> Iterator[str]:
        """A short way to a file below the kubelet's directory: an address has 108 bytes at most."""
        place = self.root / KUBELET / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        folder = os.open(place.parent, os.O_PATH)
        try:
            yield f"/proc/self/fd/{folder}/{place.name}"
        finally:
            os.close(folder)

    # -- NVML, and the verdict

    def nvml(self, said: Mapping[str, object]) -> None:
        """What the stand-in NVML library answers (tests/nvml_stub)."""
        self.environment = nvml_stub.environment(self._library, nvml_stub.settings(self.root.parent, said))

    def verify(self, run: Callable[..., subprocess.CompletedProcess[str]], *words: str | Path) -> Verdict:
        """`numalign verify` of this node."""
        return Verdict(run("verify", "--root", self.root, "-o", "json", *words, env=self.environment))

    def end(self) -> None:
        """Ends the node's processes and closes its sockets."""
        for process in self._processes:
            process.kill()
            process.wait()
        for bound in self._sockets:
            bound.close()


MakeNode = Callable[..., Testnode]


def build_kubelet(folder: Path) -> Path:
    """Compiles the process that looks like a kubelet; gives its file."""
    source, target = Path(__file__).parent / "kubelet_stub.c", folder / "kubelet"
    command = [os.environ.get("CC", "cc"), "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", str(target), str(source)], check=True)
    target.chmod(0o755)
    return target
