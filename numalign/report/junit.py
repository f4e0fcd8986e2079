"""verify's answer as JUnit XML: a test case a check.

Source: the schema of the files that Jenkins, GitLab and others read (junit-10.xsd of Jenkins' xUnit plugin).
"""

from __future__ import annotations

from datetime import datetime, timezone
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from numalign.checks import Outcome
from numalign.checks.answer import Answer
from numalign.checks.finding import Finding
from numalign.words import printable

__all__ = ["text", "unread"]

_SUITE = "numalign verify"
_CLASS = "numalign.verify"
_SKIPPED = {"not-applicable": "not applicable", "not-looked-at": "could not look"}


def text(answer: Answer) -> str:
    """One suite. A check that found something which counts has failed, one that was not made is skipped, with the
    reason; what was found and does not count is the case's output."""
    report = answer.report
    failed = {finding.id for finding in report.findings if answer.counts(finding)}
    numbers = {
        "tests": str(len(report.checks)),
        "failures": str(sum(outcome.id in failed for outcome in report.checks)),
        "errors": "0",
    }
    root = Element("testsuites", {"name": _SUITE, **numbers})
    skipped = str(sum(outcome.status in _SKIPPED for outcome in report.checks))
    moment = datetime.fromtimestamp(answer.at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    suite = SubElement(root, "testsuite", {"name": _SUITE, **numbers, "skipped": skipped, "timestamp": moment})
    if report.machine:
        suite.set("hostname", printable(report.machine))
    properties = SubElement(suite, "properties")
    for name, value in (("kubernetesVersion", report.kubernetes_version), ("config", report.config)):
        if value is not None:
            SubElement(properties, "property", name=name, value=printable(value))
    for outcome in report.checks:
        _case(suite, answer, outcome)
    return _document(root)


def unread(message: str, hint: str | None) -> str:
    """The suite of a verify that could not begin: one case with an error, so that what reads it fails."""
    numbers = {"tests": "1", "failures": "0", "errors": "1"}
    root = Element("testsuites", {"name": _SUITE, **numbers})
    suite = SubElement(root, "testsuite", {"name": _SUITE, **numbers})
    case = SubElement(suite, "testcase", name="verify", classname=_CLASS)
    SubElement(case, "error", message=printable(message), type="CannotRead").text = printable(hint or "")
    return _document(root)


def _document(root: Element) -> str:
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _case(suite: Element, answer: Answer, outcome: Outcome) -> None:
    case = SubElement(suite, "testcase", name=outcome.id, classname=_CLASS)
    if outcome.status in _SKIPPED:
        why = f"{_SKIPPED[outcome.status]}: {outcome.reason}" if outcome.reason else _SKIPPED[outcome.status]
        SubElement(case, "skipped", message=printable(why))
    counted = [finding for finding in answer.found(outcome) if answer.counts(finding)]
    further = [finding for finding in answer.found(outcome) if not answer.counts(finding)]
    if counted:
        failure = SubElement(case, "failure", message=printable(counted[0].message), type=counted[0].severity)
        failure.text = _lines(counted)
    if further:
        SubElement(case, "system-out").text = _lines(further)


def _lines(findings: list[Finding]) -> str:
    """What was found, where, and what to do, in lines."""
    lines = []
    for finding in findings:
        lines += [
            f"{finding.severity} {finding.place}: {finding.message}",
            *([finding.remedy] if finding.remedy else []),
        ]
    return "\n".join(map(printable, lines))
