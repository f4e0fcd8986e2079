"""From a plan to documents: every document is a Jinja2 template in templates/, or one of the user's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from zlib import crc32

from numalign import __version__
from numalign.errors import DoesNotHold
from numalign.folders import template_folders
from numalign.machine import Machine
from numalign.plan import Plan
from numalign.render.filters import FILTERS, on_one_line
from numalign.words import headline

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["environment", "fill", "template_digest"]

_FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a template of the user's can come to, beside Jinja2's own errors."""


def fill(template: str, machine: Machine, plan: Plan, *, own: str | None = None, **values: Any) -> str:
    """The template of that name, filled in; `own` is the text of a template of the user's instead, which is run in a
    sandbox. Names from the machine cannot break out of their line.

    Raises DoesNotHold where the user's template fails, and CannotRead where it takes too long.
    """
    given = {
        "machine": machine,
        "plan": plan,
        "configuration": plan.configuration,
        "version": __version__,
        "headline": headline(machine),
        **values,
    }
    if own is None:
        return _own(template, given)
    from jinja2 import TemplateError

    from numalign.render.sandbox import MAX_BYTES, bounded_memory, bounded_time

    try:
        with bounded_memory(), bounded_time(template):
            return environment(sandboxed=True).from_string(own).render(given)
    except MemoryError as error:
        raise DoesNotHold(f"{template}: the template fails: it needs more memory than {MAX_BYTES >> 20} MiB") from error
    except (TemplateError, *_FAILURES) as error:
        line = getattr(error, "lineno", None)
        place = f"{template}:{line}" if line else template
        what = next(iter(str(error).splitlines()), repr(error))
        raise DoesNotHold(f"{place}: the template fails: {what}") from error


def _own(template: str, given: dict[str, Any]) -> str:
    """One of the templates that come with numalign, from its Python where that is of the template as it is."""
    from numalign.render.compiled import DIGEST, TEMPLATES

    if template in TEMPLATES and template_digest() == DIGEST:
        return "".join(TEMPLATES[template](given))
    return environment(sandboxed=False).get_template(template).render(given)


def template_digest() -> int:
    """A number that changes with the templates."""
    digest = 0
    folder = next(filter(os.path.isdir, template_folders()))
    for name in sorted(os.listdir(folder)):
        if name.endswith(".j2"):
            with open(os.path.join(folder, name), "rb") as file:
                digest = crc32(file.read(), digest)
    return digest


def environment(*, sandboxed: bool) -> Environment:
    """Jinja2 as it reads the templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    kind: type[Environment] = Environment
    if sandboxed:
        from numalign.render.sandbox import Sandbox

        kind = Sandbox
    made = kind(
        loader=FileSystemLoader(template_folders()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    made.filters.update(FILTERS)
    made.finalize = on_one_line
    return made
