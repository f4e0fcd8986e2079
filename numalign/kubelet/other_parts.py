"""Validation of those of the other fields that are structures or lists, of which no row can say what is wrong: taints,
images, user namespaces, logging, tracing.

Source: pkg/kubelet/apis/config/validation, k8s.io/component-base/{logs,metrics,tracing}, pkg/util/taints and
pkg/kubelet/images/pullmanager, 1.27 to 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from numalign.kubelet import gojson, yaml
from numalign.kubelet.document import TextDuration, dotted, go_duration, go_float
from numalign.kubelet.other_values import SECOND, Values, Wrong
from numalign.quantity import Quantity

__all__ = [
    "container_logs",
    "crash_loop",
    "hidden_metrics",
    "logging",
    "qos_reserved",
    "taints",
    "tracing",
    "user_namespaces",
    "verified_images",
]

_MILLION = 1_000_000
_FIVE_FILES = "write containerLogMaxFiles: 5, the default"
_IDS_UNIT, _MOST_IDS = 65536, (1 << 32) - 1
_MAX_INT32 = (1 << 31) - 1


def _crash_period(values: Values) -> Any:
    return (values["crashLoopBackOff"] or {}).get("maxContainerRestartPeriod")


_CRASH_FIELD = "crashLoopBackOff.maxContainerRestartPeriod"
_CRASH_GATE = "KubeletCrashLoopBackOffMax"


def crash_loop(values: Values) -> Iterator[Wrong]:
    """Without a gate the field must not be there; with it 300 s are the default (1.32 and newer)."""
    period, path = _crash_period(values), tuple(_CRASH_FIELD.split("."))
    name = "CrashLoopBackOff.MaxContainerRestartPeriod"
    if period is None:
        return
    if not values.on(_CRASH_GATE):
        said = f"invalid configuration: FeatureGate {_CRASH_GATE} not enabled, {name} must not be set"
        yield Wrong(path, said, f"write featureGates: {{{_CRASH_GATE}: true}}, or take it out")
    elif not 1000 <= int(period / _MILLION) <= 300_000:
        said = f"invalid configuration: {name} (got: {go_float(period / SECOND)} seconds) must be set between 1s and "
        yield Wrong(path, f"{said}300s", "write maxContainerRestartPeriod: 300s, the default")


_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def taints(values: Values) -> Iterator[Wrong]:
    """Taints to register with: a key as of a label, a label's value, an effect or none, and no time."""
    for position, taint in enumerate(values["registerWithTaints"] or ()):
        given = taint or {}
        key, value, effect = (given.get(name) or "" for name in ("key", "value", "effect"))
        time, path = given.get("timeAdded"), ("registerWithTaints", position)
        *prefix, name = key.split("/", 1)
        usable = all(_PREFIX.fullmatch(part) and len(part) <= 253 for part in prefix) and _NAME.fullmatch(name)
        if not usable or (value and not _NAME.fullmatch(value)) or effect not in _EFFECTS:
            said = f"invalid taint: {{{key} {value} {effect} {time or '<nil>'}}}"
            yield Wrong(path, said, "write a label's key and value, and effect: NoSchedule")
        if time is not None:
            yield Wrong((*path, "timeAdded"), "invalid configuration: taint.TimeAdded is not nil", "take it out")


_VERIFY = ("NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")
_VERIFY_GATE = "KubeletEnsureSecretPulledImages"
_VERIFY_SINCE = 33


def verified_images(values: Values) -> Iterator[Wrong]:
    """Which images need credentials although they are on the node (1.33 and newer)."""
    policy_field, list_field = "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"
    policy, allowed = values[policy_field] or "", values[list_field] or ()
    if values.minor < _VERIFY_SINCE:
        return
    if not values.on(_VERIFY_GATE):
        for field, value in ((policy_field, policy), (list_field, allowed)):
            if value:
                said = f"invalid configuration: `{field}` must not be set if {_VERIFY_GATE} feature gate is not enabled"
                yield Wrong((field,), said, f"write featureGates: {{{_VERIFY_GATE}: true}}, or take it out")
        return
    if policy and policy not in _VERIFY:
        said = f"invalid configuration: option {gojson.quoted(policy)} specified for {policy_field}. Valid options are "
        said += ", ".join(f'"{name}"' for name in _VERIFY[:3]) + f' or "{_VERIFY[3]}"'
        yield Wrong((policy_field,), said, f"write {policy_field}: {_VERIFY[1]}, the default")
    if allowed and policy != "NeverVerifyAllowlistedImages":
        said = f"invalid configuration: can't set `{list_field}` if `imagePullCredentialsVertificationPolicy` is not "
        yield Wrong((list_field,), f'{said}"NeverVerifyAllowlistedImages"', f"write {policy_field}: {_VERIFY[2]}")
        return
    if not allowed:
        return
    from numalign.kubelet.images import wrong_image  # few nodes have such a list

    for position, pattern in enumerate(allowed):
        wrong = wrong_image(pattern, values.minor)
        if wrong is not None:
            said = f"invalid configuration: invalid image pattern in `{list_field}`: {wrong}"
            yield Wrong((list_field, position), said, "write an image without tag, or a prefix that ends with /*")
            return


