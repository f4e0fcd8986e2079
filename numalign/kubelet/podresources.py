"""The kubelet's pod-resources API: what each container holds, and what there is to give, asked over its unix socket.

Sources: k8s.io/kubelet's pkg/apis/podresources/v1 (proto/podresources.proto has its field numbers), and
pkg/kubelet/apis/podresources/server_v1.go of 1.27 to 1.36 for what is answered, and how what is off is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from numalign.cpuset import MAX_CPUS, CpuSet
from numalign.kubelet import wire
from numalign.kubelet.podresources_messages import ALLOCATABLE, LIST, ONE_POD
from numalign.kubelet.sockets import NoSocket, address_of, knock, open_socket
from numalign.words import printable

if TYPE_CHECKING:
    import grpc

__all__ = [
    "MAX_MESSAGE",
    "SOCKET",
    "Allocatable",
    "Claim",
    "ClaimDevice",
    "Container",
    "Devices",
    "Memory",
    "Method",
    "Pod",
    "PodResources",
    "PodResourcesError",
    "Pods",
    "read_allocatable",
    "read_pods",
]

SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
MAX_MESSAGE = 16 << 20
"""Bytes of an answer at most, as kubectl's and the kubelet's own clients have it."""
TIMEOUT = 5.0
"""Seconds that connecting, and each call, may take."""

_GRACE = 0.25
_MAX_TEXT = 1024
_MAX_ODD = 20
_SERVICE = "/v1.PodResourcesLister/"

Kind = Literal[
    "no-socket",
    "no-permission",
    "not-a-socket",
    "no-server",
    "not-grpc",
    "timeout",
    "off",
    "too-old",
    "too-large",
    "malformed",
    "busy",
    "no-such-pod",
    "failed",
]


class PodResourcesError(Exception):
    """The API gave no answer: `kind` tells the cases apart, `reason` is a line for people, `remedy` says what to do.

    `no-socket`; `no-permission`; `not-a-socket`: something else has its name; `no-server`: the socket is left over;
    `not-grpc`: who listens does not speak gRPC, or hangs up; `timeout`; `off`: a feature gate closes the call;
    `too-old`: the kubelet does not know the call; `too-large` and `malformed`: the answer; `busy`: the kubelet's limit
    of calls a second; `no-such-pod`; `failed`: any other error.
    """

    def __init__(self, kind: Kind, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.remedy = remedy


class Devices(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of one resource on the same NUMA nodes (a resource can be there several times); None: no topology."""

    resource: str
    ids: tuple[str, ...]
    numa_nodes: tuple[int, ...] | None


class Memory(msgspec.Struct, frozen=True, rename="camel"):
    """Memory of a type (`memory`, `hugepages-1Gi` …) in bytes, on NUMA nodes; None where they are not said."""

    type: str
    bytes: int
    numa_nodes: tuple[int, ...] | None


class ClaimDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device of a claim, by driver, pool and name; `share` where only a share of it is given."""

    driver: str
    pool: str
    device: str
    cdi: tuple[str, ...] = ()
    share: str | None = None


class Claim(msgspec.Struct, frozen=True, rename="camel"):
    """A ResourceClaim (DRA) of a container. Kubelets before 1.34 name none, unless a gate is set."""

    namespace: str
    name: str
    devices: tuple[ClaimDevice, ...] = ()


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """What an app container or sidecar holds; no `cpus`: it runs on the shared pool. Of 1.36 with pod-level managers
    they can also be the pod's own shared pool."""

    name: str
    devices: tuple[Devices, ...] = ()
    cpus: CpuSet = CpuSet()
    memory: tuple[Memory, ...] = ()
    claims: tuple[Claim, ...] = ()


