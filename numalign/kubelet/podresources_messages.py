"""The answers of the pod-resources API as tables for wire.py; proto/podresources.proto says the same."""

from __future__ import annotations

from numalign.kubelet.wire import Field, Message

__all__ = ["ALLOCATABLE", "LIST", "ONE_POD"]

_NUMA_NODE: Message = {1: Field("ID", "int64")}
_TOPOLOGY: Message = {1: Field("nodes", _NUMA_NODE, many=True)}
_DEVICES: Message = {
    1: Field("resource_name", "text"),
    2: Field("device_ids", "text", many=True),
    3: Field("topology", _TOPOLOGY),
}
_MEMORY: Message = {
    1: Field("memory_type", "text"),
    2: Field("size", "uint64"),
    3: Field("topology", _TOPOLOGY),
}
_CDI_DEVICE: Message = {1: Field("name", "text")}
_CLAIM_RESOURCE: Message = {
    1: Field("cdi_devices", _CDI_DEVICE, many=True),
    2: Field("driver_name", "text"),
    3: Field("pool_name", "text"),
    4: Field("device_name", "text"),
    5: Field("share_id", "text"),
}
_CLAIM: Message = {
    2: Field("claim_name", "text"),
    3: Field("claim_namespace", "text"),
    4: Field("claim_resources", _CLAIM_RESOURCE, many=True),
}
_CONTAINER: Message = {
    1: Field("name", "text"),
    2: Field("devices", _DEVICES, many=True),
    3: Field("cpu_ids", "int64", many=True),
    4: Field("memory", _MEMORY, many=True),
    5: Field("dynamic_resources", _CLAIM, many=True),
}
_POD: Message = {
    1: Field("name", "text"),
    2: Field("namespace", "text"),
    3: Field("containers", _CONTAINER, many=True),
    4: Field("cpu_ids", "int64", many=True),
    5: Field("memory", _MEMORY, many=True),
}

LIST: Message = {1: Field("pod_resources", _POD, many=True)}
ONE_POD: Message = {1: Field("pod_resources", _POD)}
ALLOCATABLE: Message = {
    1: Field("devices", _DEVICES, many=True),
    2: Field("cpu_ids", "int64", many=True),
    3: Field("memory", _MEMORY, many=True),
}
