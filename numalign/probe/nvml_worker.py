"""The process that asks NVML: one JSON line for each thing that it learns, as soon as it knows it.

It runs apart from the command, since a sick driver can hang it for ever or take it down; see nvml.py.
Source of the functions: the NVML API reference guide.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from numalign.cpuset import MAX_CPUS, CpuSet
from numalign.probe.nvml import MAX_COUNT, MAX_TEXT, NO_BINDING, Line, NvmlGpu, NvmlLink, NvmlMig, normalise_bus_id

__all__ = ["main"]

_LIBRARY = "libnvidia-ml.so.1"
_DRIVER_ROOT = "/run/nvidia/driver"
"""Where the GPU operator's driver container mounts its root; NVIDIA_DRIVER_ROOT names another."""
_LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64")
_AFFINITY_WORDS = 64
"""64-bit words of an affinity mask: 4096 CPUs or NUMA nodes."""


def main() -> None:
    """Asks everything and writes a Line for each answer to standard output."""
    sys.stdout = open(os.dup(1), "w")  # noqa: SIM115 - it stays open to the end
    os.dup2(2, 1)  # what the driver's library itself prints is no line of ours
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return _say(Line(error=NO_BINDING))
    ask = _Asking(pynvml)
    try:
        _say(Line(step="nvmlInit"))
        _load_library()
        pynvml.nvmlInit()
        _say(Line(step="nvmlSystemGetDriverVersion"))
        _say(Line(driver_version=ask(_text, pynvml.nvmlSystemGetDriverVersion)))
        _say(Line(nvml_version=ask(_text, pynvml.nvmlSystemGetNVMLVersion)))
        _say(Line(step="nvmlDeviceGetCount"))
        for index in range(pynvml.nvmlDeviceGetCount()):
            _gpu(pynvml, index)
        _say(Line(end=True))
    except pynvml.NVMLError as error:
        _say(Line(error=error.value, error_text=_words(error)))


def _load_library() -> None:
    """Loads NVML from the root of a driver that runs in a container (the GPU operator's), where the host has none:
    whoever asks for the library by its name has it then. A file that others than root can write is left alone."""
    import ctypes

    root = os.environ.get("NVIDIA_DRIVER_ROOT") or _DRIVER_ROOT
    for path in (_LIBRARY, *(f"{root}/{folder}/{_LIBRARY}" for folder in _LIBRARY_FOLDERS)):
        try:
            if path != _LIBRARY:
                seen = os.stat(path)
                if seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o022:
                    continue
            ctypes.CDLL(path)
        except OSError:
            continue
        return


def _say(line: Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


class _Asking:
    """Calls functions: gives the answer, None where this driver or GPU has none.

    `gone` is NVML's first word that the GPU is lost, not there, or to be reset.
    """

    def __init__(self, pynvml: Any) -> None:
        self.gone: str | None = None
        self._error = pynvml.NVMLError
        self._gone = (
            pynvml.NVML_ERROR_GPU_IS_LOST,
            pynvml.NVML_ERROR_GPU_NOT_FOUND,
            pynvml.NVML_ERROR_RESET_REQUIRED,
        )

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._error as error:
            if error.value in self._gone:
                self.gone = self.gone or _words(error)
            return None


def _gpu(pynvml: Any, index: int) -> None:
    """Writes the GPU as soon as it is known, and again with what takes longer."""
    _say(Line(step=f"GPU {index}"))
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        _say(Line(gpu=NvmlGpu(index=index, error=_words(error))))
        return
    ask = _Asking(pynvml)
    gpu = NvmlGpu(
        index=index,
        bdf=_bus_id(ask(pynvml.nvmlDeviceGetPciInfo, handle)),
        uuid=ask(_text, pynvml.nvmlDeviceGetUUID, handle),
        name=ask(_text, pynvml.nvmlDeviceGetName, handle),
        memory_bytes=_size(ask(pynvml.nvmlDeviceGetMemoryInfo, handle)),
        minor=ask(pynvml.nvmlDeviceGetMinorNumber, handle),
        error=ask.gone,
    )
    _say(Line(gpu=gpu))
    mode = ask(pynvml.nvmlDeviceGetMigMode, handle)
    numa_node = ask(pynvml.nvmlDeviceGetNumaNodeId, handle)
    gpu = msgspec.structs.replace(
        gpu,
        mig_mode=bool(mode[0]) if mode else None,
        mig_devices=tuple(_mig_devices(pynvml, ask, handle)) if mode and mode[0] else (),
        numa_node=numa_node if numa_node in range(MAX_CPUS) else None,
        cpu_affinity=_mask(ask(pynvml.nvmlDeviceGetCpuAffinity, handle, _AFFINITY_WORDS)),
        memory_affinity=_mask(
            ask(pynvml.nvmlDeviceGetMemoryAffinity, handle, _AFFINITY_WORDS, pynvml.NVML_AFFINITY_SCOPE_NODE)
        ),
        links=tuple(_links(pynvml, ask, handle)),
    )
    gpu = msgspec.structs.replace(gpu, error=ask.gone)
    _say(Line(gpu=gpu))


def _mig_devices(pynvml: Any, ask: Callable[..., Any], handle: Any) -> list[NvmlMig]:
    found = []
    for slot in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot)
        if device is None:
            continue  # an empty slot
        found.append(
            NvmlMig(
                uuid=ask(_text, pynvml.nvmlDeviceGetUUID, device),
                name=ask(_text, pynvml.nvmlDeviceGetName, device),
                memory_bytes=_size(ask(pynvml.nvmlDeviceGetMemoryInfo, device)),
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
            found.append(NvmlLink(peer=_bus_id(remote), kind=kinds.get(kind, "unknown")))
    return found


def _bus_id(pci: Any) -> str | None:
    """The address in an nvmlPciInfo_t; nvidia-ml-py's own access would fail on bytes that are not UTF-8."""
    return normalise_bus_id(object.__getattribute__(pci, "busId")) if pci else None


def _size(memory: Any) -> int | None:
    """The bytes in an nvmlMemory_t; all bits set (NVML_VALUE_NOT_AVAILABLE) is no size."""
    return memory.total if memory and memory.total <= MAX_COUNT else None


def _words(error: Exception) -> str:
    """NVML's words for its error."""
    return str(error)[:MAX_TEXT]


def _mask(words: Any) -> str | None:
    """An array of 64-bit words, the lowest first, as a list of numbers."""
    return None if words is None else str(CpuSet.from_mask(sum(int(word) << 64 * i for i, word in enumerate(words))))


def _text(function: Callable[..., Any], *arguments: Any) -> str:
    """A text answer, whatever its bytes are; nvidia-ml-py's wrapper would fail on those that are not UTF-8."""
    answer = getattr(function, "__wrapped__", function)(*arguments)
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    return text[:MAX_TEXT]
