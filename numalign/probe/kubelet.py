"""The node's kubelet, as its processes, its unit and its directory show it: reading only, what it means is for
numalign/kubelet.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from numalign.errors import CannotRead
from numalign.probe.host import Host

__all__ = [
    "DEVICE_PLUGINS",
    "DEVICE_STATE",
    "KUBELET_CONFIG",
    "MAX_KUBELET_FILE",
    "NO_STATE",
    "PLUGINS",
]
__all__ += ["STATE_FILES", "Place", "Process", "State", "Unit", "find_process", "read_drop_ins", "read_state"]
__all__ += ["read_unit", "version_of"]

KUBELET_CONFIG = "var/lib/kubelet/config.yaml"
"""Where kubeadm keeps it, and most others."""
PLUGINS, DEVICE_PLUGINS = "plugins_registry", "device-plugins"
DEVICE_STATE = f"{DEVICE_PLUGINS}/kubelet_internal_checkpoint"
STATE_FILES = ("cpu_manager_state", "memory_manager_state", DEVICE_STATE)
"""The files of the kubelet's directory that its managers start on."""
MAX_KUBELET_FILE = 16 << 20
T = TypeVar("T")

_MAX_DROP_INS = 1000
_MAX_DROP_IN = (4 << 20) + 1

_SERVICES = (
    # cgroups in which a service manager keeps the kubelet's process
    "sys/fs/cgroup/system.slice/kubelet.service/cgroup.procs",
    "sys/fs/cgroup/systemd/system.slice/kubelet.service/cgroup.procs",
    "sys/fs/cgroup/runtime.slice/kubelet.service/cgroup.procs",
    "sys/fs/cgroup/podruntime/kubelet/cgroup.procs",
)
_NAMES = ("kubelet", "hyperkube")
_HOSTS = ("k3s-server", "k3s-agent", "k3s", "rke2", "kubelite")
"""Processes that run a kubelet inside, whose command line is not the kubelet's."""
_UNITS = (
    # where systemd looks, the first wins
    "etc/systemd/system/kubelet.service",
    "run/systemd/system/kubelet.service",
    "usr/local/lib/systemd/system/kubelet.service",
    "usr/lib/systemd/system/kubelet.service",
    "lib/systemd/system/kubelet.service",
)
_UNIT_FOLDERS = ("lib", "usr/lib", "usr/local/lib", "run", "etc")
_MAX_COMMAND_LINE = 1 << 17
_MAX_PROCESSES = 200_000
PROCESS_RECORD = "numalign/kubelet-process.json"
"""Where a snapshot keeps the kubelet's process."""
VERSION_RECORD = "numalign/kubelet-version"
"""Where a snapshot keeps what the kubelet's binary said of its version."""
_VERSION_DEADLINE = 5.0


class Process(msgspec.Struct, frozen=True):
    """A running kubelet: its number, command line (the program first), and when it was started (seconds since 1970).

    `inside` is the program that runs the kubelet as a part of itself (k3s), whose own command line this is then.
    """

    pid: int
    arguments: tuple[str, ...]
    started: float | None
    inside: str | None = None


class Unit(msgspec.Struct, frozen=True):
    """systemd's unit of the kubelet and its drop-ins, in the order in which they hold: (path, text)."""

    files: tuple[tuple[str, str], ...]


def find_process(host: Host) -> Process | None:
    """The running kubelet; None where none runs, or none can be seen.

    Its service's cgroup names it at once; else every process's name is looked at. A snapshot has the answer.
    """
    recorded = None if host.live else host.value(PROCESS_RECORD, _decode_process)
    found = recorded or (None if host.packed else _find(Host(host.root or "/")))
    if found is not None:
        host.remember(PROCESS_RECORD, msgspec.json.encode(found))
    return found


def _decode_process(text: str) -> Process:
    return msgspec.json.decode(text, type=Process)


def _find(host: Host) -> Process | None:
    for path in _SERVICES:
        for pid in (host.text(path) or "").split():
            if pid.isdecimal() and (host.text(f"proc/{pid}/comm") or "") in _NAMES:
                return _process(host, pid, None)
    inside = None
    for pid in host.names("proc")[:_MAX_PROCESSES]:
        if not pid.isdecimal():
            continue
        name = host.text(f"proc/{pid}/comm") or ""
        if name in _NAMES:
            return _process(host, pid, None)
        if name in _HOSTS and inside is None:
            inside = _process(host, pid, name)
    return inside


def _process(host: Host, pid: str, inside: str | None) -> Process | None:
    words = (host.text(f"proc/{pid}/cmdline", _MAX_COMMAND_LINE) or "").split("\0")
    return Process(int(pid), tuple(words), _started(host, pid), inside) if words[0] else None


def _started(host: Host, pid: str) -> float | None:
    """When a process was started: the boot's time and the clock ticks since (proc_pid_stat(5), field 22)."""
    after_name = (host.text(f"proc/{pid}/stat") or "").rpartition(")")[2].split()
    boot = [line.split()[1] for line in (host.text("proc/stat") or "").splitlines() if line.startswith("btime ")]
    if len(after_name) < 20 or not after_name[19].isdecimal() or not boot or not boot[0].isdecimal():
        return None
    return int(boot[0]) + int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def read_unit(host: Host) -> Unit | None:
    """The kubelet's unit; None where there is none that can be read."""
    for path in _UNITS:
        text = host.text(path)
        if text is not None:
            found = {path: text}
            for name in _drop_ins(host):
                found[name] = host.text(name) or ""
            return Unit(tuple((f"/{name}", content) for name, content in found.items()))
    return None


