"""Validation of the fields that decide nothing here, but on which a kubelet does not start: ports, garbage collection,
limits, shutdown, logging and the rest.

A row says what is wrong with a field, in the kubelet's words, and the versions in which it is. The groups stand in
validation.py, between the rules of the fields that decide.
Source: pkg/kubelet/apis/config/validation, 1.27 to 1.36.
"""

from __future__ import annotations

import posixpath
import re

from numalign.kubelet.other_parts import (
    container_logs,
    crash_loop,
    hidden_metrics,
    logging,
    qos_reserved,
    taints,
    tracing,
    user_namespaces,
    verified_images,
)
from numalign.kubelet.other_values import DEFAULTS, POINTERS, SECOND, Row, Values, rule_of

__all__ = [
    "AFTER_ENFORCE",
    "AFTER_MEMORY",
    "AFTER_SWAP",
    "AFTER_TOPOLOGY",
    "BEFORE_CFS_QUOTA",
    "BEFORE_TOPOLOGY",
    "LAST",
    "LEASE",
    "LOGGING",
    "LOGS_AT_START",
    "QOS_AT_START",
]

_NOT_NEGATIVE = "not be a negative number"


def _range(
    field: str, flag: str, words: str, low: int, high: int | None = None, *, zero: bool = False, remedy: str = ""
) -> Row:
    """A number that has to lie between two; `zero` is allowed beside them."""

    def wrong(values: Values) -> bool:
        value = values[field] or 0
        return not (low <= value and (high is None or value <= high)) and not (zero and value == 0)

    default = {**DEFAULTS, **POINTERS}.get(field)
    return Row(
        field, wrong, f"{field} (--{flag}) {{{field}}} must {words}", remedy or f"write {field}: {default}, the default"
    )


def _port(field: str, flag: str, first: int = 1, *, zero: bool) -> Row:
    return _range(field, flag, f"be between {first} and 65535, inclusive", 1, 65535, zero=zero)


def _short(value: int) -> bool:
    """Whether a grace period is neither zero nor a second at least."""
    return value < 0 or 0 < value < SECOND


