"""The effective configuration: the file, drop-ins over it, the command line over both; and where each value is from.

Source: cmd/kubelet/app/server.go (loadConfigFile, mergeKubeletConfigurations, kubeletConfigFlagPrecedence), 1.28 to
1.36; the merge is RFC 7386 (JSON merge patch).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from numalign.errors import CannotRead, WrongUsage
from numalign.kubelet import yaml
from numalign.kubelet.document import (
    API_VERSION,
    KIND,
    Document,
    Ignored,
    Refused,
    decode,
    dotted,
    named_places,
    typed,
    unknown_fields,
)
from numalign.kubelet.fields import fields
from numalign.kubelet.settings import BOOLEANS, default_eviction_hard
from numalign.quantity import Quantity

__all__ = ["FLAGS", "drop_in_files", "effective", "parse_flags"]

DROP_INS_SINCE = 28
_DEFAULT = "default"
_MAX_FILES = 1000
_EXTENSION = ".conf"

_WITHOUT_DEFAULT = frozenset(
    {
        *("reservedSystemCPUs", "cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "reservedMemory"),
        *("kubeReserved", "systemReserved", "kubeReservedCgroup", "systemReservedCgroup", "featureGates"),
    }
)

FLAGS: Mapping[str, str] = {
    # a flag of the kubelet -> the field that it sets; how its text is read follows from the field's type
    "cpu-manager-policy": "cpuManagerPolicy",
    "cpu-manager-policy-options": "cpuManagerPolicyOptions",
    "cpu-manager-reconcile-period": "cpuManagerReconcilePeriod",
    "reserved-cpus": "reservedSystemCPUs",
    "topology-manager-policy": "topologyManagerPolicy",
    "topology-manager-scope": "topologyManagerScope",
    "topology-manager-policy-options": "topologyManagerPolicyOptions",
    "memory-manager-policy": "memoryManagerPolicy",
    "reserved-memory": "reservedMemory",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "kube-reserved-cgroup": "kubeReservedCgroup",
    "system-reserved-cgroup": "systemReservedCgroup",
    "enforce-node-allocatable": "enforceNodeAllocatable",
    "eviction-hard": "evictionHard",
    "eviction-soft": "evictionSoft",
    "eviction-soft-grace-period": "evictionSoftGracePeriod",
    "eviction-minimum-reclaim": "evictionMinimumReclaim",
    "cgroups-per-qos": "cgroupsPerQOS",
    "cgroup-root": "cgroupRoot",
    "feature-gates": "featureGates",
    "fail-swap-on": "failSwapOn",
}

_BOOLEAN_FLAGS = ("cgroups-per-qos", "fail-swap-on")
_JOINED = {
    # flags that add up where they stand several times -> what joins the values
    **{flag: "," for flag in FLAGS if flag.endswith(("-options", "-reserved", "-gates", "-reclaim", "-grace-period"))},
    **dict.fromkeys(("eviction-hard", "eviction-soft", "enforce-node-allocatable"), ","),
    "reserved-memory": ";",
}
_OTHER_FLAGS = ("eviction-pressure-transition-period", "eviction-max-pod-grace-period")
"""The kubelet's own flags whose names are near to those that matter here."""

Files = Mapping[str, bytes]


