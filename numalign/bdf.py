"""PCI addresses in one spelling: lower case, a domain of at least four hex digits (`0000:1b:00.0`)."""

from __future__ import annotations

__all__ = ["normalise"]

_HEX = frozenset("0123456789abcdef")


def normalise(text: str) -> str | None:
    """The address in the project's spelling, None where the text is no PCI address.

    >>> normalise("00000000:5A:00.1"), normalise("5a:00.0"), normalise("10000:01:00.0"), normalise("N/A")
    ('0000:5a:00.1', '0000:5a:00.0', '10000:01:00.0', None)

    A bus has 32 devices of 8 functions:

    >>> normalise("0000:5a:1f.7"), normalise("0000:5a:20.0"), normalise("0000:5a:00.8")
    ('0000:5a:1f.7', None, None)
    """
    fields = text.strip().lower().split(":")
    if len(fields) == 2:
        fields.insert(0, "0")
    if len(fields) != 3:
        return None
    domain, bus, slot = fields
    device, _, function = slot.partition(".")
    widths = ((domain, 1, 8), (bus, 2, 2), (device, 2, 2), (function, 1, 1))
    if not all(low <= len(field) <= high and _HEX.issuperset(field) for field, low, high in widths):
        return None
    if int(device, 16) > 0x1F or int(function, 16) > 7:
        return None
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}"
