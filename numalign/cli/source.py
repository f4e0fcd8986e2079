"""Where a command takes its machine from: the host, a root directory, a snapshot or a Machine document."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from numalign.cli.files import read_file
from numalign.errors import CannotRead, WrongUsage
from numalign.machine import API_VERSION, Machine, contradiction, decode

if TYPE_CHECKING:
    from numalign.probe import NvmlMode

__all__ = ["load_machine", "nvml_mode"]


def load_machine(root: str | None, machine: str | None, nvml: str = "auto") -> Machine:
    """The machine of a command's --root, --machine and --nvml. Raises WrongUsage or CannotRead."""
    if machine is None:
        return _probed(root or "/", nvml)
    if root is not None and root != os.environ.get("NUMALIGN_ROOT"):
        raise WrongUsage("--root and --machine name two machines", hint="leave one of them out")
    data = read_file(machine)
    from numalign.probe.snapshot import is_archive, unpack

    name = "standard input" if machine == "-" else machine
    if is_archive(data[:512]):
        from numalign.probe import probe

        return probe(unpack(data, name), nvml_mode(nvml))
    return _document(data, name)


def _probed(root: str, nvml: str) -> Machine:
    from numalign.probe import probe
    from numalign.probe.host import Host

    if not os.path.isdir(root):
        what = "is no directory" if os.path.exists(root) else "does not exist"
        raise CannotRead(f"--root {root} {what}", hint="a snapshot or a Machine document is read with --machine")
    return probe(Host(root), nvml_mode(nvml))


def nvml_mode(nvml: str) -> NvmlMode:
    """The value of --nvml; Raises WrongUsage."""
    if nvml not in ("auto", "off", "require"):
        raise WrongUsage(f"--nvml {nvml}", hint="auto, off or require")
    return nvml  # type: ignore[return-value]


def _document(data: bytes, name: str) -> Machine:
    """A Machine document, JSON or YAML."""
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise CannotRead(f"{name}: it is empty", hint="a snapshot or a Machine document is wanted")
    try:
        found = decode(text) if text[:1] == b"{" else _from_yaml(text, name)
    except msgspec.ValidationError as error:
        raise CannotRead(f"{name}: no Machine document: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CannotRead(f"{name}: neither a snapshot nor a readable Machine document: {error}") from error
    wrong = contradiction(found)
    if wrong is not None:
        raise CannotRead(f"{name}: the Machine document contradicts itself: {wrong}")
    if found.api_version != API_VERSION:
        raise CannotRead(f"{name}: apiVersion {found.api_version}; this numalign reads {API_VERSION}")
    return found


def _from_yaml(text: bytes, name: str) -> Machine:
    from numalign.report.document import machine_from_yaml

    return machine_from_yaml(text, name)