class Pod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod; `cpus` and `memory` are what it holds as a whole, which a kubelet says from 1.37 on."""

    namespace: str
    name: str
    containers: tuple[Container, ...] = ()
    cpus: CpuSet = CpuSet()
    memory: tuple[Memory, ...] = ()


class Pods(msgspec.Struct, frozen=True, rename="camel"):
    """Pods on the node (before 1.34 finished ones too), and what was `odd` and therefore left out or cut, in words."""

    pods: tuple[Pod, ...] = ()
    odd: tuple[str, ...] = ()


class Allocatable(msgspec.Struct, frozen=True, rename="camel"):
    """All that containers can be given, whether or not it is: healthy devices; CPUs but the reserved ones, none with
    policy none; memory with policy Static."""

    devices: tuple[Devices, ...] = ()
    cpus: CpuSet = CpuSet()
    memory: tuple[Memory, ...] = ()
    odd: tuple[str, ...] = ()


_Answer = TypeVar("_Answer", Pods, Allocatable)
Method = Literal["List", "GetAllocatableResources", "Get"]


def read_pods(answer: bytes) -> Pods:
    """What List answered. Raises wire.Malformed."""
    found, reading = wire.decode(answer, LIST), _Reading()
    return Pods(tuple(reading.pod(pod) for pod in found["pod_resources"]), reading.odd)


def _read_pod(answer: bytes) -> Pods:
    found, reading = wire.decode(answer, ONE_POD), _Reading()
    return Pods((reading.pod(found["pod_resources"]),) if found["pod_resources"] else (), reading.odd)


def read_allocatable(answer: bytes) -> Allocatable:
    """What GetAllocatableResources answered. Raises wire.Malformed."""
    found, reading, where = wire.decode(answer, ALLOCATABLE), _Reading(), "allocatable"
    devices, memory = reading.devices(found["devices"], where), reading.memory(found["memory"], where)
    return Allocatable(devices, reading.cpus(found["cpu_ids"], where), memory, reading.odd)


class _Gate(msgspec.Struct, frozen=True):
    """A call: the minor version that knows it first, the gate, and from where on that is on by default."""

    since: int
    gate: str | None
    on_since: int


_CALLS: dict[Method, _Gate] = {
    "List": _Gate(20, None, 20),
    "GetAllocatableResources": _Gate(21, "KubeletPodResourcesGetAllocatable", 23),
    "Get": _Gate(27, "KubeletPodResourcesGet", 34),
}


class PodResources:
    """A connection to the API, as a context manager. Every call raises PodResourcesError, and nothing else.

    gRPC is imported only when somebody listens: that costs 45 ms and 24 MB.
    """

    def __init__(self, path: str = SOCKET, timeout: float = TIMEOUT) -> None:
        self.path = path
        self._shown = printable(path if len(path) <= 200 else path[:200] + "…")
        self._timeout = timeout
        self._file = -1
        self._channel: grpc.Channel | None = None

    def __enter__(self) -> PodResources:
        try:
            self._connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def list(self) -> Pods:
        """What every pod on the node holds."""
        return self._read("List", self.raw("List"), read_pods)

    def get(self, namespace: str, name: str) -> Pods:
        """What one pod holds. Kubelets before 1.34 have this call only where a gate is set."""
        request = wire.text_field(1, name) + wire.text_field(2, namespace)
        return self._read("Get", self.raw("Get", request), _read_pod)

    def allocatable(self) -> Allocatable:
        """What containers can be given."""
        return self._read("GetAllocatableResources", self.raw("GetAllocatableResources"), read_allocatable)

    def raw(self, method: Method, request: bytes = b"") -> bytes:
        """The answer to a call as it was sent, for `read_pods` and `read_allocatable` to read."""
        import grpc

        if self._channel is None:
            raise ValueError("the connection is closed")
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_SERVICE + method)
        try:
            with _quiet():
                # gRPC's own deadline does not hold where it is flooded with pings: it then never comes back.
                answer = call.future(request, timeout=self._timeout)
                return bytes(answer.result(self._timeout + _GRACE))
        except grpc.FutureTimeoutError:
            self._channel = None
            raise self._refused(method, "DEADLINE_EXCEEDED", "") from None
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            raise self._refused(method, code.name, details or "") from None

    def _read(self, method: Method, answer: bytes, read: Callable[[bytes], _Answer]) -> _Answer:
        try:
            return read(answer)
        except wire.Malformed as error:
            raise PodResourcesError(
                "malformed", f"{self._shown}: the answer to {method} cannot be read: {error}", _WHO_LISTENS
            ) from None

    def _connect(self) -> None:
        """Opens the socket, and connects once, since the kernel's errors tell the cases apart better than
        gRPC's words."""
        try:
            self._file = open_socket(self.path)
            address = address_of(self._file)
            knock(address, self._timeout)
        except NoSocket:
            raise PodResourcesError(
                "not-a-socket", f"{self._shown} is no socket", "name the kubelet's pod-resources socket"
            ) from None
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from None
        with _quiet():
            try:
                import grpc
            except ImportError as error:
                raise PodResourcesError(
                    "failed", f"the Python module grpc cannot be imported: {error}", "install grpcio where numalign is"
                ) from None
            self._channel = grpc.insecure_channel(f"unix:{address}", options=_OPTIONS)

    def _unreachable(self, error: OSError | ValueError) -> PodResourcesError:
        for classes, kind, says, remedy in _UNREACHABLE:
            if isinstance(error, classes):
                return PodResourcesError(kind, f"{self._shown}: {says}", remedy)
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no path"
        return PodResourcesError("failed", f"{self._shown}: {why}", "name the kubelet's pod-resources socket")

    def _refused(self, method: Method, code: str, details: str) -> PodResourcesError:
        """The error for gRPC's status; `details` are the server's own words, or gRPC's."""
        known = _CALLS[method]
        said = printable(details if len(details) <= 200 else details[:200] + "…")
        where = f"{self._shown}: "
        if code == "UNKNOWN" and details.endswith(" disabled"):
            gate = (
                f"featureGates: {{{known.gate}: true}} opens it; it is on by default from Kubernetes 1.{known.on_since}"
            )
            return PodResourcesError("off", f"{where}the kubelet has {method} switched off", gate)
        if code == "UNKNOWN" and method == "Get" and details.endswith(" not found"):
            return PodResourcesError("no-such-pod", f"{where}{said}", "name a pod that runs on this node")
        if code == "RESOURCE_EXHAUSTED" and "rate limit" not in details:
            reason = f"the answer to {method} has more than {MAX_MESSAGE >> 20} MiB"
            return PodResourcesError("too-large", where + reason, _WHO_LISTENS)
        for codes, kind, says, remedy in _STATUSES:
            if code in codes:
                reason = says.format(method=method, seconds=f"{self._timeout:g}", since=known.since)
                return PodResourcesError(kind, where + reason, remedy.format(since=known.since))
        return PodResourcesError("failed", f"{where}{method} failed: {code}: {said}", "see the kubelet's log")


