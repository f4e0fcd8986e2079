"""The answer to `may this node go into service?`: a report, and what makes of its findings a yes or a no."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numalign.checks import Outcome, Report
from numalign.checks.finding import SEVERITIES, Finding, Severity
from numalign.checks.pages import Rule
from numalign.machine import Machine

__all__ = ["Answer"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A report on a machine, the lowest severity that counts, when it was made (seconds since 1970), and the rule of
    each of its checks."""

    report: Report
    machine: Machine
    fail_on: Severity
    at: float
    rules: Mapping[str, Rule] = {}

    @property
    def holds(self) -> bool:
        """Whether nothing counts that was found."""
        return not any(map(self.counts, self.report.findings))

    def counts(self, finding: Finding) -> bool:
        """Whether a finding is at or above the severity that counts."""
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(self.fail_on)

    def found(self, outcome: Outcome) -> list[Finding]:
        """What a check found, the worst first."""
        return [finding for finding in self.report.findings if finding.id == outcome.id]

    def severity(self, outcome: Outcome) -> Severity:
        """How bad what a check found is; of one that found nothing, what its page says."""
        found = self.found(outcome)
        return found[0].severity if found else self.rules[outcome.id].severity
