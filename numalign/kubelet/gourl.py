"""URLs as Go's net/url reads them: the scheme, or Go's word for what is wrong.

Source: Go's src/net/url/url.go (Parse).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from numalign.kubelet.gojson import quoted

__all__ = ["scheme_of"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST_MARKS = frozenset("-_.~$&+=:[]<>\"!'()*,;")
"""What may stand in a host as it is, beside letters, digits and what is not ASCII."""
_USER_MARKS = frozenset("-._:~!$&'()*+,;=%@")
_PIECE = re.compile(r"%.{0,2}|.", re.DOTALL)
_HEX = re.compile(r"%[0-9A-Fa-f]{2}")


def scheme_of(url: str) -> str:
    """The scheme in small letters, empty where there is none. Raises ValueError with Go's message, but not for what is
    no address between brackets: there versions of Go differ."""
    before, _, fragment = url.partition("#")
    for part, wrong in ((before, _wrong(before)), (url, _unescaped(fragment))):
        if wrong:
            raise ValueError(f"parse {quoted(part)}: {wrong}")
    found = _SCHEME.match(before)
    return found[0][:-1].lower() if found else ""


def _wrong(url: str) -> str | None:
    """What is wrong with a URL without fragment."""
    if re.search(r"[\x00-\x1f\x7f]", url):
        return "net/url: invalid control character in URL"
    if url.startswith(":"):
        return "missing protocol scheme"
    found = _SCHEME.match(url)
    path = url[found.end() if found else 0 :].partition("?")[0]
    if not path.startswith("/"):
        if found:
            return None  # what follows such a scheme is not looked at
        if ":" in path.partition("/")[0]:
            return "first path segment in URL cannot contain colon"
    wrong = None
    if path.startswith("//") and (found or not path.startswith("///")):
        authority, slash, path = path[2:].partition("/")
        wrong, path = _wrong_authority(authority), slash + path
    return wrong or _unescaped(path)


def _wrong_authority(text: str) -> str | None:
    user, _, host = text.rpartition("@")
    wrong = _wrong_host(host)
    if wrong is None and not all(_usual(mark, _USER_MARKS) for mark in user):
        return "net/url: invalid userinfo"
    return wrong or _unescaped(user)


def _wrong_host(host: str) -> str | None:
    literal, bracket, port = host.rpartition("]") if host.startswith("[") else ("", "", "")
    if host.startswith("[") and not bracket:
        return "missing ']' in host"
    if not bracket:
        port = host[host.rindex(":") :] if ":" in host else ""
    if not re.fullmatch(r"(:[0-9]*)?", port):
        return f"invalid port {quoted(port)} after host"
    if not bracket:
        return _unescaped(host, _in_host)
    address, percent, zone = literal.partition("%25")
    return _unescaped(address, _in_host) or _unescaped(percent + zone, _in_zone)


def _in_host(code: int) -> bool:
    """An escape is there for what is not ASCII alone."""
    return code >= 0x80


def _in_zone(code: int) -> bool:
    return chr(code) == " " or _usual(chr(code), _HOST_MARKS)


def _unescaped(text: str, may: Callable[[int], bool] | None = None) -> str | None:
    """The first thing that is wrong with a part: its escapes, and in a host its characters. `may` says of a host or
    zone which characters an escape may stand for."""
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece.startswith("%"):
            usable = _HEX.fullmatch(piece) is not None
            if not usable or (may and piece != "%25" and not may(int(piece[1:], 16))):
                return f"invalid URL escape {quoted(piece)}"
        elif may and piece.isascii() and not _usual(piece, _HOST_MARKS):
            return f"invalid character {quoted(piece)} in host name"
    return None


def _usual(mark: str, marks: frozenset[str]) -> bool:
    return mark.isascii() and (mark.isalnum() or mark in marks)
