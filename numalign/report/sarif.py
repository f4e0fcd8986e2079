"""verify's answer as SARIF 2.1.0, which code hosts show beside the lines of the configuration.

Source: the OASIS standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import msgspec

from numalign import __version__
from numalign.checks import Outcome
from numalign.checks.answer import Answer
from numalign.checks.finding import Finding
from numalign.checks.pages import Rule
from numalign.words import printable

__all__ = ["text"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_LINE = re.compile(r"(.+?):([1-9][0-9]{0,8})(?::([1-9][0-9]{0,8}))?", re.DOTALL)


def text(answer: Answer) -> str:
    """One run: a rule a check, a result a finding, and a notification for each check that could not look."""
    rules = [answer.rules[outcome.id] for outcome in answer.report.checks]
    index = {rule.id: number for number, rule in enumerate(rules)}
    driver = {"name": "numalign", "semanticVersion": _semantic(__version__), "rules": [_rule(rule) for rule in rules]}
    invocation = {
        "executionSuccessful": True,
        "endTimeUtc": datetime.fromtimestamp(answer.at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "toolExecutionNotifications": [
            _notification(outcome, index) for outcome in answer.report.checks if outcome.status == "not-looked-at"
        ],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [_result(answer, finding, index) for finding in answer.report.findings],
        "columnKind": "unicodeCodePoints",
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "help": {"text": f"numalign checks show {rule.id}", "markdown": rule.text},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(answer: Answer, finding: Finding, index: dict[str, int]) -> dict[str, Any]:
    message = f"{finding.message}\n{finding.remedy}" if finding.remedy else finding.message
    return {
        "ruleId": finding.id,
        "ruleIndex": index[finding.id],
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(map(printable, message.split("\n")))},
        "locations": [_location(finding.place, answer.report.config)],
    }


def _location(place: str, config: str | None) -> dict[str, Any]:
    """Where a finding is: a file, with the line where there is one; else a device or flag by its name."""
    line = _LINE.fullmatch(place)
    path = line[1] if line else place
    if not line and "/" not in path and path != config:
        return {"logicalLocations": [{"fullyQualifiedName": printable(place)}]}
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(path)}}
    if line:
        physical["region"] = {"startLine": int(line[2]), **({"startColumn": int(line[3])} if line[3] else {})}
    return {"physicalLocation": physical}


def _uri(path: str) -> str:
    """A path as a URI, relative where the path is."""
    quoted = quote(path.encode("utf-8", "replace"), safe="/")
    return f"file://{quoted}" if quoted.startswith("/") else quoted


def _notification(outcome: Outcome, index: dict[str, int]) -> dict[str, Any]:
    return {
        "level": "note",
        "message": {"text": printable(f"{outcome.id} could not look: {outcome.reason or 'no reason is known'}")},
        "associatedRule": {"id": outcome.id, "index": index[outcome.id]},
    }


def _semantic(version: str) -> str:
    """The version without what SemVer does not take (`0.1.0.dev1` is 0.1.0)."""
    return ".".join(version.split(".")[:3])
