"""The device manager's kubelet_internal_checkpoint: which container has which devices, and what their plugin asked for.

Sources: pkg/kubelet/cm/devicemanager/checkpoint (checkpoint.go, until 1.30 checkpointv1.go) and pod_devices.go, 1.27 to
1.36; proto/deviceplugin.proto has the field numbers of the plugin's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from numalign.cpuset import MAX_CPUS
from numalign.kubelet import gojson
from numalign.kubelet.checkpoint import CannotRestore, fnv, go_map
from numalign.kubelet.versions import DEFAULT
from numalign.kubelet.wire import Field, Malformed, Message, decode

__all__ = [
    "ALLOCATE_RESPONSE",
    "MAX_FILE",
    "NO_NUMA_NODE",
    "Assignment",
    "DeviceNode",
    "DeviceState",
    "Mount",
    "Response",
    "read_device_state",
]

NO_NUMA_NODE = -1
"""The key of the devices without topology."""
MAX_FILE = 4 << 20
"""Bytes of a file at most; that of a full node has some hundred thousand."""
_FLAT_UNTIL = 30
"""The last version that also takes the format of 1.19 and before, in which devices have no NUMA nodes."""


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """A folder or file of the host in the container."""

    container_path: str
    host_path: str
    read_only: bool


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    """A device file in the container; permissions such as `rw`."""

    container_path: str
    host_path: str
    permissions: str


class Response(msgspec.Struct, frozen=True, rename="camel"):
    """What the plugin wants in the container, so that its devices are there."""

    envs: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = {}
    cdi: tuple[str, ...] = ()


class Assignment(msgspec.Struct, frozen=True, rename="camel"):
    """Devices of a resource that a container has: ids by NUMA node, a device of two NUMA nodes under both. No
    `response`: the plugin's answer cannot be read, and the kubelet forgets the devices at its start."""

    ids: Mapping[int, tuple[str, ...]]
    response: Response | None


class DeviceState(msgspec.Struct, frozen=True, rename="camel"):
    """What the file says: assignments by pod UID, container and resource (of pods that ended too, until the next pod
    is admitted), and the ids of the devices by resource that were healthy when it was written."""

    entries: Mapping[str, Mapping[str, Mapping[str, Assignment]]]
    registered: Mapping[str, tuple[str, ...]]


class _Entry(msgspec.Struct):
    pod: str | None = msgspec.field(default=None, name="PodUID")
    container: str | None = msgspec.field(default=None, name="ContainerName")
    resource: str | None = msgspec.field(default=None, name="ResourceName")
    ids: dict[int, list[str | None] | None] | None = msgspec.field(default=None, name="DeviceIDs")
    response: bytes | None = msgspec.field(default=None, name="AllocResp")


class _FlatEntry(_Entry):
    """Of 1.19 and before: no NUMA nodes."""

    ids: list[str | None] | None = msgspec.field(default=None, name="DeviceIDs")  # type: ignore[assignment]


class _Content(msgspec.Struct):
    entries: list[_Entry | None] | None = msgspec.field(default_factory=list, name="PodDeviceEntries")
    registered: dict[str, list[str | None] | None] | None = msgspec.field(
        default_factory=dict, name="RegisteredDevices"
    )


class _FlatContent(_Content):
    entries: list[_FlatEntry | None] | None = msgspec.field(  # type: ignore[assignment]
        default_factory=list, name="PodDeviceEntries"
    )


class _File(msgspec.Struct):
    content: _Content | None = msgspec.field(default=None, name="Data")
    checksum: int | None = msgspec.field(default=None, name="Checksum")


class _FlatFile(_File):
    content: _FlatContent | None = msgspec.field(default=None, name="Data")


_PAIR: Message = {1: Field("key", "text"), 2: Field("value", "text")}
ALLOCATE_RESPONSE: Message = {
    1: Field("envs", _PAIR, many=True),
    2: Field(
        "mounts",
        {1: Field("container_path", "text"), 2: Field("host_path", "text"), 3: Field("read_only", "bool")},
        many=True,
    ),
    3: Field(
        "devices",
        {1: Field("container_path", "text"), 2: Field("host_path", "text"), 3: Field("permissions", "text")},
        many=True,
    ),
    4: Field("annotations", _PAIR, many=True),
    5: Field("cdi_devices", {1: Field("name", "text")}, many=True),
}


