"""Where a kubelet takes its configuration from: one row and one template in templates/ for each target."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from numalign.errors import DoesNotHold
from numalign.kubelet.startup import SLOW_MEMORY_NODES
from numalign.kubelet.versions import OLDEST
from numalign.plan import Plan, PlanWishes

__all__ = ["TARGETS", "Target", "check_target", "for_target", "for_version", "missing", "near_target"]

_CPU_OPTIONS, _TOPOLOGY_OPTIONS = "cpuManagerPolicyOptions", "topologyManagerPolicyOptions"
_MAX_NODES = "max-allowable-numa-nodes"
_NEEDED = ("featureGates", f"{_TOPOLOGY_OPTIONS}.{_MAX_NODES}")
"""Fields that are written only where the kubelet does not start without them."""
_RESERVATIONS = ("kubeReserved", "systemReserved", "evictionHard")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Target(NamedTuple):
    """A target: its name, its template, what the document is called, how to apply it, and the fields that it cannot
    express with what happens without them (`field`, or `field.option`; `field.*` for every option without a row of its
    own). `adds` has what belongs into a map that the target replaces as a whole; `does` the fields that it cannot
    express because it always has this value. `apply_before` is how to apply it to an older minor version than the one
    that it names; `aligns_memory` are the policies under which it turns the static memory manager on itself; `ending`
    is how its file has to end, where that is not as the template's."""

    name: str
    template: str
    title: str
    apply: str
    lacks: Mapping[str, str] = _NOTHING
    since: int = OLDEST
    adds: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    does: Mapping[str, str] = _NOTHING
    apply_before: tuple[int, str] | None = None
    aligns_memory: tuple[str, ...] = ()
    ending: str | None = None

    @property
    def suffix(self) -> str:
        """How the name of its file ends: `yaml`, `toml` …"""
        return self.ending or self.template.removesuffix(".j2").rpartition(".")[2]


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "kubelet",
            "kubelet.yaml.j2",
            "KubeletConfiguration",
            "write these fields into the file that the kubelet's --config names (--base FILE does it)",
        ),
        Target(
            "drop-in",
            "kubelet.yaml.j2",
            "Drop-in for the kubelet",
            "save it as 60-numalign.conf in the directory that the kubelet's --config-dir names; 1.28 and 1.29 need "
            "KUBELET_CONFIG_DROPIN_DIR_ALPHA in its environment",
            since=28,
            ending="conf",
        ),
        Target(
            "kubeadm",
            "kubelet.yaml.j2",
            "Patch of kubeadm",
            "save it as kubeletconfiguration0+strategic.yaml in a directory on the node, and name that directory to "
            "each kubeadm init, join and upgrade (--patches DIR, or patches.directory): patches are not remembered",
        ),
        Target(
            "kubeadm-config",
            "kubeadm-config.yaml.j2",
            "Documents of kubeadm",
            "merge it into the document that kubeadm init or join --config reads; the patch of target kubeadm lies in "
            "its directory",
        ),
        Target(
            "cluster-api",
            "cluster-api.yaml.j2",
            "KubeadmConfigTemplate",
            "merge it into the KubeadmConfigTemplate of the GPU pool; its machines are replaced: no state file is left",
        ),
        Target(
            "eks-nodeadm",
            "eks-nodeadm.yaml.j2",
            "NodeConfig",
            "a part of the user data of AL2023 nodes (application/node.eks.aws), or a file in /etc/eks/nodeadm.d",
        ),
        Target(
            "karpenter",
            "karpenter.yaml.j2",
            "EC2NodeClass",
            "merge it into the EC2NodeClass of the GPU nodes (AL2023); role, subnets and security groups are left out",
        ),
        Target(
            "bottlerocket",
            "bottlerocket.toml.j2",
            "Settings of Bottlerocket",
            "user data, or apiclient set; needs Bottlerocket 1.51 (1.60 for topology-manager-policy-options) and a "
            "reboot, with the kubelet's state files removed before",
            lacks={
                "featureGates": "Bottlerocket has no setting for feature gates",
                f"{_CPU_OPTIONS}.align-by-socket": "it needs a feature gate",
                f"{_CPU_OPTIONS}.distribute-cpus-across-cores": "it needs a feature gate",
            },
        ),
        Target(
            "talos",
            "talos.yaml.j2",
            "Patch of Talos' machine configuration",
            "talosctl patch machineconfig --patch @FILE; Talos removes cpu_manager_state where the policy's name "
            "changes, but neither for other reserved CPUs nor memory_manager_state",
            adds={"systemReserved": {"ephemeral-storage": "256Mi", "pid": "100"}},
        ),
        Target(
            "k3s",
            "k3s.yaml.j2",
            "Kubelet configuration of k3s",
            "save it as /var/lib/rancher/k3s/agent/etc/kubelet.conf.d/60-numalign.conf and restart the k3s agent",
            apply_before=(
                32,
                "save it as /etc/rancher/k3s/config.yaml.d/60-numalign.yaml and restart the k3s agent",
            ),
        ),
        Target(
            "rke2",
            "k3s.yaml.j2",
            "Kubelet configuration of rke2",
            "save it as /var/lib/rancher/rke2/agent/etc/kubelet.conf.d/60-numalign.conf and restart the rke2 agent",
            apply_before=(
                32,
                "save it as /etc/rancher/rke2/config.yaml.d/60-numalign.yaml and restart the rke2 agent",
            ),
        ),
        Target(
            "aks",
            "aks.json.j2",
            "Custom node configuration of AKS",
            "az aks nodepool add --kubelet-config FILE, for a new node pool",
            lacks={
                "reservedSystemCPUs": "AKS reserves by amount, and the kubelet takes the lowest cores",
                f"{_CPU_OPTIONS}.*": "AKS has no policy options: containers can share a core",
                "topologyManagerScope": "the scope is always container",
                f"{_TOPOLOGY_OPTIONS}.*": "AKS has no policy options",
                "memoryManagerPolicy": "AKS has no memory manager",
                "reservedMemory": "AKS has no memory manager",
                "featureGates": "AKS has no setting for feature gates",
                **dict.fromkeys(_RESERVATIONS, "AKS sets it by the size of the machine"),
            },
            does={"topologyManagerScope": "container"},
        ),
        Target(
            "gke",
            "gke.yaml.j2",
            "Node system configuration of GKE",
            "gcloud container node-pools create --system-config-from-file=FILE (Standard clusters; updating recreates "
            "the nodes)",
            lacks={
                "reservedSystemCPUs": "GKE reserves by amount, and the kubelet takes the lowest cores",
                f"{_CPU_OPTIONS}.*": "GKE has no policy options: containers can share a core",
                f"{_TOPOLOGY_OPTIONS}.*": "GKE has no policy options",
                "reservedMemory": "GKE reckons it itself",
                "featureGates": "GKE has no setting for feature gates",
                **dict.fromkeys(_RESERVATIONS, "GKE sets it by the size of the machine"),
            },
        ),
        Target(
            "openshift",
            "openshift.yaml.j2",
            "KubeletConfig of OpenShift",
            "oc apply -f FILE; label the pool pools.operator.machineconfiguration.openshift.io/gpu; its nodes reboot, "
            "which removes the state files. One KubeletConfig a pool; autoSizingReserved off with a static memory "
            "manager",
            lacks={"featureGates": "OpenShift sets feature gates for the whole cluster (FeatureGate cluster)"},
        ),
        Target(
            "openshift-performance-profile",
            "openshift-performance-profile.yaml.j2",
            "PerformanceProfile of OpenShift",
            "oc apply -f FILE; it also isolates CPUs by kernel arguments and tuned, and with single-numa-node or "
            "restricted turns the static memory manager on, with all of the reservation on NUMA node 0",
            lacks={
                "memoryManagerPolicy": "the operator decides about it by the policy",
                "reservedMemory": "the operator writes it, all on NUMA node 0",
                "featureGates": "OpenShift sets feature gates for the whole cluster (FeatureGate cluster)",
                **dict.fromkeys(_RESERVATIONS, "the operator sets it"),
            },
            aligns_memory=("restricted", "single-numa-node"),
        ),
        Target(
            "microshift",
            "microshift.yaml.j2",
            "Configuration of MicroShift",
            "save it as /etc/microshift/config.d/60-numalign.yaml and restart MicroShift",
        ),
        Target(
            "ignition",
            "ignition.bu.j2",
            "Butane",
            "butane FILE makes the Ignition file (variant fcos for Fedora CoreOS); it runs at the first boot only",
            since=28,
        ),
        Target(
            "cloud-init",
            "cloud-init.yaml.j2",
            "cloud-init",
            "user data; not on images whose own agent writes the kubelet's configuration (nodeadm, AKS, GKE)",
            since=28,
        ),
    )
}


