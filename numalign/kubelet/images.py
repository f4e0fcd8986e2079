"""Names of images as the kubelet reads those that need no credentials.

Source: pkg/kubelet/images/pullmanager/image_pull_policies.go, 1.33 to 1.36, and github.com/distribution/reference.
"""

from __future__ import annotations

import re

__all__ = ["wrong_image"]

_TRIMMED_SINCE = 36
_LONGEST_NAME = 255
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?(?P<path>{_PART}(?:/{_PART})*))"
    r"(?::[\w][\w.-]{0,127})?"
    r"(?:@(?P<algorithm>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*):(?P<hex>[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
_DIGITS_OF = {"sha256": 64, "sha384": 96, "sha512": 128}
"""Hexadecimal digits of a digest, by its algorithm."""


def wrong_image(pattern: str, minor: int) -> str | None:
    """Why an entry of the allowlist is neither an image without tag nor a prefix."""
    if pattern != pattern.strip():
        return f"leading/trailing spaces are not allowed: {pattern}"
    if not pattern:
        return f"the supplied pattern is too short: {pattern}"
    if "*" in pattern.removesuffix("/*"):
        return f"not a valid wildcard pattern, only patterns ending with '/*' are allowed: {pattern}"
    if pattern.endswith("/*"):
        return "at least registry hostname is required" if pattern == "/*" else None
    try:
        name = _name(pattern) if minor >= _TRIMMED_SINCE else _whole_name(pattern)
    except ValueError as error:
        return f"failed to parse as an image name: {error}"
    return None if name == pattern else f"neither tag nor digest is accepted in an image reference: {pattern}"


def _whole_name(reference: str) -> str:
    """The name of an image with its registry, which is Docker's where there is none. Raises ValueError."""
    if re.fullmatch("[a-f0-9]{64}", reference):
        raise ValueError(f"invalid repository name ({reference}), cannot specify 64-byte hexadecimal strings")
    host, slash, rest = reference.partition("/")
    if not slash or not (any(mark in host for mark in ".:") or host == "localhost" or host != host.lower()):
        host, rest = "docker.io", reference
    if host == "index.docker.io":
        host = "docker.io"
    if host == "docker.io" and "/" not in rest:
        rest = f"library/{rest}"
    remote = rest.partition(":")[0]
    if remote != remote.lower():
        raise ValueError(f"invalid reference format: repository name ({remote}) must be lowercase")
    return _name(f"{host}/{rest}")


def _name(reference: str) -> str:
    """The name of an image without tag and digest. Raises ValueError with the library's message."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        lower = _REFERENCE.fullmatch(reference.lower())
        raise ValueError("repository name must be lowercase" if lower else "invalid reference format")
    if len(found["path"]) > _LONGEST_NAME:
        raise ValueError(f"repository name must not be more than {_LONGEST_NAME} characters")
    algorithm, digits = found["algorithm"], found["hex"]
    if algorithm is not None:
        if algorithm != algorithm.lower():
            raise ValueError("invalid checksum digest format")
        if algorithm not in _DIGITS_OF:
            raise ValueError("unsupported digest algorithm")
        if len(digits) != _DIGITS_OF[algorithm]:
            raise ValueError("invalid checksum digest length")
        if digits != digits.lower():
            raise ValueError("invalid checksum digest format")
    return found["name"]
