"""The checks of the running kubelet and of the system, through the real command: passing, failing, unable to look."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numalign.probe import kubelet as probe_kubelet
from tests.conftest import Run

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,56,112,168"
"""
PROCESS = '{"pid":812,"arguments":["/usr/bin/kubelet","--config=/var/lib/kubelet/config.yaml"],"started":%s}'
Answer = Callable[[str, "str | None"], tuple[int, bytes]]
OF_THE_KUBELET = ("kubelet-config-newer", "kubelet-health", "kubelet-version")


@pytest.fixture
def node(tree: Callable[[str], Path], tmp_path: Path) -> Path:
    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    write(root, "var/lib/kubelet/config.yaml", CONFIG)
    return root


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def outcomes(run: Run, *words: str | Path) -> dict[str, tuple[str, str | None]]:
    report = json.loads(run("verify", "-o", "json", *words).stdout)
    return {check["id"]: (check["status"], check["reason"]) for check in report["checks"]}


def test_without_a_kubelet_nothing_is_said_of_one(run: Run, node: Path) -> None:
    found = outcomes(run, "--root", node)
    assert {found[id] for id in OF_THE_KUBELET} == {("not-applicable", "no kubelet is seen running")}
    of_the_system = ("swap-on", "cgroup-v1", "system-cpus", "interrupt-cpus")
    nothing = ("not-looked-at", "of the system around the kubelet nothing is seen")
    assert {found[id] for id in of_the_system} == {nothing}
    write(node, "proc/1/status", "Cpus_allowed_list:\t0-223\n")
    found = outcomes(run, "--root", node)
    assert {found[id] for id in of_the_system[:2]} == {
        ("not-looked-at", "/proc/swaps is not there"),
        ("not-looked-at", "/sys/fs/cgroup is not there"),
    }


