"""Setting values in the text of a YAML or JSON document: only the places that change are written, all else stays."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numalign.kubelet import yaml

__all__ = ["Node", "TextEditor", "inline", "tree"]

_WORD = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")
_COMMENT = re.compile(r"(?:(?<=[ \t])|^)#[^\r\n]*", re.MULTILINE)


class Node:
    """A value's place in a text: from `start` up to `end` (offsets; a block's end is its last value's), and `column`
    (from 0). `kind` is map, list, scalar or alias; the entries of a map are pairs of nodes; an alias knows its target.
    """

    __slots__ = ("anchor", "column", "end", "entries", "flow", "items", "kind", "path", "start", "style", "target")

    def __init__(self, kind: str, event: Any, path: yaml.Path) -> None:
        self.kind = kind
        self.start: int = event.start_mark.index
        self.end: int = event.end_mark.index
        self.column: int = event.start_mark.column
        self.flow = bool(getattr(event, "flow_style", False))
        self.style: str | None = getattr(event, "style", None)
        self.anchor: str | None = event.anchor
        self.path = path
        self.entries: dict[str, tuple[Node, Node]] = {}
        self.items: list[Node] = []
        self.target: Node | None = None

    def children(self) -> list[Node]:
        """The values of a map or list, in their order."""
        return [value for _, value in self.entries.values()] or self.items

    def within(self) -> Iterator[Node]:
        """The node and all below it."""
        yield self
        for child in self.children():
            yield from child.within()


class _Tree(NamedTuple):
    root: Node
    end: int


def tree(text: str) -> _Tree:
    """The nodes of the first document, and where it ends: at the line of its end marker or of the next document's
    beginning, else with the text. The text has to be one that `yaml.read` takes."""
    events = yaml.events(text)
    next(events)  # of the stream
    next(events)  # of the document
    root = _node(events, next(events), text, (), {})
    return _Tree(root, next(events).start_mark.index)


def _node(events: Iterator[Any], event: Any, text: str, path: yaml.Path, anchors: dict[str, Node]) -> Node:
    kind = type(event).__name__.removesuffix("Event")
    if kind == "Alias":
        node = Node("alias", event, path)
        node.anchor, node.target = None, anchors[event.anchor]
        return node
    node = Node({"Scalar": "scalar", "MappingStart": "map"}.get(kind, "list"), event, path)
    if node.kind != "scalar":
        end = _children(node, events, text, anchors)
        below = [child.end for child in node.children()]
        node.end = end.end_mark.index if node.flow else max(below, default=node.start)
    if node.anchor:
        anchors[node.anchor] = node
    return node


def _children(node: Node, events: Iterator[Any], text: str, anchors: dict[str, Node]) -> Any:
    """Takes in what is below a map or list, up to its end event, which it gives."""
    for event in events:
        if type(event).__name__.endswith("EndEvent"):
            return event
        if node.kind == "list":
            node.items.append(_node(events, event, text, (*node.path, len(node.items)), anchors))
            continue
        key = _node(events, event, text, node.path, anchors)
        name = event.value if event.style is not None else yaml.key_text(yaml.scalar(event.value))
        value = _node(events, next(events), text, (*node.path, name), anchors)
        if value.kind == "scalar" and value.start == value.end:
            # an empty value has the place of what follows it
            value.start = value.end = text.find(":", key.end) + 1
        node.entries[name] = (key, value)
    raise AssertionError("the events of a map or list end with its end")


def inline(value: Any, *, strict: bool = False) -> str:
    """A value on one line, as YAML; with `strict` as JSON.

    >>> inline({"memory": "1Gi", "pods": ["static", 1, True]})
    '{memory: "1Gi", pods: [static, 1, true]}'
    """
    if strict:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(key)}: {inline(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return _word(value, letters=True) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _word(text: str, *, letters: bool = False) -> str:
    """A text bare where it can be, else in quotes; with `letters`, bare only words: others look like numbers."""
    plain = _is_plain(text) and (not letters or text.replace("-", "").isalpha())
    return text if plain else json.dumps(text, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    return bool(_WORD.fullmatch(text)) and isinstance(yaml.scalar(text), str)


class TextEditor:
    """Collects changes of a document's text and makes them all at once.

    `old` is the document's value and `wanted` the one to come to. Values that come through an alias are written out
    where either side of it changes.
    """

    def __init__(self, text: str, old: Any, wanted: Any) -> None:
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.unended = not text.endswith("\n")
        self.text = text + self.newline if self.unended else text
        self.old = old
        self.wanted = wanted
        self.root, self.document_end = tree(self.text)
        self.json = yaml.is_json(text)
        self.edits: list[tuple[int, int, int, str]] = []
        """Offsets, the order of insertions at one place, and the new text."""
        self.written: set[int] = set()
        self.touched: set[int] = set()
        self.removed: list[tuple[int, int]] = []
        self.moved: dict[yaml.Path, Any] = {}
        """Entries of lists as they are wanted, by the path that they had."""

    # -- where things are

    def find(self, path: yaml.Path) -> Node | None:
        """The node at a path; None where there is none, or it is behind an alias."""
        node: Node | None = self.root
        for part in path:
            node = None if node is None else _child(node, part)
        return node

    def steps(self) -> tuple[int, int]:
        """By how much the document indents maps, and lists, below their keys; 2 where it has none."""
        found: dict[str, int] = {}
        for node in self.root.within():
            for _, value in node.entries.values():
                if value.kind in ("map", "list") and not value.flow and not node.flow:
                    found.setdefault(value.kind, self.column(value) - self.column(node))
        return max(found.get("map", 2), 1), max(found.get("list", 2), 0)

    def comments_above(self, path: yaml.Path) -> tuple[int, list[str]]:
        """Where the comment lines right above a key begin, and their text; the key stands first on its line."""
        parent = self.find(path[:-1])
        if parent is None or parent.flow or parent.kind != "map" or path[-1] not in parent.entries:
            return 0, []
        start = self._line_start(parent.entries[str(path[-1])][0].start)
        lines: list[str] = []
        while start:
            above = self._line_start(start - 1)
            line = self.text[above : start - 1].rstrip("\r")
            if not line.lstrip().startswith("#"):
                break
            lines.insert(0, line)
            start = above
        return start, lines

    def room_above(self, path: yaml.Path) -> int | None:
        """How deep a comment would stand above a key; None where one stands there or behind the key, or none can."""
        key = self._key(path)
        if key is None or self.comments_above(path)[1] or self.comments_within(key.start, self._next_line(key.start)):
            return None
        return self._column_of(key)

    def _key(self, path: yaml.Path) -> Node | None:
        """The key at a path that stands first on its line, in a block."""
        parent = self.find(path[:-1])
        if parent is None or parent.flow or parent.kind != "map" or path[-1] not in parent.entries:
            return None
        key = parent.entries[str(path[-1])][0]
        return None if self.text[self._line_start(key.start) : key.start].strip() else key

    def comments_within(self, start: int, end: int) -> list[str]:
        """The comments between two offsets."""
        scalars = [n for n in self.root.within() if n.kind in ("scalar", "alias") and start <= n.start < end]
        keys = [key for n in self.root.within() for key, _ in n.entries.values() if start <= key.start < end]
        blank = self.text[start:end]
        for node in (*scalars, *keys):
            a, b = node.start - start, node.end - start
            blank = blank[:a] + "x" * (min(b, len(blank)) - a) + blank[b:]
        return [self.text[start + m.start() : start + m.end()] for m in _COMMENT.finditer(blank)]

    def lines_below(self, offset: int, count: int) -> int:
        """Where the line begins that is so many lines below the one at an offset."""
        for _ in range(count):
            offset = self._next_line(offset)
        return offset

    # -- changes

    def replace_lines(self, start: int, old: Sequence[str], new: Sequence[str]) -> None:
        """Writes lines in the stead of others that begin at an offset."""
        self._edit(start, self.lines_below(start, len(old)), "".join(line + self.newline for line in new))

    def insert_above(self, path: yaml.Path, lines: Sequence[str]) -> None:
        """Writes lines above a key that stands first on its line, as deep as it."""
        key = self._key(path)
        assert key is not None
        start = self._line_start(key.start)
        indent = self.text[start : key.start]
        # behind what comes to a block that ends there
        self._edit(start, start, "".join(indent + line + self.newline for line in lines), 1)

    def write(self, path: yaml.Path, lines: Sequence[str] = ()) -> None:
        """Brings the value at a path to the wanted one. Where it is new in a block, `lines` are what is written there,
        without the block's indentation; else it is written on one line."""
        node, at = self.root, 0
        self.touched.add(id(node))
        for at, part in enumerate(path):
            child = _child(node, part)
            if child is None:
                self._insert(node, path[: at + 1], lines if at + 1 == len(path) else ())
                return
            node = child
            self.touched.add(id(node))
            if node.kind in ("alias", "scalar"):
                break
        self._replace(node, path[: at + 1])

    def write_item(self, item: yaml.Path, below: yaml.Path, wanted: Any) -> None:
        """Brings a value below an entry of a list to that of the wanted entry, whose position can be another."""
        self.moved[item] = wanted
        self.write((*item, *below))

    def remove_item(self, node: Node, position: int) -> None:
        """Takes an entry out of a block list; the comments in it stay, as lines of their own."""
        item = node.items[position]
        start = self._item_line(node, item)
        end = self._behind(item)
        self.touched.update(id(inner) for inner in item.within())
        kept = [" " * self.column(node) + comment + self.newline for comment in self.comments_within(start, end)]
        self.removed.append((start, end))
        self._edit(start, end, "".join(kept))

    def append_items(self, node: Node, entries: Sequence[Any], blocks: Sequence[list[str]]) -> None:
        """Adds entries to a list; `blocks` are their lines in a block list that has no entries on one line."""
        self.touched.add(id(node))
        if node.flow:
            self._insert_flow(node, [self._flow_value(entry, node) for entry in entries])
            return
        if node.items and node.items[-1].flow:
            blocks = [[f"- {inline(entry)}"] for entry in entries]
        self._insert_lines(node, self._behind(node), [line for block in blocks for line in block])

    def result(self) -> str:
        """The text with all changes made."""
        for node in self.root.within():
            target = node.target
            gone = any(start <= node.start < end for start, end in self.removed)
            if target is not None and id(node) not in self.written and not gone and id(target) in self.touched:
                self._edit(node.start, node.end, inline(_at(self.old, target.path)))
        text = self.text
        in_order = sorted((*edit[:3], i, edit[3]) for i, edit in enumerate(self.edits))
        for start, end, _, _, new in in_order[::-1]:
            text = text[:start] + new + text[end:]
        return text.removesuffix(self.newline) if self.unended else text

    def replace_whole(self, path: yaml.Path) -> None:
        """Writes a list or map anew on one line; the comments in it stay, above the field."""
        node = self.find(path)
        assert node is not None
        comments = self.comments_within(node.start, node.end)
        key = self.root.entries[str(path[0])][0]
        if comments:
            self._edit(key.start, key.start, "".join(c + self.newline + " " * key.column for c in comments))
        self._replace(node, path)

    # -- how it is done

    def _edit(self, start: int, end: int, new: str, order: int = 0) -> None:
        self.edits.append((start, end, order, new))

    def _replace(self, node: Node, path: yaml.Path) -> None:
        if id(node) in self.written:
            return
        self.written.add(id(node))
        self.touched.update(id(inner) for inner in node.within())
        value = self._wanted(path)
        parent = self.find(path[:-1])
        if node.start == node.end:
            new = " " + inline(value, strict=self.json)
        elif isinstance(value, (dict, list)):
            new = self._flow_value(value, parent)
            new = new if node.flow or node.kind in ("alias", "scalar") else "  " + new  # deeper than the key
        else:
            new = self._scalar(value, node, parent)
        end = node.end
        if node.style in ("|", ">"):  # which reaches up to the next line, and can have a comment behind its mark
            end = node.start + len(self.text[node.start : end].rstrip())
            new += "".join(f"  {comment}" for comment in self._header_comments(node))
        self.removed.append((node.start, end))
        self._edit(node.start, end, new)

    def _header_comments(self, node: Node) -> list[str]:
        """The comment behind the mark with which a block scalar begins."""
        return _COMMENT.findall(self.text[node.start : self._next_line(node.start)].rstrip())

    def _wanted(self, path: yaml.Path) -> Any:
        entry = self.moved.get(path[:2])
        return _at(self.wanted, path) if entry is None else _at(entry, path[2:])

    def _scalar(self, value: Any, node: Node, parent: Node | None) -> str:
        """A scalar in the style of the one that it replaces."""
        if self.json or not isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if node.kind == "alias":
            return inline(value)
        if node.style == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        listed = parent is not None and not parent.flow and node.style is None
        plain = value.replace(",", "") if listed and not value.endswith(",") else value
        if node.style is None and _is_plain(plain) and yaml.scalar(value) == value:
            return value
        return json.dumps(value, ensure_ascii=False)

    def _insert(self, parent: Node, path: yaml.Path, lines: Sequence[str]) -> None:
        value = self._wanted(path)
        key = str(path[-1])
        if parent.flow:
            name = json.dumps(key) if self.json else _word(key)
            self._insert_flow(parent, [f"{name}{self._colon(parent)}{self._flow_value(value, parent)}"])
            return
        lines = lines or [f"{_word(key)}: {inline(value)}"]
        place = self.document_end if parent is self.root else self._behind(parent)
        self._insert_lines(parent, place, lines)

    def _insert_lines(self, parent: Node, place: int, lines: Sequence[str]) -> None:
        """Of several blocks that end at one place, the inner one has its lines first."""
        indent = " " * self.column(parent)
        self._edit(place, place, "".join(indent + line + self.newline for line in lines), -len(parent.path))

    def _edited(self, place: int) -> bool:
        return any(start == end == place for start, end, *_ in self.edits)

    def _insert_flow(self, parent: Node, texts: Sequence[str]) -> None:
        """Adds entries within brackets: on lines of their own where the others are, and behind their comments."""
        pairs = [*(value for _, value in parent.entries.values()), *parent.items]
        close = parent.end - 1
        first = pairs[0] if pairs else None
        self.touched.add(id(parent))
        if first is None:
            self._edit(close, close, ", ".join(texts) if not self._edited(close) else "".join(f", {t}" for t in texts))
            return
        indent = self._own_line(parent)
        end = max(value.end for value in pairs)
        rest = re.sub(r"#[^\n]*", "", self.text[end:close])
        comma = "" if "," in rest else ","
        if indent is None:
            gap = " " if ", " in self.text[parent.start : parent.end] or len(pairs) == 1 else ""
            gap = gap if self._colon(parent) != ":" else ""
            new = ("," + gap).join(texts)
            place = end if comma else end + self.text[end:close].index(",") + 1
            # of several insertions at one place each has its comma
            self._edit(place, place, (comma or "") + gap + new + ("" if comma else ","))
            return
        line_end = self.text.find("\n", end, close)
        stop = line_end if line_end >= 0 else end
        stop -= stop > end and self.text[stop - 1] == "\r"
        fresh = f",{self.newline}{indent}".join(texts)
        tail = "" if comma else ","
        if stop == end:
            self._edit(end, end, f"{comma}{self.newline}{indent}{fresh}{tail}")
            return
        if comma and not self._edited(end):
            self._edit(end, end, comma)
            comma = ""
        self._edit(stop, stop, f"{',' if comma else ''}{self.newline}{indent}{fresh}{tail}")

    def _own_line(self, parent: Node) -> str | None:
        """The indentation of the first entry within brackets that stands first on its line."""
        starts = [key.start for key, _ in parent.entries.values()] or [item.start for item in parent.items]
        before = self.text[self._line_start(starts[0]) : starts[0]]
        return before if not before.strip() and self._line_start(starts[0]) > parent.start else None

    def _flow_value(self, value: Any, parent: Node | None) -> str:
        """A value within brackets: over several lines where a JSON document has its entries so."""
        if not self.json:
            return inline(value)
        colon = self._colon(self.root)
        unit = self._own_line(self.root)
        indent = self._own_line(parent) if parent is not None and parent.flow and parent.children() else None
        if unit and indent is not None and isinstance(value, (dict, list)):
            return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", self.newline + indent)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":") if colon == ":" else None)

    def _colon(self, parent: Node) -> str:
        """What stands between key and value: `:` in compact JSON."""
        key, value = next(iter((parent if parent.entries else self.root).entries.values()))
        return ":" if self.json and value.start == key.end + 1 else ": "

    def column(self, node: Node) -> int:
        """The column of a block's entries; a map's start can be its anchor."""
        if node.kind == "map" and node.entries:
            return self._column_of(next(iter(node.entries.values()))[0])
        if node.kind == "list" and node.items and node.anchor:
            first = self._line_start(node.items[0].start)
            line = self.text[first : node.items[0].start]
            return len(line) - len(line.lstrip())
        return node.column

    def _column_of(self, node: Node) -> int:
        return node.start - self._line_start(node.start)

    def _line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def _next_line(self, offset: int) -> int:
        found = self.text.find("\n", offset)
        return len(self.text) if found < 0 else found + 1

    def _behind(self, node: Node) -> int:
        """Where the line behind a node begins; a block scalar ends there itself."""
        end = node.end
        return end if end and self.text[end - 1] == "\n" else self._next_line(end)

    def _item_line(self, parent: Node, item: Node) -> int:
        """The beginning of the line with the dash of an entry."""
        column = self.column(parent)
        start = self._line_start(item.start)
        while start and not (
            self.text[start : start + column].strip() == "" and self.text[start + column : start + column + 1] == "-"
        ):
            start = self._line_start(start - 1)
        return start


def _child(node: Node, part: str | int) -> Node | None:
    if isinstance(part, int):
        return node.items[part] if part < len(node.items) else None
    return node.entries[part][1] if part in node.entries else None


def _at(value: Any, path: yaml.Path) -> Any:
    for part in path:
        value = value[part]
    return value