def for_target(plan: Plan, target: Target) -> Plan:
    """The plan with what the target's own maps held."""
    own = {
        field: {**target.adds[field], **value} if field in target.adds and isinstance(value, dict) else value
        for field, value in plan.configuration.items()
    }
    return msgspec.structs.replace(plan, configuration=own)


def for_version(target: Target, minor: int) -> Target:
    """The target as it is applied to a kubelet of that version."""
    before = target.apply_before
    return target._replace(apply=before[1]) if before is not None and minor < before[0] else target


def missing(plan: Plan, target: Target) -> dict[str, str]:
    """The plan's fields that the target cannot express, and what happens without each."""
    found = {}
    for field, value in plan.configuration.items():
        if target.does.get(field) == value:
            continue
        names = [f"{field}.{name}" for name in value] if isinstance(value, dict) else []
        for name in (field, *names):
            why = target.lacks.get(name) or (target.lacks.get(f"{field}.*") if name != field else None)
            if why:
                found[name] = why
    return found


def check_target(plan: Plan, wishes: PlanWishes, target: Target) -> dict[str, str]:
    """What the target cannot express of the plan, where nobody asked for it.

    Raises DoesNotHold where the version is too old for the target, or it cannot express what was asked for.
    """
    if wishes.minor < target.since:
        raise DoesNotHold(
            f"--target {target.name} needs Kubernetes 1.{target.since} or newer, not 1.{wishes.minor}",
            hint="--target kubelet writes the fields for the kubelet's own file",
        )
    nodes = int(plan.configuration.get(_TOPOLOGY_OPTIONS, {}).get(_MAX_NODES, 0))
    if plan.configuration["topologyManagerPolicy"] in target.aligns_memory and nodes >= SLOW_MEMORY_NODES:
        raise DoesNotHold(
            f"--target {target.name} turns the static memory manager on under this policy: on {nodes} NUMA nodes it "
            "takes the kubelet up to hours for each pod",
            hint="--policy best-effort",
        )
    lost = missing(plan, target)
    for name in lost:
        if name in _asked_for(wishes) or name in _NEEDED:
            raise DoesNotHold(
                f"--target {target.name} cannot express {name}: {lost[name]}",
                hint=f"{_without(name, wishes)}, or take another target",
            )
    return lost