def test_a_well_kept_node_passes(run: Run, node: Path) -> None:
    write(node, "numalign/kubelet-process.json", PROCESS % 4000000000)
    write(node, "numalign/kubelet-version", "Kubernetes v1.34.1")
    write(node, "numalign/kubelet-health.json", '{"answered":true,"text":"ok"}')
    write(node, "proc/swaps", "Filename Type Size Used Priority\n")
    write(node, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
    write(node, "sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0,56,112,168\n")
    write(node, "proc/1/status", "Name:\tsystemd\nCpus_allowed_list:\t0,56,112,168\n")
    write(node, "proc/irq/7/smp_affinity_list", "0,56\n")
    found = outcomes(run, "--root", node)
    ids = (*OF_THE_KUBELET, "swap-on", "cgroup-v1", "system-cpus", "interrupt-cpus")
    assert {id: found[id][0] for id in ids} == dict.fromkeys(ids, "passed")


def test_an_affinity_that_does_not_hold_is_a_warning_with_its_reason(run: Run, node: Path) -> None:
    write(node, "etc/systemd/system.conf", "[Manager]\nCPUAffinity=0 56\nCPUAffinity=112,168\n")
    write(node, "proc/1/status", "Cpus_allowed_list:\t0-223\n")
    report = json.loads(run("verify", "-o", "json", "--root", node).stdout)
    (found,) = [finding for finding in report["findings"] if finding["id"] == "system-cpus"]
    assert found["severity"] == "warning"
    assert "process 1 (0-223); CPUAffinity=0,56,112,168 does not hold" in found["message"]


def test_a_system_that_nobody_keeps_anywhere_is_worth_knowing_only(run: Run, node: Path) -> None:
    write(node, "proc/1/status", "Cpus_allowed_list:\t0-223\n")
    report = json.loads(run("verify", "-o", "json", "--root", node).stdout)
    assert [found["severity"] for found in report["findings"] if found["id"] == "system-cpus"] == ["info"]


@pytest.mark.parametrize(
    ("version", "text", "wanted"),
    [
        ("1.34", "", "passed"),
        ("1.34", "failCgroupV1: true\n", "failed"),
        ("1.35", "", "failed"),
        ("1.35", "failCgroupV1: false\n", "passed"),
        ("1.35", "failCgroupV1: false\nsingleProcessOOMKill: false\n", "failed"),
        ("1.31", "failCgroupV1: false\nsingleProcessOOMKill: false\n", "passed"),
        ("1.32", "featureGates: {NodeSwap: true}\nmemorySwap: {swapBehavior: LimitedSwap}\n", "failed"),
    ],
)
def test_cgroup_v1_keeps_newer_kubelets_from_starting(
    run: Run, node: Path, version: str, text: str, wanted: str
) -> None:
    write(node, "sys/fs/cgroup/cpuset/cpuset.cpus", "0-223\n")
    write(node, "var/lib/kubelet/config.yaml", CONFIG + text)
    assert outcomes(run, "--root", node, "--kubernetes-version", version)["cgroup-v1"][0] == wanted


@pytest.mark.parametrize(("text", "wanted"), [("", "failed"), ("failSwapOn: false\n", "passed")])
def test_swap_keeps_the_kubelet_from_starting_unless_it_bears_it(run: Run, node: Path, text: str, wanted: str) -> None:
    write(node, "proc/swaps", "Filename Type Size Used Priority\n/swap file 1 0 -2\n")
    write(node, "var/lib/kubelet/config.yaml", CONFIG + text)
    assert outcomes(run, "--root", node)["swap-on"][0] == wanted


@pytest.fixture
def living_kubelet(tmp_path: Path) -> Iterator[int]:
    """A process of this host that is called as a kubelet is."""
    program = tmp_path / "bin" / "kubelet"
    program.parent.mkdir()
    shutil.copy2(shutil.which("sleep") or "/bin/sleep", program)
    with subprocess.Popen([program, "120"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def web() -> Iterator[Callable[[Answer], int]]:
    """Serves what a function answers to a path and an Authorization: a status and a text; gives the port."""
    servers = []

    def serve(answer: Answer) -> int:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answer(self.path, self.headers["Authorization"])
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_port

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def healthz(web: Callable[[Answer], int]) -> Callable[[int, str], int]:
    """Serves /healthz with a status and a text; gives the port."""
    return lambda status, text: web(lambda path, token: (status if path == "/healthz" else 404, text.encode()))


@pytest.mark.usefixtures("living_kubelet")
@pytest.mark.parametrize(("status", "text", "wanted"), [(200, "ok", "passed"), (500, "[-]syncloop failed", "failed")])
def test_the_kubelet_of_this_host_is_asked_how_it_is(
    run: Run, tmp_path: Path, healthz: Callable[[int, str], int], status: int, text: str, wanted: str
) -> None:
    (tmp_path / "k.yaml").write_text(CONFIG + f"healthzPort: {healthz(status, text)}\n")
    done = run("verify", "--config", tmp_path / "k.yaml", "-o", "json")
    report = json.loads(done.stdout)
    found = {check["id"]: check["status"] for check in report["checks"]}
    assert found["kubelet-health"] == wanted
    said = [finding["message"] for finding in report["findings"] if finding["id"] == "kubelet-health"]
    assert said == ([] if status == 200 else ["the kubelet is not well, says its /healthz: 500: [-]syncloop failed"])


@pytest.mark.usefixtures("living_kubelet")
def test_a_kubelet_that_was_just_started_is_given_time(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (tmp_path / "k.yaml").write_text(CONFIG + f"healthzPort: {port}\n")
    status, reason = outcomes(run, "--config", tmp_path / "k.yaml")["kubelet-health"]
    assert status == "not-looked-at"
    assert reason is not None


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def test_a_binary_is_asked_for_its_version(tmp_path: Path) -> None:
    asked = script(tmp_path / "good", '[ "$1" = --version ] && [ -z "$HOME" ] && echo Kubernetes v1.34.1')
    assert probe_kubelet._ask(asked) == "Kubernetes v1.34.1"


@pytest.mark.parametrize(
    ("text", "mode"), [("echo hello", 0o755), ("echo Kubernetes v1.34.1; exit 1", 0o755), ("echo Kubernetes v1", 0o777)]
)
def test_a_binary_that_says_nothing_of_use_or_anybody_could_have_put_there_tells_no_version(
    tmp_path: Path, text: str, mode: int
) -> None:
    assert probe_kubelet._ask(script(tmp_path / "bad", text, mode)) is None


def test_a_binary_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_kubelet, "_VERSION_DEADLINE", 0.2)
    assert probe_kubelet._ask(script(tmp_path / "slow", "exec sleep 60")) is None
    assert os.path.exists(tmp_path / "slow")


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%s"}}]
users: [{name: u, user: {token: secret}}]
"""
DEFAULTED = {
    # as a kubelet prints it: every field with its default
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "cpuManagerReconcilePeriod": "10s",
    "reservedSystemCPUs": "0,56,112,168",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "memoryManagerPolicy": "None",
    "enforceNodeAllocatable": ["pods"],
    "evictionHard": {
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
    },
    "featureGates": {"NodeSwap": True},
}


@pytest.fixture
def api_server(web: Callable[[Answer], int]) -> Callable[[int, bytes], int]:
    """Serves the configz of the node gpu-07 to who has the token; gives the port."""
    wanted = ("/api/v1/nodes/gpu-07/proxy/configz", "Bearer secret")
    return lambda status, body: web(lambda path, token: (status if (path, token) == wanted else 401, body))


def asked(run: Run, node: Path, port: int, *words: str) -> tuple[tuple[str, str | None], list[str]]:
    write(node, "numalign/kubelet-process.json", PROCESS % 4000000000)
    write(node, "kubeconfig", KUBECONFIG % port)
    done = run("verify", "-o", "json", "--root", node, "--kubeconfig", node / "kubeconfig", "--node", "gpu-07", *words)
    report = json.loads(done.stdout)
    outcome = {check["id"]: (check["status"], check["reason"]) for check in report["checks"]}["kubelet-runs-other"]
    return outcome, [found["message"] for found in report["findings"] if found["id"] == "kubelet-runs-other"]


def test_a_kubelet_that_runs_with_what_its_files_say_passes(
    run: Run, node: Path, api_server: Callable[[int, bytes], int]
) -> None:
    port = api_server(200, json.dumps({"kubeletconfig": DEFAULTED}).encode())
    assert asked(run, node, port) == (("passed", None), [])


def test_a_kubelet_that_runs_with_something_else_is_found_out(
    run: Run, node: Path, api_server: Callable[[int, bytes], int]
) -> None:
    other = {**DEFAULTED, "reservedSystemCPUs": "0-3", "cpuManagerPolicyOptions": {}}
    port = api_server(200, json.dumps({"kubeletconfig": other}).encode())
    assert asked(run, node, port)[1] == [
        "the kubelet runs with cpuManagerPolicyOptions nothing, and its files and flags say full-pcpus-only=true",
        "the kubelet runs with reservedSystemCPUs 0-3, and its files and flags say 0,56,112,168",
    ]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (403, b"", "the API server answers 403 Forbidden"),
        (200, b"\x00garbage", "the API server's answer is no KubeletConfiguration"),
        (200, b'{"kubeletconfig": {"cpuManagerPolicy": []}}', "the API server's answer is no KubeletConfiguration"),
        (200, b"[1]", "the API server's answer is no KubeletConfiguration"),
    ],
)
def test_a_kubelet_that_cannot_be_asked_is_not_looked_at(
    run: Run, node: Path, api_server: Callable[[int, bytes], int], status: int, body: bytes, reason: str
) -> None:
    assert asked(run, node, api_server(status, body)) == (("not-looked-at", reason), [])


@pytest.mark.parametrize("text", [None, "a: [", "just text", "apiVersion: v1\nkind: Config\n"])
def test_a_kubeconfig_that_cannot_be_used_is_said(run: Run, node: Path, text: str | None) -> None:
    write(node, "numalign/kubelet-process.json", PROCESS % 4000000000)
    if text is not None:
        write(node, "kubeconfig", text)
    done = run("verify", "--root", node, "--kubeconfig", node / "kubeconfig")
    assert (done.returncode, done.stderr.startswith(f"numalign: --kubeconfig {node}/kubeconfig: ")) == (3, True)