LEASE = rule_of(
    Row(
        "nodeLeaseDurationSeconds",
        lambda values: values["nodeLeaseDurationSeconds"] <= 0,
        "nodeLeaseDurationSeconds must be greater than 0",
        "write nodeLeaseDurationSeconds: 40, the default",
    )
)
BEFORE_CFS_QUOTA = rule_of(
    _range("eventBurst", "event-burst", _NOT_NEGATIVE, 0),
    _range("eventRecordQPS", "event-qps", _NOT_NEGATIVE, 0),
    _port("healthzPort", "healthz-port", zero=True),
)
BEFORE_TOPOLOGY = rule_of(
    _range("imageGCHighThresholdPercent", "image-gc-high-threshold", "be between 0 and 100, inclusive", 0, 100),
    _range("imageGCLowThresholdPercent", "image-gc-low-threshold", "be between 0 and 100, inclusive", 0, 100),
    Row(
        "imageGCLowThresholdPercent",
        lambda values: values["imageGCLowThresholdPercent"] >= values["imageGCHighThresholdPercent"],
        "imageGCLowThresholdPercent (--image-gc-low-threshold) {imageGCLowThresholdPercent} must be less than "
        "imageGCHighThresholdPercent (--image-gc-high-threshold) {imageGCHighThresholdPercent}",
        "write the lower of the two here; the defaults are 80 and 85",
    ),
    Row(
        "imageMaximumGCAge",
        lambda values: values["imageMaximumGCAge"] != 0 and not values.on("ImageMaximumGCAge"),
        "ImageMaximumGCAge feature gate is required for Kubelet configuration option ImageMaximumGCAge",
        "write featureGates: {ImageMaximumGCAge: true}",
        since=29,
        until=29,
    ),
    Row(
        "imageMaximumGCAge",
        lambda values: values["imageMaximumGCAge"] != 0 and not values.on("ImageMaximumGCAge"),
        "ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge",
        "write featureGates: {ImageMaximumGCAge: true}",
        since=30,
    ),
    Row(
        "imageMinimumGCAge",
        lambda values: values["imageMinimumGCAge"] < 0,
        "imageMinimumGCAge {imageMinimumGCAge} must not be negative",
        "write imageMinimumGCAge: 2m, the default",
        since=36,
    ),
    Row(
        "imageMaximumGCAge",
        lambda values: values["imageMaximumGCAge"] < 0,
        "imageMaximumGCAge {imageMaximumGCAge} must not be negative",
        "write imageMaximumGCAge: 0s, which turns it off",
        since=29,
    ),
    Row(
        "imageMaximumGCAge",
        lambda values: 0 < values["imageMaximumGCAge"] <= values["imageMinimumGCAge"],
        "imageMaximumGCAge {imageMaximumGCAge} must be greater than imageMinimumGCAge {imageMinimumGCAge}",
        "write imageMaximumGCAge: 0s, which turns it off, or more than imageMinimumGCAge",
        since=29,
    ),
    _range("iptablesDropBit", "iptables-drop-bit", "be between 0 and 31, inclusive", 0, 31),
    _range("iptablesMasqueradeBit", "iptables-masquerade-bit", "be between 0 and 31, inclusive", 0, 31),
    _range("kubeAPIBurst", "kube-api-burst", _NOT_NEGATIVE, 0),
    _range("kubeAPIQPS", "kube-api-qps", _NOT_NEGATIVE, 0),
    _range("nodeStatusMaxImages", "node-status-max-images", "be -1 or greater", -1),
    _range("maxOpenFiles", "max-open-files", _NOT_NEGATIVE, 0),
    _range("maxPods", "max-pods", _NOT_NEGATIVE, 0),
    _range("oomScoreAdj", "oom-score-adj", "be between -1000 and 1000, inclusive", -1000, 1000),
    _range("podsPerCore", "pods-per-core", _NOT_NEGATIVE, 0),
    _port("port", "port", zero=False),
    _port("readOnlyPort", "read-only-port", 0, zero=True),
    _range("registryBurst", "registry-burst", _NOT_NEGATIVE, 0),
    _range("registryPullQPS", "registry-qps", _NOT_NEGATIVE, 0),
    Row(
        "maxParallelImagePulls",
        lambda values: values["maxParallelImagePulls"] is not None and values["maxParallelImagePulls"] < 1,
        "maxParallelImagePulls {maxParallelImagePulls} must be a positive number",
        "write 1 or more, or take it out",
    ),
    Row(
        "maxParallelImagePulls",
        lambda values: values["serializeImagePulls"] is True and (values["maxParallelImagePulls"] or 0) > 1,
        "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to "
        "false",
        "write serializeImagePulls: false, or take it out",
    ),
    Row(
        "serverTLSBootstrap",
        lambda values: bool(values["serverTLSBootstrap"]) and not values.on("RotateKubeletServerCertificate"),
        "serverTLSBootstrap {serverTLSBootstrap} requires feature gate RotateKubeletServerCertificate",
        "write featureGates: {RotateKubeletServerCertificate: true}",
    ),
    Row(
        "runOnce",
        lambda values: bool(values["runOnce"]),
        "runOnce (--runOnce) {runOnce}, Runonce mode has been deprecated and should not be set",
        "take runOnce out",
        since=32,
    ),
    taints,
)
AFTER_TOPOLOGY = rule_of(
    Row(
        "shutdownGracePeriodCriticalPods",
        lambda values: (
            values.on("GracefulNodeShutdown")
            and values["shutdownGracePeriodCriticalPods"] > values["shutdownGracePeriod"]
        ),
        "shutdownGracePeriodCriticalPods {shutdownGracePeriodCriticalPods} must be <= shutdownGracePeriod "
        "{shutdownGracePeriod}",
        "write shutdownGracePeriod: the time of all pods, that of the critical ones included",
    ),
    *(
        Row(
            field,
            lambda values, field=field: values.on("GracefulNodeShutdown") and _short(values[field]),  # type: ignore[misc]
            f"{field} {{{field}}} must be either zero or otherwise >= 1 sec",
            f"write {field}: 0s, or a second at least",
        )
        for field in ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods")
    ),
    Row(
        "shutdownGracePeriod",
        lambda values: (
            not values.on("GracefulNodeShutdown")
            and max(values["shutdownGracePeriod"], values["shutdownGracePeriodCriticalPods"]) > 0
        ),
        "specifying shutdownGracePeriod or shutdownGracePeriodCriticalPods requires feature gate GracefulNodeShutdown",
        "write featureGates: {GracefulNodeShutdown: true}",
    ),
    Row(
        "shutdownGracePeriodByPodPriority",
        lambda values: (
            values.on("GracefulNodeShutdownBasedOnPodPriority")
            and bool(values["shutdownGracePeriodByPodPriority"])
            and max(values["shutdownGracePeriod"], values["shutdownGracePeriodCriticalPods"]) > 0
        ),
        "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time",
        "take shutdownGracePeriod and shutdownGracePeriodCriticalPods out, or this",
    ),
    Row(
        "shutdownGracePeriodByPodPriority",
        lambda values: (
            not values.on("GracefulNodeShutdownBasedOnPodPriority") and bool(values["shutdownGracePeriodByPodPriority"])
        ),
        "Specifying shutdownGracePeriodByPodPriority requires feature gate GracefulNodeShutdownBasedOnPodPriority",
        "write featureGates: {GracefulNodeShutdownBasedOnPodPriority: true}",
    ),
)
AFTER_SWAP = rule_of(crash_loop)
AFTER_ENFORCE = rule_of(
    Row(
        "hairpinMode",
        lambda values: values["hairpinMode"] not in ("none", "hairpin-veth", "promiscuous-bridge"),
        'option {hairpinMode} specified for hairpinMode (--hairpin-mode). Valid options are "none", "hairpin-veth" '
        'or "promiscuous-bridge"',
        "write hairpinMode: promiscuous-bridge, the default",
    ),
    verified_images,
)
AFTER_MEMORY = rule_of(user_namespaces, hidden_metrics, tracing)
LOGGING = rule_of(logging)
LAST = rule_of(
    *(
        Row(
            "enableSystemLogQuery",
            lambda values: bool(values["enableSystemLogQuery"]) and not values.on("NodeLogQuery"),
            f"NodeLogQuery feature gate is required for {field}",
            "write featureGates: {NodeLogQuery: true}",
            since,
            until,
        )
        for field, since, until in (("enableSystemLogHandler", 0, 34), ("enableSystemLogQuery", 35, 99))
    ),
    Row(
        "enableSystemLogQuery",
        lambda values: bool(values["enableSystemLogQuery"]) and not values["enableSystemLogHandler"],
        "enableSystemLogHandler is required for enableSystemLogQuery",
        "write enableSystemLogHandler: true",
    ),
    Row(
        "containerLogMaxWorkers",
        lambda values: values["containerLogMaxWorkers"] < 1,
        "containerLogMaxWorkers must be greater than or equal to 1",
        "write containerLogMaxWorkers: 1, the default",
        since=30,
    ),
    Row(
        "containerLogMonitorInterval",
        lambda values: values["containerLogMonitorInterval"] < 3 * SECOND,
        "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s",
        "write containerLogMonitorInterval: 10s, the default",
        since=30,
    ),
    Row(
        "containerLogMaxFiles",
        lambda values: values["containerLogMaxFiles"] <= 1,
        "containerLogMaxFiles must be greater than 1",
        "write containerLogMaxFiles: 5, the default",
        since=33,
    ),
    *(
        Row("podLogsDir", wrong, message, "write podLogsDir: /var/log/pods, the default", since=30)
        for wrong, message in (
            (
                lambda values: not values["podLogsDir"].startswith("/"),
                "pod logs path {podLogsDir} must be absolute path",
            ),
            (
                lambda values: _clean(values["podLogsDir"]) != values["podLogsDir"],
                "pod logs path {podLogsDir} must be normalized",
            ),
            (
                lambda values: not values["podLogsDir"].isascii(),
                "pod logs path {podLogsDir} mut contains ASCII characters only",
            ),
        )
    ),
)

QOS_AT_START = rule_of(qos_reserved, stage="start")
LOGS_AT_START = rule_of(container_logs, stage="start")


def _clean(path: str) -> str:
    """A path as Go's filepath.Clean leaves it: unlike here, two slashes at its beginning are one."""
    return posixpath.normpath(re.sub("^//", "/", path))
