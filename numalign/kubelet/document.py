"""Decoding a KubeletConfiguration as the kubelet does: types checked, unknown and repeated fields left out, and told.

Source: pkg/kubelet/kubeletconfig/util/codec/codec.go (strict decoding, then lenient), k8s.io/apimachinery's json
serializer and sigs.k8s.io/json; the words are Go's encoding/json's.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from numalign.errors import CannotRead
from numalign.kubelet import gojson, yaml
from numalign.kubelet.fields import fields, struct_fields
from numalign.quantity import Quantity

__all__ = [
    "API_VERSION",
    "KIND",
    "Document",
    "Ignored",
    "Refused",
    "TextDuration",
    "decode",
    "dotted",
    "go_duration",
    "go_float",
    "named_places",
    "parse",
    "typed",
    "unknown",
]

API_VERSION = "kubelet.config.k8s.io/v1beta1"
KIND = "KubeletConfiguration"
_MAX_BYTES = 128 << 10

_META = {"apiversion": "apiVersion", "kind": "kind"}
_TYPE_META = r"""struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"""
_OTHER_KINDS = {
    # what else the kubelet's scheme has, and since when
    (API_VERSION, "SerializedNodeConfigSource"): 0,
    (API_VERSION, "CredentialProviderConfig"): 0,
    (API_VERSION, "ImagePullIntent"): 35,
    (API_VERSION, "ImagePulledRecord"): 35,
    ("kubelet.config.k8s.io/v1", "CredentialProviderConfig"): 0,
}

_POLICY_OF = {
    "cpuManagerPolicyOptions": "cpuManagerPolicy",
    "reservedSystemCPUs": "cpuManagerPolicy",
    "reservedMemory": "memoryManagerPolicy",
    "topologyManagerPolicyOptions": "topologyManagerPolicy",
    "topologyManagerScope": "topologyManagerPolicy",
}
"""The field that a finding points to where the field itself is not written."""


class Refused(Exception):
    """The kubelet does not start on the configuration: the stage at which it stops, its message, and where: a path and
    line of the file of --config, or the `place` itself, a drop-in's or a flag."""

    def __init__(
        self, stage: str, message: str, path: yaml.Path = (), line: int | None = None, place: str | None = None
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.path = path
        self.line = line
        self.place = place

    def placed(self, source: str) -> str:
        """`FILE:LINE`, where the file of --config is `source`."""
        return self.place or (f"{source}:{self.line}" if self.line else source)


class Ignored(msgspec.Struct, frozen=True):
    """A field that has no effect: unknown to this version, or written again further down."""

    field: str
    source: str
    line: int | None
    repeated: bool

    @property
    def place(self) -> str:
        """`FILE:LINE` of the field."""
        return f"{self.source}:{self.line}" if self.line else self.source


class TextDuration(int):
    """Nanoseconds that are written as text (`1s`), where a number can stand as well."""

    __slots__ = ()


class Document(msgspec.Struct, frozen=True):
    """A configuration as decoded: the known fields, of their types, null ones left out; and where they stand.

    `raw` has them as they were written, to merge; `drop_ins` are the files that were.
    """

    source: str
    values: Mapping[str, Any]
    raw: Mapping[str, Any]
    places: Mapping[yaml.Path, str]
    ignored: tuple[Ignored, ...]
    drop_ins: tuple[str, ...] = ()

    def place(self, *path: str | int) -> str:
        """`FILE:LINE` of a field (where its name stands), or of what is written nearest to it: the field around it, or
        the policy that it belongs to."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.places:
                return self.places[path[:end]]
        return self.places.get((_POLICY_OF.get(str(path[0]), ""),), self.source) if path else self.source


def decode(data: bytes, source: str, minor: int) -> Document:
    """The document that a kubelet of a minor version takes `data` for.

    Raises Refused (stage `decode`) where it takes it for none, CannotRead where the text is larger than any.
    """
    if not data:
        raise Refused("decode", f'kubelet config file "{source}" was empty')
    parsed, text = parse(data, source)
    try:
        _type_meta(parsed.value, text, minor)
        json = yaml.is_json(text)
        decoder = _Decoder(minor, json=json)
        values = decoder.object(parsed.value, KIND, (), decoder.known, sort=not json)
    except Refused as refused:
        if refused.line is None and refused.path:
            place = parsed.places.get((*refused.path, "")) or parsed.places.get(refused.path)
            refused.line = place[0] if place else None
        raise
    ignored = [
        Ignored(dotted(path), source, parsed.places.get((*path, ""), (None,))[0], False) for path in decoder.unknown
    ]
    ignored += [Ignored(duplicate.key, source, duplicate.line, True) for duplicate in parsed.duplicates]
    raw = {
        name: yaml.plain(entry) for name, entry in parsed.value.items() if name in decoder.known and entry is not None
    }
    places = named_places(parsed, source)
    return Document(source=source, values=values, raw=raw, places=places, ignored=tuple(ignored))


def typed(values: Mapping[str, Any], minor: int) -> dict[str, Any]:
    """Values that are no text of their own (merged ones) taken into the fields' types. Raises Refused."""
    decoder = _Decoder(minor)
    return decoder.object(values, KIND, (), decoder.known)


def unknown(values: Mapping[str, Any], minor: int) -> list[yaml.Path]:
    """The paths of fields that are none, up to the first value of a wrong type."""
    decoder = _Decoder(minor)
    with contextlib.suppress(Refused):
        decoder.object(values, KIND, (), decoder.known)
    return decoder.unknown


def named_places(parsed: yaml.Parsed, source: str) -> dict[yaml.Path, str]:
    """`FILE:LINE` of every field: where its name stands, or an entry of a list begins."""
    found = {path: f"{source}:{place[0]}" for path, place in parsed.places.items() if not path or path[-1] != ""}
    found.update(
        {path[:-1]: f"{source}:{place[0]}" for path, place in parsed.places.items() if path and path[-1] == ""}
    )
    return found


def parse(data: bytes, source: str) -> tuple[yaml.Parsed, str]:
    """The value of the text; a text that begins with a brace has to be JSON. Raises Refused, CannotRead where it is
    larger than any: a configuration is a few KiB."""
    if len(data) > _MAX_BYTES:
        raise CannotRead(f"{source}: larger than {_MAX_BYTES >> 10} KiB, which no kubelet configuration is")
    text = data.decode("utf-8-sig", "replace")
    if yaml.is_json(text):
        try:
            gojson.decode(text)
        except ValueError as error:
            raise Refused("decode", f"failed to decode: couldn't get version/kind; json parse error: {error}") from None
    try:
        return yaml.read(data, source), text
    except yaml.NoYaml as error:
        raise Refused("decode", f"failed to decode: {error.said}", line=error.line) from None
    except CannotRead as error:
        raise Refused("decode", error.message) from None


def _type_meta(value: Any, text: str, minor: int) -> None:
    """Refuses what is no KubeletConfiguration. The two names are read in any letters (apimachinery's
    serializer/json/meta.go), of several the last: YAML becomes JSON with sorted keys."""
    before = "failed to decode: couldn't get version/kind; json parse error: json: cannot unmarshal"
    if value is not None and not isinstance(value, dict):
        raise Refused("decode", f"{before} {gojson.kind_of(value)} into Go value of type {_TYPE_META}")
    names = value if isinstance(value, dict) else {}
    meta: dict[str, str] = {}
    for name in names if yaml.is_json(text) else sorted(names):
        field = _META.get(name.lower())
        if field is None or names[name] is None:
            continue
        if not isinstance(names[name], str):
            what = gojson.kind_of(names[name])
            raise Refused("decode", f"{before} {what} into Go struct field .{field} of type string", (name,))
        meta[field] = names[name]
    version, kind = meta.get("apiVersion", ""), meta.get("kind")
    if version.count("/") > 1:
        raise Refused("decode", f"failed to decode: unexpected GroupVersion string: {version}", ("apiVersion",))
    if not kind:
        raise Refused("decode", f"failed to decode: Object 'Kind' is missing in '{text}'")
    if not version:
        raise Refused("decode", f"failed to decode: Object 'apiVersion' is missing in '{text}'")
    if (version, kind) != (API_VERSION, KIND):
        field = "kind" if version == API_VERSION else "apiVersion"
        if minor >= _OTHER_KINDS.get((version, kind), minor + 1):
            message = f"failed to cast object to {KIND}, unexpected type: {version}, Kind={kind}"
        else:
            message = f'failed to decode: no kind "{kind}" is registered for version "{version}" in scheme'
        raise Refused("decode", message, (field,))


class _Decoder:
    """Takes values into Go's types; the first that does not fit ends it, in the order in which Go meets them."""

    def __init__(self, minor: int, *, json: bool = False) -> None:
        self.minor = minor
        self.known = fields(minor)
        self.json = json
        self.map_at: int | None = None
        self.unknown: list[yaml.Path] = []
        self.struct = KIND

    def object(
        self, value: Any, struct: str, path: yaml.Path, known: Mapping[str, str], *, sort: bool = True
    ) -> dict[str, Any]:
        """An object of a struct type; fields that it does not have are noted and left out."""
        found = {}
        for name in sorted(value) if sort else value:
            if name not in known:
                self.unknown.append((*path, name))
                continue
            entry = self.value(value[name], known[name], struct, (*path, name))
            if entry is not None:
                found[name] = entry
        return found

    def value(self, value: Any, kind: str, struct: str, path: yaml.Path) -> Any:
        """A value of a Go type; null leaves a field as it is, but for a duration, which is asked to read it
        (apimachinery's meta/v1/duration.go)."""
        if value is None:
            if kind == "duration" and path[-1] not in _DURATION_POINTERS:
                raise Refused("decode", 'failed to decode: time: invalid duration ""', path)
            return None
        simple = _SIMPLE.get(kind)
        if simple is not None:
            if self.json and isinstance(value, yaml.JsonNumber) and kind in _RANGES:
                raise self.refuse(value, kind, struct, path)
            return simple(value, lambda wanted=kind: self.refuse(value, wanted, struct, path), path)
        if kind.startswith("map[string]"):
            return self.entries(value, kind, kind.removeprefix("map[string]"), struct, path)
        if kind.startswith("[]"):
            if not isinstance(value, list):
                raise self.refuse(value, kind, struct, path)
            empty = _EMPTY.get(kind[2:])
            items = (self.value(item, kind[2:], struct, (*path, position)) for position, item in enumerate(value))
            return [empty if item is None else item for item in items]
        if kind == "v1.ResourceList":
            return self.entries(value, kind, "quantity", struct, path)
        if not isinstance(value, dict):
            raise self.refuse(value, kind, struct, path)
        inner = struct_fields(kind, self.minor)
        return value if inner is None else self.object(value, kind.rpartition(".")[2], path, inner)

    def entries(self, value: Any, kind: str, inner: str, struct: str, path: yaml.Path) -> dict[str, Any]:
        """A map; its null entries are empty values."""
        if not isinstance(value, dict):
            raise self.refuse(value, kind, struct, path)
        empty = _EMPTY.get(inner)
        found = {}
        self.map_at = len(path)
        for key in sorted(value):
            entry = self.value(value[key], inner, struct, (*path, key))
            found[key] = empty if entry is None else entry
        self.map_at = None
        return found

    def refuse(self, value: Any, kind: str, struct: str, path: yaml.Path) -> Refused:
        """Go's word for a value that does not fit its type."""
        what = gojson.kind_of(value)
        if what == "number" and (kind in _RANGES or kind == "float64"):
            what = f"number {value.text if isinstance(value, yaml.JsonNumber) else gojson.number(value)}"
        field = ".".join(part for part in path[: self.map_at] if isinstance(part, str))
        message = f"json: cannot unmarshal {what} into Go struct field {struct}.{field} of type {kind}"
        return Refused("decode", f"failed to decode: {message}", path)


_EMPTY: dict[str, Any] = {"string": "", "bool": False, "quantity": Quantity()}
_DURATION_POINTERS = ("containerLogMonitorInterval", "cpuCFSQuotaPeriod", "maxContainerRestartPeriod")
"""Durations that may be null."""
_RANGES = {
    "int32": (-(1 << 31), 1 << 31),
    "int64": (-(1 << 63), 1 << 63),
    "time.Duration": (-(1 << 63), 1 << 63),
    "v1.VerbosityLevel": (0, 1 << 32),
}

Refuse = Callable[..., Refused]


def _string(value: Any, refuse: Refuse, path: yaml.Path) -> str:
    if not isinstance(value, str):
        raise refuse()
    return value


def _bool(value: Any, refuse: Refuse, path: yaml.Path) -> bool:
    if not isinstance(value, bool):
        raise refuse()
    return value


def _integer(kind: str) -> Callable[[Any, Refuse, yaml.Path], int]:
    first, end = _RANGES[kind]

    def integer(value: Any, refuse: Refuse, path: yaml.Path) -> int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 1e21)
        if isinstance(value, bool) or not whole or not first <= int(value) < end:
            raise refuse()
        return int(value)

    return integer


