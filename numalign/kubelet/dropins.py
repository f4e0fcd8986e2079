"""The drop-ins of --config-dir over the file of --config, in the way of each version.

1.28 merges decoded configurations, each with its defaults (mergo); 1.29 to 1.31 patch the JSON of the internal type,
whose keys are Go's names, and decode it over the configuration; from 1.32 it is the JSON of the documented names, and
defaults are set again. A patch is RFC 7386's.
Source: cmd/kubelet/app/server.go (mergeKubeletConfigurations), 1.28 to 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from numalign.kubelet import yaml
from numalign.kubelet.document import (
    API_VERSION,
    KIND,
    Ignored,
    Refused,
    decode,
    dotted,
    go_duration,
    named_places,
    nanoseconds,
    parse,
    unknown,
)
from numalign.kubelet.fields import fields, struct_fields
from numalign.kubelet.other_values import DEFAULTS, POINTERS
from numalign.kubelet.settings import default_eviction_hard

__all__ = ["AFTER_DEFAULTS", "ALPHA", "Files", "Merged", "merge"]

ALPHA = (28, 29)
"""The versions that take --config-dir only with the environment variable KUBELET_CONFIG_DROPIN_DIR_ALPHA."""

Files = Mapping[str, bytes]
Places = Mapping[yaml.Path, str]

_SINCE = 28
_PATCHES_SINCE = 29
_VERSIONED_SINCE = 32
AFTER_DEFAULTS = range(_PATCHES_SINCE, _VERSIONED_SINCE)
"""The versions that set no defaults after they have merged drop-ins."""

_WITHOUT_DEFAULT = frozenset(
    {
        *("reservedSystemCPUs", "cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "reservedMemory"),
        *("kubeReserved", "systemReserved", "kubeReservedCgroup", "systemReservedCgroup", "featureGates"),
    }
)
_GO_BEGINNINGS = {
    # the beginning of a field's documented name -> that of its name in Go, where it is not the same with a capital
    "cpu": "CPU",
    "http": "HTTP",
    "iptables": "IPTables",
    "oom": "OOM",
    "qos": "QOS",
    "resolvConf": "ResolverConfig",
    "tls": "TLS",
}
_TEXT_DEFAULTS: Mapping[str, Any] = {
    # defaults that stand where the field is written as empty text as well
    "cpuManagerPolicy": "none",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "memoryManagerPolicy": "None",
}
_RESETS: Mapping[str, Any] = {
    # what a drop-in of 1.28 sets where it does not name the field
    **_TEXT_DEFAULTS,
    **{field: value for field, value in {**DEFAULTS, **POINTERS}.items() if value},
    "enforceNodeAllocatable": ["pods"],
    "cgroupsPerQOS": True,
    "failSwapOn": True,
    "cpuCFSQuotaPeriod": 100_000_000,
    "memoryThrottlingFactor": 0.9,
    "serializeImagePulls": True,
    "logging": {"format": "text", "flushFrequency": "5s"},
}


class Merged(NamedTuple):
    """A configuration to be taken into its types: its values by field, their places, and what has no effect; of the
    last the values that another of the same field replaces, which are to fit their types all the same."""

    raw: dict[str, Any]
    places: dict[yaml.Path, str]
    ignored: list[Ignored]
    replaced: tuple[tuple[str, Any, str], ...] = ()


class _DropIn(NamedTuple):
    values: dict[str, Any]
    places: dict[yaml.Path, str]
    ignored: list[Ignored]


def merge(raw: Mapping[str, Any], places: Places, drop_ins: Files, minor: int) -> Merged:
    """The drop-ins over the values `raw` in their order. Raises Refused where the kubelet does not take one."""
    if minor < _SINCE:
        raise Refused("decode", "failed to parse kubelet flag: unknown flag: --config-dir", place="--config-dir")
    if minor < _PATCHES_SINCE:
        return _merged_structs(raw, places, drop_ins, minor)
    versioned = minor >= _VERSIONED_SINCE
    names = {field: field if versioned else _go_name(field) for field in fields(minor)}
    # omitempty: empty maps and lists are not written to the versioned JSON, and take their defaults again
    document = {names[field]: value for field, value in raw.items() if not (versioned and value in ({}, []))}
    written = {(names[str(path[0])], *path[1:]): place for path, place in places.items() if _is_in(path, raw, names)}
    written = {path: place for path, place in written.items() if path[0] in document}
    spelled = {name.lower(): field for field, name in names.items()}
    ignored: list[Ignored] = []
    for path, data in drop_ins.items():
        drop_in = _read(path, data, spelled, minor)
        ignored += drop_in.ignored
        document = _patched(document, drop_in.values, written, drop_in.places, ())
    start = Merged({}, {}, ignored) if versioned else Merged(dict(raw), dict(places), ignored)
    for name in sorted(document):
        field = spelled[name.lower()]
        if versioned and name < field and field not in document and field not in _WITHOUT_DEFAULT:
            # the field's default is in the JSON too, further down, and holds
            place = written.get((name,), "drop-in")
            ignored.append(Ignored(name, place, None, False))
            start = start._replace(replaced=(*start.replaced, (field, document[name], place)))
            continue
        start.raw[field] = _decoded_over(start.raw.get(field), document[name])
        _move(start.places, written, name, field, replace=not isinstance(document[name], dict))
    return start


def _is_in(path: yaml.Path, raw: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    return bool(path) and path[0] in raw and path[0] in names


def _go_name(field: str) -> str:
    if field in ("apiVersion", "kind"):
        return field
    for beginning, name in _GO_BEGINNINGS.items():
        rest = field.removeprefix(beginning)
        if rest != field and (not rest or rest[0].isupper()):
            return name + rest
    return field[0].upper() + field[1:]


def _refused(path: str, what: str, line: int | None = None) -> Refused:
    message = f"failed to load kubelet dropin file, path: {path}, {what}"
    return Refused("decode", message, place=f"{path}:{line}" if line else path)


def _read(path: str, data: bytes, spelled: Mapping[str, str], minor: int) -> _DropIn:
    """A drop-in as free JSON, without the fields that are none."""
    if not data:
        raise _refused(path, f'error: kubelet config file "{path}" was empty')
    try:
        parsed, text = parse(data, path)
    except Refused as error:
        raise _refused(path, f"error: {error.message.removeprefix('failed to decode: ')}", error.line) from None
    if parsed.duplicates and minor >= _PATCHES_SINCE:  # the lenient reading of --config is not tried here
        first = parsed.duplicates[0]
        name = first.key.rpartition(".")[2]
        said = f'yaml: unmarshal errors: line {first.line}: key "{name}" already set in map'
        if yaml.is_json(text):
            said = f'duplicate field "{first.key}"'
        raise _refused(path, f"error: strict decoding error: {said}", first.line)
    value = yaml.plain(parsed.value) if isinstance(parsed.value, dict) else {}
    group = f"{value.get('apiVersion')}, Kind={value.get('kind')}"
    if minor < _VERSIONED_SINCE:
        if not value.get("kind"):
            raise _refused(path, f"error: Object 'Kind' is missing in '{text}'")
    elif not value.get("apiVersion") or not value.get("kind"):
        raise _refused(path, "no apiVersion/kind")
    elif (value["apiVersion"], value["kind"]) != (API_VERSION, KIND):
        raise _refused(path, f"unknown apiVersion/kind: {group}")
    known = {name: entry for name, entry in value.items() if name.lower() in spelled}
    skipped: list[yaml.Path] = [(name,) for name in value if name not in known]
    for name, entry in known.items():
        skipped += [(name, *inner[1:]) for inner in unknown({spelled[name.lower()]: entry}, minor)]
    ignored = [Ignored(dotted(at), path, parsed.places.get((*at, ""), (None,))[0], False) for at in skipped]
    ignored += [Ignored(duplicate.key, path, duplicate.line, True) for duplicate in parsed.duplicates]
    return _DropIn(known, named_places(parsed, path), ignored)


def _patched(below: Any, patch: Any, places: dict[yaml.Path, str], patch_places: Places, path: yaml.Path) -> Any:
    """The patch over the value below it: objects key by key, null takes a key out, anything else replaces the whole."""
    if not isinstance(patch, dict):
        for known in [known for known in places if known[: len(path)] == path]:
            del places[known]
        places.update({known: place for known, place in patch_places.items() if known[: len(path)] == path})
        return _without_nulls(patch)
    found = dict(below) if isinstance(below, dict) else {}
    if path in patch_places:
        places.setdefault(path, patch_places[path])
    for name, entry in patch.items():
        inner = (*path, name)
        if entry is None:
            found.pop(name, None)
            for known in [known for known in places if known[: len(inner)] == inner]:
                del places[known]
        else:
            found[name] = _patched(found.get(name), entry, places, patch_places, inner)
    return found


def _without_nulls(value: Any) -> Any:
    """A value that a patch brings anew: its objects lose their null entries, its lists keep theirs."""
    if isinstance(value, dict):
        return {name: _without_nulls(entry) for name, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def _decoded_over(below: Any, value: Any) -> Any:
    """What encoding/json makes of a value that it decodes over another: null leaves it, maps and structs keep their
    other entries, and so do the structs of a list, by position."""
    if value is None:
        return below
    if isinstance(value, dict) and isinstance(below, dict):
        return {**below, **{name: _decoded_over(below.get(name), entry) for name, entry in value.items()}}
    if isinstance(value, list) and isinstance(below, list):
        return [_decoded_over(old, new) for old, new in zip([*below, *[None] * len(value)], value, strict=False)]
    return value


def _move(places: dict[yaml.Path, str], written: Places, name: str, field: str, *, replace: bool) -> None:
    """The places of what is written under a name become those of its field."""
    if replace:
        for known in [known for known in places if known[:1] == (field,)]:
            del places[known]
    places.update({(field, *path[1:]): place for path, place in written.items() if path[:1] == (name,)})


def _merged_structs(raw: Mapping[str, Any], places: Places, drop_ins: Files, minor: int) -> Merged:
    """1.28: what is not zero in a drop-in after its defaults were set replaces what is below, maps entry by entry."""
    merged, known = Merged(dict(raw), dict(places), []), fields(minor)
    resets = {field: _as_written(value, known[field]) for field, value in _RESETS.items() if field in known}
    for path, data in drop_ins.items():
        try:
            drop_in = decode(data, path, minor)
        except Refused as error:
            raise _refused(path, f"error: {error.message}", error.line) from None
        merged.ignored.extend(drop_in.ignored)
        own = {
            name: entry
            for name, entry in drop_in.raw.items()
            if not (_is_zero(entry, known[name]) and name in {**_TEXT_DEFAULTS, **DEFAULTS})
        }
        own["evictionHard"] = dict(default_eviction_hard(drop_in.values, minor))
        if (drop_in.values.get("maxParallelImagePulls") or 0) > 1:
            own.setdefault("serializeImagePulls", False)
        if isinstance(own.get("logging"), dict):
            own["logging"] = _overridden(resets["logging"], own["logging"], known["logging"], minor)
        for field, value in {**resets, **own}.items():
            below = merged.raw.get(field, resets.get(field))
            if _is_zero(value, known[field]) or value == below:
                continue
            written: dict[yaml.Path, str] = {(field,): path}
            if isinstance(below, dict) and isinstance(value, dict):
                written = {(field, key): path for key in value}
                value = _overridden(below, value, known[field], minor)
            merged.raw[field] = value
            written.update({known: place for known, place in drop_in.places.items() if known[:1] == (field,)})
            _move(merged.places, written, field, field, replace=not isinstance(below, dict))
    return merged


def _as_written(value: Any, kind: str) -> Any:
    return go_duration(value) if kind == "duration" else value


def _is_zero(value: Any, kind: str) -> bool:
    """Whether a value is its type's zero, which replaces nothing."""
    return not value or (kind == "duration" and nanoseconds(value) == 0)


def _overridden(below: Mapping[str, Any], value: Mapping[str, Any], kind: str, minor: int) -> dict[str, Any]:
    """A map takes in every entry of the other; a structure those that are not zero, field by field."""
    inner = struct_fields(kind, minor)
    if inner is None:
        return {**below, **value}
    found = dict(below)
    for name, entry in value.items():
        if name not in inner or _is_zero(entry, inner[name]):
            continue
        old = found.get(name)
        if isinstance(old, dict) and isinstance(entry, dict):
            entry = _overridden(old, entry, inner[name], minor)
        found[name] = entry
    return found
