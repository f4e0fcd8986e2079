"""The model of a machine: plain immutable data, no I/O. `inspect -o json` prints it; docs/schema has its JSON Schema.

CPU sets are CPU lists (`"0-3,8"`), sizes are bytes, PCI addresses are BDFs of lower case with a domain of at least
four hex digits. What is not known is null, never a guess.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from numalign.cpuset import MAX_CPUS, CpuSet

__all__ = [
    "API_VERSION",
    "Bond",
    "Confinement",
    "Core",
    "Gpu",
    "Hugepages",
    "L3Cache",
    "Link",
    "LinkType",
    "Machine",
    "MigDevice",
    "NearestNics",
    "Nic",
    "NumaNode",
    "NvidiaDriver",
    "PciDevice",
    "PcieLink",
    "Socket",
    "Sriov",
    "Warning",
    "contradiction",
    "decode",
    "encode",
    "from_plain",
    "plain",
    "schema",
    "schema_of",
]

API_VERSION = "numalign/v1"
LinkType = Literal["PIX", "PXB", "PHB", "NODE", "SYS"]
NumaId = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CPUS)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""Bytes or pages, as many as the kernel can count."""

_WORDS = {"cpus": "CPUs", "nics": "NICs"}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(_WORDS.get(word, word.capitalize()) for word in rest)


class _Model(msgspec.Struct, frozen=True, rename=_camel):
    """Base of the model: immutable, Kubernetes' spelling of the field names in documents."""


class Socket(_Model, frozen=True, kw_only=True):
    """A processor package; `id` is the kernel's physical_package_id."""

    id: int
    cpus: CpuSet


class Core(_Model, frozen=True, kw_only=True):
    """A physical core with its online siblings.

    `coreId` is the kernel's core_id, which repeats over sockets; where the siblings disagree on it (AMD's modules),
    it is null and `cpuCoreIds` has it for each CPU. `l3` is the id of one of the machine's `l3Caches`.
    """

    cpus: CpuSet
    socket: int | None
    die: int | None
    numa_node: NumaId | None
    l3: int | None
    core_id: int | None
    cpu_core_ids: dict[int, int] | None = None


class L3Cache(_Model, frozen=True, kw_only=True):
    """An L3 cache and the online CPUs that share it; `kernelId` is the kernel's own id of it, where it has one."""

    id: int
    cpus: CpuSet
    size_bytes: Amount | None
    kernel_id: int | None


class Hugepages(_Model, frozen=True, kw_only=True):
    """A NUMA node's pool of huge pages of one size (bytes); `total` and `free` count pages."""

    size: Amount
    total: Amount | None
    free: Amount | None


class NumaNode(_Model, frozen=True, kw_only=True):
    """A NUMA node, with or without CPUs or memory; `distances` are those of the firmware, by NUMA node id."""

    id: NumaId
    cpus: CpuSet
    memory_bytes: Amount | None
    hugepages: tuple[Hugepages, ...]
    distances: dict[int, int]


class PcieLink(_Model, frozen=True, kw_only=True):
    """The link of a PCI function: speed in GT/s (8.0, 16.0, 32.0 …), width in lanes, as it runs and at most."""

    speed: float | None
    width: int | None
    max_speed: float | None
    max_width: int | None


class MigDevice(_Model, frozen=True, kw_only=True):
    """A MIG device; it has no PCI function and lives on its GPU's NUMA node."""

    uuid: str | None
    name: str | None
    memory_bytes: Amount | None
    gpu_instance: int | None
    compute_instance: int | None


class NearestNics(_Model, frozen=True, kw_only=True):
    """The NICs (physical functions) that are nearest to a GPU, by BDF, and how near they are."""

    type: LinkType
    nics: tuple[str, ...]


