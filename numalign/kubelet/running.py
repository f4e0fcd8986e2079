"""Where the node's kubelet takes its configuration from: the command line of its process, or of its systemd unit.

Source: cmd/kubelet/app/options (--config, --config-dir, --root-dir), systemd.service(5), systemd.exec(5).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

import msgspec

__all__ = ["DEFAULT_FOLDER", "Invocation", "minor_of", "of_arguments", "of_unit"]

DEFAULT_FOLDER = "/var/lib/kubelet"
"""Where the kubelet keeps its state without --root-dir."""

Read = Callable[[str], "str | None"]
"""Gives the text of a file of the host, None where there is none."""

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_PREFIXES = "@-:+!"
_VERSION = re.compile(r"v?1\.(\d{1,3})(?:[.+\-].*)?")
_MAX_WORDS = 2000


class Invocation(msgspec.Struct, frozen=True):
    """How the kubelet is, or will be, called: `source` says who does it; paths are the host's, relative ones are below
    the working directory and are left out. `words` are its arguments without the program."""

    source: str
    words: tuple[str, ...]
    config: str | None
    config_dir: str | None
    folder: str

    @property
    def text(self) -> str:
        """The arguments as a shell would take them."""
        return shlex.join(self.words)


def of_arguments(arguments: Iterable[str], source: str) -> Invocation:
    """The invocation that a command line (the program first) is."""
    words = tuple(arguments)[1:]
    found = _paths(words)
    return Invocation(
        source=source,
        words=words,
        config=found.get("config"),
        config_dir=found.get("config-dir"),
        folder=found.get("root-dir") or DEFAULT_FOLDER,
    )


def _paths(words: tuple[str, ...]) -> dict[str, str]:
    """The values of the flags that name files; the last of each holds."""
    found = {}
    for position, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name in ("config", "config-dir", "root-dir"):
            found[name] = value if equals else next(iter(words[position + 1 : position + 2]), "")
    return {name: value for name, value in found.items() if value.startswith("/")}


def of_unit(files: Iterable[tuple[str, str]], read: Read) -> Invocation | None:
    """The invocation in systemd's unit and its drop-ins ((path, text), in the order in which they hold); None where
    they start nothing. `read` gives the files of EnvironmentFile=."""
    command, place = "", ""
    environment: dict[str, str] = {}
    environment_files: list[str] = []
    for path, text in files:
        for name, value in _settings(text):
            if name == "ExecStart":
                command, place = (value, path) if value else ("", "")
            elif name == "Environment":
                environment.update(_assignments(_words(value)) if value else {})
            elif name == "EnvironmentFile":
                environment_files = [*environment_files, value] if value else []
    for name in environment_files:
        lines = (read(name.lstrip("-").strip("\"'").lstrip("/")) or "").splitlines()
        environment.update(_assignments(_line_words(lines)))
    words = _expanded(_words(command.lstrip(_PREFIXES)), environment)
    return of_arguments(words, place) if words else None


def _settings(text: str) -> list[tuple[str, str]]:
    """The assignments of a unit file's section [Service]; a line that ends in a backslash goes on in the next."""
    found, section = [], ""
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, equals, value = line.partition("=")
            if equals:
                found.append((name.strip(), value.strip()))
    return found


def _line_words(lines: Iterable[str]) -> list[str]:
    """The assignments of a file of EnvironmentFile=, one a line, with their quotes taken off."""
    found = []
    for line in lines:
        line = line.strip()
        if line and line[0] not in "#;":
            name, _, value = line.partition("=")
            found.append(f"{name.strip()}={' '.join(_words(value)) if value[:1] in _QUOTES else value.strip()}")
    return found


_QUOTES = ("'", '"')


def _words(text: str) -> list[str]:
    """A command line's words; what cannot be split is one word."""
    try:
        return shlex.split(text)
    except ValueError:
        return [text]


def _assignments(words: Iterable[str]) -> dict[str, str]:
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _expanded(words: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """The words with variables: `$NAME` alone becomes as many words as its value has, `${NAME}` stays in its word."""
    found: list[str] = []
    for word in words:
        whole = _VARIABLE.fullmatch(word)
        if whole and whole[2]:
            found += _words(environment.get(whole[2], ""))
        else:
            found.append(_VARIABLE.sub(lambda match: environment.get(match[1] or match[2], ""), word))
    return found[:_MAX_WORDS]


def minor_of(version: str) -> int | None:
    """The minor version in what `kubelet --version` prints (`Kubernetes v1.34.1`), None where there is none.

    >>> minor_of("Kubernetes v1.34.1-eks-113cf36"), minor_of("v1.30.0"), minor_of("?")
    (34, 30, None)
    """
    found = _VERSION.fullmatch(version.removeprefix("Kubernetes ").strip())
    return int(found[1]) if found else None