def read_device_state(data: bytes, minor: int = DEFAULT) -> DeviceState:
    """The state in kubelet_internal_checkpoint, as a kubelet of that minor version takes it. Raises CannotRestore.

    The kubelet starts all the same on a file that it cannot take, and has then forgotten who has which devices.
    """
    if len(data) > MAX_FILE:
        raise CannotRestore(f"it has more than {MAX_FILE >> 20} MiB")
    try:
        found = gojson.decode(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise CannotRestore(str(error)) from None
    try:
        return _state(_content(found, _File))
    except CannotRestore:
        if minor > _FLAT_UNTIL:
            raise
        current_says = True
    try:
        flat = _content(found, _FlatFile)
    except CannotRestore:
        flat = None
    return _state(flat if flat is not None else _content(found, _File), flat=current_says and flat is not None)


def _content(found: Any, kind: type[_File]) -> _Content:
    """The content of a file of that format, whose checksum must be there and be right."""
    try:
        file = msgspec.convert(found or {}, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise CannotRestore(f"json: cannot unmarshal {gojson.kind_of(found)}: {error}") from None
    content = file.content or _Content()
    if file.checksum != fnv(_dump(content)):
        raise CannotRestore("checkpoint is corrupted")
    return content


def _state(content: _Content, *, flat: bool = False) -> DeviceState:
    """Of two entries for the same the last counts. In the old format all devices are taken for those of NUMA node 0."""
    entries: dict[str, dict[str, dict[str, Assignment]]] = {}
    for entry in content.entries or ():
        entry = entry or _Entry()
        ids: Any = {0: entry.ids} if flat else entry.ids or {}
        for node in ids:
            if not NO_NUMA_NODE <= node < MAX_CPUS:
                raise CannotRestore(f"NUMA node {node} is beyond any machine's")
        containers = entries.setdefault(entry.pod or "", {})
        containers.setdefault(entry.container or "", {})[entry.resource or ""] = Assignment(
            {node: _texts(ids[node]) for node in sorted(ids)}, _response(entry.response or b"")
        )
    return DeviceState(entries, {name: _texts(ids) for name, ids in (content.registered or {}).items()})


def _response(data: bytes) -> Response | None:
    try:
        found = decode(data, ALLOCATE_RESPONSE)
    except Malformed:
        return None
    return Response(
        {pair["key"]: pair["value"] for pair in found["envs"]},
        tuple(Mount(**mount) for mount in found["mounts"]),
        tuple(DeviceNode(**device) for device in found["devices"]),
        {pair["key"]: pair["value"] for pair in found["annotations"]},
        tuple(device["name"] for device in found["cdi_devices"]),
    )


def _texts(ids: list[str | None] | None) -> tuple[str, ...]:
    return tuple(id or "" for id in ids or ())


def _dump(content: _Content) -> str:
    """The content as the kubelet prints it for its checksum."""
    entries = "<nil>"
    if content.entries is not None:
        entries = f"[{' '.join(_entry_dump(entry or _Entry()) for entry in content.entries)}]"
    registered = "<nil>"
    if content.registered is not None:
        registered = go_map({name: _list_dump(ids) for name, ids in content.registered.items()})
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} "
        f"RegisteredDevices:(map[string][]string){registered}}}"
    )


def _entry_dump(entry: _Entry) -> str:
    ids = "(checkpoint.DevicesPerNUMA)<nil>"
    if isinstance(entry, _FlatEntry):
        ids = f"([]string){_list_dump(entry.ids)}"
    elif entry.ids is not None:
        ids = f"(checkpoint.DevicesPerNUMA){go_map({node: _list_dump(of) for node, of in entry.ids.items()})}"
    response = "<nil>" if entry.response is None else f"[{' '.join(map(str, entry.response))}]"
    return (
        f"{{PodUID:(string){entry.pod or ''} ContainerName:(string){entry.container or ''} "
        f"ResourceName:(string){entry.resource or ''} DeviceIDs:{ids} AllocResp:([]uint8){response}}}"
    )


def _list_dump(ids: list[str | None] | None) -> str:
    return "<nil>" if ids is None else f"[{' '.join(id or '' for id in ids)}]"
