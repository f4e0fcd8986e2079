"""Protobuf messages read by tables of their fields, bounded, so that nothing has to be imported for it.

The library costs a start 12 ms, and makes objects of whatever it is sent: a message of 16 MiB can hold 8 million.
Source: Protocol Buffers' description of the encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

__all__ = ["MAX_NUMBERS", "MAX_VALUES", "Field", "Malformed", "Message", "decode", "text_field"]

MAX_VALUES = 1 << 18
"""Messages and texts that one message may hold, all levels together: a full node has some ten thousands."""
MAX_NUMBERS = 1 << 20
"""Numbers likewise: the CPUs of every container."""

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_SKIPPED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}

Kind = Literal["text", "int64", "uint64", "bool"]


class Malformed(ValueError):
    """The bytes are no message of this kind, or hold more than any node has; the message says which."""


class Field(NamedTuple):
    """A field of a message: its name, what is in it, and whether it may be there `many` times."""

    name: str
    kind: Kind | Mapping[int, Field]
    many: bool = False


Message = Mapping[int, Field]
"""The fields of a message by their numbers."""


def decode(data: bytes, message: Message) -> dict[str, Any]:
    """The fields by name: a list where there may be many, else the value, or the default where it is missing (None of
    a message). Fields that the table does not have are skipped; of one given twice the last counts. Raises Malformed.

    >>> decode(bytes([0x0A, 2, 0x68, 0x69, 0x10, 5]), {1: Field("name", "text"), 2: Field("id", "int64")})
    {'name': 'hi', 'id': 5}
    """
    return _Reader().message(memoryview(data), message)


def text_field(number: int, text: str) -> bytes:
    """The encoding of a field that holds a text.

    >>> text_field(1, "hi")
    b'\\n\\x02hi'
    """
    data = text.encode("utf-8", "replace")
    return _encoded(number << 3 | _LENGTH) + _encoded(len(data)) + data


class _Reader:
    """Counts what it has read against the bounds."""

    def __init__(self) -> None:
        self.values = MAX_VALUES
        self.numbers = MAX_NUMBERS

    def message(self, data: memoryview, message: Message) -> dict[str, Any]:
        found: dict[str, Any] = {field.name: _default(field) for field in message.values()}
        at, end = 0, len(data)
        while at < end:
            key, at = _varint(data, at)
            wire = key & 7
            if key < 8:
                raise Malformed("a field has the number 0")
            start = at
            if wire == _VARINT:
                value, at = _varint(data, at)
            elif wire == _LENGTH:
                value, start = _varint(data, at)
                at = start + value
            elif wire in _SKIPPED:
                at += _SKIPPED[wire]
            else:
                raise Malformed(f"a field is of wire type {wire}")
            if at > end:
                raise Malformed("it ends in the middle of a field")
            field = message.get(key >> 3)
            if field is None:
                continue
            if wire == _LENGTH:
                self._part(data[start:at], field, found)
            elif wire == _VARINT and isinstance(field.kind, str) and field.kind != "text":
                self._number(value, field, found)
        return found

    def _part(self, part: memoryview, field: Field, found: dict[str, Any]) -> None:
        """Puts in what has a length: a message, a text, or numbers packed together."""
        value: Any
        if isinstance(field.kind, str) and field.kind != "text":
            at = 0
            while field.many and at < len(part):
                number, at = _varint(part, at)
                self._number(number, field, found)
            return
        self.values -= 1
        if self.values < 0:
            raise Malformed(f"it holds more than {MAX_VALUES} values")
        if field.kind == "text":
            try:
                value = str(part, "utf-8")
            except UnicodeDecodeError:
                raise Malformed(f"{field.name} is no UTF-8") from None
        else:
            value = self.message(part, field.kind)
        if field.many:
            found[field.name].append(value)
        else:
            found[field.name] = value

    def _number(self, number: int, field: Field, found: dict[str, Any]) -> None:
        self.numbers -= 1
        if self.numbers < 0:
            raise Malformed(f"it holds more than {MAX_NUMBERS} numbers")
        if field.kind == "int64" and number >= 1 << 63:
            number -= 1 << 64
        value = number != 0 if field.kind == "bool" else number
        if field.many:
            found[field.name].append(value)
        else:
            found[field.name] = value


def _default(field: Field) -> Any:
    if field.many:
        return []
    return {"text": "", "int64": 0, "uint64": 0, "bool": False}[field.kind] if isinstance(field.kind, str) else None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at a place, as 64 bits without a sign, and the place after it."""
    number = shift = 0
    try:
        while (byte := data[at]) >= 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > 63:
                raise Malformed("a number has more than 64 bits")
    except IndexError:
        raise Malformed("it ends in the middle of a number") from None
    number |= byte << shift
    if number >= 1 << 64:
        raise Malformed("a number has more than 64 bits")
    return number, at + 1


def _encoded(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