_WHO_LISTENS = "see who listens there: ss -xlp"
_START = "start the kubelet, or name its socket: it is below the kubelet's --root-dir"
_UNREACHABLE: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Kind, str, str], ...] = (
    ((FileNotFoundError, NotADirectoryError), "no-socket", "there is no such socket", _START),
    (PermissionError, "no-permission", "permission denied", "run as root: the socket is the kubelet's"),
    (ConnectionRefusedError, "no-server", "nobody listens on the socket; it is left over", _START),
    ((BlockingIOError, TimeoutError), "timeout", "who listens takes no more connections", "see the kubelet's log"),
)
_STATUSES: tuple[tuple[tuple[str, ...], Kind, str, str], ...] = (
    (
        ("UNIMPLEMENTED",),
        "too-old",
        "who listens does not know {method} of the pod-resources API v1",
        "it is there from Kubernetes 1.{since} on; see whether this is the kubelet's socket: ss -xlp",
    ),
    (("DEADLINE_EXCEEDED",), "timeout", "no answer to {method} within {seconds} s", "see the kubelet's log"),
    (("RESOURCE_EXHAUSTED",), "busy", "the kubelet is asked too often", "ask again in a second"),
    (("UNAVAILABLE",), "not-grpc", "who listens hangs up, or speaks no gRPC", _WHO_LISTENS),
    (("PERMISSION_DENIED", "UNAUTHENTICATED"), "no-permission", "the server refuses {method}", "run as root"),
)
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.per_message_decompression", 0),  # the kubelet does not compress, and 16 MiB can grow to gigabytes
    ("grpc.max_metadata_size", 64 << 10),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.default_authority", "localhost"),
)


