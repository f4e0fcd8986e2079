"""The pod-resources API is read as the kubelet serves it, and whoever else listens leaves one clear error in time."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import grpc
import pytest

from numalign.cpuset import MAX_CPUS, CpuSet
from numalign.kubelet.podresources import (
    MAX_MESSAGE,
    Allocatable,
    Claim,
    ClaimDevice,
    Container,
    Devices,
    Memory,
    Pod,
    PodResources,
    PodResourcesError,
    Pods,
)
from numalign.kubelet.versions import gates
from numalign.machine import encode
from tests.kubelet.pod_resources_server import Answers, serve

GIB = 1 << 30
TRAINER = Pod(
    "ml",
    "trainer-0",
    (
        Container(
            "main",
            (Devices("nvidia.com/gpu", ("GPU-0", "GPU-1"), (0,)), Devices("nvidia.com/gpu", ("GPU-4",), (1,))),
            CpuSet.parse("4-7,116-119"),
            (Memory("memory", 64 * GIB, (0, 1)), Memory("hugepages-1Gi", GIB, (0,))),
            (Claim("ml", "nic", (ClaimDevice("dra.net", "node-a", "mlx5_0", ("dra.net/nic=0",), "half"),)),),
        ),
        Container("sidecar", (Devices("rdma/hca", ("7",), None),)),
    ),
    CpuSet.parse("4-9"),
    (Memory("memory", 80 * GIB, (0,)),),
)
SHARED = Pod("kube-system", "proxy", (Container("proxy"),))
ALLOCATABLE = Allocatable(
    (Devices("nvidia.com/gpu", ("GPU-0",), (0,)), Devices("rdma/hca", ("7",), None)),
    CpuSet.parse("4-111"),
    (Memory("memory", 500 * GIB, (0,)), Memory("memory", (1 << 64) - 1, (1,))),
)
ANSWERS = Answers((TRAINER, SHARED), ALLOCATABLE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


def kind_of(path: Path | str, timeout: float = 1.0) -> str:
    """The kind of error that asking for all pods ends with; its reason is one line that names the socket."""
    with pytest.raises(PodResourcesError) as error, PodResources(str(path), timeout) as api:
        api.list()
    assert str(path)[:100] in error.value.reason
    for text in (error.value.reason, error.value.remedy):
        assert text.isprintable()
        assert len(text) < 500
    return error.value.kind


def test_what_a_kubelet_serves_is_read(path: Path) -> None:
    with serve(path, ANSWERS), PodResources(str(path)) as api:
        assert api.list() == Pods((TRAINER, SHARED))
        assert api.allocatable() == ALLOCATABLE
        assert api.get("ml", "trainer-0") == Pods((TRAINER,))
        with pytest.raises(PodResourcesError, match="pod x in namespace ml not found") as missing:
            api.get("ml", "x")
        assert missing.value.kind == "no-such-pod"


def test_the_server_is_a_process_too(path: Path, tmp_path: Path) -> None:
    (tmp_path / "node.json").write_bytes(encode(ANSWERS))
    words = [sys.executable, "-m", "tests.kubelet.pod_resources_server", str(path), str(tmp_path / "node.json")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == f"listening on {path}\n"
        with PodResources(str(path)) as api:
            assert api.list() == Pods((TRAINER, SHARED))
        server.terminate()


@pytest.mark.parametrize("name", ["a" * 200, "with blank % ? # ü", "new\nline", "x" * 108])
def test_a_path_may_have_any_length_and_any_characters(name: str, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    with serve(path, ANSWERS):
        path.rename(folder / "kubelet.sock")
        with PodResources(str(folder / "kubelet.sock")) as api:
            assert api.list() == Pods((TRAINER, SHARED))


def test_no_proxy_is_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serve(path, ANSWERS), PodResources(str(path)) as api:
        assert api.list() == Pods((TRAINER, SHARED))


def test_the_environment_is_left_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "debug")
    before = dict(os.environ)
    with serve(path, ANSWERS), PodResources(str(path)) as api:
        api.list()
    assert dict(os.environ) == before


# --- what no node has ---


def test_what_cannot_be_is_left_out_and_said(path: Path) -> None:
    odd = Pod(
        "ml",
        "a\x1b[31m",
        (
            Container(
                "c",
                (Devices("x/y", ("1",), (-1,)), Devices("x/y", ("2",), (-1, 0))),
            ),
        ),
    )
    with serve(path, Answers((odd,))), PodResources(str(path)) as api:
        found = api.list()
    where = r"pod ml/a\x1b[31m, container c: "
    assert found.pods[0].containers[0].devices == (Devices("x/y", ("1",), None), Devices("x/y", ("2",), (0,)))
    assert found.odd == (
        r"a pod has a name with control characters: a\x1b[31m",
        where + "NUMA node -1 cannot be; it is left out",
        where + "NUMA node -1 cannot be; it is left out",
    )


def raw(method: str, answer: Callable[[], bytes], path: Path, **options: Any) -> Any:
    """A server that answers a call with these bytes."""
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(1), options=[("grpc.max_send_message_length", -1)], **options)
    handler: Any = grpc.unary_unary_rpc_method_handler(lambda request, context: answer())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", {method: handler}),))
    server.add_insecure_port(f"unix:{path}")
    return server


@contextmanager
def answering(path: Path, data: bytes, **options: Any) -> Iterator[None]:
    server = raw("List", lambda: data, path, **options)
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def with_cpus(*ids: int) -> bytes:
    from tests.kubelet.protos import message

    pod = message("v1.PodResources", name="p", namespace="n", cpu_ids=ids)
    return bytes(message("v1.ListPodResourcesResponse", pod_resources=[pod]).SerializeToString())


def test_cpus_that_no_machine_has_are_left_out_and_said(path: Path) -> None:
    with answering(path, with_cpus(-5, 3, MAX_CPUS, 1 << 62)), PodResources(str(path)) as api:
        found = api.list()
    assert found.pods == (Pod("n", "p", cpus=CpuSet((3,))),)
    assert found.odd == tuple(f"pod n/p: CPU {cpu} cannot be; it is left out" for cpu in (-5, MAX_CPUS, 1 << 62))


def test_of_much_that_cannot_be_the_first_is_said_and_the_rest_counted(path: Path) -> None:
    with answering(path, with_cpus(*range(-1000, 0))), PodResources(str(path)) as api:
        odd = api.list().odd
    assert len(odd) == 21
    assert odd[-1] == "and 980 more"


BAD_MESSAGES = {
    "noise": bytes(range(256)) * 9,
    "cut off": with_cpus(1, 2, 3)[:-1],
    "8 million empty pods": b"\x0a\x00" * (8 << 19),
    "a million CPU sets of 8 KiB": b"\x0a\x05\x22\x03\xff\xff\x03" * 100_000,
    "numbers without end": with_cpus(*[1] * 2_000_000),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
def test_a_message_that_is_none_is_malformed(name: str, path: Path) -> None:
    with answering(path, BAD_MESSAGES[name]):
        assert kind_of(path, 20) == "malformed"


def test_a_gigantic_message_is_too_large(path: Path) -> None:
    with answering(path, bytes(MAX_MESSAGE + 1)):
        assert kind_of(path, 20) == "too-large"


def test_a_compressed_message_is_not_unpacked(path: Path) -> None:
    with answering(path, b"\x0a\x00" * (32 << 20), compression=grpc.Compression.Gzip):
        assert kind_of(path, 20) in ("malformed", "too-large", "failed")


# --- errors ---

CODES = {
    **{code.name: "failed" for code in grpc.StatusCode if code is not grpc.StatusCode.OK},
    "UNIMPLEMENTED": "too-old",
    "DEADLINE_EXCEEDED": "timeout",
    "RESOURCE_EXHAUSTED": "too-large",
    "UNAVAILABLE": "not-grpc",
    "PERMISSION_DENIED": "no-permission",
    "UNAUTHENTICATED": "no-permission",
}


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_grpc_is_an_error_of_its_kind(code: str, path: Path) -> None:
    with serve(path, Answers(errors={"List": (code, "because \x1b]0;of\x07 " + "x" * 1000)})):
        assert kind_of(path) == CODES[code]


def test_the_kubelets_limit_of_calls_is_told_apart(path: Path) -> None:
    with serve(path, Answers(errors={"List": ("RESOURCE_EXHAUSTED", "rejected by rate limit")})):
        assert kind_of(path) == "busy"


@pytest.mark.parametrize(
    ("method", "call", "details"),
    [
        ("Get", lambda api: api.get("a", "b"), "PodResources API Get method disabled"),
        ("GetAllocatableResources", lambda api: api.allocatable(), "PodResources API GetAllocatableResources disabled"),
    ],
)
def test_a_call_that_is_off_names_its_gate(
    method: str, call: Callable[[PodResources], object], details: str, path: Path
) -> None:
    with (
        serve(path, Answers(errors={method: ("UNKNOWN", details)})),
        pytest.raises(PodResourcesError) as error,
        PodResources(str(path)) as api,
    ):
        call(api)
    found = re.fullmatch(
        r"featureGates: \{(\w+): true\} opens it; it is on by default from Kubernetes 1\.(\d+)", error.value.remedy
    )
    assert error.value.kind == "off"
    assert found is not None
    gate, since = found[1], int(found[2])
    on = [minor for minor in range(27, 38) if gate in gates(minor) and gates(minor)[gate].default]
    assert min(on) == max(since, 27)


# --- whoever else has the name ---


def test_without_a_socket_grpc_is_not_even_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from numalign.kubelet.podresources import *\n"
        "try: PodResources(sys.argv[1]).__enter__()\n"
        "except PodResourcesError as error: print(error.kind, {'grpc', 'google', 'asyncio'} & set(sys.modules))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "none")]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "no-socket set()\n"


def test_what_is_no_socket_of_a_server_is_told_apart(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    (tmp_path / "loop").symlink_to("loop")
    assert {
        name: kind_of(tmp_path / name)
        for name in ("none", "file/below", "", "file", "fifo", "kubelet.sock", "loop", "x" * 5000)
    } == {
        "none": "no-socket",
        "file/below": "no-socket",
        "": "not-a-socket",
        "file": "not-a-socket",
        "fifo": "not-a-socket",
        "kubelet.sock": "no-server",
        "loop": "failed",
        "x" * 5000: "failed",
    }
    with pytest.raises(PodResourcesError) as error:
        PodResources("a\0b").__enter__()
    assert error.value.kind == "failed"


@pytest.mark.parametrize("what", ["folder", "socket"])
def test_a_path_without_permission_is_told_apart(what: str) -> None:
    """Run by somebody who is not root: root may everything."""
    folder = Path(mkdtemp())  # whose parents anybody may pass
    folder.chmod(0o755)
    closed = folder / "closed"
    closed.mkdir()
    code = (
        "import os, socket, sys; from numalign.kubelet.podresources import *\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: PodResources(sys.argv[1]).__enter__()\n"
        "except PodResourcesError as error: print(error.kind)"
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(closed / "sock"))
        server.listen()
        (closed / "sock").chmod(0o600 if what == "socket" and os.geteuid() == 0 else 0)
        closed.chmod(0o755 if what == "socket" else 0)
        words = [sys.executable, "-c", code, str(closed / "sock")]
        assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "no-permission\n"
    closed.chmod(0o755)


# The frame in which a server of HTTP/2 says its settings.
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)


def hang(peer: socket.socket) -> None:
    time.sleep(3)


def stream(data: bytes) -> Callable[[socket.socket], None]:
    """Sends the same for ever, or till the other end hangs up."""

    def send(peer: socket.socket) -> None:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            peer.sendall(data)

    return send


def in_turn(*steps: bytes | int | Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    """Sends bytes, reads so many, or does something; then hangs up."""

    def do(peer: socket.socket) -> None:
        for step in steps:
            if isinstance(step, bytes):
                peer.sendall(step)
            elif isinstance(step, int):
                peer.recv(step)
            else:
                step(peer)

    return do


STRANGERS = {
    "closes at once": (in_turn(), "not-grpc"),
    "closes when it is spoken to": (in_turn(1), "not-grpc"),
    "accepts and hangs": (hang, "timeout"),
    "says something and hangs": (in_turn(b"hello", hang), "timeout"),
    "greets and hangs": (in_turn(SETTINGS, hang), "timeout"),
    "greets and closes": (in_turn(SETTINGS, 9), "not-grpc"),
    "is a web server": (in_turn(9, b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not-grpc"),
    "sends garbage": (in_turn(bytes(range(255, -1, -1)) * 256), "not-grpc"),
    "sends zeros without end": (stream(bytes(1 << 16)), "not-grpc"),
    "sends text without end": (stream(b"\x1b[31mtext\r\n" * 1000), "not-grpc"),
    "greets without end": (stream(SETTINGS * 1000), "timeout"),
    "pings without end": (stream(SETTINGS + PING * 1000), "timeout"),
}


@contextmanager
def stranger(path: Path, behave: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server that does this with everyone who connects."""

    def one(peer: socket.socket) -> None:
        with suppress(OSError), peer:
            behave(peer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=accept, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)