def _without(name: str, wishes: PlanWishes) -> str:
    """How the plan comes out without a field."""
    if name.endswith(_MAX_NODES):
        return "--policy none"
    if name == "featureGates":
        return "leave out the --option that needs it"
    reserved = wishes.reserved
    given = {
        "--reserved-cpus": name == "reservedSystemCPUs" and reserved.cpus is not None,
        "--reserved-cpu-count": name == "reservedSystemCPUs" and reserved.count is not None,
        "--reserved-cores-per-numa": name == "reservedSystemCPUs" and reserved.cores_per_numa is not None,
        "--reserve-on": name == "reservedSystemCPUs" and bool(reserved.on),
        "--scope": name == "topologyManagerScope",
        "--memory-manager static": name == "memoryManagerPolicy",
        "--kube-reserved-memory": name == "kubeReserved",
        "--system-reserved-memory": name == "systemReserved",
        f"--option {name.partition('.')[2]}": "." in name,
    }
    return "leave out " + " and ".join(option for option, asked in given.items() if asked)


def _asked_for(wishes: PlanWishes) -> set[str]:
    """The fields that the wishes are about."""
    found = {f"{field}.{name}" for name in wishes.options for field in (_CPU_OPTIONS, _TOPOLOGY_OPTIONS)}
    reserved = wishes.reserved
    if reserved.cpus is not None or reserved.count is not None or reserved.cores_per_numa is not None or reserved.on:
        found.add("reservedSystemCPUs")
    if wishes.scope is not None:
        found.add("topologyManagerScope")
    if wishes.static_memory:
        found.add("memoryManagerPolicy")
    amounts = {"kubeReserved": wishes.memory.kube, "systemReserved": wishes.memory.system}
    found |= {field for field, amount in amounts.items() if amount is not None}
    return found


_ALSO_CALLED = {
    "al2023": "eks-nodeadm",
    "bare-metal": "kubelet",
    "butane": "ignition",
    "capi": "cluster-api",
    "dropin": "drop-in",
    "flatcar": "ignition",
    "ocp": "openshift",
    "openshift-kubeletconfig": "openshift",
    "pao": "openshift-performance-profile",
    "rancher": "rke2",
}
"""Other words for a target."""


def near_target(name: str) -> str | None:
    """The target that somebody who wrote this most likely means."""
    from difflib import get_close_matches

    name = name.lower()
    parts = [target for target in TARGETS if name in target.split("-") or name.startswith(f"{target}-")]
    names = (*TARGETS, *_ALSO_CALLED)
    misspelt, similar = (get_close_matches(name, names, n=1, cutoff=cutoff) for cutoff in (0.85, 0.6))
    found = next(iter((*misspelt, *parts, *similar)), None)
    return _ALSO_CALLED.get(found, found) if found else None
