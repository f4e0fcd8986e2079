"""A template of the user's: run in Jinja2's sandbox, and within bounds of memory and time."""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from numalign.errors import CannotRead

__all__ = ["MAX_BYTES", "MAX_SECONDS", "Sandbox", "bounded_memory", "bounded_time"]

MAX_BYTES = 256 << 20
"""What a template may take beside what the process has."""
MAX_SECONDS = 10.0
"""How long a template may take."""
_AGAIN = 0.1
"""After so many seconds the alarm goes off again, where the interpreter had to drop what it raised."""
_MAX_BITS = 4096
_MAX_LENGTH = 1 << 20


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2's sandbox, in which a product or a power cannot become huge either: the largest would keep the processor
    busy for hours before it meets a bound of memory."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The product or power. Raises SecurityError where it is too large."""
        if operator == "*":
            numbers = [value for value in (left, right) if isinstance(value, int)]
            lengths = [len(value) for value in (left, right) if hasattr(value, "__len__")]
            bits = sum(number.bit_length() for number in numbers)
            huge = bits > _MAX_BITS or (bool(lengths) and lengths[0] * max(numbers, default=1) > _MAX_LENGTH)
        else:
            whole = isinstance(left, int) and isinstance(right, int)
            huge = whole and left.bit_length() * abs(right) > _MAX_BITS
        if huge:
            raise SecurityError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Within it the process can take MAX_BYTES more than it has; what asks for more meets a MemoryError. Without effect
    where the system has no such bound."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        with open("/proc/self/statm", "rb") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        wanted = now + MAX_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (wanted if soft < 0 else min(soft, wanted), hard))
    except (OSError, ValueError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _TooLong(BaseException):
    """The time is over; no Exception, so that nothing within the template takes it for its own."""


@contextlib.contextmanager
def bounded_time(name: str, seconds: float | None = None) -> Iterator[None]:
    """Within it only MAX_SECONDS (or `seconds`) can pass. Raises CannotRead about the template of that name."""

    def over(_signal: int, _frame: FrameType | None) -> None:
        raise _TooLong

    limit = MAX_SECONDS if seconds is None else seconds
    before = signal.signal(signal.SIGALRM, over)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit, _AGAIN)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TooLong:
        raise CannotRead(
            f"{name}: the template is not done after {limit:g} s", hint="does a loop in it go over too much?"
        ) from None
    finally:
        signal.signal(signal.SIGALRM, before)