class Gpu(_Model, frozen=True, kw_only=True):
    """An NVIDIA GPU.

    `numaNode` is what the kernel says (`numaNodeFrom` tells by which file), which the device plugin hands to the
    kubelet; `nvmlNUMANode` is where NVML places it; `memoryNUMANode` is the NUMA node that the GPU's own memory
    forms on coherent machines. `driver` is null where none is bound.
    """

    index: NumaId
    bdf: str
    numa_node: NumaId | None
    numa_node_from: Literal["numa_node", "local_cpulist"] | None
    nvml_numa_node: NumaId | None = msgspec.field(name="nvmlNUMANode")
    memory_numa_node: NumaId | None = msgspec.field(name="memoryNUMANode")
    vendor_id: str
    device_id: str
    model: str | None
    uuid: str | None
    minor: int | None
    driver: str | None
    memory_bytes: Amount | None
    pcie: PcieLink
    iommu_group: int | None
    mig_enabled: bool | None
    mig_devices: tuple[MigDevice, ...]
    nearest_nics: NearestNics | None
    path: tuple[str, ...]


class Sriov(_Model, frozen=True, kw_only=True):
    """Virtual functions of a physical function: how many it can have, and how many are configured."""

    total: int
    configured: int | None


class Nic(_Model, frozen=True, kw_only=True):
    """An Ethernet or InfiniBand controller, physical or virtual function.

    `rdma` lists RDMA devices; `linkLayer`, `state` and `rateGbps` are those of the first RDMA port, else of the first
    netdev. `boardId` is the vendor's board (PSID); cards with one `systemImageGuid` are one card.
    """

    bdf: str
    numa_node: NumaId | None
    numa_node_from: Literal["numa_node", "local_cpulist"] | None
    vendor_id: str
    device_id: str
    model: str | None
    driver: str | None
    netdevs: tuple[str, ...]
    rdma: tuple[str, ...]
    link_layer: str | None
    state: str | None
    rate_gbps: float | None
    board_id: str | None
    system_image_guid: str | None
    sriov: Sriov | None
    physical_function: str | None
    iommu_group: int | None
    pcie: PcieLink
    path: tuple[str, ...]


class PciDevice(_Model, frozen=True, kw_only=True):
    """A PCI function that is neither a GPU nor a NIC of the map; `parent` is the bridge or host bridge above it."""

    bdf: str
    class_id: str
    vendor_id: str | None
    device_id: str | None
    driver: str | None
    numa_node: NumaId | None
    parent: str | None


class Link(_Model, frozen=True, kw_only=True):
    """How near two devices are (null where the PCI tree is not known) and how many NVLinks join them, if known."""

    a: str
    b: str
    type: LinkType | None
    nvlinks: int | None


class Bond(_Model, frozen=True, kw_only=True):
    """A bonding netdev and the netdevs and BDFs in it."""

    name: str
    netdevs: tuple[str, ...]
    nics: tuple[str, ...]


class NvidiaDriver(_Model, frozen=True, kw_only=True):
    """The loaded NVIDIA kernel driver and what came of asking NVML (`ok`, `off`, or what went wrong)."""

    version: str | None
    nvml: str


class Confinement(_Model, frozen=True, kw_only=True):
    """What confines the process that read the machine: it may run on `cpus` and use the memory of `numaNodes` only."""

    cpus: CpuSet | None
    numa_nodes: CpuSet | None
    container: bool


class Warning(_Model, frozen=True, kw_only=True):
    """Something about the machine that a person should know; `subject` is the device, NUMA node or file it is about."""

    id: str
    message: str
    subject: str | None = None


class Machine(_Model, frozen=True, kw_only=True):
    """The topology map of a machine."""

    api_version: str = API_VERSION
    kind: Literal["Machine"] = "Machine"
    name: str | None
    arch: str | None
    kernel: str | None
    kernel_command_line: str | None
    cpu_model: str | None
    memory_bytes: Amount | None
    online_cpus: CpuSet
    offline_cpus: CpuSet
    possible_cpus: CpuSet | None
    isolated_cpus: CpuSet
    nohz_full_cpus: CpuSet
    sockets: tuple[Socket, ...]
    cores: tuple[Core, ...]
    l3_caches: tuple[L3Cache, ...]
    numa_nodes: tuple[NumaNode, ...]
    nvidia_driver: NvidiaDriver | None
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    bonds: tuple[Bond, ...]
    links: tuple[Link, ...]
    pci_devices: tuple[PciDevice, ...]
    confinement: Confinement | None
    warnings: tuple[Warning, ...]

    def devices(self) -> tuple[Gpu | Nic, ...]:
        """The GPUs, then the NICs."""
        return (*self.gpus, *self.nics)


