"""The process that asks NVML: one JSON line for each thing that it learns, as soon as it knows it.

It runs apart from the command, since a sick driver can hang it for ever or take it down; see nvml.py.
Source of the functions: the NVML API reference guide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from numalign.cpuset import CpuSet
from numalign.probe.nvml import MAX_TEXT, Line, NvmlGpu, NvmlLink, NvmlMig, normalise_bus_id

__all__ = ["main"]

_AFFINITY_WORDS = 64
"""64-bit words of an affinity mask: 4096 CPUs or NUMA nodes."""


def main() -> None:
    """Asks everything and writes a Line for each answer to standard output."""
    import pynvml  # type: ignore[import-untyped]

    try:
        _say(Line(step="nvmlInit"))
        pynvml.nvmlInit()
        _say(Line(step="nvmlDeviceGetCount", driver_version=_text(pynvml.nvmlSystemGetDriverVersion)))
        _say(Line(nvml_version=_text(pynvml.nvmlSystemGetNVMLVersion)))
        for index in range(pynvml.nvmlDeviceGetCount()):
            _gpu(pynvml, index)
        _say(Line(end=True))
    except pynvml.NVMLError as error:
        _say(Line(error=error.value, error_text=str(error)))


def _say(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _gpu(pynvml: Any, index: int) -> None:
    """Writes the GPU as soon as it is known, and again with what takes longer."""
    _say(Line(step=f"GPU {index}"))
    lost: list[str] = []
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        _say(Line(gpu=NvmlGpu(index=index, error=str(error))))
        return

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, None where this driver or GPU has none; a GPU that is gone is remembered."""
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            if error.value in (
                pynvml.NVML_ERROR_GPU_IS_LOST,
                pynvml.NVML_ERROR_GPU_NOT_FOUND,
                pynvml.NVML_ERROR_RESET_REQUIRED,
            ):
                lost.append(str(error))
            return None

    pci = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    memory = ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    gpu = NvmlGpu(
        index=index,
        bdf=normalise_bus_id(pci.busId) if pci else None,
        uuid=ask(_text, pynvml.nvmlDeviceGetUUID, handle),
        name=ask(_text, pynvml.nvmlDeviceGetName, handle),
        memory_bytes=memory.total if memory else None,
        minor=ask(pynvml.nvmlDeviceGetMinorNumber, handle),
        error=lost[0] if lost else None,
    )
    _say(Line(gpu=gpu))
    mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    numa_node = ask(pynvml.nvmlDeviceGetNumaNodeId, handle)
    gpu = msgspec.structs.replace(
        gpu,
        mig_mode=bool(mode[0]) if mode else None,
        mig_devices=tuple(_mig_devices(pynvml, ask, handle)) if mode and mode[0] else (),
        numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
        cpu_affinity=_mask(ask(pynvml.nvmlDeviceGetCpuAffinity, handle, _AFFINITY_WORDS)),
        memory_affinity=_mask(
            ask(pynvml.nvmlDeviceGetMemoryAffinity, handle, _AFFINITY_WORDS, pynvml.NVML_AFFINITY_SCOPE_NODE)
        ),
        links=tuple(_links(pynvml, ask, handle)),
        error=lost[0] if lost else None,
    )
    _say(Line(gpu=gpu))


def _mig_devices(pynvml: Any, ask: Callable[..., Any], handle: Any) -> list[NvmlMig]:
    found = []
    for slot in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
        if device is None:
            continue  # an empty slot
        memory = ask(pynvml.nvmlDeviceGetMemoryInfo, device)
        found.append(
            NvmlMig(
                uuid=ask(_text, pynvml.nvmlDeviceGetUUID, device),
                name=ask(_text, pynvml.nvmlDeviceGetName, device),
                memory_bytes=memory.total if memory else None,
                gpu_instance=ask(pynvml.nvmlDeviceGetGpuInstanceId, device),
                compute_instance=ask(pynvml.nvmlDeviceGetComputeInstanceId, device),
            )
        )
    return found


def _links(pynvml: Any, ask: Callable[..., Any], handle: Any) -> list[NvmlLink]:
    """The NVLinks that are up."""
    kinds = {pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: "gpu", pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: "switch"}
    found = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if ask(pynvml.nvmlDeviceGetNvLinkState, handle, link):
            remote = ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            kind = ask(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            found.append(
                NvmlLink(peer=normalise_bus_id(remote.busId) if remote else None, kind=kinds.get(kind, "unknown"))
            )
    return found


def _mask(words: Any) -> str | None:
    """An array of 64-bit words, the lowest first, as a list of numbers."""
    return None if words is None else str(CpuSet.from_mask(sum(int(word) << 64 * i for i, word in enumerate(words))))


def _text(function: Callable[..., Any], *arguments: Any) -> str:
    """A text answer, whatever its bytes are; nvidia-ml-py's wrapper would fail on those that are not UTF-8."""
    answer = getattr(function, "__wrapped__", function)(*arguments)
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    return text[:MAX_TEXT]
