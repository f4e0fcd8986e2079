"""The kubelet's command line: the flags that matter here, and what their text means to it.

Source: cmd/kubelet/app/options (options.go, globalflags*.go), 1.27 to 1.36; k8s.io/component-base/cli/flag
(map_string_*, langle_separated_map_string_string); pkg/util/flag/flags.go (ReservedMemoryVar); github.com/spf13/pflag.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numalign.errors import WrongUsage
from numalign.kubelet import gojson
from numalign.kubelet.document import Refused, nanoseconds
from numalign.kubelet.settings import BOOLEANS, go_atoi, is_memory
from numalign.quantity import Quantity

__all__ = ["FLAGS", "Flags", "flag_texts", "flag_value", "parse_flags"]

Flags = Mapping[str, Sequence[str]]
"""Flag -> the values that it was given, in their order."""

FLAGS: Mapping[str, str] = {
    # a flag of the kubelet -> the field that it sets; how its text is read follows from the field's type
    "cpu-manager-policy": "cpuManagerPolicy",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "cpu-manager-reconcile-period": "cpuManagerReconcilePeriod",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "memory-manager-policy": "memoryManagerPolicy",
    "reserved-memory": "reservedMemory",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "kube-reserved-cgroup": "kubeReservedCgroup",
    "system-reserved-cgroup": "systemReservedCgroup",
    "enforce-node-allocatable": "enforceNodeAllocatable",
    "eviction-hard": "evictionHard",
    "eviction-soft": "evictionSoft",
    "eviction-soft-grace-period": "evictionSoftGracePeriod",
    "eviction-minimum-reclaim": "evictionMinimumReclaim",
    "cgroups-per-qos": "cgroupsPerQOS",
    "cgroup-root": "cgroupRoot",
    "feature-gates": "featureGates",
    "fail-swap-on": "failSwapOn",
    "fail-cgroupv1": "failCgroupV1",
    "cgroup-driver": "cgroupDriver",
    "healthz-bind-address": "healthzBindAddress",
    "healthz-port": "healthzPort",
}

_OTHER_NAMES = (
    # flags that decide nothing here, of any version; what is none of them and nearly one is a slip of the hand
    "address allowed-unsafe-sysctls anonymous-auth application-metrics-count-limit authentication-token-webhook "
    "authentication-token-webhook-cache-ttl authorization-mode authorization-webhook-cache-authorized-ttl "
    "authorization-webhook-cache-unauthorized-ttl azure-container-registry-config boot-id-file bootstrap-kubeconfig "
    "cert-dir client-ca-file cloud-config cloud-provider cluster-dns cluster-domain config config-dir "
    "container-hints container-log-max-files container-log-max-size container-runtime container-runtime-endpoint "
    "containerd containerd-namespace contention-profiling cpu-cfs-quota cpu-cfs-quota-period "
    "enable-controller-attach-detach enable-debugging-handlers enable-load-reader enable-server event-burst event-qps "
    "event-storage-age-limit event-storage-event-limit eviction-max-pod-grace-period "
    "eviction-pressure-transition-period exit-on-lock-contention experimental-allocatable-ignore-eviction "
    "experimental-mounter-path file-check-frequency global-housekeeping-interval hairpin-mode "
    "help hostname-override housekeeping-interval http-check-frequency "
    "image-credential-provider-bin-dir image-credential-provider-config image-gc-high-threshold "
    "image-gc-low-threshold image-service-endpoint iptables-drop-bit iptables-masquerade-bit "
    "keep-terminated-pod-volumes kernel-memcg-notification kube-api-burst kube-api-content-type kube-api-qps "
    "kubeconfig kubelet-cgroups local-storage-capacity-isolation lock-file log-cadvisor-usage log-flush-frequency "
    "log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format "
    "machine-id-file make-iptables-util-chains manifest-url manifest-url-header max-housekeeping-interval "
    "max-open-files max-pods maximum-dead-containers maximum-dead-containers-per-container "
    "minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels node-status-max-images "
    "node-status-update-frequency oom-score-adj pod-cidr pod-infra-container-image pod-manifest-path pod-max-pids "
    "pods-per-core port protect-kernel-defaults provider-id qos-reserved read-only-port register-node "
    "register-schedulable register-with-taints registry-burst registry-qps resolv-conf root-dir rotate-certificates "
    "rotate-server-certificates runonce runtime-cgroups runtime-request-timeout seccomp-default serialize-image-pulls "
    "storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password "
    "storage-driver-secure storage-driver-table storage-driver-user streaming-connection-idle-timeout sync-frequency "
    "system-cgroups tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file v version vmodule "
    "volume-plugin-dir volume-stats-agg-period"
)
_OTHERS = frozenset(_OTHER_NAMES.split())

_SWITCHES = ("cgroups-per-qos", "fail-swap-on")
"""Flags that may stand without a value."""

_THRESHOLDS = ("eviction-hard", "eviction-soft")
"""Flags whose pairs are `signal<value`."""
_UNSPLIT = "cpu-manager-policy-options"
"""The flag that takes one pair each time: a comma belongs to the value."""


def parse_flags(text: str) -> dict[str, list[str]]:
    """The kubelet's flags that matter here, of a command line such as `--reserved-cpus=0-3 --v 2`; others are skipped.

    Raises WrongUsage where the text cannot be split into words, or has a flag that is none and nearly one.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUsage(f"--kubelet-flags: {error}", hint="write them as in a shell") from error
    found: dict[str, list[str]] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        if name in FLAGS:
            if not equals:
                value = "true" if name in _SWITCHES else next(rest, "")
            found.setdefault(name, []).append(value)
        elif word.startswith("--"):
            _refuse_slip(name)
    return found


