"""The fields that decide nothing here: what the kubelet refuses of them, in its words, its order and by version."""

from __future__ import annotations

import pytest

from numalign.kubelet.effective import effective
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import settings
from tests.vectors import MACHINE

HEADER = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
INVALID = "invalid configuration: "


def messages(text: str, minor: int = 36) -> list[str]:
    document = effective(("f.yaml", (HEADER + text).encode()), {}, {}, minor)
    return [problem.message.removeprefix(INVALID) for problem in problems(settings(document.values, minor), MACHINE)]


EVERYTHING = """\
nodeLeaseDurationSeconds: -1
systemCgroups: /system
eventBurst: -1
eventRecordQPS: -2
healthzPort: 65536
cpuCFSQuotaPeriod: 2s
imageGCHighThresholdPercent: 101
imageGCLowThresholdPercent: -1
imageMinimumGCAge: -1s
imageMaximumGCAge: -1m
iptablesDropBit: 32
iptablesMasqueradeBit: -1
kubeAPIBurst: -1
kubeAPIQPS: -1
nodeStatusMaxImages: -2
maxOpenFiles: -1
maxPods: -1
oomScoreAdj: 1001
podsPerCore: -1
port: -1
readOnlyPort: 65536
registryBurst: -1
registryPullQPS: -1
maxParallelImagePulls: 0
runOnce: true
registerWithTaints: [{key: a b, effect: NoSchedule}, {key: a, timeAdded: "2026-01-01T00:00:00Z"}]
topologyManagerPolicy: x
shutdownGracePeriod: 500ms
shutdownGracePeriodCriticalPods: 1s
shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 1}]
memorySwap: {swapBehavior: x}
crashLoopBackOff: {maxContainerRestartPeriod: 500ms}
enforceNodeAllocatable: [x]
hairpinMode: x
imagePullCredentialsVerificationPolicy: x
preloadedImagesVerificationAllowlist: [a]
reservedSystemCPUs: "1-"
userNamespaces: {idsPerPod: 1}
showHiddenMetricsForVersion: "1.36"
tracing: {endpoint: "http://a", samplingRatePerMillion: -1}
memoryThrottlingFactor: 0
enableSystemLogQuery: true
enableSystemLogHandler: false
containerLogMaxWorkers: 0
containerLogMonitorInterval: 2s
containerLogMaxFiles: 1
podLogsDir: var//log
"""


def test_the_kubelet_says_everything_at_once_in_its_order() -> None:
    assert messages(EVERYTHING) == [
        "nodeLeaseDurationSeconds must be greater than 0",
        "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not specified",
        "eventBurst (--event-burst) -1 must not be a negative number",
        "eventRecordQPS (--event-qps) -2 must not be a negative number",
        "healthzPort (--healthz-port) 65536 must be between 1 and 65535, inclusive",
        "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {2s} must be between 1ms and 1sec, inclusive",
        "imageGCHighThresholdPercent (--image-gc-high-threshold) 101 must be between 0 and 100, inclusive",
        "imageGCLowThresholdPercent (--image-gc-low-threshold) -1 must be between 0 and 100, inclusive",
        "imageMinimumGCAge -1s must not be negative",
        "imageMaximumGCAge -1m0s must not be negative",
        "iptablesDropBit (--iptables-drop-bit) 32 must be between 0 and 31, inclusive",
        "iptablesMasqueradeBit (--iptables-masquerade-bit) -1 must be between 0 and 31, inclusive",
        "kubeAPIBurst (--kube-api-burst) -1 must not be a negative number",
        "kubeAPIQPS (--kube-api-qps) -1 must not be a negative number",
        "nodeStatusMaxImages (--node-status-max-images) -2 must be -1 or greater",
        "maxOpenFiles (--max-open-files) -1 must not be a negative number",
        "maxPods (--max-pods) -1 must not be a negative number",
        "oomScoreAdj (--oom-score-adj) 1001 must be between -1000 and 1000, inclusive",
        "podsPerCore (--pods-per-core) -1 must not be a negative number",
        "port (--port) -1 must be between 1 and 65535, inclusive",
        "readOnlyPort (--read-only-port) 65536 must be between 0 and 65535, inclusive",
        "registryBurst (--registry-burst) -1 must not be a negative number",
        "registryPullQPS (--registry-qps) -1 must not be a negative number",
        "maxParallelImagePulls 0 must be a positive number",
        "runOnce (--runOnce) true, Runonce mode has been deprecated and should not be set",
        "invalid taint: {a b  NoSchedule <nil>}",
        "taint.TimeAdded is not nil",
        (
            'topologyManagerPolicy (--topology-manager-policy) "x" must be one of: '
            '["none" "best-effort" "restricted" "single-numa-node"]'
        ),
        "shutdownGracePeriodCriticalPods {1s} must be <= shutdownGracePeriod {500ms}",
        "shutdownGracePeriod {500ms} must be either zero or otherwise >= 1 sec",
        "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
        'memorySwap.swapBehavior "x" must be one of: "", "LimitedSwap" or "NoSwap"',
        "CrashLoopBackOff.MaxContainerRestartPeriod (got: 0.5 seconds) must be set between 1s and 300s",
        (
            'option "x" specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid options are "pods", '
            '"system-reserved", "system-reserved-compressible", "kube-reserved", "kube-reserved-compressible" or "none"'
        ),
        (
            'option "x" specified for hairpinMode (--hairpin-mode). Valid options are "none", "hairpin-veth" or '
            '"promiscuous-bridge"'
        ),
        (
            'option "x" specified for imagePullCredentialsVerificationPolicy. Valid options are "NeverVerify", '
            '"NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages" or "AlwaysVerify"'
        ),
        (
            "can't set `preloadedImagesVerificationAllowlist` if `imagePullCredentialsVertificationPolicy` is not "
            '"NeverVerifyAllowlistedImages"'
        ),
        'unable to parse reservedSystemCPUs (--reserved-cpus) 1-, error: strconv.Atoi: parsing "": invalid syntax',
        "userNamespaces.idsPerPod must not be less than 65536",
        (
            'invalid showHiddenMetricsForVersion: showHiddenMetricsForVersion: Invalid value: "1.36": must be omitted '
            "or have the value '1.35'; only the previous minor version is allowed"
        ),
        "tracing.samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
        (
            'tracing.endpoint: Invalid value: "http://a": unsupported scheme: http.  Options are none, dns, unix, or '
            "unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
        ),
        "memoryThrottlingFactor 0 must be greater than 0 and less than or equal to 1.0",
        "enableSystemLogHandler is required for enableSystemLogQuery",
        "containerLogMaxWorkers must be greater than or equal to 1",
        "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s",
        "containerLogMaxFiles must be greater than 1",
        'pod logs path "var//log" must be absolute path',
        'pod logs path "var//log" must be normalized',
    ]


