"""numalign verify."""

from __future__ import annotations

from numalign.cli.files import emit_document
from numalign.cli.node import Kubelet, read_configuration, read_state, version
from numalign.cli.source import load

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

    found, host = load(root, machine, nvml)
    kubelet = Kubelet(host)
    minor, told_by = version(kubernetes_version, kubelet)
    configuration = read_configuration(config, config_dir, kubelet_flags, kubelet, root)
    node = Node(found, read_state(state_dir, kubelet, root))
    try:
        from numalign.kubelet.effective import effective

        report = judge(node, effective(*configuration, minor), minor, told_by)
    except Refused as error:
        report = judge_refused(node, error, configuration.source, minor, told_by)
    emit_document(report, output, "findings:draw", out)
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(finding.severity in counted for finding in report.findings))