def _refuse_slip(name: str) -> None:
    from difflib import get_close_matches

    if name in _OTHERS:
        return
    for near in get_close_matches(name, [*FLAGS, *sorted(_OTHERS)], n=1, cutoff=0.85):
        message = f"--kubelet-flags: unknown flag: --{name}, with which no kubelet starts"
        raise WrongUsage(message, hint=f"did you mean --{near}?")


def flag_value(name: str, texts: Sequence[str], kind: str) -> Any:
    """A flag's texts as a value of its field's type: maps and lists take in every text, of others the last one holds.

    Raises Refused where the kubelet does not take one.
    """
    read = _reader(name, kind)
    value, text = None, ""
    try:
        for text in texts:
            value = read(text, value)
    except ValueError as error:
        said = f'invalid argument {gojson.encoded(text)} for "--{name}" flag: {error}'
        raise Refused("decode", f"failed to parse kubelet flag: {said}", place=f"--{name}") from None
    return value


def flag_texts(name: str, value: Any) -> list[str]:
    """The texts with which a flag gives its field a value; flag_value reads them back.

    >>> flag_texts("cpu-manager-policy-options", {"full-pcpus-only": "true", "strict-cpu-reservation": "true"})
    ['full-pcpus-only=true', 'strict-cpu-reservation=true']
    """
    if isinstance(value, Mapping):
        mark = "<" if name in _THRESHOLDS else "="
        texts = {key: str(entry).lower() if isinstance(entry, bool) else entry for key, entry in value.items()}
        pairs = [f"{key}{mark}{text}" for key, text in texts.items()]
        return pairs if name == _UNSPLIT else [",".join(pairs)]
    if isinstance(value, list):
        limits = (",".join(f"{kind}={amount}" for kind, amount in entry["limits"].items()) for entry in value)
        return [";".join(f"{entry['numaNode']}:{text}" for entry, text in zip(value, limits, strict=True))]
    return [str(value)]


_Reader = Callable[[str, Any], Any]


def _reader(name: str, kind: str) -> _Reader:
    """How a flag takes in a text, given what it took in before."""
    if name == _UNSPLIT:
        return lambda text, before: {**(before or {}), **_pair(text, "=", "string")}
    if name in _THRESHOLDS:
        return lambda text, before: {**(before or {}), **_pairs(text, "<", "string")}
    return {
        "map[string]string": lambda text, before: {**(before or {}), **_pairs(text, "=", "string")},
        "map[string]bool": lambda text, before: {**(before or {}), **_gates(text)},
        "[]string": lambda text, before: [*(before or ()), *(text.split(",") if text else ())],
        "[]v1beta1.MemoryReservation": lambda text, before: [*(before or ()), *_reserved_memory(text)],
        "bool": lambda text, before: _bool(text),
        "duration": lambda text, before: _duration(text),
    }.get(kind, lambda text, before: text)


def _pairs(text: str, mark: str, kind: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        found.update(_pair(part, mark, kind))
    return found


def _pair(text: str, mark: str, kind: str) -> dict[str, str]:
    key, found, value = text.partition(mark)
    if not found:
        raise ValueError(f"malformed pair, expect string{mark}{kind}")
    return {key.strip(): value.strip()}


def _gates(text: str) -> dict[str, bool]:
    found = _pairs(text, "=", "bool")
    for key, value in found.items():
        if value not in BOOLEANS:
            said = f"strconv.ParseBool: parsing {gojson.encoded(value)}: invalid syntax"
            raise ValueError(f"invalid value of {key}: {value}, err: {said}")
    return {key: BOOLEANS[value] for key, value in found.items()}


def _bool(text: str) -> bool:
    if text not in BOOLEANS:
        raise ValueError(f"strconv.ParseBool: parsing {gojson.encoded(text)}: invalid syntax")
    return BOOLEANS[text]


def _duration(text: str) -> str:
    nanoseconds(text)
    return text


def _reserved_memory(text: str) -> list[dict[str, Any]]:
    """`0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=1Gi`: an entry for each NUMA node named."""
    return [_node_memory(part) for part in text.split(";")] if text else []


def _node_memory(text: str) -> dict[str, Any]:
    node, *limits = text.split(":")
    if len(limits) != 1:
        form = "expected numaNodeID:type=quantity[,type=quantity...]"
        raise ValueError(f"the reserved memory has incorrect format, {form}, got {text}")
    try:
        number = go_atoi(node)
    except ValueError:
        raise ValueError(f"failed to convert the NUMA node ID, expected integer, got {node}") from None
    return {"numaNode": number, "limits": dict(_limit(part) for part in limits[0].split(","))}


def _limit(text: str) -> tuple[str, Quantity]:
    name, *amounts = text.split("=")
    if len(amounts) != 1:
        raise ValueError(f"the reserved limit has incorrect value, expected type=quantity, got {text}")
    if not is_memory(name):
        raise ValueError(f'memory type conversion error, unknown type: "{name}"')
    try:
        return name, Quantity.parse(amounts[0])
    except ValueError:
        raise ValueError(f"failed to parse the quantity: {amounts[0]}") from None