@contextmanager
def _quiet() -> Iterator[None]:
    """gRPC writes to standard error what it is told in errors anyway, unless these say that it should not."""
    wanted = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class _Reading:
    """Makes plain data of messages, whose values are whatever somebody sent: what no node has is left out, and said."""

    def __init__(self) -> None:
        self._odd: list[str] = []
        self._more = 0
        self._room = MAX_MESSAGE

    @property
    def odd(self) -> tuple[str, ...]:
        return (*self._odd, f"and {self._more} more") if self._more else tuple(self._odd)

    def pod(self, found: dict[str, Any]) -> Pod:
        namespace, name = self.text(found["namespace"], "a namespace"), self.text(found["name"], "a pod")
        where = f"pod {namespace}/{name}"
        return Pod(
            namespace,
            name,
            tuple(self.container(container, where) for container in found["containers"]),
            self.cpus(found["cpu_ids"], where),
            self.memory(found["memory"], where),
        )

    def container(self, found: dict[str, Any], pod: str) -> Container:
        name = self.text(found["name"], f"a container of {pod}")
        where = f"{pod}, container {name}"
        return Container(
            name,
            self.devices(found["devices"], where),
            self.cpus(found["cpu_ids"], where),
            self.memory(found["memory"], where),
            tuple(self.claim(claim, where) for claim in found["dynamic_resources"]),
        )

    def devices(self, found: Sequence[dict[str, Any]], where: str) -> tuple[Devices, ...]:
        return tuple(
            Devices(
                self.text(devices["resource_name"], f"{where}: a resource"),
                tuple(self.text(id, f"{where}: a device") for id in devices["device_ids"]),
                self.numa_nodes(devices["topology"], where),
            )
            for devices in found
        )

    def memory(self, found: Sequence[dict[str, Any]], where: str) -> tuple[Memory, ...]:
        return tuple(
            Memory(
                self.text(block["memory_type"], f"{where}: a type of memory"),
                block["size"],
                self.numa_nodes(block["topology"], where),
            )
            for block in found
        )

    def claim(self, found: dict[str, Any], where: str) -> Claim:
        of = f"{where}: a claim"
        return Claim(
            self.text(found["claim_namespace"], of),
            self.text(found["claim_name"], of),
            tuple(
                ClaimDevice(
                    self.text(device["driver_name"], of),
                    self.text(device["pool_name"], of),
                    self.text(device["device_name"], of),
                    tuple(self.text(cdi["name"], of) for cdi in device["cdi_devices"]),
                    self.text(device["share_id"], of) or None,
                )
                for device in found["claim_resources"]
            ),
        )

    def cpus(self, ids: Sequence[int], where: str) -> CpuSet:
        cpus = self._numbers(ids, where, "CPU")
        self._room -= max(cpus, default=0) // 8  # the bytes of the set: small messages could ask for gigabytes
        if self._room < 0:
            raise wire.Malformed("it holds more CPUs than any machine")
        return CpuSet(cpus)

    def numa_nodes(self, topology: dict[str, Any] | None, where: str) -> tuple[int, ...] | None:
        """NUMA nodes in order; None also where none of those named can be, as where a plugin sends -1."""
        if topology is None:
            return None
        nodes = sorted(self._numbers([node["ID"] for node in topology["nodes"]], where, "NUMA node"))
        return tuple(nodes) or None

    def text(self, text: str, what: str) -> str:
        if len(text) > _MAX_TEXT:
            self._note(f"{what} has a name of {len(text)} characters; it is cut")
            text = text[:_MAX_TEXT]
        if not text.isprintable():
            self._note(f"{what} has a name with control characters: {text[:60]}")
        return text

    def _numbers(self, ids: Sequence[int], where: str, what: str) -> set[int]:
        wanted = set(ids)
        wrong = {id for id in wanted if not 0 <= id < MAX_CPUS}
        for id in sorted(wrong):
            self._note(f"{where}: {what} {id} cannot be; it is left out")
        return wanted - wrong

    def _note(self, text: str) -> None:
        if len(self._odd) < _MAX_ODD:
            self._odd.append(printable(text))
        else:
            self._more += 1
