"""The fields of a KubeletConfiguration, their types, and the version that brought each.

Source: Kubernetes' k8s.io/kubelet/config/v1beta1/types.go of each release from 1.27 to 1.36; for what lies in it
k8s.io/api/core/v1/types.go (Taint) and component-base's logs/api/v1/types.go and tracing/api/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

__all__ = ["MOST_LOOKED_FOR", "closest", "fields", "nearest", "struct_fields"]

MOST_LOOKED_FOR = 200
"""Of so many unknown names the one meant is looked for: it takes about a millisecond each, and a text that is no
configuration at all has tens of thousands."""

# Type -> its fields; `@33` is the minor version that brought the field, where that is later than 1.27.
_FIELDS = {
    "string": (
        "address cgroupDriver cgroupRoot clusterDomain configMapAndSecretChangeDetectionStrategy "
        "containerLogMaxSize containerRuntimeEndpoint contentType cpuManagerPolicy hairpinMode "
        "healthzBindAddress imagePullCredentialsVerificationPolicy@33 imageServiceEndpoint "
        "kubeReservedCgroup kubeletCgroups memoryManagerPolicy memoryReservationPolicy@36 podCIDR "
        "podLogsDir@30 providerID reservedSystemCPUs resolvConf showHiddenMetricsForVersion staticPodPath "
        "staticPodURL systemCgroups systemReservedCgroup tlsCertFile tlsMinVersion tlsPrivateKeyFile "
        "topologyManagerPolicy topologyManagerScope volumePluginDir"
    ),
    "bool": (
        "cgroupsPerQOS cpuCFSQuota enableContentionProfiling enableControllerAttachDetach "
        "enableDebugFlagsHandler enableDebuggingHandlers enableProfilingHandler enableServer "
        "enableSystemLogHandler enableSystemLogQuery failCgroupV1@31 failSwapOn kernelMemcgNotification "
        "localStorageCapacityIsolation makeIPTablesUtilChains mergeDefaultEvictionSettings@33 "
        "protectKernelDefaults registerNode rotateCertificates runOnce seccompDefault serializeImagePulls "
        "serverTLSBootstrap singleProcessOOMKill@32"
    ),
    "int32": (
        "containerLogMaxFiles containerLogMaxWorkers@30 eventBurst eventRecordQPS "
        "evictionMaxPodGracePeriod healthzPort imageGCHighThresholdPercent imageGCLowThresholdPercent "
        "iptablesDropBit iptablesMasqueradeBit kubeAPIBurst kubeAPIQPS maxParallelImagePulls maxPods "
        "nodeLeaseDurationSeconds nodeStatusMaxImages oomScoreAdj podsPerCore port readOnlyPort "
        "registryBurst registryPullQPS"
    ),
    "int64": "maxOpenFiles podPidsLimit",
    "float64": "memoryThrottlingFactor",
    "duration": (
        "containerLogMonitorInterval@30 cpuCFSQuotaPeriod cpuManagerReconcilePeriod "
        "evictionPressureTransitionPeriod fileCheckFrequency httpCheckFrequency imageMaximumGCAge@29 "
        "imageMinimumGCAge nodeStatusReportFrequency nodeStatusUpdateFrequency runtimeRequestTimeout "
        "shutdownGracePeriod shutdownGracePeriodCriticalPods streamingConnectionIdleTimeout syncFrequency "
        "volumeStatsAggPeriod"
    ),
    "map[string]string": (
        "cpuManagerPolicyOptions evictionHard evictionMinimumReclaim evictionSoft evictionSoftGracePeriod "
        "kubeReserved qosReserved systemReserved topologyManagerPolicyOptions"
    ),
    "map[string]bool": "featureGates",
    "map[string][]string": "staticPodURLHeader",
    "[]string": (
        "allowedUnsafeSysctls clusterDNS enforceNodeAllocatable preloadedImagesVerificationAllowlist@33 tlsCipherSuites"
    ),
    "[]int32": "tlsCurvePreferences@36",
    "KubeletAuthentication": "authentication",
    "KubeletAuthorization": "authorization",
    "MemorySwapConfiguration": "memorySwap",
    "CrashLoopBackOffConfig": "crashLoopBackOff@32",
    "UserNamespaces": "userNamespaces@33",
    "[]v1beta1.MemoryReservation": "reservedMemory",
    "[]v1beta1.ShutdownGracePeriodByPodPriority": "shutdownGracePeriodByPodPriority",
    "[]v1.Taint": "registerWithTaints",
    "LoggingConfiguration": "logging",
    "TracingConfiguration": "tracing",
}

_STRUCTS: Mapping[str, Mapping[str, str]] = {
    # the types that are objects themselves -> their fields, with `@30` as above
    "KubeletAuthentication": {
        "anonymous": "KubeletAnonymousAuthentication",
        "webhook": "KubeletWebhookAuthentication",
        "x509": "KubeletX509Authentication",
    },
    "KubeletAnonymousAuthentication": {"enabled": "bool"},
    "KubeletWebhookAuthentication": {"cacheTTL": "duration", "enabled": "bool"},
    "KubeletX509Authentication": {"clientCAFile": "string"},
    "KubeletAuthorization": {"mode": "v1beta1.KubeletAuthorizationMode", "webhook": "KubeletWebhookAuthorization"},
    "KubeletWebhookAuthorization": {"cacheAuthorizedTTL": "duration", "cacheUnauthorizedTTL": "duration"},
    "MemorySwapConfiguration": {"swapBehavior": "string"},
    "CrashLoopBackOffConfig": {"maxContainerRestartPeriod": "duration"},
    "UserNamespaces": {"idsPerPod": "int64"},
    "v1beta1.MemoryReservation": {"limits": "v1.ResourceList", "numaNode": "int32"},
    "v1beta1.ShutdownGracePeriodByPodPriority": {"priority": "int32", "shutdownGracePeriodSeconds": "int64"},
    "v1.Taint": {"key": "string", "value": "string", "effect": "v1.TaintEffect", "timeAdded": "time"},
    "TracingConfiguration": {"endpoint": "string", "samplingRatePerMillion": "int32"},
    "LoggingConfiguration": {
        "format": "string",
        "flushFrequency": "time.Duration",
        "flushFrequency@28": "flushFrequency",
        "verbosity": "v1.VerbosityLevel",
        "vmodule": "[]v1.VModuleItem",
        "options": "FormatOptions",
    },
    "v1.VModuleItem": {"filePattern": "string", "verbosity": "v1.VerbosityLevel"},
    "FormatOptions": {"json": "JSONOptions", "text@30": "TextOptions"},
    "JSONOptions": {"splitStream": "bool", "infoBufferSize": "quantity"},
    "TextOptions": {"splitStream": "bool", "infoBufferSize": "quantity"},
}

# Names that people write for another reason than a slip of the hand.
_ALIASES = {"reservedcpus": "reservedSystemCPUs", "reservedsystemcpu": "reservedSystemCPUs"}


@cache
def fields(minor: int) -> Mapping[str, str]:
    """The fields of a KubeletConfiguration in a minor version, with the Go type of each."""
    found = {"apiVersion": "string", "kind": "string"}
    for kind, names in _FIELDS.items():
        for name, _, since in (word.partition("@") for word in names.split()):
            if int(since or 0) <= minor:
                found[name] = kind
    return found


@cache
def struct_fields(kind: str, minor: int) -> Mapping[str, str] | None:
    """The fields of an object type in a minor version, with the Go type of each; None where it is no such type."""
    if kind not in _STRUCTS:
        return None
    words = ((*word.partition("@"), inner) for word, inner in _STRUCTS[kind].items())
    return {name: inner for name, _, since, inner in words if int(since or 0) <= minor}


def closest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """The one of the known names that is most like a misspelt one, None where none is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1, cutoff=cutoff)), None)


def nearest(name: str, minor: int) -> str | None:
    """The field that a misspelt name most likely means."""
    known = {field.lower(): field for field in fields(minor)}
    lower = name.lower()
    if lower in _ALIASES or lower in known:
        return _ALIASES.get(lower) or known[lower]
    close = closest(lower, known, 0.8)
    return known[close] if close else None
