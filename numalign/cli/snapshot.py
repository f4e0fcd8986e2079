"""numalign snapshot."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from numalign.cli import progress
from numalign.cli.files import emit, read_file
from numalign.cli.node import Kubelet, read_configuration, read_running, read_state, version
from numalign.cli.resources import read_resources
from numalign.cli.source import nvml_mode
from numalign.errors import CannotRead, NumalignError, WrongUsage

if TYPE_CHECKING:
    from numalign.probe.snapshot import Recorder

__all__ = ["snapshot"]


def snapshot(
    *,
    file: str | None = None,
    out: str | None = None,
    root: str | None = None,
    nvml: str = "auto",
    redact: bool = False,
) -> int:
    """Pack everything that the other commands read, NVML's answers included, into one archive.

    Read it elsewhere with --machine FILE; it gives the same map.
    """
    from numalign.probe.snapshot import pack, record

    file = _one_file(file, out)
    _refuse_other_files(file)
    progress.say("reading everything that the commands read")
    recorder = record(root or "/", nvml_mode(nvml))
    if redact:
        from numalign.probe.redact import redact as take_out

        take_out(recorder)  # and the kubelet's files are not recorded, since anything can stand in them
    else:
        _record_kubelet(recorder)
    progress.say(f"packing {len(recorder.files)} files")
    data = pack(recorder)
    emit(data, file)
    if file != "-":
        print(f"{file}: {len(recorder.files)} files, {len(data) / 1024:.0f} KiB", file=sys.stderr)
    return 0


def _one_file(file: str | None, out: str | None) -> str:
    """The file to write, which both FILE and --out name. Raises WrongUsage."""
    if file is not None and out is not None:
        raise WrongUsage(f"{file} and --out {out} name two files", hint="leave one of them out")
    found = out if file is None else file
    if found is None:
        raise WrongUsage("snapshot needs a file to write", hint="numalign snapshot node.tar.gz")
    return found


def _refuse_other_files(path: str) -> None:
    """Raises CannotRead where a file is there that is no earlier snapshot: most often its name was not meant."""
    from numalign.probe.snapshot import unpack

    if path == "-" or not os.path.isfile(path):
        return
    with contextlib.suppress(CannotRead):
        data = read_file(path)
        if not data or unpack(data, path).entries("sys"):
            return
    raise CannotRead(
        f"{path} is there already, and it is no snapshot that could be written anew",
        hint="name another file, or remove this one first",
    )


def _record_kubelet(recorder: Recorder) -> None:
    """Reads what the commands read of the node's kubelet; what cannot be read is noted as an error of the recording."""
    from numalign.probe.system import read_system

    kubelet = Kubelet(recorder)
    version(None, kubelet)
    read_resources(kubelet, read_state(None, kubelet, None), pods=True)
    read_system(recorder, kubelet.process, irqs=True)
    with contextlib.suppress(NumalignError):
        read_running(kubelet, read_configuration(None, None, None, kubelet, None).files, {}, None)
