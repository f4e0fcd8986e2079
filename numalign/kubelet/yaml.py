"""YAML as the kubelet reads it: the first document, with the scalar rules of its own YAML library, and every place.

Bare words such as `on` and `yes` are booleans, `0x1`, `0b1`, `010` and `1_0` are numbers, `1:30` is a string. Keys are
strings in the end; of equal keys the last one holds. Nothing in a document is executed, and aliases are not multiplied.
Source: go.yaml.in/yaml/v2 (resolve.go, decode.go) and sigs.k8s.io/yaml, which the kubelet uses.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from numalign.errors import CannotRead

__all__ = [
    "Duplicate",
    "JsonNumber",
    "NoYaml",
    "Parsed",
    "Path",
    "events",
    "is_json",
    "key_text",
    "plain",
    "read",
    "read_all",
    "scalar",
]

T = TypeVar("T")
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
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_POINTED = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
"""What begins with a point goes to Go's strconv.ParseFloat as it is."""
_WHERE = re.compile(r"^yaml: (line \d+: )?")
"""What stands before what is wrong, in the words of the kubelet's YAML library."""
_TAG = "tag:yaml.org,2002:"
_RESOLVED_TAGS = frozenset({"bool", "int", "float", "null", "timestamp"})
_TIMESTAMP = (
    # the forms of resolve.go's allowedTimestampFormats; a comma may begin a fraction in Go
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})([.,][0-9]+)?(?:Z|[-+](?:[01][0-9]|2[0-4]):[0-5][0-9])"
    r"| +([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})([.,][0-9]+)?)?"
)
_MERGE_KEY = "<<"
_SURROGATE = re.compile("[\ud800-\udfff]")
_KIND_TAGS = {bool: "!!bool", int: "!!int", float: "!!float", str: "!!str", type(None): "!!null"}


class NoYaml(CannotRead):
    """A text that is no YAML, or none that can be JSON: the line, from 1, and what the kubelet says of it; `at_once`
    where it does so while it reads the text, and not only with the whole of it read."""

    def __init__(self, source: str, place: tuple[int, int], said: str, *, at_once: bool = True) -> None:
        self.at_once = at_once
        self.line = place[0]
        self.said = said
        super().__init__(f"{source}:{place[0]}:{place[1]}: {_WHERE.sub('', said)}")


class Duplicate(NamedTuple):
    """A key that stands twice in one mapping: the later line holds."""

    key: str
    line: int