def effective(base: tuple[str, bytes] | None, drop_ins: Files, flags: Mapping[str, str], minor: int) -> Document:
    """What a kubelet runs with: `base` is the file of --config (path, content), `drop_ins` the content of its drop-ins
    by path in their order, `flags` the command line. Places name file and line, a flag, or `default`.

    Raises Refused where the kubelet does not start on them.
    """
    document = Document(source="command line", values={}, raw={}, places={}, ignored=())
    if base is not None:
        document = decode(base[1], base[0], minor)
    raw: dict[str, Any] = dict(document.raw)
    places = dict(document.places)
    ignored = list(document.ignored)
    if base is not None:
        raw["evictionHard"] = dict(default_eviction_hard(document.values, minor))
        for signal in raw["evictionHard"]:
            places.setdefault(("evictionHard", signal), _DEFAULT)
    for path, data in drop_ins.items():
        patch, patch_places, skipped = _drop_in(path, data, minor, raw)
        raw = _merged(raw, patch, places, patch_places, ())
        ignored += skipped
    values = typed(raw, minor)
    if drop_ins and "reservedMemory" in values:
        values["reservedMemory"] = [_written_again(entry) for entry in values["reservedMemory"] or ()]
    values.setdefault("evictionHard", {})
    for name, text in flags.items():
        field = FLAGS[name]
        value = _flag_value(name, text, fields(minor).get(field, "string"))
        if field == "featureGates":
            value = {**values.get(field, {}), **value}
        values[field] = value
        for known in [known for known in places if known[:1] == (field,)]:
            if field != "featureGates" or (known[1:2] and known[1] in value):
                del places[known]
        places[(field,)] = f"--{name}"
    return Document(source=document.source, values=values, raw=raw, places=places, ignored=tuple(ignored))


def drop_in_files(folder: str) -> dict[str, bytes]:
    """The drop-ins of a directory in the order in which the kubelet reads them: by path, subdirectories included.

    Raises CannotRead where the directory or a drop-in cannot be read.
    """
    if not os.path.isdir(folder):
        raise CannotRead(f"{folder}: no directory of drop-ins", hint="--config-dir names the kubelet's own directory")
    found: dict[str, bytes] = {}
    _walk(folder, found)
    return found


def _walk(folder: str, found: dict[str, bytes]) -> None:
    try:
        for entry in sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name)):
            if entry.is_dir(follow_symlinks=False):
                _walk(entry.path, found)
            elif entry.name.endswith(_EXTENSION):
                if len(found) >= _MAX_FILES:
                    raise CannotRead(f"{folder}: more than {_MAX_FILES} drop-ins")
                with open(entry.path, "rb") as file:
                    found[entry.path] = file.read((4 << 20) + 1)
    except OSError as error:
        raise CannotRead(f"{error.filename or folder}: {error.strerror}") from error


