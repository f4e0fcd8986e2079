"""The pods that documents describe: a Pod's own, and those that Deployments, Jobs and all else with pod templates make.

A pod template is whatever has a `spec` with `containers`, wherever it stands: so CronJob, JobSet, PyTorchJob, MPIJob
and kinds not known yet are read alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from numalign.admission.apiserver import faults
from numalign.admission.pod import Pod, pod_of
from numalign.errors import CannotRead
from numalign.kubelet.yaml import JsonNumber, Parsed, Path, read_all

__all__ = ["Submitted", "read_pods"]

_WANTED = "a Pod, a Deployment, a Job or anything else with a pod template is wanted, as YAML or JSON"
_REPLICAS = ("replicas", "parallelism")
_COMMON_STEPS = frozenset(("spec", "template", "jobTemplate"))
_UNNAMED = "unnamed"
_MOST_PODS = 1000

_AMOUNTS = "amounts"
_RESOURCES = {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": [{"name": "text"}]}
_CONTAINER = {"name": "text", "restartPolicy": "text", "resources": _RESOURCES, "resizePolicy": [{}]}
_OWNER = {"metadata": {"name": "text", "generateName": "text", "namespace": "text", "labels": "texts"}}
_POD = {
    # the fields that decide about admission, and their types; a list or mapping stands for one of such entries
    **_OWNER,
    "spec": {
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "resources": _RESOURCES,
        "resourceClaims": [{"name": "text"}],
        "overhead": _AMOUNTS,
        "os": {"name": "text"},
    },
}
_KINDS = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


class Submitted(msgspec.Struct, frozen=True):
    """A pod of a document: what makes it (`kind` and `owner`, the object's name), where its template stands
    (FILE:LINE), and how many such pods there are to be, None where that is not said.

    `faults` is why the API server would not take it, in its words; then there is no pod. `claims` are the names of its
    ResourceClaims, `resizes` says that it names a policy for in-place resize.
    """

    name: str
    namespace: str
    kind: str
    owner: str
    place: str
    replicas: int | None
    faults: tuple[str, ...]
    claims: tuple[str, ...]
    resizes: bool
    pod: Pod | None


def read_pods(data: bytes, source: str) -> tuple[list[Submitted], list[str]]:
    """The pods of all documents of a text in their order, and the objects (`Service web`) that have none.

    Raises CannotRead, with the line, where something is no object, of a wrong type, or no pod is there.
    """
    pods: list[Submitted] = []
    without: list[str] = []
    for document in read_all(data, source):
        if document.value is None:
            continue
        for path in _objects(document, source):
            found = list(_pods_of(document, path, source))
            pods += found
            if len(pods) > _MOST_PODS:
                raise CannotRead(f"{source}: more than {_MOST_PODS} pods", hint="split it: no node has so many")
            if not found:
                value = _at(document.value, path)
                without.append(f"{value['kind']} {_name(value) or _UNNAMED}")
    if not pods:
        what = f"no pod in {', '.join(without[:4])}" if without else "it is empty"
        raise CannotRead(f"{source}: {what}", hint=_WANTED)
    return _with_names_of_their_own(pods), without


def _objects(document: Parsed, source: str) -> Iterator[Path]:
    """The objects of a document: itself, or the items of a List."""
    value = document.value
    if not isinstance(value, dict):
        raise CannotRead(f"{_place(document, source, ())}: no object: {_kind(value)}", hint=_WANTED)
    items = value.get("items")
    paths: list[Path] = [()]
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        paths = [("items", number) for number in range(len(items))]
    for path in paths:
        entry = _at(value, path)
        if not isinstance(entry, dict):
            raise CannotRead(f"{_place(document, source, path)}: no object: {_kind(entry)}", hint=_WANTED)
        for name in ("apiVersion", "kind"):
            if not isinstance(entry.get(name), str) or not entry[name]:
                raise CannotRead(f"{_place(document, source, path)}: an object without {name}", hint=_WANTED)
        yield path


def _pods_of(document: Parsed, path: Path, source: str) -> Iterator[Submitted]:
    """The pods of an object."""
    top = _at(document.value, path)
    templates = [path] if top["kind"] == "Pod" else list(_templates(top, path))
    if templates:
        _check(document, path, source, _OWNER)
    for template in templates:
        _check(document, template, source, _POD)
        yield _submitted(document, path, template, source, several=len(templates) > 1)


def _templates(value: Any, path: Path) -> Iterator[Path]:
    """Where the pod templates below a value stand."""
    if isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            yield path
            return
        for key, entry in value.items():
            yield from _templates(entry, (*path, key))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _templates(entry, (*path, number))


def _submitted(document: Parsed, top: Path, path: Path, source: str, *, several: bool) -> Submitted:
    owner, template = _at(document.value, top), _plain(_at(document.value, path))
    name = _name(template if owner["kind"] == "Pod" else owner)
    if several:
        name = "-".join([name or _UNNAMED, *_part(document.value, top, path)])
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    namespace = (owner.get("metadata") or {}).get("namespace") or metadata.get("namespace") or "default"
    found = [] if name else ["metadata.name: Required value: name or generateName is required"]
    found += faults(spec, _dotted((*path[len(top) :], "spec")))
    pod = None
    if not found:
        pod = pod_of(name or _UNNAMED, spec, namespace=namespace, labels=metadata.get("labels") or {})
    return Submitted(
        name=name or _UNNAMED,
        namespace=namespace,
        kind=owner["kind"],
        owner=_name(owner) or _UNNAMED,
        place=_place(document, source, path),
        replicas=_replicas(document.value, top, path),
        faults=tuple(found),
        claims=tuple(claim.get("name") or "" for claim in spec.get("resourceClaims") or ()),
        resizes=any(entry.get("resizePolicy") for entry in spec.get("containers") or ()),
        pod=pod,
    )


def _with_names_of_their_own(pods: list[Submitted]) -> list[Submitted]:
    """The pods, those that would have the name of an earlier one with a number behind theirs; but of two Pods of one
    name the API server refuses the second."""
    seen: set[tuple[str, str]] = set()
    found = []
    for each in pods:
        key, number = (each.namespace, each.name), 1
        if key in seen and each.kind == "Pod" and not each.name.endswith("-"):
            each = msgspec.structs.replace(each, faults=(*each.faults, f'pods "{each.name}" already exists'), pod=None)
        while key in seen:
            number += 1
            key = (each.namespace, f"{each.name}-{number}")
        seen.add(key)
        pod = each.pod and msgspec.structs.replace(each.pod, name=key[1])
        found.append(msgspec.structs.replace(each, name=key[1], pod=pod))
    return found


def _check(document: Parsed, path: Path, source: str, fields: Any) -> None:
    """Raises CannotRead where a field that decides is of a wrong type."""

    def check(value: Any, wanted: Any, here: Path) -> None:
        if value is None:
            return
        kinds = {"text": str, "texts": dict, _AMOUNTS: dict}
        kind = kinds[wanted] if isinstance(wanted, str) else type(wanted)
        if not isinstance(value, kind):
            what = f"{_dotted(here)}: {_KINDS[kind]} is wanted, no {_noun(value)}"
            raise CannotRead(f"{_place(document, source, here)}: {what}")
        if isinstance(wanted, list):
            for number, entry in enumerate(value):
                if entry is None:
                    raise CannotRead(f"{_place(document, source, (*here, number))}: {_dotted((*here, number))}: null")
                check(entry, wanted[0], (*here, number))
        elif isinstance(wanted, dict):
            for name, inner in wanted.items():
                check(value.get(name), inner, (*here, name))
        elif wanted != "text":
            for name, entry in value.items():
                fits = (str,) if wanted == "texts" else (str, int, float)
                if isinstance(entry, bool) or not isinstance(entry, fits):
                    what = "an amount" if wanted == _AMOUNTS else "text"
                    line = _place(document, source, (*here, name))
                    raise CannotRead(f"{line}: {_dotted((*here, name))}: {what} is wanted, no {_noun(entry)}")

    check(_at(document.value, path), fields, path)


def _plain(value: Any) -> Any:
    """A value with its numbers as the API server reads amounts from them: as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, JsonNumber):
        return value.text
    if isinstance(value, float):
        return str(int(value)) if math.isfinite(value) and value.is_integer() else repr(value)
    return value