class JsonNumber(float):
    """A number of a JSON document with a fraction or exponent: no whole number to Go, whatever its value."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Parsed(NamedTuple):
    """A document: its value, the line and column (from 1) of every value by its path, and the keys that repeat."""

    value: Any
    places: dict[Path, tuple[int, int]]
    duplicates: tuple[Duplicate, ...]


class _Open:
    """A mapping or list that is being read."""

    __slots__ = ("anchor", "key", "odd_key", "path", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.key: str | None = None
        self.odd_key: str | None = None
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
    shape = _POINTED if text[0] == "." else _FLOAT
    if shape.fullmatch(text if text[0] == "." else plain) and math.isfinite(fraction := float(plain)):
        return fraction
    return text


def _is_timestamp(text: str) -> bool:
    """Whether a text is a date, or a date and time, that there is."""
    match = re.fullmatch(_TIMESTAMP, text) if text[:4].isdecimal() else None
    if match is None:
        return False
    import datetime  # dates are rare

    try:
        datetime.date(*map(int, match[1].split("-")))
    except ValueError:
        return False
    hours, minutes, seconds = (int(match[at] or match[at + 4] or 0) for at in (2, 3, 4))
    return hours < 24 and minutes < 60 and seconds < 60


def is_json(text: str) -> bool:
    """Whether the kubelet takes a text for JSON: it begins with a brace."""
    return text.lstrip().startswith("{")


def read(data: bytes, source: str) -> Parsed:
    """The first document of a text. Raises CannotRead, with line and column, where it is no YAML."""
    return _made(_first_of(_decoded(data, source)), source, _first)


def read_all(data: bytes, source: str) -> list[Parsed]:
    """Every document of a text, as kubectl reads them. Raises CannotRead as `read` does."""
    return _made(_decoded(data, source), source, lambda text, source: list(_documents(text, source)))


def _first(text: str, source: str) -> Parsed:
    return _Reader(source, json=is_json(text)).document(events(text, json=is_json(text)))


def _documents(text: str, source: str) -> Iterator[Parsed]:
    from ruamel.yaml.events import DocumentStartEvent

    stream = events(text, json=is_json(text))
    for event in stream:
        if isinstance(event, DocumentStartEvent):
            yield _Reader(source, json=is_json(text)).document(chain((event,), stream))


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CannotRead(f"{source}: no UTF-8 text: byte {error.start} is {data[error.start]:#04x}") from error


def _first_of(text: str) -> str:
    """The text up to the end of its first document, where that is marked: what follows is not read."""
    end = None if is_json(text) else _END_OF_DOCUMENT.search(text)
    return text if end is None else text[: end.end()]


def _made(text: str, source: str, make: Callable[[str, str], T]) -> T:
    """What `make` makes of the text; what the YAML library complains about is CannotRead."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        return make(text, source)
    except MarkedYAMLError as error:
        from numalign.kubelet.yaml_words import words

        mark = error.problem_mark or error.context_mark
        raise NoYaml(source, (mark.line + 1, mark.column + 1), words(error, len(text))) from error
    except ReaderError as error:
        before = text[: error.position]
        place = (before.count("\n") + 1, error.position - before.rfind("\n"))
        raise NoYaml(source, place, "yaml: control characters are not allowed") from error
    except (YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ValueError) and is_json(text):
            value = str(error).rpartition(": ")[2]
            raise CannotRead(
                f"{source}: it begins with a brace and so is read as JSON, in which {value} is no value"
            ) from error
        raise CannotRead(f"{source}: no YAML: {str(error).strip().partition(chr(10))[0] or 'too deep'}") from error


_END_OF_DOCUMENT = re.compile(r"(?<=\n)\.\.\.(?=[ \t\r\n]|$)")


def events(text: str, *, json: bool = False) -> Iterator[Any]:
    """The events of a text as ruamel.yaml has them, its tokens those of the kubelet's library. Raises YAMLError."""
    from ruamel.yaml import YAML

    from numalign.kubelet.yaml_scanner import JsonScanner, KubeletReader, KubeletScanner, as_yaml

    yaml = YAML(typ="safe", pure=True)
    yaml.version = "1.1"
    yaml.Reader = KubeletReader
    yaml.Scanner = JsonScanner if json else KubeletScanner
    return iter(yaml.parse(as_yaml(text) if json else text))


class _Merge(str):
    """The key `<<`, where it is one that merges and no text."""

    __slots__ = ()


_MERGE = _Merge(_MERGE_KEY)


