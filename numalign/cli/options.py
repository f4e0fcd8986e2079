"""The options of the commands, as data: Typer's declarations and the quick reading of a command line come from here.

A command's function has a keyword parameter for each option; the row of that name says how it is written.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["ARGUMENTS", "OPTIONS", "SEVERAL", "Option"]

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


ARGUMENTS: dict[str, str] = {
    # parameter of a command's function -> help; it is written without a flag
    "snapshot.file": "The archive to write (- for standard output).",
    "checks.check": "The id of a check, as verify prints it.",
    "completion.shell": "bash, zsh or fish.",
    "fleet.paths": "Machine documents, snapshots, directories of them (- for standard input, a document a line).",
    "predict.file": "Pods, or what makes them: Deployment, Job, JobSet and so on (- for standard input).",
}

SEVERAL = frozenset({"fleet.paths"})
"""The arguments that take one word or more."""

_JUDGED = Option(
    ("--kubernetes-version",),
    "The version whose rules hold, such as 1.33 [default: that of the node's kubelet, else 1.36].",
    metavar="VERSION",
)

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
        metavar="WHEN",
        choices=("auto", "off", "require"),
        takes="choice",
    ),
    "inspect.output": Option(
        ("--output", "-o"),
        "text, tree and matrix are for people, svg and html are pictures, json and yaml for programs.",
        metavar="FORMAT",
        choices=("text", "tree", "matrix", "json", "yaml", "svg", "html"),
        takes="choice",
    ),
    "fleet.output": Option(
        ("--output", "-o"),
        "text is for people, html is a page with pictures, json and yaml are for programs.",
        "FORMAT",
        ("text", "json", "yaml", "html"),
        "choice",
    ),
    "fleet.fail_on": Option(
        ("--fail-on",),
        "What makes the exit status 1: odd ones out, files that could not be read, or any that is not alike.",
        metavar="WHAT",
        choices=("odd", "unread", "any"),
        takes="choice",
    ),
    "out_dir": Option(
        ("--out-dir",), "Write each class's configuration into this directory: a.yaml, b.yaml …", metavar="DIR"
    ),
    "pod": Option(("--pod",), "Say how many of these pods fit on the empty nodes of each class.", metavar="FILE"),
    "class_from": Option(
        ("--class-from",),
        "So many nodes of one topology are a class of their own [default: 3 and 1 in 20 of the same hardware, 1 in 3 "
        "where it looks like a fault].",
        metavar="N",
    ),
    "verify.output": Option(
        ("--output", "-o"),
        "text is for people, json for programs, junit for CI, sarif for code hosts, prometheus for the node exporter, "
        "nfd for NFD's labels, npd for the node-problem-detector.",
        metavar="FORMAT",
        choices=("text", "json", "junit", "sarif", "prometheus", "nfd", "npd"),
        takes="choice",
    ),
    "predict.output": Option(
        ("--output", "-o"),
        "text is for people, svg and html are pictures, json is for programs.",
        "FORMAT",
        ("text", "json", "svg", "html"),
        "choice",
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
    "inspect.running": Option(
        ("--running",), "With -o svg and -o html: which container has what, by the kubelet's state files.", takes="flag"
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
        metavar="STRATEGY",
        choices=("none", "single", "mixed"),
        takes="choice",
    ),
    "out": Option(("--out",), "Write to this file, whole or not at all.", metavar="FILE"),
    "snapshot.out": Option(("--out",), "Write the archive there, in place of FILE.", metavar="FILE"),
    "redact": Option(("--redact",), "Leave out the host's name, serial numbers and addresses.", takes="flag"),
    "reserved_cpus": Option(
        ("--reserved-cpus",), "The CPUs to keep for the system, such as 0-1,112-113; whole cores.", metavar="LIST"
    ),
    "kubelet.output": Option(
        ("--output", "-o"), "text is for people, json for programs.", "FORMAT", ("text", "json"), "choice"
    ),
    "kubelet config.output": Option(
        ("--output", "-o"),
        "text is for people, yaml and json are for programs.",
        "FORMAT",
        ("text", "yaml", "json"),
        "choice",
    ),
    "kubelet.config": Option(
        ("--config",),
        "The KubeletConfiguration, - for standard input [default: that of the node's kubelet, else "
        "/var/lib/kubelet/config.yaml].",
        metavar="FILE",
    ),
    "kubelet features.kubernetes_version": Option(
        ("--kubernetes-version",), "The version that is listed, such as 1.33 [default: 1.36].", metavar="VERSION"
    ),
    "reserved_cpu_count": Option(
        ("--reserved-cpu-count",), "How many CPUs to keep for the system, in whole cores.", metavar="N"
    ),
    "reserved_cores_per_numa": Option(
        ("--reserved-cores-per-numa",), "How many cores to keep on each NUMA node.", metavar="N"
    ),
    "plan.output": Option(
        ("--output", "-o"),
        "text is for people, svg and html are pictures, json is for programs.",
        "FORMAT",
        ("text", "json", "svg", "html"),
        "choice",
    ),
    "shares": Option(
        ("--shares",), "Print how CPUs, memory and NICs divide among the GPUs instead of the reasons.", takes="flag"
    ),
    "gpus": Option(("--gpus",), "How many GPUs the pod asks for; its CPUs and memory are their share.", metavar="N"),
    "nic": Option(
        ("--nic",), "The device plugin's resource of NICs, such as rdma/hca_shared_devices_a.", metavar="RESOURCE"
    ),
    "name": Option(("--name",), "What the pod is called.", metavar="NAME"),
    "image": Option(("--image",), "What its container runs.", metavar="IMAGE"),
    "service": Option(
        ("--for",),
        "Who is to keep to the reserved CPUs.",
        metavar="WHOM",
        choices=("systemd", "irqbalance"),
        takes="choice",
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
        "How strictly the topology manager keeps a container's CPUs and devices together [default: single-numa-node].",
        metavar="POLICY",
        choices=("none", "best-effort", "restricted", "single-numa-node"),
        takes="choice",
    ),
    "scope": Option(
        ("--scope",),
        "What the topology manager aligns: each container for itself, or all of a pod [default: container].",
        metavar="SCOPE",
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
        "With static the memory of a Guaranteed pod is aligned too; none leaves it to the kernel.",
        metavar="POLICY",
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
        ("--kubernetes-version",), "The version whose rules hold, such as 1.33 [default: 1.36].", metavar="VERSION"
    ),
    **dict.fromkeys(("verify.kubernetes_version", "predict.kubernetes_version", "kubelet.kubernetes_version"), _JUDGED),
    "from_version": Option(
        ("--from",), "The version that the node runs, such as 1.31 [default: its kubelet's].", metavar="VERSION"
    ),
    "to_version": Option(
        ("--to",), "The version that it is to run [default: 1.37, the newest that is known].", metavar="VERSION"
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
        metavar="SEVERITY",
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
    "every": Option(
        ("--every",),
        "Look again and answer anew each DURATION, such as 5m, until ended; for containers that publish the answer.",
        metavar="DURATION",
    ),
    "timeout": Option(("--timeout",), "Give up after so long, beyond --wait [default: 60s].", metavar="DURATION"),
}
