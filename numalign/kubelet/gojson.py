"""JSON as Go's encoding/json reads it: the same values, and on bad text the same words.

The kubelet's messages on configurations and state files are made of these words.
Source: Go's src/encoding/json/scanner.go and decode.go.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import msgspec

__all__ = ["decode", "encoded", "kind_of", "number", "quoted"]

_END = "unexpected end of JSON input"
_BLANK = " \t\r\n"
_DIGITS = "0123456789"
_ESCAPES = '"\\/bfnrt'
_HEX = "0123456789abcdefABCDEF"
_MAX_DEPTH = 10_000
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_BAD = "invalid UTF-8 or number out of range"


def decode(text: str) -> Any:
    """The value of a JSON text; of equal keys the last one holds. Raises ValueError with Go's message."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        complaint = _Scanner(text).complaint()
        if complaint == _BAD:
            return json.loads(_joined(text) if _HALF.search(text) else text)
        raise ValueError(complaint) from None
    except RecursionError:
        raise ValueError("exceeded max depth") from None


def _joined(text: str) -> str:
    """The text with U+FFFD for every escape of half a character that has no other half, as Go reads them."""
    escapes = re.compile(r"\\(?:(u[dD][89abAB]..\\u[dD][c-fC-F]..)|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
    return escapes.sub(lambda match: "\\ufffd" if match[2] else match[0], text)


def kind_of(value: object) -> str:
    """What Go calls the kind of a JSON value in its messages."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def encoded(value: object) -> str:
    """A value as the text that Go's json.Marshal makes of it: no blanks, keys sorted."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


_SHORT = {'"': '\\"', "\\": "\\\\", **{chr(7 + at): f"\\{letter}" for at, letter in enumerate("abtnvfr")}}
"""The characters that Go escapes with a letter or themselves."""


def quoted(text: str) -> str:
    """A text as Go's %q quotes it in a message (strconv.Quote).

    >>> print(quoted('a "b" \\x1b\\n'))
    "a \\"b\\" \\x1b\\n"
    """
    return f'"{"".join(_SHORT.get(mark) or (mark if mark.isprintable() else _code(mark)) for mark in text)}"'


def _code(mark: str) -> str:
    code = ord(mark)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """A number as Go's json.Marshal writes it: without an exponent below 1e21.

    >>> number(5), number(1.5), number(1.8446744073709552e19), number(1e21), number(1e-7)
    ('5', '1.5', '18446744073709552000', '1e+21', '1e-7')
    """
    text = repr(value)
    if "e" not in text:
        return text.removesuffix(".0")
    digits, _, exponent = text.partition("e")
    if 1e-6 <= abs(value) < 1e21:
        return format(Decimal(text), "f")
    return f"{digits}e{exponent[0]}{exponent[1:].lstrip('0')}"


class _Wrong(Exception):
    """Where and how the text stops being JSON."""


class _Scanner:
    """Walks a text that is no JSON up to the character that makes it so."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def complaint(self) -> str:
        try:
            self._document()
        except _Wrong as wrong:
            return str(wrong)
        return _BAD

    def _document(self) -> None:
        """Containers are kept on a list of our own, so that deep nesting does not exhaust the stack."""
        open_: list[str] = []
        self._value(open_)
        while open_:
            self._after_value(open_)
        self._blanks()
        if self.at < len(self.text):
            self._invalid("after top-level value")

    def _value(self, open_: list[str]) -> None:
        while (character := self._next()) in "{[":
            self.at += 1
            if self._next() == ("}" if character == "{" else "]"):
                self.at += 1
                return
            open_.append(character)
            if len(open_) > _MAX_DEPTH:
                raise _Wrong("exceeded max depth")
            if character == "{":
                self._key()
        if character == '"':
            self._string()
        elif character == "-" or character in _DIGITS:
            self._number()
        elif character in "tfn":
            self._literal({"t": "true", "f": "false", "n": "null"}[character])
        else:
            self._invalid("looking for beginning of value")

    def _after_value(self, open_: list[str]) -> None:
        character = self._next()
        inside = open_[-1]
        if character == ("}" if inside == "{" else "]"):
            self.at += 1
            open_.pop()
        elif character != ",":
            self._invalid("after object key:value pair" if inside == "{" else "after array element")
        else:
            self.at += 1
            if inside == "{":
                self._key()
            self._value(open_)

    def _key(self) -> None:
        if self._next() != '"':
            self._invalid("looking for beginning of object key string")
        self._string()
        if self._next() != ":":
            self._invalid("after object key")
        self.at += 1

    def _string(self) -> None:
        self.at += 1
        while (character := self._here()) != '"':
            if character < " ":
                self._invalid("in string literal")
            self.at += 1
            if character == "\\":
                escape = self._here()
                if escape == "u":
                    for _ in range(4):
                        self.at += 1
                        if self._here() not in _HEX:
                            self._invalid("in \\u hexadecimal character escape")
                elif escape not in _ESCAPES:
                    self._invalid("in string escape code")
                self.at += 1
        self.at += 1

    def _number(self) -> None:
        if self._here() == "-":
            self.at += 1
            if self._here() not in _DIGITS:
                self._invalid("in numeric literal")
        if self._here() == "0":
            self.at += 1
        else:
            self._digits()
        if self._peek() == ".":
            self.at += 1
            if self._here() not in _DIGITS:
                self._invalid("after decimal point in numeric literal")
            self._digits()
        if self._peek() in ("e", "E"):
            self.at += 1
            if self._here() in "+-":
                self.at += 1
            if self._here() not in _DIGITS:
                self._invalid("in exponent of numeric literal")
            self._digits()

    def _literal(self, word: str) -> None:
        for position, expected in enumerate(word):
            if self._here() != expected:
                self._invalid(f"in literal {word} (expecting {_quoted(word[position])})")
            self.at += 1

    def _digits(self) -> None:
        while self._peek() and self._peek() in _DIGITS:
            self.at += 1

    def _blanks(self) -> None:
        while self._peek() and self._peek() in _BLANK:
            self.at += 1

    def _next(self) -> str:
        self._blanks()
        return self._here()

    def _here(self) -> str:
        if self.at >= len(self.text):
            raise _Wrong(_END)
        return self.text[self.at]

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _invalid(self, where: str) -> None:
        raise _Wrong(f"invalid character {_quoted(self._here())} {where}")


_CONTROLS = {"\a": r"'\a'", "\b": r"'\b'", "\f": r"'\f'", "\v": r"'\v'"}


def _quoted(character: str) -> str:
    """A character as Go prints it: in single quotes, escaped where it does not print."""
    special = {"'": r"'\''", "\n": r"'\n'", "\t": r"'\t'", "\r": r"'\r'", "\\": r"'\\'", "\0": r"'\x00'", **_CONTROLS}
    return special.get(character) or f"'{character if character.isprintable() else ascii(character)[1:-1]}'"