def user_namespaces(values: Values) -> Iterator[Wrong]:
    """How many user ids each pod with a namespace of its own has (1.33 and newer)."""
    path = ("userNamespaces", "idsPerPod")
    ids = (values["userNamespaces"] or {}).get(path[1])
    if ids is None:
        return
    wrong = (
        f"not be less than {_IDS_UNIT}"
        if ids < _IDS_UNIT
        else f"be a multiple of {_IDS_UNIT}"
        if ids % _IDS_UNIT
        else f"not be more than {_MOST_IDS}"
        if ids > _MOST_IDS
        else None
    )
    if wrong:
        remedy = f"write idsPerPod: {_IDS_UNIT}, the default"
        yield Wrong(path, f"invalid configuration: userNamespaces.idsPerPod must {wrong}", remedy)


_METRICS_BY_FIELD_SINCE = 36


def hidden_metrics(values: Values) -> Iterator[Wrong]:
    field, before = "showHiddenMetricsForVersion", f"1.{values.minor - 1}"
    if values[field] and values[field] != before:
        said = (
            f"--show-hidden-metrics-for-version must be omitted or have the value '{before}'. Only the previous minor "
        )
        said += "version is allowed"
        if values.minor >= _METRICS_BY_FIELD_SINCE:
            said = f"invalid {field}: {field}: Invalid value: {gojson.quoted(values[field])}: must be omitted or have "
            said += f"the value '{before}'; only the previous minor version is allowed"
        yield Wrong((field,), said, f'write {field}: "{before}"')


_FLUSH_SINCE = 35
_TEXT_OPTIONS_SINCE = 30
_AS_JSON_SINCE = 34
"""The version from which a bad value of a type of its own is printed as JSON."""


def _invalid_value(path: yaml.Path, shown: str, detail: str) -> Wrong:
    return Wrong(path, f"{dotted(path)}: Invalid value: {shown}: {detail}")


def _forbidden(path: yaml.Path, detail: str) -> Wrong:
    return Wrong(path, f"{dotted(path)}: Forbidden: {detail}")


def logging(values: Values) -> Iterator[Wrong]:
    """component-base's logs/api/v1/options.go, of which the kubelet stops at once (cmd/kubelet/app/server.go)."""
    for wrong in _logging(values):
        yield wrong._replace(message=f"initialize logging: {wrong.message}")


def _logging(values: Values) -> Iterator[Wrong]:
    given = values["logging"] or {}
    path, format = ("logging",), given.get("format") or "text"
    flush = given.get("flushFrequency") or 0
    if flush < 0 and values.minor >= _FLUSH_SINCE:
        shown = f'"{go_duration(flush)}"' if isinstance(flush, TextDuration) else str(flush)
        yield _invalid_value((*path, "flushFrequency"), shown, "Must be greater than zero")
    if format not in ("text", "json"):
        yield _invalid_value((*path, "format"), gojson.quoted(format), "Unsupported log format")
    elif format == "json" and not values.on("LoggingBetaOptions"):
        said = f"Log format {format} is disabled, see LoggingBetaOptions feature"
        yield _forbidden((*path, "format"), said)
    yield from _verbosity((*path, "verbosity"), given, values.minor)
    modules = given.get("vmodule") or ()
    if modules and format != "text":
        yield _forbidden((*path, "vmodule"), "Only supported for text log format")
    for position, module in enumerate(modules):
        at, pattern = (*path, "vmodule", position), (module or {}).get("filePattern") or ""
        if not pattern:
            yield Wrong(at, f"{dotted(at)}: Required value: File pattern must not be empty")
        if "=" in pattern or "," in pattern:
            yield _invalid_value(at, gojson.quoted(pattern), "File pattern must not contain equal sign or comma")
        yield from _verbosity(at, module or {}, values.minor)
    if values.on("LoggingAlphaOptions"):
        return
    options = given.get("options") or {}
    for name in ("text", "json") if values.minor >= _TEXT_OPTIONS_SINCE else ("json",):
        for option in ("splitStream", "infoBufferSize"):
            if (options.get(name) or {}).get(option):
                said = "Feature LoggingAlphaOptions is disabled"
                yield _forbidden((*path, "options", name, option), said)


