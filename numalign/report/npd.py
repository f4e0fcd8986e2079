"""verify's answer to the node-problem-detector, as a custom plugin gives it: one short line, beside an exit status.

Source: kubernetes/node-problem-detector, pkg/custompluginmonitor: 0 is OK, 1 NonOK, anything else Unknown; of standard
output the first 80 bytes are kept, unless max_output_length says otherwise.
"""

from __future__ import annotations

from numalign.checks.answer import Answer
from numalign.words import count, printable

__all__ = ["UNKNOWN", "line", "text"]

UNKNOWN = 2
"""The exit status where the node could not be judged."""
_MOST = 80


def text(answer: Answer) -> str:
    """How many checks passed; where something counts, the worst of it."""
    counted = [finding for finding in answer.report.findings if answer.counts(finding)]
    if not counted:
        return line(f"{count(answer.report.count('passed'), 'check')} passed")
    further = f" (+{len(counted) - 1})" if len(counted) > 1 else ""
    return line(f"{counted[0].id}{further}: {counted[0].message}")


def line(words: str) -> str:
    """The words as a line of at most 80 bytes, with its end marked where it was cut."""
    plain = printable(words).encode("ascii", "replace").decode()
    return (plain if len(plain) <= _MOST else plain[: _MOST - 3].rstrip() + "...") + "\n"
