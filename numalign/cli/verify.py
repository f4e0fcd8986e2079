"""numalign verify."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from numalign.cli.files import emit, read_file
from numalign.cli.source import load_machine
from numalign.errors import CannotRead

if TYPE_CHECKING:
    from numalign.checks.finding import State

__all__ = ["read_configuration", "verify"]

DEFAULT_CONFIG = "var/lib/kubelet/config.yaml"
DEFAULT_STATE = "var/lib/kubelet"
_PLUGINS = "plugins_registry"
_STATE_BYTES = 16 << 20


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
    from numalign.checks.finding import NO_STATE, SEVERITIES
    from numalign.kubelet.document import Refused

    minor = _minor(kubernetes_version)
    source = config or _default_config(root, machine)
    files = read_configuration(source, config_dir, kubelet_flags)
    folder = state_dir or _default_state(root, machine)
    state = _state(folder) if folder else NO_STATE
    found = load_machine(root, machine, nvml)
    try:
        from numalign.kubelet.effective import effective

        report = judge(found, effective(*files, minor), minor, state)
    except Refused as error:
        report = judge_refused(found, error, files[0][0], minor)
    if output == "json":
        from numalign.machine import encode

        emit(encode(report), out)
    else:
        from numalign.report.findings import draw
        from numalign.report.terminal import show

        show(draw, report, emit, out)
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(finding.severity in counted for finding in report.findings))


def read_configuration(
    config: str, config_dir: str | None, kubelet_flags: str | None
) -> tuple[tuple[str, bytes], dict[str, bytes], dict[str, str]]:
    """The file, the drop-ins and the flags that make a configuration. Raises CannotRead or WrongUsage."""
    from numalign.kubelet.effective import drop_in_files, parse_flags

    base = ("standard input" if config == "-" else config, read_file(config))
    drop_ins = drop_in_files(config_dir) if config_dir else {}
    return base, drop_ins, parse_flags(kubelet_flags or "")


def _minor(version: str | None) -> int:
    from numalign.kubelet.versions import DEFAULT, parse_version

    return DEFAULT if version is None else parse_version(version)


def _default_config(root: str | None, machine: str | None) -> str:
    path = os.path.join(root or "/", DEFAULT_CONFIG)
    if machine is not None or not os.path.exists(path):
        where = "with --machine there is no default" if machine is not None else f"{path} does not exist"
        raise CannotRead(f"no kubelet configuration: {where}", hint="name it with --config FILE")
    return path


def _default_state(root: str | None, machine: str | None) -> str | None:
    """The kubelet's directory of the host that is read; a machine from a file has none."""
    path = os.path.join(root or "/", DEFAULT_STATE)
    return None if machine is not None or not os.path.isdir(path) else path


def _state(folder: str) -> State:
    from numalign.checks.finding import State
    from numalign.kubelet.checkpoint import CPU_FILE, MEMORY_FILE

    if not os.path.isdir(folder):
        raise CannotRead(f"--state-dir {folder} is no directory", hint="the kubelet's is /var/lib/kubelet")
    files = {}
    for name in (CPU_FILE, MEMORY_FILE):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            files[name] = read_file(path, _STATE_BYTES)
    try:
        plugins = tuple(sorted(os.listdir(os.path.join(folder, _PLUGINS))))
    except OSError:
        plugins = ()
    return State(folder, files, plugins)
