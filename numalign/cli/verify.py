"""numalign verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numalign.cli.files import emit_document
from numalign.cli.node import Configuration, Kubelet, read_configuration, read_running, read_state, version
from numalign.cli.source import load

if TYPE_CHECKING:
    from numalign.kubelet.document import Document, Refused

__all__ = ["verify"]


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
    from numalign.checks.finding import SEVERITIES, Node
    from numalign.kubelet.document import Refused
    from numalign.probe.system import read_system

    found, host = load(root, machine, nvml)
    kubelet = Kubelet(host)
    minor, told_by = version(kubernetes_version, kubelet)
    configuration = read_configuration(config, config_dir, kubelet_flags, kubelet, root)
    loaded = _loaded(configuration, minor)
    values = {} if isinstance(loaded, Refused) else loaded.values
    own = configuration.files if not (config or config_dir) else ()
    node = Node(
        machine=found,
        state=read_state(state_dir, kubelet, root),
        system=read_system(host, kubelet.process, irqs=values.get("cpuManagerPolicy") == "static"),
        running=read_running(kubelet, own, values, root),
    )
    if isinstance(loaded, Refused):
        report = judge_refused(node, loaded, configuration.source, minor, told_by)
    else:
        report = judge(node, loaded, minor, told_by)
    emit_document(report, output, "findings:draw", out)
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(finding.severity in counted for finding in report.findings))


def _loaded(configuration: Configuration, minor: int) -> Document | Refused:
    """What the kubelet makes of the configuration, or why it does not load it."""
    from numalign.kubelet.document import Refused
    from numalign.kubelet.effective import effective

    try:
        return effective(*configuration, minor)
    except Refused as error:
        return error