def test_what_is_wrong_with_logging_ends_the_start_before_anything_is_validated() -> None:
    logging = "logging: {format: x, verbosity: 4294967295, flushFrequency: -1s, options: {text: {splitStream: true}}}\n"
    before = "initialize logging: logging."
    assert messages(logging + EVERYTHING) == [
        f'{before}flushFrequency: Invalid value: "-1s": Must be greater than zero',
        f'{before}format: Invalid value: "x": Unsupported log format',
        f"{before}verbosity: Invalid value: 4294967295: Must be <= 2147483647",
        f"{before}options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        # zero is the default's here
        "nodeLeaseDurationSeconds: 0\nport: 0\nmaxPods: 0\neventBurst: 0\nhairpinMode: ''\npodLogsDir: ''",
        "healthzPort: 0\nreadOnlyPort: 0\neventRecordQPS: 0\nnodeStatusMaxImages: -1",
        "maxParallelImagePulls: 5",
        "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s",
        "registerWithTaints: [{key: example.com/gpu, value: a-1, effect: NoSchedule}]",
        "tracing: {endpoint: localhost:4317, samplingRatePerMillion: 1000000}",
        "logging: {format: json, flushFrequency: 0}",
        "userNamespaces: {idsPerPod: 131072}",
        'showHiddenMetricsForVersion: "1.35"',
        "crashLoopBackOff: {maxContainerRestartPeriod: 10s}",
        "podLogsDir: /var/log/pods",
    ],
)
def test_what_a_kubelet_starts_on(text: str) -> None:
    assert messages(text) == []


