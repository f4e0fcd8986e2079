"""From a plan to documents: every document is a Jinja2 template in templates/, or one of the user's own."""

from __future__ import annotations

import json
import os
import textwrap
from typing import TYPE_CHECKING, Any

from numalign import __version__
from numalign.errors import DoesNotHold
from numalign.machine import Machine
from numalign.plan import Plan
from numalign.words import headline, printable

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["fill"]

_WIDTH = 100
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PLAIN_VALUES = frozenset(
    {"static", "Static", "none", "best-effort", "restricted", "single-numa-node", "container", "pod"}
)
_FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What a template of the user's can come to, beside Jinja2's own errors."""


def fill(template: str, machine: Machine, plan: Plan, *, own: str | None = None, **values: Any) -> str:
    """The template of that name, filled in; `own` is the text of a template of the user's instead, which is run in a
    sandbox. Names from the machine cannot break out of their line.

    Raises DoesNotHold where the user's template fails.
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
        return _environment(sandboxed=False).get_template(template).render(given)
    from jinja2 import TemplateError

    from numalign.render.sandbox import MAX_BYTES, bounded_memory

    try:
        with bounded_memory():
            return _environment(sandboxed=True).from_string(own).render(given)
    except MemoryError as error:
        raise DoesNotHold(f"{template}: the template fails: it needs more memory than {MAX_BYTES >> 20} MiB") from error
    except (TemplateError, *_FAILURES) as error:
        line = getattr(error, "lineno", None)
        place = f"{template}:{line}" if line else template
        raise DoesNotHold(
            f"{place}: the template fails: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error


def _field_lines(plan: Plan, indent: int = 0) -> list[str]:
    """The configuration's fields as lines of YAML, each with its reason as a comment above it."""
    lines: list[str] = []
    for field, value in plan.configuration.items():
        lines += _reason_lines(plan, field, indent)
        if isinstance(value, dict):
            lines.append(f"{field}:")
            for name, entry in value.items():
                lines += _reason_lines(plan, f"{field}.{name}", indent, inner=2)
                lines.append(f"  {name}: {json.dumps(entry)}")
        elif isinstance(value, list):
            lines.append(f"{field}:")
            for entry in value:
                mark = "  - "
                for name, inner in entry.items():
                    lines.append(f"{mark}{name}: {json.dumps(inner)}")
                    mark = "    "
        else:
            lines.append(f"{field}: {value if value in _PLAIN_VALUES else json.dumps(value)}")
    return lines


def _environment(*, sandboxed: bool) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    kind: type[Environment] = Environment
    if sandboxed:
        from numalign.render.sandbox import Sandbox

        kind = Sandbox
    made = kind(
        loader=FileSystemLoader(_template_folders()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    made.filters.update(note=_note, quoted=_quoted, fields=_fields, flags=_flags)
    made.finalize = _on_one_line
    return made


def _template_folders() -> list[str]:
    """In a wheel the templates lie in the package, in a checkout beside it."""
    return [os.path.join(_HERE, "templates"), os.path.join(os.path.dirname(_HERE), "templates")]


def _fields(plan: Plan, indent: int = 0) -> _Lines:
    """The fields as YAML for a place `indent` blanks deep, where the first line stands already."""
    return _Lines("\n".join(" " * indent + line if i else line for i, line in enumerate(_field_lines(plan, indent))))


def _reason_lines(plan: Plan, field: str, indent: int, inner: int = 0) -> list[str]:
    prefix = " " * inner + "# "
    return textwrap.wrap(
        printable(plan.reason(field)),
        _WIDTH - indent,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_on_hyphens=False,
    )


def _flags(plan: Plan) -> list[str]:
    """The configuration as the kubelet's flags, without the dashes before them."""
    from numalign.kubelet.flags import FLAGS, flag_texts

    return [
        f"{flag}={text}"
        for flag, field in FLAGS.items()
        if field in plan.configuration
        for text in flag_texts(flag, plan.configuration[field])
    ]


def _note(text: str, indent: int = 0) -> _Lines:
    """The text as comment lines."""
    lines = textwrap.wrap(
        printable(text), _WIDTH - indent, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
    return _Lines(f"\n{' ' * indent}".join(lines))


def _quoted(value: object) -> str:
    """The value as JSON, which YAML and TOML read as well: texts in double quotes."""
    return json.dumps(value)


class _Lines(str):
    """Text of several lines that a filter made and that may stand as it is."""

    __slots__ = ()


def _on_one_line(value: object) -> object:
    """Names that come from the machine cannot break out of their line."""
    return value if isinstance(value, _Lines) or not isinstance(value, str) else printable(value)