def _drop_ins(host: Host) -> list[str]:
    """The unit's *.conf files, sorted by name; of one name that of the stronger directory holds."""
    by_name: dict[str, str] = {}
    for folder in _UNIT_FOLDERS:
        place = f"{folder}/systemd/system/kubelet.service.d"
        by_name.update({name: f"{place}/{name}" for name in host.names(place) if name.endswith(".conf")})
    return [by_name[name] for name in sorted(by_name)]


def version_of(host: Host, process: Process | None) -> str | None:
    """What the kubelet's binary says of its version (`Kubernetes v1.34.1`): it is asked on the live host only, and a
    snapshot has the answer. None where it cannot be asked."""
    if not host.live:
        return host.text(VERSION_RECORD)
    if process is None or process.inside:
        return None
    answer = _ask(f"/proc/{process.pid}/exe")
    if answer is not None:
        host.remember(VERSION_RECORD, answer.encode())
    return answer


def _ask(binary: str) -> str | None:
    """`BINARY --version`, of a binary that nobody but root, or this user, could have put there."""
    import subprocess

    try:
        seen = os.stat(binary)
        if seen.st_uid not in (0, os.geteuid()) or seen.st_mode & 0o022:
            return None
        done = subprocess.run(
            [binary, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_DEADLINE,
            check=False,
            env={},
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = done.stdout[:200].decode("utf-8", "replace").strip()
    return text if done.returncode == 0 and text.startswith("Kubernetes v") else None


class Place(NamedTuple):
    """A file or directory: where it is in a host, and how a person names it."""

    host: Host
    path: str
    shown: str

    def below(self, name: str) -> Place:
        """A file in this directory."""
        return Place(self.host, f"{self.path}/{name}" if self.path else name, f"{self.shown}/{name}")


class State(msgspec.Struct, frozen=True):
    """What a kubelet left in its directory: its managers' files, and the names of the sockets of its plugins.

    `folder` is how a person names the directory, empty where there is none; `plugins` are those of plugins_registry,
    `device_plugins` those of device-plugins; `problems` says of a file, or of the whole directory (""), why it could
    not be read. `device_folder` is the directory that has device-plugins, where it is another.
    """

    folder: str
    files: Mapping[str, bytes]
    plugins: tuple[str, ...] = ()
    device_plugins: tuple[str, ...] = ()
    problems: Mapping[str, str] = {}
    device_folder: str = ""

    def place(self, name: str) -> str:
        """How a person names a file or directory of it."""
        of_devices = self.device_folder and name.partition("/")[0] == DEVICE_PLUGINS
        return f"{self.device_folder if of_devices else self.folder}/{name}"


NO_STATE = State("", {})


def read_state(folder: Place, *, named: bool = False, devices: Place | None = None) -> State:
    """What is in a kubelet's directory; one that is missing or empty counts only where a person `named` it. `devices`
    has device-plugins, where that is another: the kubelet keeps it at one place whatever --root-dir says."""
    files: dict[str, bytes] = {}
    problems: dict[str, str] = {}
    try:
        if not folder.host.entries(folder.path) and not named:
            return NO_STATE
    except OSError as error:
        return State(folder.shown, {}, problems={"": error.strerror or ""})
    above = dict.fromkeys((DEVICE_STATE, DEVICE_PLUGINS), devices or folder)
    for name in STATE_FILES:
        data = _kept(problems, name, lambda path: folder.host.read(path, MAX_KUBELET_FILE), above.get(name, folder))
        if data is not None:
            files[name] = data
    sockets: dict[str, list[str]] = {}
    for name in (PLUGINS, DEVICE_PLUGINS):
        where = above.get(name, folder)
        sockets[name] = _kept(problems, name, folder.host.entries, where) or []
        for socket in sockets[name]:
            folder.host.remember(f"{folder.host.real(where.below(name).path)}/{socket}", b"")
    device_folder = devices.shown if devices else ""
    return State(folder.shown, files, tuple(sockets[PLUGINS]), tuple(sockets[DEVICE_PLUGINS]), problems, device_folder)


def _kept(problems: dict[str, str], name: str, read: Callable[[str], T], folder: Place) -> T | None:
    """What `read` gives of a file of the directory; None, and the reason noted, where it cannot be read."""
    try:
        return read(folder.below(name).path)
    except OSError as error:
        problems[name] = error.strerror or ""
        return None


def read_drop_ins(folder: Place) -> dict[str, bytes]:
    """The drop-ins of a directory by the path that a person knows, in the order in which the kubelet reads them: by
    path, subdirectories included. Raises CannotRead where one cannot be read."""
    found: dict[str, bytes] = {}
    _walk(folder, found)
    return found


def _walk(place: Place, found: dict[str, bytes]) -> None:
    host = place.host
    try:
        for name in sorted(host.entries(place.path), key=os.fsencode):
            here = place.below(name)
            linked = host.link(here.path) is not None
            if not linked and host.entries(here.path):
                _walk(here, found)
            elif name.endswith(".conf"):
                if len(found) >= _MAX_DROP_INS:
                    raise CannotRead(f"{place.shown}: more than {_MAX_DROP_INS} drop-ins")
                with contextlib.suppress(IsADirectoryError):
                    data = host.read(here.path, _MAX_DROP_IN)
                    if data is not None:
                        found[here.shown] = data
    except OSError as error:
        raise CannotRead(f"{place.shown}: {error.strerror or os.strerror(error.errno or 0)}") from error
