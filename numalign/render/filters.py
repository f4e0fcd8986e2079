"""What templates call: the filters, and how a value becomes text."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from numalign.plan import Plan
from numalign.words import printable

__all__ = ["FILTERS", "attribute", "comment_lines", "entry_lines", "field_lines", "fields", "flags", "item_lines"]
__all__ += ["note", "on_one_line", "out", "quoted"]

_WIDTH = 100
_NARROW = 40
"""The widths of a line with a comment: the most, and the least where it stands deep."""
_PLAIN_VALUES = frozenset(
    {"static", "Static", "none", "best-effort", "restricted", "single-numa-node", "container", "pod"}
)


def field_lines(plan: Plan, field: str, indent: int = 0, *, step: int = 2, offset: int = 2) -> list[str]:
    """A field of the configuration as lines of YAML, each with its reason as a comment above it. `indent` says how deep
    the lines will stand, `step` and `offset` how deep maps and lists stand below their key."""
    value = plan.configuration[field]
    lines = _reason_lines(plan, field, indent)
    if isinstance(value, dict):
        lines.append(f"{field}:")
        for name in value:
            lines += [" " * step + line for line in entry_lines(plan, field, name, indent + step)]
    elif isinstance(value, list):
        lines.append(f"{field}:")
        for entry in value:
            lines += [" " * offset + line for line in item_lines(entry)]
    else:
        lines.append(f"{field}: {value if value in _PLAIN_VALUES else json.dumps(value)}")
    return lines


def entry_lines(plan: Plan, field: str, name: str, indent: int) -> list[str]:
    """An entry of a map, with its reason above it."""
    return [*_reason_lines(plan, f"{field}.{name}", indent), f"{name}: {json.dumps(plan.configuration[field][name])}"]


def item_lines(entry: Mapping[str, Any]) -> list[str]:
    """An entry of a list."""
    marks = ("- ", *["  "] * len(entry))
    return [f"{mark}{name}: {json.dumps(inner)}" for mark, (name, inner) in zip(marks, entry.items(), strict=False)]


def comment_lines(text: str, indent: int = 0) -> list[str]:
    """The text as comment lines that will stand `indent` deep."""
    return textwrap.wrap(
        printable(text),
        max(_WIDTH - indent, _NARROW),
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
    )


def fields(plan: Plan, indent: int = 0) -> _Lines:
    """The fields as YAML for a place `indent` blanks deep, where the first line stands already."""
    lines = [line for field in plan.configuration for line in field_lines(plan, field, indent)]
    return _Lines("\n".join(" " * indent + line if i else line for i, line in enumerate(lines)))


def _reason_lines(plan: Plan, field: str, indent: int) -> list[str]:
    return comment_lines(plan.reason(field), indent)


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
    return _Lines(f"\n{' ' * indent}".join(comment_lines(text, indent)))


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
