"""The node's kubelet for the commands that judge it: how it is called, its configuration, its state, its version."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from numalign.cli.files import read_file
from numalign.errors import CannotRead, DoesNotHold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numalign.checks import VersionFrom
    from numalign.checks.finding import Running
    from numalign.kubelet.document import Document, Refused
    from numalign.kubelet.running import Invocation
    from numalign.kubelet.settings import Settings
    from numalign.kubelet.view import KubeletView
    from numalign.probe.host import Host
    from numalign.probe.kubelet import Place, Process, State

__all__ = ["Configuration", "Kubelet", "Version", "effective_document", "loaded_document", "read_configuration"]
__all__ += ["read_running", "read_state", "refuse_unstartable", "version"]

_SEE_VERIFY = "numalign verify says where, and what to write"


class Kubelet:
    """The kubelet of a host or snapshot (None: of a Machine document, which has none), looked for when it is needed."""

    def __init__(self, host: Host | None) -> None:
        self.host = host

    @cached_property
    def process(self) -> Process | None:
        """The process; None where none runs, or none can be seen."""
        from numalign.probe.kubelet import find_process

        return find_process(self.host) if self.host is not None else None

    @cached_property
    def invocation(self) -> Invocation | None:
        """How it is called: by its process, else as its unit would start it; None where neither is known."""
        from numalign.kubelet.running import of_arguments, of_unit
        from numalign.probe.kubelet import read_unit

        if self.process is not None and self.process.inside is None:
            return of_arguments(self.process.arguments, f"process {self.process.pid}")
        if self.process is not None and self.host is not None:
            from numalign.kubelet.inside import called_inside

            inside = self.process.inside or ""
            return called_inside(inside, self.process.arguments, self.host.text, self.host.names)
        unit = read_unit(self.host) if self.host is not None else None
        return of_unit(unit.files, self.host.text) if unit and self.host is not None else None

    @cached_property
    def version(self) -> str | None:
        """What its binary says of its version; None where it cannot be asked."""
        from numalign.probe.kubelet import version_of

        return version_of(self.host, self.process) if self.host is not None else None

    @property
    def folder(self) -> str:
        """The directory in which it keeps its state and its sockets."""
        from numalign.kubelet.running import DEFAULT_FOLDER

        return self.invocation.folder if self.invocation else DEFAULT_FOLDER


class Configuration(NamedTuple):
    """What makes a configuration: the file (path, content) if any, the drop-ins by path, the values of each flag."""

    base: tuple[str, bytes] | None
    drop_ins: Mapping[str, bytes]
    flags: Mapping[str, list[str]]

    @property
    def source(self) -> str:
        """What a person calls it."""
        return self.base[0] if self.base else "command line"

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files."""
        return (*((self.base[0],) if self.base else ()), *self.drop_ins)


class Version(NamedTuple):
    """The minor version whose rules hold, and who says so."""

    minor: int
    told_by: VersionFrom


def read_configuration(
    config: str | None,
    config_dir: str | None,
    kubelet_flags: str | None,
    kubelet: Kubelet,
    root: str | None,
) -> Configuration:
    """The file `config` with the drop-ins and flags that were named; else what the node's kubelet takes.

    Raises CannotRead or WrongUsage.
    """
    from numalign.kubelet.flags import parse_flags
    from numalign.probe.kubelet import read_drop_ins

    called = kubelet.invocation if config is None else None
    if config is not None:
        base: tuple[str, bytes] | None = (_shown(config), read_file(config))
    elif called is not None and called.config is None:
        base = None
    else:
        base = _host_file(kubelet, called.config if called else None, root)
    if base is not None and base[1][:2] == b"\x1f\x8b":
        raise CannotRead(f"{base[0]} is an archive, no configuration", hint="a snapshot is read with --machine")
    if config_dir is not None:
        # an empty one is none to the kubelet
        drop_ins = read_drop_ins(_named_folder(config_dir)) if config_dir else {}
    else:
        own = called.config_dir if called else None
        drop_ins = read_drop_ins(_host_place(kubelet.host, own, root)) if own and kubelet.host else {}
    words = called.text if called and kubelet_flags is None else kubelet_flags or ""
    return Configuration(base, drop_ins, parse_flags(words))


def effective_document(configuration: Configuration, minor: int) -> Document:
    """The effective configuration. Raises DoesNotHold where the kubelet does not load it."""
    from numalign.kubelet.document import Refused

    loaded = loaded_document(configuration, minor)
    if isinstance(loaded, Refused):
        place = loaded.placed(configuration.source)
        raise DoesNotHold(f"{place}: the kubelet does not load it: {loaded.message}", hint=_SEE_VERIFY) from loaded
    return loaded


def loaded_document(configuration: Configuration, minor: int) -> Document | Refused:
    """What the kubelet makes of the configuration, or why it does not load it."""
    from numalign.kubelet.document import Refused
    from numalign.kubelet.effective import effective

    try:
        return effective(*configuration, minor)
    except Refused as error:
        return error