def _float(value: Any, refuse: Refuse, path: yaml.Path) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise refuse()
    return float(value)


def _duration(value: Any, refuse: Refuse, path: yaml.Path) -> int:
    """Nanoseconds of Go's `1h2m3.5s`."""
    if not isinstance(value, str):
        what = gojson.kind_of(value)
        raise Refused("decode", f"failed to decode: json: cannot unmarshal {what} into Go value of type string", path)
    try:
        return nanoseconds(value)
    except ValueError as error:
        raise Refused("decode", f"failed to decode: {error}", path) from None


def _flush_frequency(value: Any, refuse: Refuse, path: yaml.Path) -> int:
    """Text is a duration, a number nanoseconds (component-base/logs/api/v1/types.go, TimeOrMetaDuration)."""
    if isinstance(value, str):
        return TextDuration(_duration(value, refuse, path))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    said = gojson.encoded(value)
    what = f"number {said}" if gojson.kind_of(value) == "number" else gojson.kind_of(value)
    message = f'invalid duration "{said}": json: cannot unmarshal {what} into Go value of type time.Duration'
    raise Refused("decode", f"failed to decode: {message}", path)


def _time(value: Any, refuse: Refuse, path: yaml.Path) -> str:
    if not isinstance(value, str):
        what = gojson.kind_of(value)
        raise Refused("decode", f"failed to decode: json: cannot unmarshal {what} into Go value of type string", path)
    return value


