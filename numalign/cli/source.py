"""Where a command takes its machine from: the host, a root directory, a snapshot or a Machine document."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from numalign.cli import progress
from numalign.cli.files import read_file
from numalign.errors import CannotRead, WrongUsage
from numalign.machine import API_VERSION, Machine, contradiction, decode

if TYPE_CHECKING:
    from numalign.probe import NvmlMode
    from numalign.probe.host import Host

_CONFIGURATION = "numalign verify --config names one; --machine wants a snapshot or a Machine document"
_WANTED = "numalign snapshot and numalign inspect -o json write what --machine reads"

__all__ = ["load", "load_machine", "machine_document", "nvml_mode", "open_host", "read_machine"]


def load_machine(root: str | None, machine: str | None, nvml: str = "auto") -> Machine:
    """The machine of a command's --root, --machine and --nvml. Raises WrongUsage or CannotRead."""
    return load(root, machine, nvml)[0]


def load(root: str | None, machine: str | None, nvml: str = "auto") -> tuple[Machine, Host | None]:
    """The machine, and the host or snapshot that it was read from (None: a Machine document).

    Raises WrongUsage or CannotRead.
    """
    from numalign.probe import probe

    if machine is None:
        host = open_host(root or "/")
        progress.say("reading the machine")
        return probe(host, nvml_mode(nvml)), host
    if root is not None and root != os.environ.get("NUMALIGN_ROOT"):
        raise WrongUsage("--root and --machine name two machines", hint="leave one of them out")
    return read_machine(machine, "--machine", nvml)


def read_machine(file: str, option: str, nvml: str = "auto") -> tuple[Machine, Host | None]:
    """The machine in a snapshot or a Machine document that an option names, and the snapshot. Raises CannotRead."""
    from numalign.probe import probe
    from numalign.probe.snapshot import is_archive, unpack

    if os.path.isdir(file):
        hint = f"a root directory is read with --root {file}" if option == "--machine" else _WANTED
        raise CannotRead(f"{option} {file} is a directory", hint=hint)
    data = read_file(file)
    name = "standard input" if file == "-" else file
    progress.say(f"reading the machine in {name}")
    if is_archive(data[:512]):
        snapshot = unpack(data, name)
        return probe(snapshot, nvml_mode(nvml)), snapshot
    return machine_document(data, name), None


def open_host(root: str) -> Host:
    """The host below a root directory. Raises CannotRead where it is no directory."""
    from numalign.probe.host import Host

    if os.path.isdir(root):
        return Host(root)
    option = "NUMALIGN_ROOT" if root == os.environ.get("NUMALIGN_ROOT") else "--root"
    if os.path.exists(root):
        raise CannotRead(f"{option} {root} is no directory", hint=f"a snapshot is read with --machine {root}")
    raise CannotRead(f"{option} {root} does not exist", hint="it names the directory that holds sys/ and proc/")


def nvml_mode(nvml: str) -> NvmlMode:
    """The value of --nvml; Raises WrongUsage."""
    if nvml not in ("auto", "off", "require"):
        raise WrongUsage(f"--nvml {nvml}", hint="auto, off or require")
    return nvml  # type: ignore[return-value]


def machine_document(data: bytes, name: str) -> Machine:
    """The machine in a Machine document, JSON or YAML. Raises CannotRead."""
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise CannotRead(f"{name}: it is empty", hint=_WANTED)
    try:
        found = decode(text) if text[:1] == b"{" else _from_yaml(text, name)
    except msgspec.ValidationError as error:
        if b"KubeletConfiguration" in text[:4096]:
            raise CannotRead(f"{name} is a kubelet's configuration, no machine", hint=_CONFIGURATION) from error
        raise CannotRead(f"{name}: no Machine document: {error}", hint=_WANTED) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CannotRead(f"{name}: neither a snapshot nor a Machine document: {error}", hint=_WANTED) from error
    wrong = contradiction(found)
    if wrong is not None:
        raise CannotRead(f"{name}: the Machine document contradicts itself: {wrong}")
    if found.api_version != API_VERSION:
        raise CannotRead(f"{name}: apiVersion {found.api_version}; this numalign reads {API_VERSION}")
    return found


def _from_yaml(text: bytes, name: str) -> Machine:
    from numalign.report.document import machine_from_yaml

    return machine_from_yaml(text, name)
