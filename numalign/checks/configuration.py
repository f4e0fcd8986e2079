"""What the kubelet itself makes of a configuration and its state files, as findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numalign.checks.finding import Finding, Subject
from numalign.kubelet.document import Refused
from numalign.kubelet.dropins import ALPHA
from numalign.kubelet.fields import MOST_LOOKED_FOR, closest, nearest
from numalign.kubelet.problem import Problem
from numalign.kubelet.restart import obstacles
from numalign.kubelet.versions import ALL_GATES_UNTIL, GROUPS_OF_GATES, gone, known_gates

__all__ = ["drop_ins", "gates_not_judged", "ignored", "not_started", "refused", "state"]

_NO_FIELDS = "into Go value of type struct {"
_NOT_ONE = ("'Kind' is missing", "'apiVersion' is missing", 'no kind "', _NO_FIELDS)
"""What the kubelet says of a list or a scalar where the configuration should be."""


def refused(error: Refused, source: str) -> Finding:
    """The configuration is none that the kubelet loads."""
    return Finding(
        id="config-not-loaded",
        severity="error",
        place=error.placed(source),
        message=f"the kubelet does not load it: {_shortened(error.message)}",
        remedy=_load_remedy(error),
    )


def ignored(subject: Subject) -> Iterator[Finding]:
    """Fields that have no effect: the kubelet only logs that it reads the file leniently."""
    minor = subject.settings.minor
    for position, field in enumerate(subject.document.ignored):
        if field.repeated:
            yield Finding(
                id="field-repeated",
                severity="warning",
                place=field.place,
                message=f"{field.field} stands twice; the kubelet takes the last",
                remedy="take one of the two out",
            )
            continue
        near = nearest(field.field.rpartition(".")[2], minor) if position < MOST_LOOKED_FOR else None
        yield Finding(
            id="field-ignored",
            severity="error" if near else "warning",
            place=field.place,
            message=f"{field.field} is no field of Kubernetes 1.{minor}; the kubelet skips it",
            remedy=f"did you mean {near}?" if near else None,
        )


def gates_not_judged(subject: Subject) -> Iterator[Finding]:
    """Feature gates of a version of which not all are known: new in it, or misspelt, on which it does not start."""
    document, minor = subject.document, subject.settings.minor
    known = {*known_gates(minor), *gone(minor), *GROUPS_OF_GATES}
    for position, name in enumerate(document.values.get("featureGates") or {} if minor > ALL_GATES_UNTIL else ()):
        if name in known:
            continue
        near = closest(name, known_gates(minor), 0.85) if position < MOST_LOOKED_FOR else None
        yield Finding(
            id="feature-gate-not-judged",
            severity="warning",
            place=document.place("featureGates", name),
            message=f"{name} is no feature gate that numalign knows: where Kubernetes 1.{minor} does not have it "
            f"either, the kubelet does not start (unrecognized feature gate: {name})",
            remedy=f"did you mean {near}?" if near else None,
        )


def drop_ins(subject: Subject) -> Iterator[Finding]:
    """Drop-ins where --config-dir was not yet for everyone (cmd/kubelet/app/server.go of 1.28 and 1.29)."""
    document, minor = subject.document, subject.settings.minor
    if document.drop_ins and minor in ALPHA:
        needs = f"Kubernetes 1.{minor} does not start with --config-dir unless KUBELET_CONFIG_DROPIN_DIR_ALPHA is set"
        more = "; each drop-in sets every field that it does not name back to its default" if minor == ALPHA[0] else ""
        yield Finding(
            id="drop-ins-alpha",
            severity="warning",
            place=document.drop_ins[0],
            message=needs + more,
            remedy="set it in the kubelet's environment, or write everything into the file of --config",
        )


def not_started(subject: Subject, problems: Iterable[Problem]) -> Iterator[Finding]:
    """What keeps the kubelet from starting on this machine, in its own order and words."""
    for problem in problems:
        yield Finding(
            id=problem.id,
            severity="error",
            place=subject.document.place(*problem.path),
            message=f"the kubelet does not start: {problem.message}",
            remedy=problem.remedy,
        )


def state(subject: Subject) -> Iterator[Finding]:
    """State files from before, on which the kubelet does not start."""
    for obstacle in obstacles(subject.settings, subject.view, subject.state.files, subject.state.folder):
        yield Finding(
            id=obstacle.id,
            severity="error",
            place=obstacle.file,
            message=f"the kubelet does not start: {obstacle.message} ({obstacle.why})",
            remedy=obstacle.remedy,
        )


def _load_remedy(error: Refused) -> str | None:
    """What to write where a value has the wrong type: most often a string without its quotes."""
    if error.message.endswith("of type string") and error.path:
        return f"write the value of {'.'.join(map(str, error.path))} in quotes"
    if any(said in error.message for said in _NOT_ONE):
        return "begin it with apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"
    return None


def _shortened(message: str) -> str:
    """Without the copy of the whole document that some of the kubelet's messages carry."""
    if _NO_FIELDS in message:
        return message.partition(" {")[0]
    head, mark, rest = message.partition("is missing in '")
    return f"{head}is missing" if mark and len(rest) > 80 else message
