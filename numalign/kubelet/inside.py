"""How programs that run a kubelet inside themselves call it: k3s by its own configuration, MicroK8s by a file of flags.

Source: docs.k3s.io (configuration, "Multiple Config Files"; from Kubernetes 1.32 the kubelet takes drop-ins),
microk8s.io/docs/configuring-services.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from string import Template
from typing import Any

from ruamel.yaml.error import YAMLError

from numalign.errors import CannotRead
from numalign.kubelet import yaml
from numalign.kubelet.running import Invocation, Read, of_arguments

__all__ = ["Names", "called_inside"]

Names = Callable[[str], "list[str]"]
"""Gives the names in a directory of the host."""

_K3S_CONFIG = "etc/rancher/k3s/config.yaml"
_K3S_DATA = "/var/lib/rancher/k3s"
_ARGUMENT = "kubelet-arg"
_MICROK8S_FLAGS = "var/snap/microk8s/current/args/kubelet"
_SNAP = {"SNAP": "/snap/microk8s/current", "SNAP_DATA": "/var/snap/microk8s/current"}
_SNAP["SNAP_COMMON"] = "/var/snap/microk8s/common"


def called_inside(name: str, arguments: tuple[str, ...], read: Read, names: Names) -> Invocation | None:
    """How the program `name` with its own command line calls the kubelet; None where that cannot be told."""
    if name.startswith("k3s"):
        return _k3s(arguments, read, names)
    if name == "kubelite":
        return _microk8s(read)
    return None


def _k3s(arguments: tuple[str, ...], read: Read, names: Names) -> Invocation:
    """k3s: the kubelet-arg of its command line, else those of its files; a later file's replace an earlier one's
    unless its key is `kubelet-arg+`. From 1.32 on the kubelet has a directory of drop-ins."""
    given = dict(_flags(arguments, ("--config", "-c", "--data-dir", "-d", f"--{_ARGUMENT}")))
    file = (given.get("--config") or given.get("-c") or [_K3S_CONFIG])[-1].lstrip("/")
    settings: dict[str, list[str]] = {}
    source = f"/{file}"
    for path in (file, *(f"{file}.d/{name}" for name in names(f"{file}.d") if name.endswith((".yaml", ".yml")))):
        for key, value in _map(read(path), path).items():
            values = [str(item) for item in value] if isinstance(value, list) else [str(value)]
            plain = key.removesuffix("+")
            settings[plain] = [*settings.get(plain, []), *values] if key != plain else values
            source = f"/{path}" if plain == _ARGUMENT else source
    words = given.get(f"--{_ARGUMENT}") or settings.get(_ARGUMENT, [])
    data = (given.get("--data-dir") or given.get("-d") or settings.get("data-dir") or [_K3S_DATA])[-1]
    folder = f"{data.rstrip('/')}/agent/etc/kubelet.conf.d"
    drop_ins = (f"--config-dir={folder}",) if names(folder.lstrip("/")) else ()
    own = tuple(f"--{word}" for word in words if not word.startswith(("config=", "config-dir=")))
    return of_arguments(("kubelet", *drop_ins, *own), source)


def _flags(words: tuple[str, ...], wanted: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """The values that a command line gives to each flag."""
    for flag in wanted:
        values = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
        values += [value for word, value in pairwise(words) if word == flag]
        if values:
            yield flag, values


def _map(text: str | None, path: str) -> Mapping[str, Any]:
    """The map of a YAML file; an empty one where it is missing or no such."""
    try:
        value = yaml.read(text.encode(), path).value if text else {}
    except (CannotRead, YAMLError):
        return {}
    return value if isinstance(value, dict) else {}


def _microk8s(read: Read) -> Invocation | None:
    """MicroK8s: a flag a line, with the snap's variables."""
    text = read(_MICROK8S_FLAGS)
    if text is None:
        return None
    lines = (line.strip() for line in text.splitlines())
    words = (Template(line).safe_substitute(_SNAP) for line in lines if line.startswith("-"))
    return of_arguments(("kubelet", *words), f"/{_MICROK8S_FLAGS}")
