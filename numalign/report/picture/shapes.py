"""What a picture is made of: boxes in boxes with lines of text, in pixels; the template writes them as SVG.

Every box holds its parts whole, so a layout is right where no part reaches over its box and no two parts overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["GAP", "PAD", "Box", "Label", "Wire", "column", "fitted", "folded_to", "label_width", "row", "shelves"]
__all__ += ["stacked", "titled"]

PAD = 8.0
"""Between a box's frame and its parts."""
GAP = 8.0
"""Between two parts."""
SIZES = {"head": 17, "title": 13, "text": 11, "small": 10, "cell": 9}
"""The sizes of text by name."""
_BOLD = frozenset({"head", "title"})
_LINE = 1.36
"""A line's height in sizes."""

# Advance widths of DejaVu Sans, in parts of the size: the widest font among those that browsers use for system-ui.
_WIDTHS = {
    character: width
    for width, characters in (
        (0.28, "'ijl"), (0.29, "IJ"), (0.32, " ,.·"), (0.34, "/:;\\|"), (0.36, "-f"), (0.4, "()[]t!›"), (0.41, "r"),
        (0.5, '"*_`–'), (0.52, "sz?"), (0.55, "cL"), (0.59, "Fkvxy"), (0.61, "PTYaoe"),
        (0.64, "ESbdghnpqu$0123456789{}"), (0.7, "KAVBRXZC"), (0.78, "UHNDG&OQ"),
        (0.84, "w#+<=>^~×✗✓→"), (0.87, "M"), (0.97, "%m"),
    )
    for character in characters
}  # fmt: skip
_WIDEST = 1.0
_WIDER_IF_BOLD = 1.14


class Label(Struct, frozen=True):
    """A line of text; x, y is its place on the baseline, `anchor` which end of it is there. `style` names its size and
    colour: one of SIZES, then words of the style sheet."""

    x: float
    y: float
    text: str
    style: str = "text"
    anchor: str = "start"
    kind: ClassVar[str] = "label"


class Wire(Struct, frozen=True):
    """A line between two places, by way of a vertical before the second."""

    x1: float
    y1: float
    x2: float
    y2: float
    style: str
    kind: ClassVar[str] = "wire"


class Box(Struct, frozen=True):
    """A frame with its parts, which are placed from its own upper left corner. `tip` shows when it is hovered over."""

    width: float
    height: float
    style: str
    parts: tuple[Box | Label | Wire, ...] = ()
    tip: str = ""
    x: float = 0.0
    y: float = 0.0

    def at(self, x: float, y: float) -> Box:
        """The box in that place."""
        return replace(self, x=x, y=y)

    kind: ClassVar[str] = "box"


def label_width(text: str, style: str = "text") -> float:
    """How wide a text is at most, in pixels."""
    size = style.split()[0]
    width = sum(_WIDTHS.get(character, _WIDEST) for character in text) * SIZES[size]
    return width * _WIDER_IF_BOLD if size in _BOLD or "strong" in style else width


def line_height(style: str) -> float:
    """How high a line of text is, in pixels."""
    return SIZES[style.split()[0]] * _LINE


def fitted(text: str, width: float, style: str = "text") -> str:
    """The text, or as much of its beginning as fits, with `…` at its end."""
    if label_width(text, style) <= width:
        return text
    while text and label_width(text + "…", style) > width:
        text = text[:-1]
    return text.rstrip() + "…"


def folded_to(text: str, width: float, style: str = "text") -> list[str]:
    """The text in lines that fit, broken at its spaces, and within a word where that is wider than a line."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if label_width(longer, style) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while label_width(word, style) > width and len(word) > 1:
            cut = len(word) - 1
            while cut > 1 and label_width(word[:cut], style) > width:
                cut -= 1
            lines.append(word[:cut])
            word = word[cut:]
        line = word
    return [*lines, line] if line else lines


def stacked(lines: Iterable[tuple[str, str]], x: float = 0.0, y: float = 0.0) -> tuple[list[Label], float]:
    """Lines of text (text, style) below each other from x, y down; and where the next thing may begin."""
    labels = []
    for text, style in lines:
        height = line_height(style)
        labels.append(Label(x, y + height * 0.76, text, style))
        y += height
    return labels, y


def shelves(boxes: Sequence[Box], width: float, x: float = 0.0, y: float = 0.0) -> tuple[list[Box], float, float]:
    """Boxes from left to right, on a new shelf where the width is used up; and how wide and how far down they reach."""
    placed: list[Box] = []
    left, top, height, widest = x, y, 0.0, 0.0
    for box in boxes:
        if left > x and left + box.width > x + width:
            left, top, height = x, top + height + GAP, 0.0
        placed.append(box.at(left, top))
        left += box.width + GAP
        widest, height = max(widest, left - GAP - x), max(height, box.height)
    return placed, widest, top + height


def row(boxes: Sequence[Box], x: float = 0.0, y: float = 0.0) -> list[Box]:
    """Boxes side by side, all as high as the highest."""
    height = max((box.height for box in boxes), default=0.0)
    placed, _, _ = shelves([replace(box, height=height) for box in boxes], float("inf"), x, y)
    return placed


def column(boxes: Sequence[Box], x: float = 0.0, y: float = 0.0) -> tuple[list[Box], float]:
    """Boxes below each other; with where the next one may begin, less the gap."""
    placed = []
    for box in boxes:
        placed.append(box.at(x, y))
        y += box.height + GAP
    return placed, y - GAP if boxes else y


def titled(lines: Sequence[tuple[str, str]], parts: Sequence[Box], style: str, *, within: float, tip: str = "") -> Box:
    """A box with lines of text (text, style) at its top and parts on shelves below them, as narrow as they allow."""
    widest = max((label_width(*line) for line in lines), default=0.0)
    labels, y = stacked(lines, PAD, PAD * 0.75)
    placed, width, bottom = shelves(parts, within - 2 * PAD, PAD, y + PAD * 0.5 if lines else PAD)
    return Box(max(width, widest) + 2 * PAD, (bottom if parts else y) + PAD, style, (*labels, *placed), tip)
