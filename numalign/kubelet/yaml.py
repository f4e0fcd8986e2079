"""YAML as the kubelet reads it: the first document, with the scalar rules of its own YAML library, and every place.

Bare words such as `on` and `yes` are booleans, `0x1`, `0b1`, `010` and `1_0` are numbers, `1:30` is a string. Keys are
strings in the end; of equal keys the last one holds. Nothing in a document is executed, and aliases are not multiplied.
Source: go.yaml.in/yaml/v2 (resolve.go, decode.go) and sigs.k8s.io/yaml, which the kubelet uses.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, NamedTuple

from numalign.errors import CannotRead

__all__ = ["Duplicate", "Parsed", "Path", "read", "scalar"]

Path = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_MAX_DEPTH = 100
_MAX_VALUES = 100_000
"""Values of a document at most, those behind aliases counted each time."""

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_STRING_TAG = "tag:yaml.org,2002:str"


class Duplicate(NamedTuple):
    """A key that stands twice in one mapping: the later line holds."""

    key: str
    line: int


class Parsed(NamedTuple):
    """A document: its value, the line and column (from 1) of every value by its path, and the keys that repeat."""

    value: Any
    places: dict[Path, tuple[int, int]]
    duplicates: tuple[Duplicate, ...]


class _Open:
    """A mapping or list that is being read."""

    __slots__ = ("anchor", "key", "merges", "path", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.key: str | None = None
        self.merges = False
        self.size = 1


def scalar(text: str) -> Any:
    """What a bare scalar means: a boolean, None, a number, or the text itself.

    >>> [scalar(text) for text in ("on", "0x10", "010", "1_0", "1:30", "1e3", "~", "1.5", "0-3")]
    [True, 16, 8, 10, '1:30', 1000.0, None, 1.5, '0-3']
    """
    if text in _WORDS:
        return _WORDS[text]
    if not text or text[0] not in "+-.0123456789" or len(text) > 400:
        return text
    plain = text.replace("_", "")
    match = _INTEGER.fullmatch(plain)
    if match is not None and len(plain) < 80:
        sign, digits = match.groups()
        base = {"x": 16, "b": 2, "o": 8}.get(digits[1:2].lower(), 8 if digits[0] == "0" and len(digits) > 1 else 10)
        number = int(digits[2:] if digits[1:2].lower() in ("x", "b", "o") else digits, base)
        if number < 1 << (63 if sign == "-" else 64):
            return -number if sign == "-" else number
    if _FLOAT.fullmatch(plain if text[0] != "." else text):
        return float(plain)
    return text


def read(data: bytes, source: str) -> Parsed:
    """The first document of a text. Raises CannotRead, with line and column, where it is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.version = "1.1"
    yaml.Scanner = _scanner()
    try:
        return _Reader(source).document(yaml.parse(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise CannotRead(f"{source}: no UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark is not None else source
        raise CannotRead(f"{place}: {(error.problem or error.context or 'no YAML').strip()}") from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise CannotRead(f"{source}: no YAML: {str(error).strip().partition(chr(10))[0] or 'too deep'}") from error


@cache
def _scanner() -> type:
    """ruamel.yaml's scanner that skips tabs where go-yaml does (scannerc.go, yaml_parser_scan_to_next_token): behind a
    value or a colon, and in flow collections."""
    from ruamel.yaml.scanner import Scanner

    class TabScanner(Scanner):
        def scan_to_next_token(self) -> Any:
            super().scan_to_next_token()
            while self.reader.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
                while self.reader.peek() in " \t":
                    self.reader.forward()
                super().scan_to_next_token()

    return TabScanner


def _text(text: str) -> str:
    """The text with surrogate pairs made one character, as JSON means them; a lone one becomes U+FFFD."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Reader:
    """Builds the value of a document from its events, without recursion."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.open: list[_Open] = []
        self.places: dict[Path, tuple[int, int]] = {}
        self.duplicates: list[Duplicate] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.root: Any = None

    def document(self, events: Any) -> Parsed:
        """Everything up to the end of the first document."""
        from ruamel.yaml import events as kinds

        for event in events:
            if isinstance(event, kinds.DocumentEndEvent):
                break
            if isinstance(event, kinds.DocumentStartEvent) and event.version not in (None, (1, 1)):
                raise self._wrong(event, "found incompatible YAML document")
            if isinstance(event, kinds.ScalarEvent):
                quoted = event.style is not None or event.tag == _STRING_TAG or str(event.tag or "") == _STRING_TAG
                value = _text(event.value) if quoted else scalar(_text(event.value))
                if event.anchor:
                    self.anchors[event.anchor] = (value, 1)
                self._put(value, 1, event)
            elif isinstance(event, (kinds.MappingStartEvent, kinds.SequenceStartEvent)):
                self._begin({} if isinstance(event, kinds.MappingStartEvent) else [], event)
            elif isinstance(event, (kinds.MappingEndEvent, kinds.SequenceEndEvent)):
                self._end(event)
            elif isinstance(event, kinds.AliasEvent):
                if event.anchor not in self.anchors:
                    raise self._wrong(event, f"anchor {event.anchor!r} is not known here, or contains itself")
                self._put(*self.anchors[event.anchor], event)
        return Parsed(self.root, self.places, tuple(self.duplicates))

    def _begin(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if len(self.open) >= _MAX_DEPTH:
            raise self._wrong(event, f"nested more than {_MAX_DEPTH} deep, which no kubelet configuration is")
        if self.open and isinstance(self.open[-1].value, dict) and self.open[-1].key is None:
            raise self._wrong(event, "a key must be a scalar")
        self.open.append(_Open(value, self._path(), event.anchor))
        self.places.setdefault(self.open[-1].path, (event.start_mark.line + 1, event.start_mark.column + 1))

    def _end(self, event: Any) -> None:
        done = self.open.pop()
        if done.anchor:
            self.anchors[done.anchor] = (done.value, done.size)
        self._put(done.value, done.size, event, placed=True)

    def _path(self) -> Path:
        if not self.open:
            return ()
        last = self.open[-1]
        return (*last.path, last.key if isinstance(last.value, dict) and last.key is not None else len(last.value))

    def _put(self, value: Any, size: int, event: Any, *, placed: bool = False) -> None:
        """Takes a finished value in where it belongs."""
        if not self.open:
            self.root = value
            return
        last = self.open[-1]
        last.size += size
        if last.size > _MAX_VALUES:
            raise self._wrong(event, "the document contains excessive aliasing or more values than any configuration")
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(last.value, list):
            if not placed:
                self.places.setdefault(self._path(), (line, column))
            last.value.append(value)
        elif last.key is None:
            last.key = _key(value)
            last.merges = value == "<<" and getattr(event, "style", None) is None
            self.places[_at(last.path, last.key, "")] = (line, column)
        else:
            if last.merges:
                self._merge(last, value, event)
            else:
                self._entry(last, value, line, column, placed=placed)

    def _merge(self, mapping: _Open, value: Any, event: Any) -> None:
        """A mapping under `<<` is set in place, over what stands before it; of several the first counts most."""
        several = value if isinstance(value, list) else [value]
        if not all(isinstance(merged, dict) for merged in several):
            raise self._wrong(event, "map merge requires map or sequence of maps as the value")
        assert isinstance(mapping.value, dict)
        mapping.key = None
        for merged in reversed(several):
            mapping.value.update(merged)

    def _entry(self, mapping: _Open, value: Any, line: int, column: int, *, placed: bool) -> None:
        key = mapping.key
        mapping.key = None
        assert isinstance(mapping.value, dict)
        assert key is not None
        if not placed:
            self.places[_at(mapping.path, key)] = (line, column)
        if key in mapping.value:
            self.duplicates.append(Duplicate(key, self.places[_at(mapping.path, key, "")][0]))
        mapping.value[key] = value

    def _wrong(self, event: Any, what: str) -> CannotRead:
        mark = event.start_mark
        return CannotRead(f"{self.source}:{mark.line + 1}:{mark.column + 1}: {what}")


def _at(path: Path, *more: str | int) -> Path:
    return (*path, *more)


def _key(value: Any) -> str:
    """A key as text: the kubelet turns numbers and booleans into strings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
