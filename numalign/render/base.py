"""Merging a plan into a KubeletConfiguration that a person has: comments, order and style stay as they are."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

from numalign.errors import DoesNotHold
from numalign.kubelet.document import Refused
from numalign.kubelet.effective import effective
from numalign.kubelet.rules import problems
from numalign.kubelet.settings import settings
from numalign.kubelet.view import KubeletView
from numalign.plan import Plan
from numalign.quantity import Quantity
from numalign.reserve_memory import MemoryWishes
from numalign.words import printable

__all__ = ["check_document", "memory_wishes", "merge"]

_MAPS = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "featureGates", "kubeReserved", "systemReserved")
"""Fields whose entries are set one by one; those that are there and not the plan's stay."""
_LIST = "reservedMemory"
_WIDTH = 100
_LIST_IN_MAP = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*(?:#[^\n]*)?\n)*( *)- ", re.MULTILINE)


def memory_wishes(data: bytes, name: str, minor: int, asked: MemoryWishes) -> MemoryWishes:
    """The reservations that stand in a document already, but for those that were asked for. A threshold in percent
    becomes an amount. Raises DoesNotHold where the kubelet does not load the document."""
    values = _loaded(data, name, minor)
    thresholds = dict(values.get("evictionHard") or {})
    own = thresholds.pop("memory.available", None)
    return MemoryWishes(
        kube=asked.kube or _amount((values.get("kubeReserved") or {}).get("memory")),
        system=asked.system or _amount((values.get("systemReserved") or {}).get("memory")),
        eviction=asked.eviction or _amount(own),
        thresholds=thresholds if "evictionHard" in values and not values.get("mergeDefaultEvictionSettings") else None,
    )


def merge(data: bytes, name: str, plan: Plan, minor: int) -> bytes:
    """The document with the plan's fields in it, YAML or JSON as it was. What is right already is left alone.

    Raises DoesNotHold where it is none that the kubelet loads, or that cannot be written back.
    """
    _loaded(data, name, minor)
    text = data.decode("utf-8-sig")
    if text.lstrip().startswith("{"):
        return _merged_json(text, plan)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    indent, offset = _list_style(text)
    yaml.indent(mapping=2, sequence=indent, offset=offset)
    yaml.explicit_start = text.startswith("---")
    try:
        documents = list(yaml.load_all(text.replace("\r\n", "\n")))
        behind = _comments_behind_list(documents[0], text)
        _set_fields(documents[0], plan, comments=True)
        stream = io.StringIO()
        yaml.dump_all(documents, stream)
    except (YAMLError, ValueError, TypeError, AttributeError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        place = name if line is None else f"{name}:{line + 1}"
        raise DoesNotHold(f"{place}: cannot be written back: {getattr(error, 'problem', None) or error}") from error
    merged = _with_comments(stream.getvalue(), *behind)
    return merged.replace("\n", "\r\n").encode() if "\r\n" in text else merged.encode()


def check_document(data: bytes, name: str, view: KubeletView, minor: int) -> None:
    """Raises DoesNotHold where a kubelet does not load the document, or does not start on it on this machine."""
    for problem in problems(settings(_loaded(data, name, minor), minor), view):
        raise DoesNotHold(
            f"{name}: the kubelet would not start on the result: {problem.message}",
            hint=problem.remedy or "numalign verify says where, and what to write",
        )


def _loaded(data: bytes, name: str, minor: int) -> Mapping[str, Any]:
    try:
        return effective((name, data), {}, {}, minor).values
    except Refused as error:
        place = f"{name}:{error.line}" if error.line else name
        raise DoesNotHold(
            f"{place}: the kubelet does not load it: {error.message}", hint="numalign verify says what to write"
        ) from error


def _amount(text: object) -> Quantity | None:
    try:
        amount = Quantity.parse(text) if isinstance(text, str) else None
    except ValueError:
        return None  # a percentage, or nothing that the kubelet would start on
    return None if amount is None or amount.value.denominator != 1 else Quantity(amount.value, "BinarySI")


def _merged_json(text: str, plan: Plan) -> bytes:
    document = json.loads(text)
    _set_fields(document, plan, comments=False)
    match = re.search(r"\n([ \t]+)\"", text)
    ending = "\n" if text.endswith("\n") else ""
    return (json.dumps(document, indent=match.group(1) if match else None, ensure_ascii=False) + ending).encode()


def _set_fields(document: Any, plan: Plan, *, comments: bool) -> None:
    for field, value in plan.configuration.items():
        if field == "evictionHard" and isinstance(document.get(field), dict):
            value = {"memory.available": value["memory.available"]}
        if isinstance(value, dict) and isinstance(document.get(field), dict):
            for name, entry in value.items():
                if document[field].get(name) != entry:
                    document[field][name] = _style(entry, comments)
        elif document.get(field) != value:
            new = field not in document
            document[field] = _style(value, comments)
            if new and comments:
                _comment(document, field, plan.reason(field))


def _comments_behind_list(document: Any, text: str) -> tuple[list[str], str | None]:
    """The comment lines between reservedMemory and the next field, and that field (None: the end): ruamel.yaml hangs
    them on the list's last entry, with which they would go."""
    if _LIST not in document:
        return [], None
    lines, fields = text.splitlines(), list(document)
    further = fields[fields.index(_LIST) + 1 :]
    end = document.lc.key(further[0])[0] if further else len(lines)
    found: list[str] = []
    for line in reversed(lines[document.lc.key(_LIST)[0] + 1 : end]):
        if line.strip() and not line.startswith("#"):
            break
        found.insert(0, line)
    return found, further[0] if further else None


def _with_comments(text: str, comments: list[str], field: str | None) -> str:
    lines = text.splitlines()
    if not any(comments) or all(comment in lines for comment in comments):
        return text
    place = next((i for i, line in enumerate(lines) if field is not None and line.startswith(f"{field}:")), len(lines))
    return "\n".join([*lines[:place], *comments, *lines[place:]]) + "\n"


def _comment(document: Any, field: str, reason: str) -> None:
    import textwrap

    if reason:
        text = "\n".join(textwrap.wrap(printable(reason), _WIDTH, break_on_hyphens=False))
        document.yaml_set_comment_before_after_key(field, before=text)


def _style(value: Any, comments: bool) -> Any:
    """Texts in quotes, as the plan's own document has them: `"true"` is no boolean."""
    if not comments:
        return value
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, dict):
        return CommentedMap((name, _style(entry, comments)) for name, entry in value.items())
    if isinstance(value, list):
        return CommentedSeq(_style(entry, comments) for entry in value)
    plain = not isinstance(value, str) or (value.replace("-", "").isalpha() and value not in ("true", "false"))
    return value if plain else DoubleQuotedScalarString(value)


def _list_style(text: str) -> tuple[int, int]:
    """How the document's lists stand below their keys, as ruamel.yaml's sequence and offset."""
    match = _LIST_IN_MAP.search(text)
    offset = max(len(match.group(2)) - len(match.group(1)), 0) if match else 0
    return offset + 2, offset