@pytest.mark.parametrize(
    ("text", "minor", "message"),
    [
        ("imageMinimumGCAge: -1s", 35, None),
        ("imageMaximumGCAge: 1m", 36, "imageMaximumGCAge 1m0s must be greater than imageMinimumGCAge 2m0s"),
        (
            "imageMaximumGCAge: 1h",
            29,
            "ImageMaximumGCAge feature gate is required for Kubelet configuration option ImageMaximumGCAge",
        ),
        ("imageMaximumGCAge: 1h", 30, None),
        (
            "imageGCHighThresholdPercent: 80",
            36,
            "imageGCLowThresholdPercent (--image-gc-low-threshold) 80 must be less ",
        ),
        ("runOnce: true", 31, None),
        (
            'showHiddenMetricsForVersion: "1.35"',
            35,
            "--show-hidden-metrics-for-version must be omitted or have the value",
        ),
        ("containerLogMaxFiles: 1", 32, "failed to initialize container log manager: invalid MaxFiles 1, must be > 1"),
        ("containerLogMaxSize: 10MB", 36, "failed to initialize container log manager: failed to parse container log "),
        (
            "containerLogMaxSize: '1.5'",
            36,
            "failed to initialize container log manager: failed to parse container log ",
        ),
        ("qosReserved: {cpu: 10%}", 36, '--qos-reserved value failed to parse: cannot reserve "cpu" resource'),
        ("qosReserved: {memory: 101%}", 36, '--qos-reserved value failed to parse: failed to parse percentage "101%" '),
        ("serializeImagePulls: true\nmaxParallelImagePulls: 2", 36, "maxParallelImagePulls cannot be larger than 1"),
        (
            "serverTLSBootstrap: true\nfeatureGates: {RotateKubeletServerCertificate: false}",
            36,
            "serverTLSBootstrap true",
        ),
        ("enableSystemLogQuery: true", 34, "NodeLogQuery feature gate is required for enableSystemLogHandler"),
        ("enableSystemLogQuery: true", 35, "NodeLogQuery feature gate is required for enableSystemLogQuery"),
        ("enableSystemLogQuery: true", 36, None),
        ("logging: {flushFrequency: -1}", 34, None),
        (
            "logging: {flushFrequency: -1}",
            35,
            "initialize logging: logging.flushFrequency: Invalid value: -1: Must be greater than zero",
        ),
        (
            "logging: {verbosity: 2147483648}",
            33,
            "initialize logging: logging.verbosity: Invalid value: 0x80000000: Must be <= 2147483647",
        ),
        (
            "logging: {format: json, vmodule: [{filePattern: a}]}",
            36,
            "initialize logging: logging.vmodule: Forbidden: Only supported for text",
        ),
        (
            "logging: {vmodule: [{filePattern: a=b}]}",
            36,
            'initialize logging: logging.vmodule[0]: Invalid value: "a=b": File pattern must ',
        ),
        (
            "logging: {vmodule: [{verbosity: 1}]}",
            36,
            "initialize logging: logging.vmodule[0]: Required value: File pattern must not be empty",
        ),
        (
            "logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}",
            36,
            "initialize logging: logging.format: Forbidden: Log format",
        ),
        (
            "logging: {options: {json: {infoBufferSize: 1Ki}}}",
            36,
            "initialize logging: logging.options.json.infoBufferSize: Forbidden: ",
        ),
        (
            "tracing: {}\nfeatureGates: {KubeletTracing: false}",
            33,
            "tracing should not be configured if KubeletTracing",
        ),
        (
            "tracing: {endpoint: 'a:b'}",
            36,
            'tracing.endpoint: Invalid value: "dns://a:b": parse "dns://a:b": invalid port',
        ),
        (
            "shutdownGracePeriod: 30s\nfeatureGates: {GracefulNodeShutdown: false}",
            34,
            "specifying shutdownGracePeriod or",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 10s}",
            34,
            "FeatureGate KubeletCrashLoopBackOffMax not enabled",
        ),
        (
            "imagePullCredentialsVerificationPolicy: AlwaysVerify",
            34,
            "`imagePullCredentialsVerificationPolicy` must not",
        ),
        ("userNamespaces: {idsPerPod: 65537}", 36, "userNamespaces.idsPerPod must be a multiple of 65536"),
        ("userNamespaces: {idsPerPod: 4295032832}", 36, "userNamespaces.idsPerPod must not be more than 4294967295"),
    ],
)
def test_a_rule_holds_in_its_versions(text: str, minor: int, message: str | None) -> None:
    found = messages(text, minor)
    assert len(found) == (message is not None), found
    assert all(said.startswith(message or "") for said in found), found


ALLOW = (
    "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [%s]"
)


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("registry.example.com/team/*", None),
        ("registry.example.com/pause", None),
        ("pause", None),
        ("registry.example.com/pause:3.9", "neither tag nor digest is accepted in an image reference: registry."),
        (
            "registry.example.com/*/pause",
            "not a valid wildcard pattern, only patterns ending with '/*' are allowed: reg",
        ),
        ('" a"', "leading/trailing spaces are not allowed:  a"),
        ('""', "the supplied pattern is too short: "),
        ('"/*"', "at least registry hostname is required"),
        ('"A_B:"', "failed to parse as an image name: invalid reference format"),
    ],
)
def test_an_allowed_image_has_no_tag(pattern: str, wrong: str | None) -> None:
    found = messages(ALLOW % pattern)
    before = "invalid image pattern in `preloadedImagesVerificationAllowlist`: "
    assert [said.startswith(before + (wrong or "")) for said in found] == [True] * (wrong is not None), found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hairpinMode: '\"a\"'", 'option "\\"a\\"" specified for hairpinMode'),
        ('podLogsDir: "/a\\tb/"', 'pod logs path "/a\\tb/" must be normalized'),
        ("topologyManagerPolicy: 'a\\b'", 'topologyManagerPolicy (--topology-manager-policy) "a\\\\b" must be one of'),
        ('memorySwap: {swapBehavior: "\\u200b"}', 'memorySwap.swapBehavior "\\u200b" must be one of'),
    ],
)
def test_a_value_is_quoted_as_go_quotes_it(text: str, message: str) -> None:
    assert [said[: len(message)] for said in messages(text + "\nfailCgroupV1: false")] == [message]
