"""What to write where a value is from the command line: flags, not fields."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from numalign.checks.finding import Finding
from numalign.kubelet import yaml
from numalign.kubelet.document import Document
from numalign.kubelet.flags import FLAGS, flag_texts

__all__ = ["in_flags"]

_WRITTEN = re.compile(r'([A-Za-z][\w.-]*): (\{[^{}]*\}|\[[^][]*\]|"[^"]*"|[^\s,;]+)')
_FLAG_OF = {field: flag for flag, field in FLAGS.items()}


def in_flags(findings: Iterable[Finding], document: Document) -> list[Finding]:
    """The findings, their remedies naming the flag in the stead of every field whose value is from one, and of the
    entries of a map where the finding is about one that a flag sets."""
    if not any(place.startswith("--") for place in document.places.values()):
        return list(findings)
    return [_in_flags(finding, document) for finding in findings]


def _in_flags(finding: Finding, document: Document) -> Finding:
    if finding.remedy is None:
        return finding

    def written(match: re.Match[str]) -> str:
        key, text = match.groups()
        flag = _FLAG_OF.get(key)
        value = yaml.read(text.encode(), "").value
        if flag is None:
            flag = finding.place.removeprefix("--") if finding.place.startswith("--") else ""
            if not isinstance(document.values.get(FLAGS.get(flag, "")), Mapping):
                return match[0]
            value = {key: value}
        elif document.places.get((key,)) != f"--{flag}":
            return match[0]
        return " ".join(f"--{flag}={shlex.quote(part)}" for part in _texts(flag, value))

    return msgspec.structs.replace(finding, remedy=_WRITTEN.sub(written, finding.remedy))


def _texts(flag: str, value: Any) -> list[str]:
    if isinstance(value, list) and not any(isinstance(entry, dict) for entry in value):
        return [",".join(map(str, value))]
    return flag_texts(flag, str(value).lower() if isinstance(value, bool) else value)