def _encode_hook(value: object) -> str:
    if isinstance(value, CpuSet):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _decode_hook(kind: type, value: object) -> object:
    if kind is CpuSet:
        if not isinstance(value, str):
            raise ValueError("a CPU list is wanted, as a string")
        return CpuSet.parse(value)
    raise NotImplementedError(kind.__name__)


def encode(document: msgspec.Struct) -> bytes:
    """The document as indented JSON, UTF-8, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=_encode_hook), indent=2) + b"\n"


def plain(document: msgspec.Struct) -> Any:
    """The document as dicts, lists, strings and numbers (for YAML and templates)."""
    return msgspec.to_builtins(document, enc_hook=_encode_hook, str_keys=True)


def decode(text: bytes | str) -> Machine:
    """Reads a Machine document (JSON); raises msgspec.ValidationError or msgspec.DecodeError, which say where."""
    return msgspec.json.decode(text, type=Machine, dec_hook=_decode_hook)


def from_plain(value: object) -> Machine:
    """A Machine from dicts, lists, strings and numbers; raises msgspec.ValidationError, which says where."""
    return msgspec.convert(value, type=Machine, dec_hook=_decode_hook, str_keys=True)


def contradiction(machine: Machine) -> str | None:
    """What in a document contradicts itself, None where nothing does; a probed machine never does."""
    online = machine.online_cpus
    nics = {nic.bdf for nic in machine.nics}
    devices = {device.bdf for device in machine.devices()}
    near = {bdf for gpu in machine.gpus if gpu.nearest_nics for bdf in gpu.nearest_nics.nics}
    named = {bdf for link in machine.links for bdf in (link.a, link.b)}
    return next(
        (
            what
            for what, wrong in (
                ("it has no online CPUs", not online),
                ("the cores are not a division of the online CPUs", not _divide(machine.cores, online)),
                ("an L3 cache has no CPUs", not all(cache.cpus for cache in machine.l3_caches)),
                ("the NUMA nodes share CPUs, or have some that are not online", not _fit(machine.numa_nodes, online)),
                ("two NUMA nodes have one id", len({node.id for node in machine.numa_nodes}) < len(machine.numa_nodes)),
                ("two devices have one address", len(devices) < len(machine.devices())),
                ("two GPUs have one index", len({gpu.index for gpu in machine.gpus}) < len(machine.gpus)),
                ("a GPU is near a NIC that is not there", not near <= nics),
                (
                    "a bond has a NIC that is not there",
                    not {bdf for bond in machine.bonds for bdf in bond.nics} <= nics,
                ),
                ("a link has a device that is not there", not named <= devices),
            )
            if wrong
        ),
        None,
    )


def _divide(parts: tuple[Core, ...], whole: CpuSet) -> bool:
    """Whether the parts, none of them empty, make up the whole and share nothing."""
    return (
        all(part.cpus for part in parts) and _fit(parts, whole) and sum(len(part.cpus) for part in parts) == len(whole)
    )


def _fit(parts: tuple[Core | NumaNode, ...], whole: CpuSet) -> bool:
    """Whether the parts lie in the whole and share nothing."""
    seen = CpuSet()
    for part in parts:
        if not part.cpus <= whole - seen:
            return False
        seen |= part.cpus
    return True


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a Machine document."""
    return schema_of(Machine)


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a kind of document."""

    def hook(kind: type) -> dict[str, Any]:
        if kind is CpuSet:
            return {"type": "string", "description": "CPU list", "pattern": r"^(\d+(-\d+)?(,\d+(-\d+)?)*)?$"}
        raise NotImplementedError(kind.__name__)

    body = msgspec.json.schema(kind, schema_hook=hook)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"numalign {kind.__name__}", **body}
