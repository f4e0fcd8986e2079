"""A VerifyPolicy: which checks count on a fleet's nodes, how badly, and what is expected of each node.

It is YAML (or JSON), read as the kubelet's own documents are: nothing in it is executed, aliases are not multiplied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from numalign.checks.choice import unknown
from numalign.checks.finding import SEVERITIES, Severity
from numalign.errors import CannotRead
from numalign.kubelet import yaml

__all__ = ["NO_POLICY", "Expect", "VerifyPolicy", "policy_schema", "read_policy"]

Number = Annotated[int, msgspec.Meta(ge=0)]
_LINK = "docs/verify.md has its fields"
_PATH = re.compile(r" - at `\$([^`]*)`$")
_SOME_KEY = "[...]"
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_FIELD = re.compile(r"unknown field `(.*)`$", re.DOTALL)


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node has to have: so many GPUs and NICs, or what a Machine document recorded."""

    gpus: Number | None = None
    nics: Number | None = None
    machine: str | None = None


class VerifyPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """What `verify --policy-file` reads. Ids of checks may be globs (`gpu-*`)."""

    api_version: Literal["numalign/v1"]
    kind: Literal["VerifyPolicy"]
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Severity | None = None
    severities: dict[str, Severity] = {}
    expect: Expect = Expect()


NO_POLICY = VerifyPolicy(api_version="numalign/v1", kind="VerifyPolicy")


def read_policy(data: bytes, source: str) -> VerifyPolicy:
    """The policy in a file's content. Raises CannotRead, with file and line, where it is none."""
    parsed = yaml.read(data, source)
    for duplicate in parsed.duplicates:
        raise CannotRead(f"{source}:{duplicate.line}: {duplicate.key} stands twice", hint=_LINK)
    try:
        policy = msgspec.convert(yaml.plain(parsed.value), type=VerifyPolicy)
    except msgspec.ValidationError as error:
        place, what = _placed(str(error), parsed.value)
        raise CannotRead(f"{source}{_line(parsed, place)}: {what}", hint=_LINK) from error
    for place, pattern in _patterns(policy):
        wrong = unknown(pattern)
        if wrong is not None:
            raise CannotRead(f"{source}{_line(parsed, place)}: there is no check {pattern}", hint=wrong)
    return policy


def _patterns(policy: VerifyPolicy) -> Iterator[tuple[yaml.Path, str]]:
    """Every id or glob of a check that the policy names, and where."""
    for name in ("only", "ignore"):
        yield from (((name, number), pattern) for number, pattern in enumerate(getattr(policy, name)))
    yield from ((("severities", pattern), pattern) for pattern in policy.severities)


def _placed(message: str, value: Any) -> tuple[yaml.Path, str]:
    """Where in the document msgspec found something wrong, and what, in words of this document."""
    path = _PATH.search(message)
    steps = _STEP.findall(path[1].removesuffix(_SOME_KEY)) if path else []
    if path and path[1].endswith(_SOME_KEY):  # msgspec does not say of which key the value is
        steps.append((next(key for key, told in value["severities"].items() if told not in SEVERITIES), ""))
    place: yaml.Path = tuple(int(number) if number else key for key, number in steps)
    what = _PATH.sub("", message)
    field = _FIELD.search(what)
    if field is not None:
        return (*place, field[1]), f"{field[1]} is no field of a VerifyPolicy"
    named = ".".join(map(str, place))
    return place, f"{named}: {what}" if named else what


def _line(parsed: yaml.Parsed, place: yaml.Path) -> str:
    """The line of a value, else that of what it is in; empty where the document has none."""
    for end in range(len(place), -1, -1):
        found = parsed.places.get(place[:end])
        if found is not None:
            return f":{found[0]}"
    return ""


def policy_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a VerifyPolicy document."""
    body = msgspec.json.schema(VerifyPolicy)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "numalign VerifyPolicy", **body}
