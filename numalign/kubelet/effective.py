"""The effective configuration: the file, drop-ins over it, the command line over both; and where each value is from.

Source: cmd/kubelet/app/server.go (loadConfigFile, kubeletConfigFlagPrecedence), 1.27 to 1.36.
"""

from __future__ import annotations

from typing import Any

from numalign.kubelet import yaml
from numalign.kubelet.document import Document, Refused, decode, typed
from numalign.kubelet.dropins import AFTER_DEFAULTS, Files, Merged, merge
from numalign.kubelet.fields import fields
from numalign.kubelet.flags import FLAGS, Flags, flag_value
from numalign.kubelet.settings import default_eviction_hard
from numalign.quantity import Quantity

__all__ = ["effective"]

_DEFAULT = "default"
_DEFAULT_WHERE_EMPTY = ("cpuManagerPolicy", "topologyManagerPolicy", "topologyManagerScope", "memoryManagerPolicy")
"""Fields whose empty text is the default's; a flag's is not, since flags are set after the defaults."""


def effective(base: tuple[str, bytes] | None, drop_ins: Files, flags: Flags, minor: int) -> Document:
    """What a kubelet runs with: `base` is the file of --config (path, content), `drop_ins` the content of its drop-ins
    by path in their order, `flags` the command line. Places name file and line, a flag, or `default`.

    Raises Refused where the kubelet does not start on them.
    """
    known = fields(minor)
    # the flags are parsed before any file is read
    wanted = {name: flag_value(name, texts, known.get(FLAGS[name], "string")) for name, texts in flags.items()}
    document = Document(source="command line", values={}, raw={}, places={}, ignored=())
    if base is not None:
        document = decode(base[1], base[0], minor)
    merged = Merged(dict(document.raw), dict(document.places), [])
    if base is not None:
        merged.raw["evictionHard"] = dict(default_eviction_hard(document.values, minor))
        for signal in merged.raw["evictionHard"]:
            merged.places.setdefault(("evictionHard", signal), _DEFAULT)
    if drop_ins:
        merged = merge(merged.raw, merged.places, drop_ins, minor)
    places = merged.places
    values = _typed(merged, minor)
    if drop_ins and "reservedMemory" in values:
        values["reservedMemory"] = [_written_again(entry) for entry in values["reservedMemory"] or ()]
    values.setdefault("evictionHard", {})
    for field in _DEFAULT_WHERE_EMPTY:
        if values.get(field) == "" and not _set_after_defaults(places.get((field,), ""), drop_ins, minor):
            del values[field]
    for name, value in wanted.items():
        field = FLAGS[name]
        values[field] = {**values.get(field, {}), **value} if field == "featureGates" else value
        _place_flag(places, name, field, value)
    return Document(
        source=document.source,
        values=values,
        raw=merged.raw,
        places=places,
        ignored=(*document.ignored, *merged.ignored),
        drop_ins=tuple(drop_ins),
    )


def _set_after_defaults(place: str, drop_ins: Files, minor: int) -> bool:
    """Whether a value is a drop-in's of a version that sets no defaults after merging."""
    return minor in AFTER_DEFAULTS and any(place.startswith(f"{path}:") for path in drop_ins)


def _written_again(entry: Any) -> Any:
    """An entry of reservedMemory as it is after a merge, which writes quantities in their canonical form (`1536Mi` for
    `1.5Gi`)."""
    if not isinstance(entry, dict) or not entry.get("limits"):
        return entry
    return {**entry, "limits": {name: Quantity.parse(str(amount)) for name, amount in entry["limits"].items()}}


def _typed(merged: Merged, minor: int) -> dict[str, Any]:
    """The merged values in their types. The file of --config was decoded before: what does not fit is a drop-in's."""
    place: str | None = None
    try:
        for field, value, place in merged.replaced:  # noqa: B007 - the place is that of the one that does not fit
            typed({field: value}, minor)
        place = None
        return typed(merged.raw, minor)
    except Refused as error:
        what = error.message.removeprefix("failed to decode: ")
        error.message = (
            f"failed to merge kubelet configs: failed to unmarshal merged JSON into kubelet configuration: {what}"
        )
        ends = range(len(error.path), 0, -1)
        written = (merged.places[error.path[:end]] for end in ends if error.path[:end] in merged.places)
        error.place = place or next(written, None)
        raise


def _place_flag(places: dict[yaml.Path, str], name: str, field: str, value: Any) -> None:
    """A flag's place in the stead of those of what it replaces: the whole field, but single gates."""
    for known in [known for known in places if known[:1] == (field,)]:
        if field != "featureGates" or (known[1:2] and known[1] in value):
            del places[known]
    places[(field,)] = f"--{name}"
