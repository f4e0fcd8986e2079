"""The commands and their options, as data: Typer's declarations and the quick reading of a command line come from here.

A command's function has a keyword parameter for each option; the row of that name says how it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Literal, NamedTuple

__all__ = [
    "ARGUMENTS",
    "COMMANDS",
    "OPTIONS",
    "WISHES",
    "Command",
    "Option",
    "function_of",
    "option_of",
    "parameters_of",
]

Takes = Literal["text", "choice", "flag", "list"]


class Option(NamedTuple):
    """An option: the ways to write it, its help, and what it takes; `choices` are the values of a choice, and a list
    is given by writing the option several times. `names_from` is a table (module:NAME) whose names the help adds.

    An empty text is refused (a script's variable that is not set) unless it `may_be_empty`.
    """

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    takes: Takes = "text"
    environment: str | None = None
    may_be_empty: bool = False
    names_from: str | None = None


class Command(NamedTuple):
    """A command: the words that call it, where its function is, a line about it, and examples for its help.

    `file` is the option that a file named without one is most likely meant for.
    """

    words: tuple[str, ...]
    function: str
    summary: str
    examples: tuple[str, ...]
    file: str = "--machine"


COMMANDS: tuple[Command, ...] = (
    Command(
        ("inspect",),
        "numalign.cli.inspect:inspect",
        "Print the topology map of a machine.",
        (
            "numalign inspect                      this host",
            "numalign inspect -o matrix            the links, in the manner of nvidia-smi topo -m",
            "numalign inspect -o svg --out node.svg",
            "numalign inspect --machine node.tar.gz -o json",
        ),
    ),
    Command(
        ("plan",),
        "numalign.cli.plan:plan",
        "Decide on a configuration, with reasons.",
        (
            "numalign plan --shares                what a pod can have beside its GPUs",
            "numalign plan --machine node.tar.gz --policy restricted --memory-manager static",
        ),
    ),
    Command(
        ("render", "kubelet-config"),
        "numalign.cli.render:kubelet_config",
        "Write a KubeletConfiguration for the machine.",
        (
            "numalign render kubelet-config --target drop-in --out 60-numalign.conf",
            "numalign render kubelet-config --target eks-nodeadm --machine node.tar.gz",
            "numalign render kubelet-config --base config.yaml --out config.yaml --diff",
        ),
        file="--out",
    ),
    Command(
        ("render", "pod"),
        "numalign.cli.pod:pod",
        "Write a pod with its GPUs' share.",
        (
            "numalign render pod --gpus 2",
            "numalign render pod --gpus 4 --nic rdma/hca_shared_devices_a --memory-manager static",
        ),
        file="--out",
    ),
    Command(
        ("render", "system-cpus"),
        "numalign.cli.system:system_cpus",
        "Write what keeps the system on its CPUs.",
        ("numalign render system-cpus", "numalign render system-cpus --for irqbalance"),
        file="--out",
    ),
    Command(
        ("render", "kernel-args"),
        "numalign.cli.system:kernel_args",
        "Write kernel arguments for isolation.",
        ("numalign render kernel-args --isolate",),
        file="--out",
    ),
    Command(
        ("verify",),
        "numalign.cli.verify:verify",
        "Check a kubelet configuration on a machine.",
        (
            "numalign verify                       this host's kubelet configuration against the host",
            "numalign verify --config kubelet.yaml --machine node.tar.gz",
            "numalign verify --self                in a container: is what it was given on one NUMA node?",
            "numalign verify --wait 120s --ignore gpu-request-limit",
            "numalign verify --pods                are the running pods aligned?",
            "numalign verify --expect accepted.json --expect-gpus 8",
        ),
        file="--config",
    ),
    Command(
        ("predict",),
        "numalign.cli.predict:predict",
        "Say what the kubelet would do with pods.",
        (
            "numalign predict pod.yaml --config kubelet.yaml --machine node.tar.gz",
            "numalign predict --running pod.yaml   on the node, beside the pods that it has",
            "numalign predict --count pod.yaml     how many such pods fit, one after another",
            "numalign predict pod.yaml --device openshift.io/vf=8@0,8@1 --device rdma/hca=63@-",
            "kubectl get deployment web -o yaml | numalign predict -",
        ),
        file="--config",
    ),
    Command(
        ("kubelet", "config"),
        "numalign.cli.kubelet:config",
        "Print the effective configuration, with sources.",
        (
            "numalign kubelet config --config /etc/kubernetes/kubelet.yaml --config-dir /etc/kubernetes/kubelet.conf.d",
            "numalign kubelet config --config kubelet.yaml --kubelet-flags '--reserved-cpus=0-3'",
        ),
        file="--config",
    ),
    Command(
        ("kubelet", "allocatable"),
        "numalign.cli.kubelet:allocatable",
        "Print what pods can have of the node.",
        ("numalign kubelet allocatable --config kubelet.yaml --machine node.tar.gz",),
    ),
    Command(
        ("kubelet", "features"),
        "numalign.cli.kubelet:features",
        "Print feature gates and policy options.",
        ("numalign kubelet features --kubernetes-version 1.33",),
        file="--kubernetes-version",
    ),
    Command(
        ("checks", "list"),
        "numalign.cli.checks:list_checks",
        "List the checks, a line each.",
        ("numalign checks list",),
    ),
    Command(
        ("checks", "show"),
        "numalign.cli.checks:show",
        "Explain a check.",
        ("numalign checks show reserved-cpus-split-core",),
    ),
    Command(
        ("snapshot",),
        "numalign.cli.snapshot:snapshot",
        "Pack the machine into a file to use elsewhere.",
        (
            "numalign snapshot node.tar.gz         to read elsewhere with --machine node.tar.gz",
            "numalign snapshot node.tar.gz --redact",
        ),
    ),
)

ARGUMENTS: dict[str, str] = {
    # parameter of a command's function -> help; it is written without a flag
    "snapshot.file": "The archive to write (- for standard output).",
    "checks.check": "The id of a check, as verify prints it.",
    "predict.file": "Pods, or what makes them: Deployment, Job, JobSet and so on (- for standard input).",
}

OPTIONS: dict[str, Option] = {
    # the parameter's name, or command.parameter where a command has a row of its own
    "root": Option(("--root",), "Read the host below this directory.", metavar="DIR", environment="NUMALIGN_ROOT"),
    "machine": Option(
        ("--machine",),
        "Read a snapshot or a Machine document instead of a host (- for standard input).",
        metavar="FILE",
    ),
    "nvml": Option(
        ("--nvml",),
        "Ask NVML where the host has NVIDIA devices (auto), never (off), or fail without it (require).",
        choices=("auto", "off", "require"),
        takes="choice",
    ),
    "inspect.output": Option(
        ("--output", "-o"),
        "How to print the map.",
        choices=("text", "tree", "matrix", "json", "yaml", "svg", "html"),
        takes="choice",
    ),
    "verify.output": Option(
        ("--output", "-o"),
        "How to answer: for people, programs, CI, code hosts, the node exporter, NFD, the node-problem-detector.",
        choices=("text", "json", "junit", "sarif", "prometheus", "nfd", "npd"),
        takes="choice",
    ),
    "predict.output": Option(
        ("--output", "-o"), "How to print it.", choices=("text", "json", "svg", "html"), takes="choice"
    ),
    "inspect.config": Option(
        ("--config",),
        "With -o svg and -o html: the KubeletConfiguration whose reserved and free CPUs are drawn.",
        metavar="FILE",
    ),
    "predict.config": Option(
        ("--config",),
        "The KubeletConfiguration to go by [default: that of the node's kubelet, else /var/lib/kubelet/config.yaml].",
        metavar="FILE",
    ),
    "running": Option(
        ("--running",), "Beside the pods that are on the node, as the kubelet's state files have them.", takes="flag"
    ),
    "count": Option(("--count",), "Also how many such pods fit, one after another.", takes="flag"),
    "device": Option(
        ("--device",),
        "What a device plugin offers, such as openshift.io/vf=8@0,8@1 (NUMA nodes 0 and 1), rdma/hca=63@- (without "
        "topology), R=none, R=unregistered; also several times. GPUs are known from the map.",
        metavar="RESOURCE=DEVICES",
        takes="list",
    ),
    "devices": Option(
        ("--devices",), "A file (YAML or JSON) of them: a mapping of resources to such texts.", metavar="FILE"
    ),
    "mig_strategy": Option(
        ("--mig-strategy",),
        "How NVIDIA's plugin offers MIG devices [default: single where all GPUs are cut alike, else mixed].",
        choices=("none", "single", "mixed"),
        takes="choice",
    ),
    "out": Option(("--out",), "Write to this file, whole or not at all.", metavar="FILE"),
    "redact": Option(("--redact",), "Leave out the host's name, serial numbers and addresses.", takes="flag"),
    "reserved_cpus": Option(
        ("--reserved-cpus",), "The CPUs to keep for the system, such as 0-1,112-113; whole cores.", metavar="LIST"
    ),
    "kubelet.output": Option(("--output", "-o"), "How to print it.", choices=("text", "json"), takes="choice"),
    "kubelet config.output": Option(
        ("--output", "-o"), "How to print it.", choices=("text", "yaml", "json"), takes="choice"
    ),
    "kubelet.config": Option(
        ("--config",),
        "The KubeletConfiguration, - for standard input [default: that of the node's kubelet, else "
        "/var/lib/kubelet/config.yaml].",
        metavar="FILE",
    ),
    "reserved_cpu_count": Option(
        ("--reserved-cpu-count",), "How many CPUs to keep for the system, in whole cores.", metavar="N"
    ),
    "reserved_cores_per_numa": Option(
        ("--reserved-cores-per-numa",), "How many cores to keep on each NUMA node.", metavar="N"
    ),
    "plan.output": Option(
        ("--output", "-o"), "How to print the plan.", choices=("text", "json", "svg", "html"), takes="choice"
    ),
    "shares": Option(
        ("--shares",), "Print how CPUs, memory and NICs divide among the GPUs instead of the reasons.", takes="flag"
    ),
    "gpus": Option(("--gpus",), "How many GPUs the pod asks for.", metavar="N"),
    "nic": Option(
        ("--nic",), "The device plugin's resource of NICs, such as rdma/hca_shared_devices_a.", metavar="RESOURCE"
    ),
    "name": Option(("--name",), "The pod's name.", metavar="NAME"),
    "image": Option(("--image",), "The container's image.", metavar="IMAGE"),
    "service": Option(
        ("--for",), "Who is to keep to the reserved CPUs.", choices=("systemd", "irqbalance"), takes="choice"
    ),
    "isolate": Option(
        ("--isolate",), "Take kernel threads, timer ticks and managed interrupts off the other CPUs.", takes="flag"
    ),
    "target": Option(
        ("--target",),
        "Where the kubelet takes its configuration from:",
        metavar="NAME",
        names_from="numalign.render.targets:TARGETS",
    ),
    "template": Option(("--template",), "A Jinja2 template of your own instead of the target's.", metavar="FILE"),
    "base": Option(("--base",), "Merge into this KubeletConfiguration; its comments and order stay.", metavar="FILE"),
    "diff": Option(("--diff",), "Show how the file of --out or --base differs; write nothing.", takes="flag"),
    "check": Option(
        ("--check",), "Exit with 1 where the file of --out or --base differs; write nothing.", takes="flag"
    ),
    "policy": Option(
        ("--policy",),
        "The topology manager's policy [default: single-numa-node].",
        choices=("none", "best-effort", "restricted", "single-numa-node"),
        takes="choice",
    ),
    "scope": Option(
        ("--scope",),
        "What the topology manager aligns [default: container].",
        choices=("container", "pod"),
        takes="choice",
    ),
    "option": Option(
        ("--option",),
        "A policy option of the CPU or topology manager, such as strict-cpu-reservation=true; also several times.",
        metavar="NAME=VALUE",
        takes="list",
    ),
    "memory_manager": Option(
        ("--memory-manager",),
        "Whether memory is aligned too.",
        choices=("none", "static"),
        takes="choice",
    ),
    "kube_reserved_memory": Option(
        ("--kube-reserved-memory",),
        "Memory to keep for the kubelet and the runtime, such as 2Gi, with --memory-manager static.",
        metavar="AMOUNT",
    ),
    "system_reserved_memory": Option(
        ("--system-reserved-memory",),
        "Memory to keep for the system's services, with --memory-manager static.",
        metavar="AMOUNT",
    ),
    "reserve_on": Option(("--reserve-on",), "Keep the system to these NUMA nodes, such as 0 or 0,2.", metavar="LIST"),
    "config_dir": Option(
        ("--config-dir",),
        "The directory of the kubelet's drop-ins (*.conf), merged over the file; as to it, an empty one is none.",
        metavar="DIR",
        may_be_empty=True,
    ),
    "kubelet_flags": Option(
        ("--kubelet-flags",),
        "The kubelet's command line, which wins over the files.",
        metavar="TEXT",
        may_be_empty=True,
    ),
    "state_dir": Option(
        ("--state-dir",),
        "The directory of the kubelet's state files [default: /var/lib/kubelet below the root].",
        metavar="DIR",
    ),
    "kubernetes_version": Option(
        ("--kubernetes-version",), "Whose rules to take, such as 1.33 [default: 1.36].", metavar="VERSION"
    ),
    "config": Option(
        ("--config",),
        "The KubeletConfiguration to verify [default: that of the node's kubelet, else /var/lib/kubelet/config.yaml].",
        metavar="FILE",
    ),
    "kubeconfig": Option(
        ("--kubeconfig",), "Ask the API server what the kubelet runs with (needs numalign[kubeconfig]).", metavar="FILE"
    ),
    "node_name": Option(("--node",), "The node's name for --kubeconfig [default: the host's].", metavar="NAME"),
    "itself": Option(("--self",), "Check what this very container was given, and no configuration.", takes="flag"),
    "pods": Option(
        ("--pods",), "Also check what the running pods hold, by the kubelet's pod-resources API.", takes="flag"
    ),
    "expect": Option(
        ("--expect",),
        "What the machine was when it was accepted: a Machine document or a snapshot (- for standard input).",
        metavar="FILE",
    ),
    "expect_gpus": Option(("--expect-gpus",), "How many GPUs the machine should have.", metavar="N"),
    "expect_nics": Option(
        ("--expect-nics",), "How many NICs it should have, in physical functions (ports).", metavar="N"
    ),
    "fail_on": Option(
        ("--fail-on",),
        "The lowest severity that makes the exit status 1 [default: error].",
        choices=("error", "warning", "info"),
        takes="choice",
    ),
    "only": Option(
        ("--only",), "Make these checks alone; globs too, such as gpu-*; also several times.", "ID[,ID…]", takes="list"
    ),
    "ignore": Option(
        ("--ignore",), "Leave these checks out; globs too; also several times.", metavar="ID[,ID…]", takes="list"
    ),
    "policy_file": Option(
        ("--policy-file",),
        "What counts and what is expected [default: /etc/numalign/verify.yaml below the root, if there].",
        metavar="FILE",
    ),
    "wait": Option(
        ("--wait",),
        "Look again until nothing is found that counts, so long at most, such as 120s or 2m.",
        metavar="DURATION",
    ),
    "timeout": Option(("--timeout",), "Give up after so long, beyond --wait [default: 60s].", metavar="DURATION"),
}


def option_of(command: Command, parameter: str) -> Option:
    """The row of a command's parameter."""
    whole = OPTIONS.get(f"{' '.join(command.words)}.{parameter}")
    return whole or OPTIONS.get(f"{command.words[0]}.{parameter}") or OPTIONS[parameter]


def function_of(command: Command) -> Callable[..., int]:
    """The command's function, imported."""
    module, _, name = command.function.partition(":")
    function: Callable[..., int] = getattr(import_module(module), name)
    return function


WISHES: dict[str, str | tuple[str, ...] | None] = {
    # the parameters of a command that takes **wishes -> their defaults
    "reserved_cpus": None,
    "reserved_cpu_count": None,
    "reserved_cores_per_numa": None,
    "reserve_on": None,
    "policy": None,
    "scope": None,
    "option": (),
    "memory_manager": "none",
    "kube_reserved_memory": None,
    "system_reserved_memory": None,
    "kubernetes_version": None,
}
_TAKES_MORE = 0x08  # the code flag of a function with **parameters


def parameters_of(function: Callable[..., int]) -> tuple[str, ...]:
    """The names of a command function's keyword parameters, the wishes among them where it takes **wishes."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return (*own, *WISHES) if code.co_flags & _TAKES_MORE else own
