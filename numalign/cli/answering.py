"""How verify answers: with the checks that were asked for, when there is an answer to give, in the format wanted."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from numalign.cli import progress
from numalign.cli.files import emit, emit_document, read_file
from numalign.cli.source import open_host
from numalign.errors import CannotRead, NumalignError, WrongUsage

if TYPE_CHECKING:
    from numalign.checks import Report
    from numalign.checks.answer import Answer
    from numalign.checks.finding import Severity
    from numalign.checks.policy import VerifyPolicy
    from numalign.machine import Machine

__all__ = ["Policy", "Seen", "Wishes", "answered"]

_POLICY_FILE = "etc/numalign/verify.yaml"
_MAX_POLICY = 1 << 20
_TIMEOUT = 60.0
_FOR_OTHERS = 0o644
_COLLECTED = ("prometheus", "nfd")
"""Formats whose files another user's process picks up."""


class Wishes(NamedTuple):
    """The options of verify that say how to answer, by their names."""

    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    policy_file: str | None = None
    wait: str | None = None
    timeout: str | None = None
    output: str = "text"
    out: str | None = None
    root: str | None = None
    machine: str | None = None


class Seen(NamedTuple):
    """What one look at the node gave."""

    report: Report
    machine: Machine


class Policy(NamedTuple):
    """The policy that holds, the file that it is from (None: there is none), and the root that its paths are below."""

    content: VerifyPolicy
    path: str | None = None
    root: str = "/"

    def expected(
        self, gpus: str | None, nics: str | None, file: str | None
    ) -> tuple[str | None, str | None, str | None]:
        """--expect-gpus, --expect-nics and --expect: as they are given, else as the policy has them; the file of the
        machine as a path to read."""
        own = self.content.expect
        own_gpus, own_nics = (None if number is None else str(number) for number in (own.gpus, own.nics))
        return gpus or own_gpus, nics or own_nics, file or self._beside(own.machine)

    def _beside(self, file: str | None) -> str | None:
        """A file that the policy names: an absolute one is below the root, a relative one beside the policy."""
        if file is None or self.path is None:
            return None
        if file.startswith("/"):
            return os.path.join(self.root, file.lstrip("/"))
        return os.path.join(os.path.dirname(self.path), file)


def answered(wishes: Wishes, look: Callable[[Policy], Seen]) -> int:
    """Looks, waits where that was asked for, and prints the answer once; gives the exit status.

    Raises WrongUsage or CannotRead, unless the node-problem-detector asked, which wants a line and 2.
    """
    if wishes.output == "junit":
        return _answered_in_junit(wishes, look)
    if wishes.output != "npd":
        return _answered(wishes, look, status=CannotRead.exit_status)
    from numalign.report.npd import UNKNOWN, line

    try:
        return _answered(wishes, look, status=UNKNOWN)
    except NumalignError as error:
        emit(line(error.message).encode(), wishes.out)
        return UNKNOWN


def _answered_in_junit(wishes: Wishes, look: Callable[[Policy], Seen]) -> int:
    """Who reads the file of a job that failed finds in it why."""
    try:
        return _answered(wishes, look, status=CannotRead.exit_status)
    except CannotRead as error:
        from numalign.report.junit import unread

        emit(unread(error.message, error.hint).encode(), wishes.out)
        raise


def _answered(wishes: Wishes, look: Callable[[Policy], Seen], status: int) -> int:
    from numalign.cli.waiting import deadline, seconds

    wait = 0.0 if wishes.wait is None else seconds(wishes.wait, "--wait")
    if wishes.wait is not None and wishes.machine is not None:
        raise WrongUsage("--wait waits for a host, which --machine is not", hint="leave one of them out")
    timeout = _TIMEOUT if wishes.timeout is None else seconds(wishes.timeout, "--timeout")
    if timeout <= 0:
        raise WrongUsage(f"--timeout {wishes.timeout} leaves no time", hint="--timeout 60s")
    wishes = wishes._replace(only=_ids("--only", wishes.only), ignore=_ids("--ignore", wishes.ignore))
    to_file = wishes.out is not None and wishes.out != "-"
    with deadline(wait + timeout, status, on_stdout=wishes.output == "npd"):
        policy = _policy(wishes)
        answer = _waited(wishes, wait, lambda: _answer(wishes, policy, look(policy)))
        if to_file:
            _print(answer, wishes)
    if not to_file:
        _print(answer, wishes)  # a reader may take its time
    return int(not answer.holds)