def refuse_unstartable(document: Document, settings: Settings, view: KubeletView) -> None:
    """Raises DoesNotHold where the kubelet does not start on a configuration."""
    from numalign.kubelet.rules import problems

    for problem in problems(settings, view):
        raise DoesNotHold(f"{document.source}: the kubelet does not start: {problem.message}", hint=_SEE_VERIFY)


def read_state(state_dir: str | None, kubelet: Kubelet, root: str | None) -> State:
    """What lies in the kubelet's directory: the one named, else that of the host or snapshot; a Machine document has
    none. Raises CannotRead where the named one is no directory."""
    from numalign.kubelet.running import DEFAULT_FOLDER
    from numalign.probe.host import Host
    from numalign.probe.kubelet import NO_STATE, Place, read_state

    if state_dir:
        if not os.path.isdir(state_dir):
            raise CannotRead(f"--state-dir {state_dir} is no directory", hint="the kubelet's is /var/lib/kubelet")
        return read_state(Place(Host(state_dir), "", state_dir.rstrip("/") or "/"), named=True)
    if kubelet.host is None:
        return NO_STATE
    folder = _host_place(kubelet.host, kubelet.folder, root)
    devices = _host_place(kubelet.host, DEFAULT_FOLDER, root)
    return read_state(folder, devices=devices if devices.path != folder.path else None)


def version(kubernetes_version: str | None, kubelet: Kubelet) -> Version:
    """The minor version that was asked for, else that of the node's kubelet, else the default. Raises WrongUsage."""
    from numalign.kubelet.running import minor_of
    from numalign.kubelet.versions import NEWEST, OLDEST, wanted_version

    if kubernetes_version is None and kubelet.version is not None:
        minor = minor_of(kubelet.version)
        if minor is not None:
            return Version(min(max(minor, OLDEST), NEWEST), "kubelet")
    return Version(wanted_version(kubernetes_version), "option" if kubernetes_version else "assumed")


def read_running(kubelet: Kubelet, files: Iterable[str], values: Mapping[str, Any], root: str | None) -> Running | None:
    """The kubelet that runs, None where none is seen.

    `files` are those of its own configuration that are judged, as a person names them. It is asked for its health on
    the live host only, where the effective `values` have a port.
    """
    from numalign.checks.finding import Running
    from numalign.probe.system import read_health

    host, process = kubelet.host, kubelet.process
    if host is None or process is None:
        return None
    above = _host_place(host, "", root).shown
    times = {file: host.modified(file.removeprefix(above)) for file in files}
    written = {file: time for file, time in times.items() if time is not None}
    port = 0 if process.inside else values.get("healthzPort", 10248)
    health = read_health(host, values.get("healthzBindAddress") or "127.0.0.1", port)
    return Running(process, kubelet.version, written, health)


def _shown(config: str) -> str:
    return "standard input" if config == "-" else config


def _named_folder(folder: str) -> Place:
    """A directory of drop-ins that a person named. Raises CannotRead where it is none."""
    from numalign.probe.host import Host
    from numalign.probe.kubelet import Place

    if not os.path.isdir(folder):
        raise CannotRead(f"{folder}: no directory of drop-ins", hint="--config-dir names the kubelet's own directory")
    return Place(Host(folder), "", folder.rstrip("/"))


def _host_place(host: Host, path: str, root: str | None) -> Place:
    """A file of the host, named as it is below the root that was given, or as a member of the snapshot."""
    from numalign.probe.kubelet import Place

    inner = path.strip("/")
    shown = f"{host.root}:/{inner}" if host.packed else os.path.join(root or "/", inner)
    return Place(host, inner, shown)


def _host_file(kubelet: Kubelet, path: str | None, root: str | None) -> tuple[str, bytes]:
    """The file of --config of the node's kubelet, else where kubeadm has it."""
    from numalign.probe.kubelet import KUBELET_CONFIG, MAX_KUBELET_FILE

    host = kubelet.host
    if host is None:
        raise CannotRead("no kubelet configuration: a Machine document has none", hint="name it with --config FILE")
    place = _host_place(host, path or KUBELET_CONFIG, root)
    try:
        data = host.read(place.path, MAX_KUBELET_FILE)
    except OSError as error:
        raise CannotRead(f"{place.shown}: {error.strerror}", hint="run it as root") from error
    if data is None:
        what = "is not in it (--redact leaves it out)" if host.packed else "does not exist"
        inside = kubelet.process.inside if kubelet.process else None
        hint = "name it with --config FILE"
        if inside:
            hint = f"{inside} runs the kubelet inside itself: name what it gives it with --config and --kubelet-flags"
        raise CannotRead(f"no kubelet configuration: {place.shown} {what}", hint=hint)
    return place.shown, data
