"""GPUs: NVIDIA functions on PCI, joined by bus id with what the driver's /proc files and NVML know of them."""

from __future__ import annotations

import msgspec

from numalign.bdf import normalise
from numalign.cpuset import MAX_CPUS
from numalign.links import nearest
from numalign.machine import Gpu, MigDevice, Nic, NumaNode
from numalign.probe.host import Host, numbered
from numalign.probe.nvml import NvmlAnswer, NvmlGpu
from numalign.probe.pci import Function, iommu_group, pcie_link

__all__ = ["at_kernel_addresses", "driver_version", "nvlink_counts", "nvml_numa_node", "read_gpus"]

_PROC = "proc/driver/nvidia"


def driver_version(host: Host) -> str | None:
    """The version of the loaded NVIDIA kernel module, None where it is not loaded."""
    text = host.text(f"{_PROC}/version") or ""
    for line in text.splitlines():
        if line.startswith("NVRM version:"):
            for word in line.split():
                if word[0].isdecimal() and "." in word and all(part.isdecimal() for part in word.split(".")):
                    return word
    return None


def at_kernel_addresses(answer: NvmlAnswer, functions: tuple[Function, ...]) -> NvmlAnswer:
    """NVML's answer with the addresses that sysfs has for its GPUs.

    On Hyper-V, NVML gives a PCI domain of 32 bits (`03f8cfdd`) of which the kernel has the low 16 (`cfdd`). A GPU that
    is on no function of `functions` by its whole domain is taken by those, where just one GPU of NVML's fits.
    """
    free = {function.bdf for function in functions} - {gpu.bdf for gpu in answer.gpus}
    fitting: dict[str, list[str]] = {}
    for gpu in answer.gpus:
        domain, _, rest = (gpu.bdf or "").partition(":")
        if len(domain) > 4 and f"{domain[-4:]}:{rest}" in free:
            fitting.setdefault(f"{domain[-4:]}:{rest}", []).append(f"{domain}:{rest}")
    renamed: dict[str | None, str] = {told[0]: bdf for bdf, told in fitting.items() if len(told) == 1}
    if not renamed:
        return answer
    gpus = (
        msgspec.structs.replace(
            gpu,
            bdf=renamed.get(gpu.bdf, gpu.bdf),
            links=tuple(msgspec.structs.replace(link, peer=renamed.get(link.peer, link.peer)) for link in gpu.links),
        )
        for gpu in answer.gpus
    )
    return msgspec.structs.replace(answer, gpus=tuple(gpus))


def read_gpus(
    host: Host,
    functions: tuple[Function, ...],
    nvml: NvmlAnswer,
    names: dict[str, str],
    numa_nodes: tuple[NumaNode, ...],
    nics: tuple[Nic, ...],
) -> tuple[Gpu, ...]:
    """The GPUs among `functions`, by index: NVML's where it gives one, else the free ones in the order of addresses."""
    by_bdf = {gpu.bdf: gpu for gpu in nvml.gpus if gpu.bdf}
    indices = _indices(functions, nvml)
    places = [(nic.bdf, (nic.path, nic.numa_node)) for nic in nics if nic.physical_function is None]
    proc = {normalise(name): name for name in host.names(f"{_PROC}/gpus")}
    found = []
    for function in sorted(functions, key=lambda function: indices[function.bdf]):
        answer = by_bdf.get(function.bdf)
        folder = f"{_PROC}/gpus/{proc[function.bdf]}" if function.bdf in proc else None
        info = _information(host.text(f"{folder}/information") or "") if folder else {}
        uuid, minor, model = _identity(answer, info)
        instances = () if answer else _mig_instances(host, minor)
        found.append(
            Gpu(
                index=indices[function.bdf],
                bdf=function.bdf,
                numa_node=function.numa_node,
                numa_node_from=function.numa_node_from,
                nvml_numa_node=nvml_numa_node(answer, numa_nodes) if answer else None,
                memory_numa_node=_memory_numa_node(host, folder, answer),
                vendor_id=function.vendor_id or "",
                device_id=function.device_id or "",
                model=model or names.get(function.bdf),
                uuid=uuid,
                minor=minor,
                driver=function.driver,
                memory_bytes=answer.memory_bytes if answer else None,
                pcie=pcie_link(host, function.folder),
                iommu_group=iommu_group(host, function.folder),
                mig_enabled=answer.mig_mode if answer else bool(instances) or None,
                mig_devices=tuple(_mig_device(device) for device in answer.mig_devices) if answer else instances,
                nearest_nics=nearest((function.path, function.numa_node), places),
                path=function.path,
            )
        )
    return tuple(found)