def _waited(wishes: Wishes, wait: float, look: Callable[[], Answer]) -> Answer:
    """The first look, or with --wait the one that sees everything, or the last."""
    if not wait:
        return look()
    from numalign.cli.waiting import until
    from numalign.probe.watch import Watch

    with contextlib.closing(Watch(open_host(wishes.root or "/"))) as watch:
        return until(look, wait, watch, lambda missing: progress.hold(f"waiting ({wait:g} s at most): {missing}"))


def _policy(wishes: Wishes) -> Policy:
    """The policy that was named, else the host's own, else none. Raises CannotRead."""
    from numalign.checks.policy import NO_POLICY, read_policy

    if wishes.policy_file is not None:
        shown = "standard input" if wishes.policy_file == "-" else wishes.policy_file
        return Policy(read_policy(read_file(wishes.policy_file, _MAX_POLICY), shown), shown)
    if wishes.machine is not None:
        return Policy(NO_POLICY)
    root = wishes.root or "/"
    shown = os.path.join(root, _POLICY_FILE)
    try:
        data = open_host(root).read(_POLICY_FILE, _MAX_POLICY)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise CannotRead(f"{shown}: {reason}", hint="--policy-file names another") from error
    return Policy(NO_POLICY) if data is None else Policy(read_policy(data, shown), shown, root)


def _answer(wishes: Wishes, policy: Policy, seen: Seen) -> Answer:
    """The answer to what was seen, of the checks that were asked for. Raises WrongUsage."""
    from numalign.checks.answer import Answer
    from numalign.checks.choice import by_id, chosen
    from numalign.checks.pages import rule

    content = policy.content
    only, ignore = wishes.only or content.only, wishes.ignore or content.ignore
    report = chosen(seen.report, only, ignore, content.severities)
    if not report.checks:
        raise WrongUsage("no check is left", hint="--only and --ignore, or the policy, leave all of them out")
    rules = {outcome.id: rule(outcome.id) for outcome in report.checks} if wishes.output in _WITH_RULES else {}
    for id, instead in by_id(content.severities).items():
        if id in rules:
            rules[id] = rules[id]._replace(severity=instead)
    severity: Severity = wishes.fail_on or content.fail_on or "error"  # type: ignore[assignment]
    report = msgspec.structs.replace(report, policy=policy.path)
    return Answer(report=report, machine=seen.machine, fail_on=severity, at=time.time(), rules=rules)


def _ids(flag: str, lists: tuple[str, ...]) -> tuple[str, ...]:
    """The ids and globs of an option's comma-separated lists, one each. Raises WrongUsage where one fits no check."""
    from numalign.checks.choice import unknown

    patterns = tuple(pattern.strip() for text in lists for pattern in text.split(","))
    for pattern in patterns:
        wrong = unknown(pattern)
        if wrong is not None:
            raise WrongUsage(f"{flag}: there is no check {pattern or 'without a name'}", hint=wrong)
    return patterns


_WITH_RULES = ("sarif", "prometheus")
"""Formats that say what a check is about, whatever came of it."""


def _print(answer: Answer, wishes: Wishes) -> None:
    if wishes.output in ("text", "json"):
        emit_document(answer.report, wishes.output, "findings:draw", wishes.out)
        return
    text: str = import_module(f"numalign.report.{wishes.output}").text(answer)
    emit(text.encode("utf-8", "replace"), wishes.out, mode=_FOR_OTHERS if wishes.output in _COLLECTED else None)