def _quantity(value: Any, refuse: Refuse, path: yaml.Path) -> Quantity:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        value = int(value)  # Go writes such a number into JSON without its point
    try:
        return Quantity.parse(value if isinstance(value, str) else str(value).lower() if value is not None else "")
    except ValueError as error:
        raise Refused("decode", f"failed to decode: {error}", path) from None


_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_MOST = 1 << 63


def nanoseconds(text: str) -> int:
    """A duration as Go's time.ParseDuration reads it; raises ValueError with Go's message."""
    import re

    sign, rest = (-1 if text[:1] == "-" else 1), text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    invalid = ValueError(f'time: invalid duration "{text}"')
    total, at = 0, 0
    part = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)")
    while at < len(rest) or not rest:
        match = part.match(rest, at)
        if match is None or not (match[1] or match[2]):
            raise invalid
        if not match[3]:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if match[3] not in _UNITS:
            raise ValueError(f'time: unknown unit "{match[3]}" in duration "{text}"')
        total += _scaled(match[1] or "0", match[2] or "", _UNITS[match[3]])
        at = match.end()
        if total > _MOST:
            raise invalid
    if total == _MOST and sign > 0:
        raise invalid
    return sign * total


def _scaled(whole: str, fraction: str, unit: int) -> int:
    """So many units; the fraction in floating point, without the digits that are too many for 64 bits."""
    digits = fraction[:18] if len(fraction) > 18 and int(fraction[:19]) >= _MOST else fraction[:19]
    if len(whole.lstrip("0")) > 19:
        return _MOST + 1
    return int(whole) * unit + int(float(int(digits or "0")) * (float(unit) / 10.0 ** len(digits)))


