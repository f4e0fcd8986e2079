"""The commands, as data: what calls them, where their functions are, what their help says."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "Command"]


class Command(NamedTuple):
    """A command: the words that call it, where its function is, a line about it, and examples for its help, each a
    command line that works as it stands, with a remark behind ` # `.

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
        "the topology map of a machine",
        (
            "numalign inspect # this host",
            "numalign inspect -o tree # which GPU and NIC share a switch",
            "numalign inspect -o matrix # the links, as nvidia-smi topo -m shows them",
            "numalign inspect -o svg --out node.svg # a picture",
            "numalign inspect --machine node.tar.gz -o json # of a snapshot, for programs",
        ),
    ),
    Command(
        ("plan",),
        "numalign.cli.plan:plan",
        "what to configure, and why",
        (
            "numalign plan # the decisions, each with its reason",
            "numalign plan --shares # what a pod can have beside its GPUs",
            "numalign plan --machine node.tar.gz --policy restricted --memory-manager static",
        ),
    ),
    Command(
        ("render", "kubelet-config"),
        "numalign.cli.render:kubelet_config",
        "the kubelet's configuration for a machine",
        (
            "numalign render kubelet-config --out kubelet.yaml",
            "numalign render kubelet-config --target drop-in --out 60-numalign.conf",
            "numalign render kubelet-config --target eks-nodeadm --machine node.tar.gz",
            "numalign render kubelet-config --base kubelet.yaml --diff # what would change in a file",
        ),
        file="--out",
    ),
    Command(
        ("render", "pod"),
        "numalign.cli.pod:pod",
        "a pod that has its GPUs' share of the machine",
        (
            "numalign render pod --gpus 2",
            "numalign render pod --gpus 4 --nic rdma/hca_shared_devices_a --memory-manager static",
        ),
        file="--out",
    ),
    Command(
        ("render", "system-cpus"),
        "numalign.cli.system:system_cpus",
        "what keeps the system on its reserved CPUs",
        (
            "numalign render system-cpus # for systemd's services",
            "numalign render system-cpus --for irqbalance # for interrupts",
        ),
        file="--out",
    ),
    Command(
        ("render", "kernel-args"),
        "numalign.cli.system:kernel_args",
        "kernel arguments that keep the kernel off other CPUs",
        ("numalign render kernel-args --isolate",),
        file="--out",
    ),
    Command(
        ("verify",),
        "numalign.cli.verify:verify",
        "does the node do what its configuration says?",
        (
            "numalign verify # this host and its kubelet",
            "numalign verify --config kubelet.yaml --machine node.tar.gz # a file, before it is in place",
            "numalign verify --pods # are the running pods aligned?",
            "numalign verify --wait 120s # at boot: until what comes late is there",
            "numalign verify --self # in a container: is what it was given on one NUMA node?",
            "numalign verify --expect accepted.json --expect-gpus 8 # is the machine what it was?",
        ),
        file="--config",
    ),
    Command(
        ("predict",),
        "numalign.cli.predict:predict",
        "what the kubelet would do with pods, and why",
        (
            "numalign predict pod.yaml --config kubelet.yaml --machine node.tar.gz",
            "numalign predict pod.yaml --running # on the node, beside the pods that it has",
            "numalign predict pod.yaml --count # how many such pods fit, one after another",
            "numalign render pod --gpus 2 | numalign predict - # what another command writes",
            "numalign predict pod.yaml --device openshift.io/vf=8@0,8@1 --device rdma/hca=63@-",
        ),
        file="--config",
    ),
    Command(
        ("kubelet", "config"),
        "numalign.cli.kubelet:config",
        "the effective configuration, and where each value is from",
        (
            "numalign kubelet config # of this host's kubelet",
            "numalign kubelet config --config kubelet.yaml --config-dir kubelet.conf.d",
            "numalign kubelet config --config kubelet.yaml --kubelet-flags '--reserved-cpus=0-3'",
        ),
        file="--config",
    ),
    Command(
        ("kubelet", "allocatable"),
        "numalign.cli.kubelet:allocatable",
        "what pods can have of the node",
        (
            "numalign kubelet allocatable # of this host",
            "numalign kubelet allocatable --config kubelet.yaml --machine node.tar.gz",
        ),
    ),
    Command(
        ("kubelet", "features"),
        "numalign.cli.kubelet:features",
        "feature gates and policy options of a version",
        ("numalign kubelet features --kubernetes-version 1.33",),
        file="--kubernetes-version",
    ),
    Command(
        ("kubelet", "upgrade"),
        "numalign.cli.upgrade:upgrade",
        "what changes for a node with another version",
        (
            "numalign kubelet upgrade --from 1.31 --to 1.34 # for this host's kubelet",
            "numalign kubelet upgrade --from 1.31 --to 1.34 --config kubelet.yaml",
        ),
        file="--config",
    ),
    Command(
        ("checks", "list"),
        "numalign.cli.checks:list_checks",
        "the checks that verify makes, a line each",
        ("numalign checks list",),
    ),
    Command(
        ("checks", "show"),
        "numalign.cli.checks:show",
        "a page on one of them: why it matters, what to write",
        ("numalign checks show reserved-cpus-split-core",),
    ),
    Command(
        ("fleet",),
        "numalign.cli.fleet:fleet",
        "many nodes in classes of equal topology, and the odd ones",
        (
            "numalign fleet snapshots/ # classes of equal topology, and the odd ones out",
            "numalign fleet snapshots/ --out-dir kubelet # a configuration for each class",
            "numalign fleet snapshots/ --pod pod.yaml # how many fit, in each class and in all",
            "numalign fleet snapshots/ -o html --out fleet.html # a page with pictures",
        ),
        file="--out",
    ),
    Command(
        ("snapshot",),
        "numalign.cli.snapshot:snapshot",
        "pack all that is read into a file, to use elsewhere",
        (
            "numalign snapshot node.tar.gz # to read elsewhere with --machine node.tar.gz",
            "numalign snapshot node.tar.gz --redact # without names, serial numbers and addresses",
        ),
    ),
    Command(
        ("completion",),
        "numalign.cli.completion:completion",
        "commands and options by the tab key: bash, zsh, fish",
        (
            "source <(numalign completion bash) # in ~/.bashrc; in ~/.zshrc with zsh",
            "numalign completion fish --out numalign.fish # for ~/.config/fish/completions",
        ),
    ),
)