class _Reader:
    """Builds the value of a document from its events, without recursion."""

    def __init__(self, source: str, *, json: bool) -> None:
        self.source = source
        self.json = json
        self.open: list[_Open] = []
        self.places: dict[Path, tuple[int, int]] = {}
        self.duplicates: list[Duplicate] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.odd: NoYaml | None = None
        self.root: Any = None

    def document(self, events: Any) -> Parsed:
        """Everything up to the end of the first document. What is wrong with its values is said once it is read as a
        whole: an error of the grammar further down comes before."""
        from ruamel.yaml.events import DocumentEndEvent

        try:
            return self._document(events)
        except NoYaml as error:
            if not error.at_once:
                next((event for event in events if isinstance(event, DocumentEndEvent)), None)
            raise

    def _document(self, events: Any) -> Parsed:
        from ruamel.yaml import events as kinds

        for event in events:
            if isinstance(event, kinds.DocumentEndEvent):
                break
            if isinstance(event, kinds.DocumentStartEvent) and (event.version or (1, 1)) != (1, 1):
                raise self._wrong(event, "found incompatible YAML document", at_once=True)
            if isinstance(event, kinds.ScalarEvent):
                value = self._scalar(event)
                if event.anchor:
                    self.anchors[event.anchor] = (value, 1)
                self._put(value, 1, event)
            elif isinstance(event, (kinds.MappingStartEvent, kinds.SequenceStartEvent)):
                self._begin({} if isinstance(event, kinds.MappingStartEvent) else [], event)
            elif isinstance(event, (kinds.MappingEndEvent, kinds.SequenceEndEvent)):
                self._end(event)
            elif isinstance(event, kinds.AliasEvent):
                if event.anchor not in self.anchors:
                    raise self._wrong(event, self._no_anchor(event.anchor), at_once=True)
                self._put(*self.anchors[event.anchor], event, alias=True)
        if self.odd is not None:
            raise self.odd
        return Parsed(self.root, self.places, tuple(self.duplicates))

    def _no_anchor(self, name: str) -> str:
        inside = any(part.anchor == name for part in self.open)
        return f"anchor '{name}' value contains itself" if inside else f"unknown anchor '{name}' referenced"

    def _scalar(self, event: Any) -> Any:
        """The value of a scalar by its style and tag; a tag makes quoted text a number or boolean too."""
        text = self._characters(event)
        tag = str(event.tag or "")
        kind = tag.removeprefix(_TAG)
        if self._is_merge(event, tag):
            return _MERGE
        if tag in ("", "!") or kind == tag:
            # a tag of the document's own and a lone `!` leave the text as it is
            return self._number(text) if tag == "" and event.style is None else text
        if kind == "binary":
            return self._binary(text, event)
        return self._resolved(text, kind, event) if kind in _RESOLVED_TAGS else text

    def _is_merge(self, event: Any, tag: str) -> bool:
        key = bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None
        merges = tag == f"{_TAG}merge" or (not self.json and event.style is None and tag in ("", "!"))
        return key and event.value == _MERGE_KEY and merges

    def _characters(self, event: Any) -> str:
        """The text of a scalar. Escapes of UTF-16 halves are pairs in JSON, a lone one is U+FFFD, as in Go; the
        kubelet's YAML takes none at all."""
        text: str = event.value
        if not _SURROGATE.search(text):
            return text
        if not self.json:
            line = f"yaml: line {event.start_mark.line + 1}: " if event.start_mark.line else "yaml: "
            raise self._wrong(event, "found invalid Unicode character escape code", line, at_once=True)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _number(self, text: str) -> Any:
        value = scalar(text)
        fraction = isinstance(value, float) or (isinstance(value, str) and text[:1] in "-0123456789")
        return JsonNumber(text) if self.json and fraction else value

    def _binary(self, text: str, event: Any) -> str:
        try:
            return base64.b64decode("".join(text.split("\n")), validate=True).decode("utf-8", "replace")
        except binascii.Error:
            raise self._wrong(event, "!!binary value contains invalid base64 data") from None

    def _resolved(self, text: str, kind: str, event: Any) -> Any:
        """A value with an explicit tag, which it has to be of; a whole number is a float too."""
        if kind == "timestamp" and _is_timestamp(text):
            return text
        value = scalar(text)
        found = _KIND_TAGS[type(value)]
        if kind == "float" and found == "!!int":
            return float(value)
        if found != f"!!{kind}":
            raise self._wrong(event, f"cannot decode {found} `{text}` as a !!{kind}")
        return value

    def _begin(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if len(self.open) >= _MAX_DEPTH:
            raise self._wrong(
                event, f"nested more than {_MAX_DEPTH} deep, which no kubelet configuration is", at_once=True
            )
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

    def _put(self, value: Any, size: int, event: Any, *, placed: bool = False, alias: bool = False) -> None:
        """Takes a finished value in where it belongs."""
        key = bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None
        if isinstance(value, float) and not math.isfinite(value) and not key and not self.json:
            # encoding/json, through which every YAML document goes
            name = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
            raise self._wrong(event, f"json: unsupported value: {name}", "")
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
            if isinstance(value, (dict, list)):
                raise self._wrong(event, f"invalid map key: {_go_syntax(value)}")
            last.key = value if value is _MERGE else key_text(value)
            last.odd_key = None if self.json else _odd_key(value)
            self.places[_at(last.path, last.key, "")] = (line, column)
        else:
            self._entry(last, value, event, placed=placed, alias=alias)

    def _entry(self, mapping: _Open, value: Any, event: Any, *, placed: bool, alias: bool) -> None:
        key = mapping.key
        mapping.key = None
        assert isinstance(mapping.value, dict)
        assert key is not None
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if key is _MERGE:
            self._merge(mapping, value, event, alias=alias)
            return
        if mapping.odd_key and self.odd is None:
            # said once the whole document is read
            self.odd = self._wrong(event, f"{mapping.odd_key}, value: {_go_syntax(value)}", "")
        if not placed:
            self.places[_at(mapping.path, key)] = (line, column)
        if key in mapping.value:
            self.duplicates.append(Duplicate(key, self.places[_at(mapping.path, key, "")][0]))
        mapping.value[key] = value

    def _merge(self, mapping: _Open, value: Any, event: Any, *, alias: bool) -> None:
        """Takes the entries of `<<` in at its place (decode.go, merge): over the keys before it, under those after it,
        the first of several last."""
        merged = value[::-1] if isinstance(value, list) and not alias else [value]
        if not all(isinstance(entries, dict) for entries in merged):
            raise self._wrong(event, "map merge requires map or sequence of maps as the value")
        assert isinstance(mapping.value, dict)
        place = self.places[_at(mapping.path, _MERGE, "")]
        for entries in merged:
            mapping.value.update(entries)
            for name in entries:
                self.places[_at(mapping.path, name)] = self.places[_at(mapping.path, name, "")] = place

    def _wrong(self, event: Any, what: str, library: str = "yaml: ", *, at_once: bool = False) -> NoYaml:
        mark = event.start_mark
        return NoYaml(self.source, (mark.line + 1, mark.column + 1), library + what, at_once=at_once)


def plain(value: Any) -> Any:
    """A value with every JsonNumber as the number that it is: what is left of it once it has been decoded."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return float(value) if isinstance(value, JsonNumber) else value


def _at(path: Path, *more: str | int) -> Path:
    return (*path, *more)


def key_text(value: Any) -> str:
    """A key as text: the kubelet turns numbers and booleans into strings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_key(value)
    return "null" if value is None else str(value)


def _float_key(value: float) -> str:
    """A key as Go prints a number in 32 bits: the fewest digits, an exponent from a million on."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    try:
        single = struct.pack("<f", value)
        digits = next(count for count in range(1, 18) if struct.pack("<f", float(f"{value:.{count}g}")) == single)
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    return f"{value:.{digits - 1}e}" if digits > 6 and abs(value) >= 1e6 else f"{value:.{max(digits, 6)}g}"


def _odd_key(value: Any) -> str | None:
    """What is said of a key that cannot be one in JSON (sigs.k8s.io/yaml, convertToJSONableObject)."""
    said = "unsupported map key of type"
    if value is None:
        return f"{said}: %!s(<nil>), key: <nil>"
    large = isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 63
    return f"{said}: uint64, key: {value:#x}" if large else None


def _go_syntax(value: Any, *, inner: bool = False) -> str:
    """A value as Go prints it with %#v."""
    if isinstance(value, dict):
        entries = ", ".join(f'"{key}":{_go_syntax(value[key], inner=True)}' for key in sorted(value))
        return f"map[interface {{}}]interface {{}}{{{entries}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_go_syntax(entry, inner=True) for entry in value)}}}"
    if value is None:
        return "interface {}(nil)" if inner else "<nil>"
    return f'"{value}"' if isinstance(value, str) else key_text(value)
