"""A kubelet's pod-resources API over a unix socket, with gRPC's and protobuf's own libraries.

usage: python -m tests.kubelet.pod_resources_server SOCKET FILE.json

FILE.json holds an Answers document: `{"pods": [{"namespace": …, "name": …, "containers": [{"name": …, "devices":
[{"resource": …, "ids": […], "numaNodes": [0]}], "cpus": "0-3", "memory": [{"type": "memory", "bytes": 1, "numaNodes":
[0]}]}]}], "allocatable": {…}, "errors": {"Get": ["UNKNOWN", "PodResources API Get method disabled"]}}`. The process
prints a line when it listens, and serves until it is ended.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec

from numalign.cpuset import CpuSet
from numalign.kubelet.podresources import Allocatable, Claim, Container, Devices, Memory, Pod
from tests.kubelet.protos import message

__all__ = ["Answers", "read_answers", "serve"]

_SERVICE = "v1.PodResourcesLister"


class Answers(msgspec.Struct, frozen=True, rename="camel"):
    """What the server says: pods, what is allocatable, and for a method, instead, an error: gRPC's code and words."""

    pods: tuple[Pod, ...] = ()
    allocatable: Allocatable = Allocatable()
    errors: dict[str, tuple[str, str]] = {}


@contextmanager
def serve(socket: Path | str, answers: Answers, **options: Any) -> Iterator[None]:
    """Serves on the socket while the block runs; `options` are those of grpc.server."""
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)], **options)
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.unary_unary_rpc_method_handler(_handler(name, answer, answers))
        for name, answer in (("List", _list), ("GetAllocatableResources", _allocatable), ("Get", _get))
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def _handler(
    name: str, answer: Callable[[Answers, bytes, grpc.ServicerContext], Any], answers: Answers
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        if name in answers.errors:
            code, details = answers.errors[name]
            context.abort(grpc.StatusCode[code], details)
        return bytes(answer(answers, request, context).SerializeToString())

    return handle


def _list(answers: Answers, request: bytes, context: grpc.ServicerContext) -> Any:
    return message("v1.ListPodResourcesResponse", pod_resources=map(_pod, answers.pods))


def _get(answers: Answers, request: bytes, context: grpc.ServicerContext) -> Any:
    wanted = message("v1.GetPodResourcesRequest")
    wanted.ParseFromString(request)
    for pod in answers.pods:
        if (pod.namespace, pod.name) == (wanted.pod_namespace, wanted.pod_name):
            return message("v1.GetPodResourcesResponse", pod_resources=_pod(pod))
    return context.abort(
        grpc.StatusCode.UNKNOWN, f"pod {wanted.pod_name} in namespace {wanted.pod_namespace} not found"
    )


def _allocatable(answers: Answers, request: bytes, context: grpc.ServicerContext) -> Any:
    found = answers.allocatable
    return message(
        "v1.AllocatableResourcesResponse",
        devices=map(_devices, found.devices),
        cpu_ids=found.cpus,
        memory=map(_memory, found.memory),
    )


def _pod(pod: Pod) -> Any:
    return message(
        "v1.PodResources",
        name=pod.name,
        namespace=pod.namespace,
        containers=map(_container, pod.containers),
        cpu_ids=pod.cpus,
        memory=map(_memory, pod.memory),
    )


def _container(container: Container) -> Any:
    return message(
        "v1.ContainerResources",
        name=container.name,
        devices=map(_devices, container.devices),
        cpu_ids=container.cpus,
        memory=map(_memory, container.memory),
        dynamic_resources=map(_claim, container.claims),
    )


def _devices(devices: Devices) -> Any:
    topology = _topology(devices.numa_nodes)
    return message("v1.ContainerDevices", resource_name=devices.resource, device_ids=devices.ids, topology=topology)


def _memory(memory: Memory) -> Any:
    topology = _topology(memory.numa_nodes)
    return message("v1.ContainerMemory", memory_type=memory.type, size=memory.bytes, topology=topology)


def _topology(nodes: Iterable[int] | None) -> Any:
    return None if nodes is None else message("v1.TopologyInfo", nodes=[message("v1.NUMANode", ID=id) for id in nodes])


def _claim(claim: Claim) -> Any:
    devices = [
        message(
            "v1.ClaimResource",
            cdi_devices=[message("v1.CDIDevice", name=name) for name in device.cdi],
            driver_name=device.driver,
            pool_name=device.pool,
            device_name=device.device,
            share_id=device.share,
        )
        for device in claim.devices
    ]
    return message(
        "v1.DynamicResource", claim_name=claim.name, claim_namespace=claim.namespace, claim_resources=devices
    )


def _cpus(kind: type, value: Any) -> CpuSet:
    if kind is CpuSet:
        return CpuSet.parse(value)
    raise NotImplementedError(kind)


def read_answers(text: bytes) -> Answers:
    """The answers that an Answers document says."""
    return msgspec.json.decode(text, type=Answers, dec_hook=_cpus)


def main(socket: str, file: str) -> None:
    """Serves what the file says."""
    with serve(socket, read_answers(Path(file).read_bytes())):
        print(f"listening on {socket}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:3])
