"""What the rules of the other fields are made of: the fields with their defaults, rows, and a rule of several of them.

Source: pkg/kubelet/apis/config/v1beta1/defaults.go, 1.27 to 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from numalign.kubelet import yaml
from numalign.kubelet.document import go_duration
from numalign.kubelet.fields import fields
from numalign.kubelet.gojson import quoted
from numalign.kubelet.problem import Problem, Rule, Stage
from numalign.kubelet.settings import Settings
from numalign.kubelet.view import KubeletView

__all__ = ["DEFAULTS", "POINTERS", "SECOND", "Function", "Row", "Values", "Wrong", "rule_of"]

SECOND = 10**9
_NEWEST = 99

DEFAULTS: Mapping[str, Any] = {
    # what holds where a field is not written, and where it is written as zero or empty; durations in nanoseconds
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "eventBurst": 100,
    "hairpinMode": "promiscuous-bridge",
    "imageMaximumGCAge": 0,
    "imageMinimumGCAge": 120 * SECOND,
    "kubeAPIBurst": 100,
    "maxOpenFiles": 1_000_000,
    "maxPods": 110,
    "nodeLeaseDurationSeconds": 40,
    "podLogsDir": "/var/log/pods",
    "podsPerCore": 0,
    "port": 10250,
    "readOnlyPort": 0,
    "registryBurst": 10,
    "shutdownGracePeriod": 0,
    "shutdownGracePeriodCriticalPods": 0,
}
POINTERS: Mapping[str, Any] = {
    # the same, but what is written holds, zero too
    "containerLogMaxFiles": 5,
    "containerLogMaxWorkers": 1,
    "containerLogMonitorInterval": 10 * SECOND,
    "enableSystemLogHandler": True,
    "eventRecordQPS": 50,
    "healthzPort": 10248,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "iptablesDropBit": 15,
    "iptablesMasqueradeBit": 14,
    "kubeAPIQPS": 50,
    "nodeStatusMaxImages": 50,
    "oomScoreAdj": -999,
    "registryPullQPS": 5,
}


class Values:
    """The fields as the kubelet validates them: with their defaults, and None where there is none."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.minor = settings.minor
        self.on = settings.enabled

    def __getitem__(self, field: str) -> Any:
        value = self.settings.others.get(field)
        if field in POINTERS:
            return POINTERS[field] if value is None else value
        return value or DEFAULTS.get(field, value)


_BARE = ("imageMaximumGCAge", "imageMinimumGCAge")


class _Shown:
    """The fields as the kubelet's messages print them."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.kinds = fields(values.minor)

    def __getitem__(self, field: str) -> str:
        value = self.values[field]
        if self.kinds.get(field) == "duration":
            # of most fields the kubelet prints the structure around the duration
            return go_duration(value) if field in _BARE else f"{{{go_duration(value)}}}"
        if isinstance(value, str):
            return quoted(value)
        return str(value).lower() if isinstance(value, bool) else str(value)


class Row(NamedTuple):
    """What is wrong with a field, the kubelet's message ({field} is a field's value), what to write, and the minor
    versions that mind, both included."""

    field: str
    wrong: Callable[[Values], bool]
    message: str
    remedy: str | None = None
    since: int = 0
    until: int = _NEWEST


class Wrong(NamedTuple):
    """What a function found: the path, the whole message, what to write."""

    path: yaml.Path
    message: str
    remedy: str | None = None


Function = Callable[[Values], Iterator[Wrong]]


def rule_of(*rows: Row | Function, stage: Stage = "validate") -> Rule:
    """A rule of the rows and functions of a group, in their order, and the stage at which the kubelet minds."""

    def rule(settings: Settings, view: KubeletView) -> Iterator[Problem]:
        values = Values(settings)
        for row in rows:
            for path, message, remedy in _found(row, values):
                yield Problem("configuration-invalid", stage, message, path, remedy)

    return rule


def _found(row: Row | Function, values: Values) -> Iterator[Wrong]:
    if not isinstance(row, Row):
        yield from row(values)
    elif row.since <= values.minor <= row.until and row.wrong(values):
        message = f"invalid configuration: {row.message.format_map(_Shown(values))}"
        yield Wrong(tuple(row.field.split(".")), message, row.remedy)