def _verbosity(path: yaml.Path, of: Mapping[str, Any], minor: int) -> Iterator[Wrong]:
    level = of.get("verbosity") or 0
    if level > _MAX_INT32:
        yield _invalid_value(path, str(level) if minor >= _AS_JSON_SINCE else hex(level), f"Must be <= {_MAX_INT32}")


_TRACING_GATE_UNTIL = 33
_SCHEMES = ("dns", "unix", "unix-abstract")


def tracing(values: Values) -> Iterator[Wrong]:
    """component-base's tracing/api/v1/config.go."""
    tracing, path = values["tracing"], ("tracing",)
    if tracing is None:
        return
    if not values.on("KubeletTracing") and values.minor <= _TRACING_GATE_UNTIL:
        said = "invalid configuration: tracing should not be configured if KubeletTracing feature flag is disabled."
        yield Wrong(path, said, "write featureGates: {KubeletTracing: true}, or take tracing out")
        return
    rate = tracing.get("samplingRatePerMillion") or 0
    if rate < 0:
        yield _invalid_value((*path, "samplingRatePerMillion"), str(rate), "sampling rate must be positive")
    if rate > _MILLION:
        said = "sampling rate per million must be less than or equal to one million"
        yield _invalid_value((*path, "samplingRatePerMillion"), str(rate), said)
    endpoint = tracing.get("endpoint")
    wrong = _wrong_endpoint(endpoint) if endpoint is not None else None
    if wrong:
        yield _invalid_value((*path, "endpoint"), *wrong)


def _wrong_endpoint(endpoint: str) -> tuple[str, str] | None:
    """An endpoint as it is quoted, and why it is none: what Go's net/url makes of it, and its scheme."""
    from numalign.kubelet import gourl

    url = endpoint if "//" in endpoint else f"dns://{endpoint}"
    quoted = gojson.quoted(url)
    try:
        scheme = gourl.scheme_of(url)
    except ValueError as error:
        return quoted, str(error)
    if scheme in _SCHEMES:
        return None
    return quoted, (
        f"unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  "
        "See https://github.com/grpc/grpc/blob/master/doc/naming.md"
    )


def qos_reserved(values: Values) -> Iterator[Wrong]:
    """What is kept for guaranteed pods: memory only, in whole per cent (pkg/kubelet/cm/container_manager.go)."""
    for name, text in (values["qosReserved"] or {}).items():
        wrong = _wrong_percentage(text)
        if name != "memory":
            said = f'cannot reserve "{name}" resource'
        elif wrong:
            said = f'failed to parse percentage "{text}" for "{name}" resource: {wrong}'
        else:
            continue
        yield Wrong(
            ("qosReserved", name),
            f"--qos-reserved value failed to parse: {said}",
            "write a percentage of memory, such as 50%",
        )


def _wrong_percentage(text: str) -> str | None:
    if not text.endswith("%"):
        return f"percentage expected, got '{text}'"
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.rstrip("%"), re.ASCII):
        return f"invalid number in percentage '{text}'"
    return None if 0 <= int(text.rstrip("%")) <= 100 else "percentage must be between 0 and 100"


def container_logs(values: Values) -> Iterator[Wrong]:
    """How containers' logs are rotated (pkg/kubelet/logs/container_log_manager.go)."""
    before, size = "failed to initialize container log manager: ", values["containerLogMaxSize"] or "10Mi"
    files = values["containerLogMaxFiles"]
    if files <= 1:
        yield Wrong(("containerLogMaxFiles",), f"{before}invalid MaxFiles {files}, must be > 1", _FIVE_FILES)
        return
    try:
        wrong = None if Quantity.parse(size).is_int64 else "invalid max log size"
    except ValueError as error:
        wrong = str(error)
    if wrong:
        said = f'{before}failed to parse container log max size "{size}": {wrong}'
        yield Wrong(("containerLogMaxSize",), said, "write containerLogMaxSize: 10Mi, the default")
