"""numalign verify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numalign.cli.answering import Policy, Seen, Wishes, answered
from numalign.cli.expected import read_expected
from numalign.cli.node import Kubelet, loaded_document, read_configuration, read_running, read_state, version
from numalign.cli.resources import read_resources
from numalign.cli.source import load
from numalign.errors import WrongUsage

if TYPE_CHECKING:
    from numalign.checks import Report
    from numalign.checks.finding import Expected
    from numalign.kubelet.settings import Settings
    from numalign.machine import Machine
    from numalign.probe.host import Host

__all__ = ["verify"]


def verify(
    *,
    config: str | None = None,
    config_dir: str | None = None,
    kubelet_flags: str | None = None,
    state_dir: str | None = None,
    kubernetes_version: str | None = None,
    kubeconfig: str | None = None,
    node_name: str | None = None,
    itself: bool = False,
    only: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    policy_file: str | None = None,
    output: str = "text",
    fail_on: str | None = None,
    wait: str | None = None,
    every: str | None = None,
    timeout: str | None = None,
    root: str | None = None,
    machine: str | None = None,
    nvml: str = "auto",
    pods: bool = False,
    expect: str | None = None,
    expect_gpus: str | None = None,
    expect_nics: str | None = None,
    out: str | None = None,
) -> int:
    """Check the kubelet's configuration against the machine; the exit status is 1 where something does not hold."""

    if itself:
        _only_itself(config=config, state_dir=state_dir, kubelet_flags=kubelet_flags, kubeconfig=kubeconfig)
    if [config, machine, expect].count("-") > 1:
        raise WrongUsage("only one of --config, --machine and --expect can be -", hint="write the others to files")
    if every is not None:
        _again_and_again(every, machine, (config, expect, policy_file))
    named = Named(config, config_dir, kubelet_flags, state_dir, kubernetes_version)

    def look(policy: Policy) -> Seen:
        wanted = Wanted(
            expected=read_expected(*policy.expected(expect_gpus, expect_nics, expect)),
            pods=pods,
            configuration=_asks_for_configuration(only or policy.content.only),
        )
        found, host = load(root, machine, nvml)
        if itself:
            return Seen(_of_itself(found), found)
        asked = Asked(kubeconfig, node_name or found.name) if kubeconfig else None
        return Seen(_of_the_node(found, host, root, named, asked, wanted), found)

    return answered(Wishes(only, ignore, fail_on, policy_file, wait, timeout, output, out, root, machine), look)


def _again_and_again(every: str, machine: str | None, files: tuple[str | None, ...]) -> None:
    """Goes on once for each round of --every. Raises WrongUsage."""
    from numalign.cli.rounds import begin
    from numalign.cli.waiting import seconds

    if machine is not None or "-" in files:
        what = "--machine" if machine is not None else "standard input"
        raise WrongUsage(f"--every looks at a host again and again, {what} is the same each time", hint="leave one out")
    period = seconds(every, "--every")
    if period < 1:
        raise WrongUsage(f"--every {every} is below a second", hint="--every 5m")
    begin(period)


class Named(NamedTuple):
    """What a person names of the kubelet, in place of what the node's own kubelet takes."""

    config: str | None
    config_dir: str | None
    kubelet_flags: str | None
    state_dir: str | None
    kubernetes_version: str | None


class Asked(NamedTuple):
    """Whom to ask what the kubelet runs with, and the node's name."""

    kubeconfig: str
    node: str | None


class Wanted(NamedTuple):
    """What the machine should be, and whether pods, and a configuration, are looked at too."""

    expected: Expected
    pods: bool
    configuration: bool


def _asks_for_configuration(only: tuple[str, ...]) -> bool:
    """Whether any of the checks that were asked for is about a configuration, which need not be there otherwise."""
    if not only:
        return True
    from numalign.checks.choice import matching
    from numalign.checks.table import ANY_CONFIGURATION

    patterns = (pattern.strip() for text in only for pattern in text.split(","))
    return not matching(patterns) <= {id for check in ANY_CONFIGURATION for id in check.ids}


def _of_the_node(
    found: Machine, host: Host | None, root: str | None, named: Named, asked: Asked | None, wanted: Wanted
) -> Report:
    """The report on a node and its kubelet's configuration."""
    from msgspec import structs

    from numalign.checks import judge, judge_node, judge_refused
    from numalign.checks.finding import Node
    from numalign.kubelet.document import Refused
    from numalign.probe.system import read_system

    kubelet = Kubelet(host)
    state = read_state(named.state_dir, kubelet, root)
    node = Node(
        machine=found,
        state=state,
        resources=read_resources(kubelet, state, pods=wanted.pods),
        expected=wanted.expected,
    )
    if not wanted.configuration and named.config is None:
        return judge_node(structs.replace(node, running=read_running(kubelet, (), {}, root)))
    minor, told_by = version(named.kubernetes_version, kubelet)
    configuration = read_configuration(named.config, named.config_dir, named.kubelet_flags, kubelet, root)
    loaded = loaded_document(configuration, minor)
    values = {} if isinstance(loaded, Refused) else loaded.values
    own = configuration.files if not (named.config or named.config_dir) else ()
    node = structs.replace(
        node,
        system=read_system(host, kubelet.process, irqs=values.get("cpuManagerPolicy") == "static"),
        running=read_running(kubelet, own, values, root),
    )
    if asked is not None and node.running is not None:
        node = structs.replace(node, running=structs.replace(node.running, configz=_configz(asked, minor)))
    if isinstance(loaded, Refused):
        return judge_refused(node, loaded, configuration.source, minor, told_by)
    return judge(node, loaded, minor, told_by)


def _configz(asked: Asked, minor: int) -> Settings | str:
    """The settings that the kubelet says it runs with, or why it does not say them."""
    import msgspec

    from numalign.kubelet.document import Refused
    from numalign.kubelet.effective import effective
    from numalign.kubelet.settings import settings
    from numalign.probe.apiserver import read_configz

    if asked.node is None:
        raise WrongUsage("--kubeconfig: the host has no name to ask for", hint="name the node with --node")
    answer = read_configz(asked.kubeconfig, asked.node)
    if isinstance(answer, str):
        return answer
    try:
        said = msgspec.json.decode(answer, type=dict[str, dict[str, Any]])["kubeletconfig"]
        document = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **said}
        values = effective(("configz", msgspec.json.encode(document)), {}, {}, minor).values
    except (msgspec.DecodeError, KeyError, Refused):
        return "the API server's answer is no KubeletConfiguration"
    return settings(values, minor)


def _only_itself(**others: str | None) -> None:
    """Raises WrongUsage where an option is given that is about the node's kubelet."""
    for name, value in others.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise WrongUsage(f"--self looks at this container, {option} at the node's kubelet", hint="leave one out")


def _of_itself(machine: Machine) -> Report:
    """The report on what this process was given of the machine."""
    import os

    from numalign.checks import judge_self
    from numalign.checks.itself import Own
    from numalign.probe.itself import read_given

    return judge_self(Own(machine, read_given(os.environ)))
