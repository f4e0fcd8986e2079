"""verify's answer as Prometheus metrics, for the textfile collector of the node exporter.

Source: prometheus.io, "Exposition formats", text-based format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numalign import __version__
from numalign.checks.answer import Answer
from numalign.checks.finding import SEVERITIES
from numalign.fingerprint import fingerprint
from numalign.words import printable

__all__ = ["text"]

_STATUSES = {"passed": 0, "failed": 1, "not-looked-at": 2, "not-applicable": 3}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[Mapping[str, str], float]


def text(answer: Answer) -> str:
    """Gauges of each check, of the findings by severity, and of the whole."""
    report = answer.report
    severities = [finding.severity for finding in report.findings]
    checks = [
        ({"id": outcome.id, "severity": answer.severity(outcome)}, _STATUSES[outcome.status])
        for outcome in report.checks
    ]
    info = {
        "version": __version__,
        "kubernetes_version": report.kubernetes_version or "",
        "topology": fingerprint(answer.machine),
    }
    return "".join(
        (
            _metric("info", "What was verified, and by which numalign.", [(info, 1)]),
            _metric("verify_success", "Whether nothing was found that counts.", [({}, int(answer.holds))]),
            _metric("verify_timestamp_seconds", "When the node was verified.", [({}, round(answer.at))]),
            _metric(
                "findings",
                "Findings by severity.",
                [({"severity": severity}, severities.count(severity)) for severity in SEVERITIES],
            ),
            _metric("check", "0 passed, 1 failed, 2 could not look, 3 not applicable.", checks),
        )
    )


def _metric(name: str, help: str, samples: Iterable[Sample]) -> str:
    """A gauge with its samples."""
    lines = [f"# HELP numalign_{name} {help}", f"# TYPE numalign_{name} gauge"]
    lines += [f"numalign_{name}{_labels(labels)} {value:.15g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{printable(value).translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
