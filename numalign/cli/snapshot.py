"""numalign snapshot."""

from __future__ import annotations

import sys

from numalign.cli.files import emit
from numalign.cli.source import nvml_mode

__all__ = ["snapshot"]


def snapshot(file: str, *, root: str | None = None, nvml: str = "auto", redact: bool = False) -> int:
    """Pack everything that the other commands read, NVML's answers included, into one archive.

    Read it elsewhere with --machine FILE; it gives the same map.
    """
    from numalign.probe.snapshot import pack, record

    recorder = record(root or "/", nvml_mode(nvml))
    if redact:
        from numalign.probe.redact import redact as take_out

        take_out(recorder)
    data = pack(recorder)
    emit(data, file)
    if file != "-":
        print(f"{file}: {len(recorder.files)} files, {len(data) / 1024:.0f} KiB", file=sys.stderr)
    return 0
