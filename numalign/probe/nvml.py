"""NVML: what the NVIDIA driver knows of the GPUs, asked in a process of its own with a deadline.

Source: the NVML API reference guide, through nvidia-ml-py.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from numalign.bdf import normalise
from numalign.cpuset import MAX_CPUS

__all__ = [
    "MAX_COUNT",
    "MAX_TEXT",
    "NOT_ASKED",
    "NO_BINDING",
    "Line",
    "NvmlAnswer",
    "NvmlGpu",
    "NvmlLink",
    "NvmlMig",
    "decode",
    "normalise_bus_id",
    "query",
]

MAX_TEXT = 256
"""Characters of a name or UUID at most."""
MAX_COUNT = (1 << 63) - 1
"""A size or number at most."""
NO_BINDING = -1
"""The worker's error number where it has no Python module for NVML; NVML's own are not negative."""

# What an answer may hold: it comes from a driver that may be sick, or out of a snapshot, and is untrusted.
Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
Bdf = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")]
Numbers = Annotated[str, msgspec.Meta(max_length=1 << 15, pattern=r"^([0-9]{1,5}([,-][0-9]{1,5})*)?\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
NumaId = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CPUS)]

_DEADLINE = 20.0
_MAX_OUTPUT = 4 << 20


class NvmlMig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A MIG device of a GPU."""

    uuid: Text | None
    name: Text | None
    memory_bytes: Count | None
    gpu_instance: Count | None
    compute_instance: Count | None


class NvmlLink(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An NVLink that is up: the BDF at its other end, and whether that is a `gpu`, a `switch` or `unknown`."""

    peer: Bdf | None
    kind: Text


class NvmlGpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What NVML says of a GPU; None is what it does not. `error` says that the GPU is lost or cannot be asked.

    `cpuAffinity` is a CPU list, `memoryAffinity` a list of NUMA nodes, `numaNode` the node of the GPU's own memory.
    """

    index: Count
    bdf: Bdf | None = None
    uuid: Text | None = None
    name: Text | None = None
    memory_bytes: Count | None = None
    minor: Count | None = None
    mig_mode: bool | None = None
    mig_devices: tuple[NvmlMig, ...] = ()
    numa_node: NumaId | None = None
    cpu_affinity: Numbers | None = None
    memory_affinity: Numbers | None = None
    links: tuple[NvmlLink, ...] = ()
    error: Text | None = None


class NvmlAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What came of asking NVML.

    `status` is `ok`, `off` (not asked), `no-library`, `no-driver`, `version-mismatch`, `no-permission`, `timeout`,
    `crashed` or `error`; `message` says what happened and what to do. GPUs known before a failure stay.
    """

    status: Text
    message: Annotated[str, msgspec.Meta(max_length=4 * MAX_TEXT)] | None = None
    driver_version: Text | None = None
    nvml_version: Text | None = None
    gpus: tuple[NvmlGpu, ...] = ()


class Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A line of the worker: the step it begins, something it learned, the error it ends with, or the end."""

    step: Text | None = None
    driver_version: Text | None = None
    nvml_version: Text | None = None
    gpu: NvmlGpu | None = None
    error: int | None = None
    error_text: Text | None = None
    end: bool = False


NOT_ASKED = NvmlAnswer(status="off")

_ERRORS = {
    # NVML's number -> status, and what to do
    NO_BINDING: ("error", "the Python module pynvml cannot be imported: install nvidia-ml-py where numalign is"),
    4: ("no-permission", "NVML may not open the driver's devices: run as root, or give this user /dev/nvidia*"),
    9: ("no-driver", "the NVIDIA driver is not loaded: modprobe nvidia, or install it"),
    12: ("no-library", "libnvidia-ml.so.1 cannot be loaded: install the driver's user-space libraries, or mount them"),
    18: (
        "version-mismatch",
        "NVML and the loaded kernel module are of two versions (the driver was updated): reload the modules or reboot",
    ),
}


def decode(text: str) -> NvmlAnswer:
    """An answer that a snapshot recorded; raises ValueError (msgspec's) where it is none."""
    return msgspec.json.decode(text, type=NvmlAnswer)


def normalise_bus_id(text: str | bytes) -> str | None:
    """NVML's bus id (`00000000:1B:00.0`) in the project's spelling, None where it is none.

    >>> normalise_bus_id("00000000:1B:00.0"), normalise_bus_id(b"10000:01:00.0"), normalise_bus_id("N/A")
    ('0000:1b:00.0', '10000:01:00.0', None)
    """
    return normalise(text.decode("ascii", "replace") if isinstance(text, bytes) else text)


def query(deadline_seconds: float = _DEADLINE) -> NvmlAnswer:
    """Asks NVML, for `deadline_seconds` at most. Never raises; what went wrong is in the answer."""
    try:
        output, ended = _run_worker(deadline_seconds)
    except OSError as error:
        return NvmlAnswer(status="error", message=f"the process that asks NVML cannot be started: {error.strerror}")
    lines, readable = _lines(output)
    gpus = {line.gpu.index: line.gpu for line in lines if line.gpu is not None}
    failure = next((line for line in lines if line.error is not None), None)
    if failure is not None:
        status, message = _ERRORS.get(
            failure.error or 0, ("error", f"NVML fails: {failure.error_text} ({failure.error})")
        )
    elif any(line.end for line in lines):
        status, message = "ok", None
    else:
        step = next((line.step for line in reversed(lines) if line.step), "its start")
        status = "timeout" if readable and not ended else "crashed"
        did = "did not answer within its deadline" if status == "timeout" else "ended the process that asked it"
        message = f"NVML {did}, at {step}: look for Xid errors in the kernel's log"
    return NvmlAnswer(
        status=status,
        message=message,
        driver_version=next((line.driver_version for line in lines if line.driver_version), None),
        nvml_version=next((line.nvml_version for line in lines if line.nvml_version), None),
        gpus=tuple(gpus[index] for index in sorted(gpus)),
    )


def _lines(output: bytes) -> tuple[list[Line], bool]:
    """The worker's lines up to the first that is none of its own, and whether all were."""
    decoder = msgspec.json.Decoder(Line)
    lines: list[Line] = []
    try:
        lines.extend(decoder.decode(text) for text in output.split(b"\n")[:-1])
    except msgspec.MsgspecError:
        return lines, False
    return lines, True


def _run_worker(deadline_seconds: float) -> tuple[bytes, bool]:
    """The worker's output, and whether it ended by itself or said too much; it is killed then, or at the deadline.

    A process that hangs in the driver may not die at once, even when it is killed. The worker is in a session of its
    own, where an interrupt of the command does not reach it: it is killed then, too.
    Raises OSError where it cannot start.
    """
    import contextlib
    import os
    import select
    import signal
    import subprocess
    import sys
    import time

    code = f"import sys; sys.path[:] = {sys.path!r}; from numalign.probe.nvml_worker import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    end = time.monotonic() + deadline_seconds
    output = b""
    ended = False
    ready = select.poll()  # select.select() fails on descriptors above 1023
    ready.register(process.stdout, select.POLLIN)
    try:
        with process.stdout as stream:
            while len(output) < _MAX_OUTPUT and ready.poll(max(0.0, end - time.monotonic()) * 1000):
                part = os.read(stream.fileno(), 1 << 16)
                ended = not part
                if ended:
                    break
                output += part
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    return output, ended or len(output) >= _MAX_OUTPUT
