"""From a plan to documents: every document is a Jinja2 template in templates/."""

from __future__ import annotations

import json
import os
import textwrap

from numalign import __version__
from numalign.machine import Machine
from numalign.plan import Plan
from numalign.words import headline, printable

__all__ = ["kubelet_config"]

_WIDTH = 100
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def kubelet_config(machine: Machine, plan: Plan) -> str:
    """The KubeletConfiguration of the plan, each field with its reason as a comment."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_template_folders()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(note=_note, quoted=_quoted, fields=_fields)
    environment.finalize = _on_one_line
    template = environment.get_template("kubelet-config.yaml.j2")
    return template.render(machine=machine, plan=plan, version=__version__, headline=headline(machine))


def _template_folders() -> list[str]:
    """In a wheel the templates lie in the package, in a checkout beside it."""
    return [os.path.join(_HERE, "templates"), os.path.join(os.path.dirname(_HERE), "templates")]


def _fields(plan: Plan, indent: int = 0) -> _Lines:
    """The configuration's fields as YAML, each with its reason as a comment above it."""
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
            plain = isinstance(value, str) and value.replace("-", "").isalpha()
            lines.append(f"{field}: {value if plain else json.dumps(value)}")
    return _Lines("\n".join(" " * indent + line if i else line for i, line in enumerate(lines)))


def _reason_lines(plan: Plan, field: str, indent: int, inner: int = 0) -> list[str]:
    reason = plan.reason(field)
    prefix = " " * inner + "# "
    return textwrap.wrap(
        printable(reason), _WIDTH - indent, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
    )


def _note(text: str, indent: int = 0) -> _Lines:
    """The text as comment lines."""
    prefix = " " * indent + "# "
    return _Lines(textwrap.fill(printable(text), _WIDTH, initial_indent=prefix, subsequent_indent=prefix))


def _quoted(text: str) -> str:
    """The text as a double-quoted YAML scalar, which JSON's strings are."""
    return json.dumps(text)


class _Lines(str):
    """Text of several lines that a filter made and that may stand as it is."""

    __slots__ = ()


def _on_one_line(value: object) -> object:
    """Names that come from the machine cannot break out of their line."""
    return value if isinstance(value, _Lines) or not isinstance(value, str) else printable(value)
