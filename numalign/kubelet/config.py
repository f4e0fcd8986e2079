"""Reading a KubeletConfiguration with the line of every field, for messages that point to the place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from numalign.errors import CannotRead

__all__ = ["KubeletConfig", "load"]

_MAX_BYTES = 4 << 20
_MAX_DEPTH = 50


class KubeletConfig(msgspec.Struct, frozen=True):
    """A KubeletConfiguration document: its fields as written, and the line (from 1) of each top-level field."""

    source: str
    fields: Mapping[str, Any]
    lines: Mapping[str, int]

    def place(self, field: str) -> str:
        """Where the field is written: `FILE:LINE`, or the file alone where it is not."""
        top = field.partition(".")[0]
        return f"{self.source}:{self.lines[top]}" if top in self.lines else self.source


def load(data: bytes, source: str) -> KubeletConfig:
    """Reads the first YAML (or JSON) document. Raises CannotRead, with line and column where the text is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(data) > _MAX_BYTES:
        raise CannotRead(f"{source}: larger than {_MAX_BYTES >> 20} MiB, which no kubelet configuration is")
    try:
        text = data.decode("utf-8-sig")
        document = next(iter(YAML(typ="rt").load_all(_shallow(text, source))), None)
    except UnicodeDecodeError as error:
        raise CannotRead(f"{source}: no UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark is not None else source
        raise CannotRead(f"{place}: {_first_line(error.problem or error.context or 'no YAML')}") from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise CannotRead(f"{source}: no YAML: {_first_line(str(error)) or type(error).__name__}") from error
    if not isinstance(document, CommentedMap):
        raise CannotRead(f"{source}: no KubeletConfiguration: it is not a mapping of fields to values")
    lines = {str(key): document.lc.key(key)[0] + 1 for key in document if key in (document.lc.data or {})}
    return KubeletConfig(source=source, fields={str(key): value for key, value in document.items()}, lines=lines)


def _shallow(text: str, source: str) -> str:
    """The text, if its flow collections are not nested so deeply that reading them exhausts the stack."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    if deepest > _MAX_DEPTH:
        raise CannotRead(f"{source}: brackets nested {deepest} deep, which no kubelet configuration has")
    return text


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