ASK = """
import sys, time
start = time.monotonic()
from numalign.kubelet.podresources import *
try:
    with PodResources(sys.argv[1], 1.0) as api:
        api.list()
except PodResourcesError as error:
    print(error.kind)
"""


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_leaves_an_error_in_time_nothing_printed_and_an_exit_at_once(name: str, path: Path) -> None:
    behave, kind = STRANGERS[name]
    with stranger(path, behave):
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-c", ASK, path], capture_output=True, text=True, timeout=30, check=True)
        assert time.monotonic() - start < 10
    assert (done.stdout, done.stderr) == (kind + "\n", "")


def test_a_server_that_takes_no_more_connections_is_a_timeout(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            with suppress(BlockingIOError):
                one.connect(str(path))
        assert kind_of(path) == "timeout"
        for one in waiting:
            one.close()


def test_a_server_that_does_not_answer_is_a_timeout(path: Path) -> None:
    def late() -> bytes:
        time.sleep(2)
        return b""

    server = raw("List", late, path)
    server.start()
    assert kind_of(path, 0.3) == "timeout"
    server.stop(None).wait()


def test_the_documents_of_the_server_are_plain_data(path: Path) -> None:
    assert json.loads(encode(Answers((SHARED,))))["pods"] == [
        {
            "namespace": "kube-system",
            "name": "proxy",
            "containers": [{"name": "proxy", "devices": [], "cpus": "", "memory": [], "claims": []}],
            "cpus": "",
            "memory": [],
        }
    ]