def parse_flags(text: str) -> dict[str, str]:
    """The kubelet's flags that matter here, of a command line such as `--reserved-cpus=0-3 --v 2`; others are skipped.

    Raises WrongUsage where the text cannot be split into words.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUsage(f"--kubelet-flags: {error}", hint="write them as in a shell") from error
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = (
            word.lstrip("-").replace("_", "-").partition("=") if word.startswith("-") else ("", "", "")
        )
        if equals:
            value = word.partition("=")[2]
        if name in FLAGS:
            if not equals:
                value = "true" if name in _BOOLEAN_FLAGS else next(rest, "")
            joined = _JOINED.get(name)
            found[name] = f"{found[name]}{joined}{value}" if joined and name in found else value
        elif name and name not in _OTHER_FLAGS and (near := get_close_matches(name, FLAGS, n=1, cutoff=0.9)):
            raise WrongUsage(f"--kubelet-flags: the kubelet has no --{name}", hint=f"did you mean --{near[0]}?")
    return found


def _drop_in(
    path: str, data: bytes, minor: int, below: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[yaml.Path, str], list[Ignored]]:
    if minor < DROP_INS_SINCE:
        raise Refused("decode", "failed to parse kubelet flag: unknown flag: --config-dir")
    if not data:
        raise Refused(
            "decode",
            f'failed to load kubelet dropin file, path: {path}, error: kubelet config file "{path}" was empty',
        )
    try:
        parsed = yaml.read(data, path)
    except CannotRead as error:
        raise Refused("decode", f"failed to load kubelet dropin file, path: {path}, error: {error.message}") from None
    value = parsed.value if isinstance(parsed.value, dict) else {}
    if not value.get("apiVersion") or not value.get("kind"):
        raise Refused("decode", f"failed to load kubelet dropin file, path: {path}, no apiVersion/kind")
    if (value["apiVersion"], value["kind"]) != (API_VERSION, KIND):
        group = f"{value['apiVersion']}, Kind={value['kind']}"
        raise Refused("decode", f"failed to load kubelet dropin file, path: {path}, unknown apiVersion/kind: {group}")
    known = fields(minor)
    places = named_places(parsed, path)
    for name, field in _other_spellings(value, known, below).items():
        value[field] = value.pop(name)
        places[(field,)] = places.pop((name,), path)
    try:
        unknown = unknown_fields(value, minor)
    except Refused as error:
        place = parsed.places.get((*error.path, "")) or parsed.places.get(error.path)
        raise Refused(error.stage, error.message, error.path, place[0] if place else None, source=path) from None
    skipped = [Ignored(dotted(name), path, parsed.places.get((*name, ""), (None,))[0], False) for name in unknown]
    skipped += [Ignored(duplicate.key, path, duplicate.line, True) for duplicate in parsed.duplicates]
    return {name: entry for name, entry in value.items() if name in known}, places, skipped


def _other_spellings(value: Mapping[str, Any], known: Mapping[str, str], below: Mapping[str, Any]) -> dict[str, str]:
    """Names in other letters that a drop-in may use all the same, since merged JSON is read without regard to case:
    those of fields that no default and no earlier file has set. In the file of --config they have no effect."""
    lower = {field.lower(): field for field in _WITHOUT_DEFAULT if field in known and field not in below}
    return {name: lower[name.lower()] for name in value if name not in known and name.lower() in lower}


def _merged(
    below: Any, patch: Any, places: dict[yaml.Path, str], patch_places: Mapping[yaml.Path, str], path: yaml.Path
) -> Any:
    """The patch over the value below it: objects key by key, null takes a key out, anything else replaces the whole."""
    if not isinstance(patch, dict):
        for known in [known for known in places if known[: len(path)] == path]:
            del places[known]
        places.update({known: place for known, place in patch_places.items() if known[: len(path)] == path})
        return patch
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
            found[name] = _merged(found.get(name), entry, places, patch_places, inner)
    return found


def _written_again(entry: Any) -> Any:
    """An entry of reservedMemory as it is after a merge, which writes quantities in their canonical form (`1536Mi` for
    `1.5Gi`)."""
    if not isinstance(entry, dict) or not entry.get("limits"):
        return entry
    return {**entry, "limits": {name: Quantity.parse(str(amount)) for name, amount in entry["limits"].items()}}


def _flag_value(name: str, text: str, kind: str) -> Any:
    """A flag's text as a value of its field's type: pairs k=v,k=v, thresholds k<v, reserved memory N:k=v;N:k=v."""
    if kind.startswith("map["):
        mark = "<" if name in ("eviction-hard", "eviction-soft") else "="
        split = (part.partition(mark) for part in text.split(",") if part)
        pairs = {key.strip(): value.strip() for key, _, value in split}
        return {key: _flag_bool(name, value) for key, value in pairs.items()} if name == "feature-gates" else pairs
    if kind == "[]string":
        return [part for part in text.split(",") if part]
    if kind == "bool":
        return _flag_bool(name, text)
    if name == "reserved-memory":
        entries = []
        for part in filter(None, text.split(";")):
            node, _, limits = part.partition(":")
            amounts = dict(pair.partition("=")[::2] for pair in limits.split(","))
            entries.append({"numaNode": int(node) if node.isdecimal() else -1, "limits": amounts})
        return typed({"reservedMemory": entries}, 36)["reservedMemory"]
    return text


def _flag_bool(name: str, text: str) -> bool:
    """A boolean as Go's flags read it. Raises Refused where it is none."""
    if text not in BOOLEANS:
        raise Refused("flags", f'invalid argument "{text}" for "--{name}" flag: parsing "{text}": invalid syntax')
    return BOOLEANS[text]