def nvml_numa_node(answer: NvmlGpu, numa_nodes: tuple[NumaNode, ...]) -> int | None:
    """The NUMA node where NVML places the GPU: its memory affinity, else the node whose CPUs are its CPU affinity."""
    if answer.memory_affinity and answer.memory_affinity.isdecimal() and len(answer.memory_affinity) < 5:
        return int(answer.memory_affinity)
    if answer.cpu_affinity:
        for node in numa_nodes:
            if node.cpus and str(node.cpus) == answer.cpu_affinity:
                return node.id
    return None


def nvlink_counts(nvml: NvmlAnswer) -> dict[frozenset[str], int] | None:
    """How many NVLinks join each pair of GPUs, over switches too; None where NVML was not heard.

    Two GPUs that are both linked to NVSwitches reach each other over the smaller of the two numbers of links, as
    `nvidia-smi topo -m` counts them.
    """
    if nvml.status != "ok":
        return None
    counts: dict[frozenset[str], int] = {}
    gpus = [gpu for gpu in nvml.gpus if gpu.bdf]
    switched = {gpu.bdf: sum(link.kind == "switch" for link in gpu.links) for gpu in gpus}
    for gpu in gpus:
        for other in gpus:
            if gpu.index < other.index and gpu.bdf and other.bdf:
                direct = sum(link.peer == other.bdf for link in gpu.links)  # whatever NVML takes it for
                counts[frozenset((gpu.bdf, other.bdf))] = direct or min(switched[gpu.bdf], switched[other.bdf])
    return counts


def _indices(functions: tuple[Function, ...], nvml: NvmlAnswer) -> dict[str, int]:
    """The index of each GPU by its address. A GPU that NVML has lost keeps its index, of which NVML tells no address,
    where it can only be that one function."""
    here = {function.bdf for function in functions}
    told: dict[int, str | None] = {gpu.index: gpu.bdf for gpu in nvml.gpus if gpu.index < MAX_CPUS}
    known = {bdf: index for index, bdf in told.items() if bdf in here}
    lost = [index for index, bdf in told.items() if bdf is None]
    unheard = [function.bdf for function in functions if function.bdf not in known and function.driver == "nvidia"]
    if len(lost) == len(unheard) == 1:
        known[unheard[0]] = lost[0]
    free = (index for index in range(len(told) + len(functions)) if index not in told)
    return {function.bdf: known[function.bdf] if function.bdf in known else next(free) for function in functions}


def _identity(answer: NvmlGpu | None, info: dict[str, str]) -> tuple[str | None, int | None, str | None]:
    """UUID, minor and model: NVML's word, else the driver's."""
    uuid, minor, model = (answer.uuid, answer.minor, answer.name) if answer else (None, None, None)
    if uuid is None and info.get("GPU UUID", "").startswith("GPU-") and "?" not in info["GPU UUID"]:
        uuid = info["GPU UUID"]
    if minor is None and info.get("Device Minor", "").isdecimal() and len(info["Device Minor"]) < 6:
        minor = int(info["Device Minor"])
    return uuid, minor, model or info.get("Model") or None


def _information(text: str) -> dict[str, str]:
    """The lines `Key: value` of /proc/driver/nvidia/gpus/*/information."""
    lines = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in lines if colon}


def _memory_numa_node(host: Host, folder: str | None, answer: NvmlGpu | None) -> int | None:
    """The NUMA node that the GPU's memory forms: NVML's word, else the driver's numa_status."""
    if answer and answer.numa_node is not None and 0 <= answer.numa_node < MAX_CPUS:
        return answer.numa_node
    text = host.text(f"{folder}/numa_status") if folder else None
    if not text:
        return None
    node = _information(text).get("Node", "")
    return int(node) if node.isdecimal() and len(node) < 5 else None


def _mig_instances(host: Host, minor: int | None) -> tuple[MigDevice, ...]:
    """The GPU's compute instances as the driver's capabilities list them: numbers, without UUIDs and sizes."""
    folder = f"{_PROC}/capabilities/gpu{minor}/mig"
    if minor is None or host.real(folder) is None:
        return ()
    return tuple(
        MigDevice(uuid=None, name=None, memory_bytes=None, gpu_instance=gpu_instance, compute_instance=compute_instance)
        for gpu_instance in numbered(host.names(folder), "gi")
        for compute_instance in numbered(host.names(f"{folder}/gi{gpu_instance}"), "ci")
    )


def _mig_device(device: msgspec.Struct) -> MigDevice:
    return msgspec.convert(device, MigDevice, from_attributes=True)