def _name(entry: Mapping[str, Any]) -> str | None:
    """The name of an object; of generateName what is known of it."""
    metadata = entry.get("metadata")
    if not isinstance(metadata, dict):
        return None
    name = metadata.get("name") or metadata.get("generateName")
    return name if isinstance(name, str) and name else None


def _part(root: Any, top: Path, path: Path) -> Iterator[str]:
    """What tells the templates of an object apart: names of list entries and of replica specs, `leader` for a
    leaderTemplate."""
    for end in range(len(top) + 1, len(path) + 1):
        step, value = path[end - 1], _at(root, path[:end])
        if isinstance(step, int):
            name = value.get("name") if isinstance(value, dict) else None
            yield name if isinstance(name, str) and name else str(step)
        elif str(path[end - 2]).endswith("Specs") or (end == len(path) and step not in _COMMON_STEPS):
            yield step.removesuffix("Template").lower()


def _replicas(root: Any, top: Path, path: Path) -> int | None:
    """How many pods of a template there are to be, all in all."""
    numbers = []
    for end in range(len(top), len(path)):
        value = _at(root, path[:end])
        for name in _REPLICAS if isinstance(value, dict) else ():
            number = value.get(name)
            if isinstance(number, int) and not isinstance(number, bool):
                numbers.append(number)
    return math.prod(numbers) if numbers else None


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _place(document: Parsed, source: str, path: Path) -> str:
    """`FILE:LINE` of a value, or of what it stands in."""
    for end in range(len(path), -1, -1):
        found = document.places.get((*path[:end], "")) or document.places.get(path[:end])
        if found:
            return f"{source}:{found[0]}"
    return source


def _dotted(path: Path) -> str:
    """`spec.containers[0].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a number")


def _noun(value: Any) -> str:
    return _kind(value).removeprefix("a ")
