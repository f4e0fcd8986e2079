"""numalign verify."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from numalign.cli.files import emit_document, read_file
from numalign.cli.source import load
from numalign.errors import CannotRead

if TYPE_CHECKING:
    from numalign.checks.finding import State
    from numalign.probe.host import Host

__all__ = ["Files", "read_configuration", "verify"]

Files = tuple[tuple[str, bytes], dict[str, bytes], dict[str, list[str]]]
"""The configuration's path and content, the drop-ins' content by path, the values of each flag."""


def verify(
    *,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    state_dir: str | None = None,
    kubernetes_version: str | None = None,
    output: str = "text",
    fail_on: str = "error",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Check the kubelet's configuration against the machine; the exit status is 1 where something does not hold."""
    from numalign.checks import judge, judge_refused
    from numalign.checks.finding import SEVERITIES
    from numalign.kubelet.document import Refused
    from numalign.kubelet.versions import wanted_version

    minor = wanted_version(kubernetes_version)
    found, host = load(root, machine, nvml)
    files = read_configuration(config, config_dir, kubelet_flags, host, root)
    state = _named_state(state_dir) if state_dir else _state_of(host, root)
    try:
        from numalign.kubelet.effective import effective

        report = judge(found, effective(*files, minor), minor, state)
    except Refused as error:
        report = judge_refused(found, error, files[0][0], minor)
    emit_document(report, output, "findings:draw", out)
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(finding.severity in counted for finding in report.findings))


def read_configuration(
    config: str | None, config_dir: str | None, kubelet_flags: str | None, host: Host | None, root: str | None = None
) -> Files:
    """The file, the drop-ins and the flags that make a configuration: the file `config`, else the one of the host or
    snapshot. Raises CannotRead or WrongUsage."""
    from numalign.kubelet.dropins import drop_in_files
    from numalign.kubelet.flags import parse_flags

    base = _default_config(host, root) if config is None else (_shown(config), read_file(config))
    if base[1][:2] == b"\x1f\x8b":
        raise CannotRead(f"{base[0]} is an archive, no configuration", hint="a snapshot is read with --machine")
    drop_ins = drop_in_files(config_dir) if config_dir else {}
    return base, drop_ins, parse_flags(kubelet_flags or "")


def _shown(config: str) -> str:
    return "standard input" if config == "-" else config


def _default_config(host: Host | None, root: str | None) -> tuple[str, bytes]:
    """The kubelet's configuration where kubeadm has it, on the host or in the snapshot."""
    from numalign.probe.snapshot import KUBELET_CONFIG, MAX_KUBELET_FILE

    if host is None:
        raise CannotRead("no kubelet configuration: a Machine document has none", hint="name it with --config FILE")
    path = _host_path(host, KUBELET_CONFIG, root)
    try:
        data = host.read(KUBELET_CONFIG, MAX_KUBELET_FILE)
    except OSError as error:
        raise CannotRead(f"{path}: {error.strerror}") from error
    if data is None:
        what = "is not in it" if host.packed else "does not exist"
        raise CannotRead(f"no kubelet configuration: {path} {what}", hint="name it with --config FILE")
    return path, data


def _host_path(host: Host, path: str, root: str | None) -> str:
    """How a person names a file of the host: below the root as it was given, or as a member of the snapshot."""
    return f"{host.root}:/{path}" if host.packed else os.path.join(root or "/", path)


def _state_of(host: Host | None, root: str | None) -> State:
    """What lies in the kubelet's directory of the host or snapshot; a Machine document has none."""
    from numalign.checks.finding import NO_STATE, State
    from numalign.probe.snapshot import KUBELET_FOLDER, MAX_KUBELET_FILE, PLUGINS, STATE_FILES

    if host is None or not host.names(KUBELET_FOLDER):
        return NO_STATE
    files = {}
    for name in STATE_FILES:
        path = f"{KUBELET_FOLDER}/{name}"
        try:
            data = host.read(path, MAX_KUBELET_FILE)
        except OSError as error:
            raise CannotRead(f"{_host_path(host, path, root)}: {error.strerror}") from error
        if data is not None:
            files[name] = data
    return State(_host_path(host, KUBELET_FOLDER, root), files, tuple(host.names(PLUGINS)))


def _named_state(folder: str) -> State:
    from numalign.checks.finding import State
    from numalign.probe.snapshot import MAX_KUBELET_FILE, STATE_FILES

    if not os.path.isdir(folder):
        raise CannotRead(f"--state-dir {folder} is no directory", hint="the kubelet's is /var/lib/kubelet")
    paths = {name: os.path.join(folder, name) for name in STATE_FILES}
    files = {name: read_file(path, MAX_KUBELET_FILE) for name, path in paths.items() if os.path.exists(path)}
    try:
        plugins = tuple(sorted(os.listdir(os.path.join(folder, "plugins_registry"))))
    except OSError:
        plugins = ()
    return State(folder, files, plugins)
