"""Small nodes for tests of admission: a machine's text, its kubelet's configuration, pods, state files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numalign.cpuset import CpuSet

__all__ = ["checkpoint", "configuration", "container", "cpu_state", "machine", "memory_state", "pod"]

GIB = 1 << 30
_NONE = dict.fromkeys(("total", "systemReserved", "allocatable", "reserved", "free"), 0)


def machine(
    cpus: Sequence[str],
    gpus: Sequence[str] = (),
    *,
    memory: str = "64 GiB",
    threads: int = 2,
    kind: str = "h100",
    more: str = "",
) -> str:
    """A machine whose NUMA nodes have these CPU lists, with GPUs GPU-0, GPU-1 … on these NUMA nodes ("-": on none)."""
    numa = "".join(f"  {id}: {{cpus: '{each}', memory: {memory}}}\n" for id, each in enumerate(cpus))
    pci = "".join(
        f"  pci0000:{16 + 8 * number:02x}{'' if node == '-' else f' numa={node}'}\n"
        f"    {16 + 8 * number:02x}:01.0 root / {17 + 8 * number:02x}:00.0 {kind} minor={number} "
        f"uuid=GPU-{number}\n"
        for number, node in enumerate(gpus)
    )
    head = (
        f"arch: x86_64\nkernel: 6.8.0\nnvidia: 570.124.06\ncpuinfo: {{vendor_id: GenuineIntel}}\nthreads: {threads}\n"
    )
    return f"{head}numa:\n{numa}{more}" + (f"pci: |\n{pci}" if gpus else "")


def configuration(policy: str = "single-numa-node", reserved: str = "0", **more: Any) -> str:
    """A KubeletConfiguration with a static CPU manager."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": reserved,
            "topologyManagerPolicy": policy,
            **more,
        }
    )


def container(name: str = "main", cpu: Any = None, memory: str = "1Gi", **devices: int) -> dict[str, Any]:
    """A container with these limits; `gpu` is nvidia.com/gpu, other devices are example.com's."""
    limits = {"memory": memory, **({} if cpu is None else {"cpu": cpu})}
    named = {"nvidia.com/gpu" if kind == "gpu" else f"example.com/{kind}": number for kind, number in devices.items()}
    return {"name": name, "resources": {"limits": {**limits, **named}}}


def pod(name: str, *containers: Mapping[str, Any], init: Iterable[Mapping[str, Any]] = (), **spec: Any) -> str:
    """A Pod, as a document among others."""
    spec = {"containers": list(containers), **({"initContainers": list(init)} if init else {}), **spec}
    return (
        f"---\n{json.dumps({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name}, 'spec': spec}, indent=1)}\n"
    )


def cpu_state(online: str, taken: Mapping[str, str]) -> str:
    """cpu_manager_state with exclusive CPUs by pod UID; without a checksum, which the kubelet takes too."""
    left = CpuSet.parse(online)
    for cpus in taken.values():
        left -= CpuSet.parse(cpus)
    entries = {uid: {"main": cpus} for uid, cpus in taken.items()}
    return json.dumps({"policyName": "static", "defaultCpuSet": str(left), "entries": entries, "checksum": 0})


def memory_state(nodes: Mapping[int, Mapping[str, Any]], entries: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """memory_manager_state: of each NUMA node the bytes by field, its assignments and cells; blocks by pod UID. There
    are no huge pages."""
    state = {
        str(id): {
            "numberOfAssignments": node.get("assignments", 0),
            "cells": node.get("cells", [id]),
            "memoryMap": {"memory": node["memory"], **dict.fromkeys(("hugepages-1Gi", "hugepages-2Mi"), _NONE)},
        }
        for id, node in nodes.items()
    }
    containers = {uid: {"main": list(blocks)} for uid, blocks in entries.items()}
    return json.dumps({"policyName": "Static", "machineState": state, "entries": containers, "checksum": 0})


def checkpoint(entries: Iterable[tuple[str, str, Mapping[int, Sequence[str]]]], registered: Mapping[str, Any]) -> str:
    """kubelet_internal_checkpoint: (pod UID, resource, ids by NUMA node) of the container `main`."""
    import msgspec

    from numalign.kubelet import devices, gojson
    from numalign.kubelet.checkpoint import fnv

    data = {
        "PodDeviceEntries": [
            {
                "PodUID": uid,
                "ContainerName": "main",
                "ResourceName": resource,
                "DeviceIDs": {str(node): list(ids) for node, ids in by_node.items()},
                "AllocResp": "",
            }
            for uid, resource, by_node in entries
        ],
        "RegisteredDevices": {name: list(ids) for name, ids in registered.items()},
    }
    content = msgspec.convert(gojson.decode(json.dumps(data)), devices._Content, str_keys=True)
    return json.dumps({"Data": data, "Checksum": fnv(devices._dump(content))})
