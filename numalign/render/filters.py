"""What templates call: the filters, and how a value becomes text."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from numalign.plan import Plan
from numalign.words import printable

__all__ = ["FILTERS", "attribute", "fields", "flags", "note", "on_one_line", "out", "quoted"]

_WIDTH = 100
_PLAIN_VALUES = frozenset(
    {"static", "Static", "none", "best-effort", "restricted", "single-numa-node", "container", "pod"}
)


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


def fields(plan: Plan, indent: int = 0) -> _Lines:
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


def flags(plan: Plan) -> list[str]:
    """The configuration as the kubelet's flags, without the dashes before them."""
    from numalign.kubelet.flags import FLAGS, flag_texts

    return [
        f"{flag}={text}"
        for flag, field in FLAGS.items()
        if field in plan.configuration
        for text in flag_texts(flag, plan.configuration[field])
    ]


def note(text: str, indent: int = 0) -> _Lines:
    """The text as comment lines."""
    lines = textwrap.wrap(
        printable(text), _WIDTH - indent, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
    return _Lines(f"\n{' ' * indent}".join(lines))


def quoted(value: object) -> str:
    """The value as JSON, which YAML and TOML read as well: texts in double quotes."""
    return json.dumps(value)


class _Lines(str):
    """Text of several lines that a filter made and that may stand as it is."""

    __slots__ = ()


def on_one_line(value: object) -> object:
    """Names that come from the machine cannot break out of their line."""
    return value if isinstance(value, _Lines) or not isinstance(value, str) else printable(value)


def out(value: object) -> str:
    """A value as it stands in the document."""
    return str(on_one_line(value))


def attribute(value: Any, name: str) -> Any:
    """What a template means by `value.name`: an attribute, else the entry of that name, as Jinja2 has it."""
    return getattr(value, name) if hasattr(value, name) else value[name]


FILTERS = {"fields": fields, "flags": flags, "note": note, "quoted": quoted}