def go_duration(nanoseconds: int) -> str:
    """A duration as Go prints it.

    >>> go_duration(5_000_000), go_duration(2_000_000_000), go_duration(1500), go_duration(5400 * 10**9)
    ('5ms', '2s', '1.5µs', '1h30m0s')
    >>> go_duration(59_123_456_789), go_duration(36_000_000_000_001)
    ('59.123456789s', '10h0m0.000000001s')
    """
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    for unit, size in (("ns", 1), ("µs", 1000), ("ms", 10**6)):
        if rest < size * 1000:
            return f"{sign}{rest / size:.9g}{unit}" if rest else "0s"
    minutes, seconds = divmod(rest, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    whole, rest = divmod(seconds, 10**9)
    text = f"{whole}.{rest:09}".rstrip("0").rstrip(".") + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def go_float(value: float) -> str:
    """A finite number as Go prints it with %v: the fewest digits, an exponent from a million on.

    >>> go_float(1.5), go_float(1.23456789), go_float(100.0), go_float(12345678.5), go_float(1e6), go_float(-5e-8)
    ('1.5', '1.23456789', '100', '1.23456785e+07', '1e+06', '-5e-08')
    """
    digits = next(count for count in range(1, 18) if float(f"{value:.{count}g}") == value)
    return f"{value:.{digits - 1}e}" if digits > 6 and abs(value) >= 1e6 else f"{value:.{max(digits, 6)}g}"


_SIMPLE: dict[str, Callable[[Any, Refuse, yaml.Path], Any]] = {
    "string": _string,
    "bool": _bool,
    "int32": _integer("int32"),
    "int64": _integer("int64"),
    "time.Duration": _integer("time.Duration"),
    "v1.VerbosityLevel": _integer("v1.VerbosityLevel"),
    "v1.TaintEffect": _string,
    "v1beta1.KubeletAuthorizationMode": _string,
    "flushFrequency": _flush_frequency,
    "time": _time,
    "float64": _float,
    "duration": _duration,
    "quantity": _quantity,
}


def dotted(path: yaml.Path) -> str:
    """`reservedMemory[0].limits`, as the API machinery writes a path."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
