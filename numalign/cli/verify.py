"""numalign verify."""

from __future__ import annotations

import os

from numalign.cli.files import emit, read_file
from numalign.cli.source import load_machine
from numalign.errors import CannotRead

__all__ = ["verify"]

DEFAULT_CONFIG = "var/lib/kubelet/config.yaml"


def verify(
    *,
    config: str | None = None,
    output: str = "text",
    fail_on: str = "error",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    out: str | None = None,
) -> int:
    """Check the kubelet's configuration against the machine; the exit status is 1 where something does not hold."""
    from numalign.checks import run
    from numalign.checks.finding import SEVERITIES
    from numalign.kubelet.config import load

    if config is None:
        config = _default_config(root, machine)
    document = load(read_file(config), "standard input" if config == "-" else config)
    report = run(load_machine(root, machine, nvml), document)
    if output == "json":
        from numalign.machine import encode

        emit(encode(report), out)
    else:
        from numalign.report.findings import draw
        from numalign.report.terminal import show

        show(draw, report, emit, out)
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(finding.severity in counted for finding in report.findings))


def _default_config(root: str | None, machine: str | None) -> str:
    path = os.path.join(root or "/", DEFAULT_CONFIG)
    if machine is not None or not os.path.exists(path):
        where = "with --machine there is no default" if machine is not None else f"{path} does not exist"
        raise CannotRead(f"no kubelet configuration: {where}", hint="name it with --config FILE")
    return path
