"""numalign kubelet upgrade."""

from __future__ import annotations

from numalign.cli.files import emit_document
from numalign.cli.node import Kubelet, loaded_document, read_configuration, read_state, version
from numalign.cli.source import load
from numalign.errors import WrongUsage

__all__ = ["upgrade"]


def upgrade(
    *,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    from_version: str | None = None,
    to_version: str | None = None,
    output: str = "text",
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "off",
    out: str | None = None,
) -> int:
    """Say what changes for a node when its kubelet becomes one of another version: the same configuration is judged
    under both.

    What verify finds under the one and not under the other, and the feature gates, policy options and defaults that
    change. The exit status is 1 where an error comes. A version before the present one is a way back.
    """
    from numalign.checks.finding import Node
    from numalign.checks.upgrade import upgrade as changes
    from numalign.kubelet.versions import NEWEST, parse_version

    found, host = load(root, machine, nvml)
    kubelet = Kubelet(host)
    before, told_by = version(from_version, kubelet)
    if told_by == "assumed":
        raise WrongUsage("which version the node runs is not known", hint="name it with --from, such as --from 1.31")
    after = NEWEST if to_version is None else parse_version(to_version)
    if before == after:
        raise WrongUsage(f"both versions are 1.{before}", hint="name another with --from or --to")
    configuration = read_configuration(config, config_dir, kubelet_flags, kubelet, root)
    node = Node(machine=found, state=read_state(None, kubelet, root))
    report = changes(node, lambda minor: loaded_document(configuration, minor), configuration.source, before, after)
    emit_document(report, output, "upgrade:draw", out)
    return int(not report.holds)
