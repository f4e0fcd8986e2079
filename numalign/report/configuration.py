"""`kubelet config`: the effective configuration and where it comes from."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from numalign.kubelet.document import Document
from numalign.kubelet.settings import DECISIVE
from numalign.report.text import fits, plain_table, wrapped
from numalign.words import printable

__all__ = ["draw", "printed"]

_DEFAULT = "default"
_MERGE = "mergeDefaultEvictionSettings"


def draw(console: Console, document: Document) -> None:
    """The fields that decide about alignment, with their values and places; then what has no effect."""
    rows = list(_rows(document))
    heads = ("field", "value", "from")
    if fits([heads, *rows], console.width):
        table = plain_table(*((head, "left") for head in heads))
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        for row in rows:
            _below_each_other(console, *row)
    for ignored in document.ignored:
        what = "stands twice, the last holds" if ignored.repeated else "is no field, skipped"
        console.print(Text(f"{printable(ignored.field)} ({printable(ignored.place)}) {what}"))


def _rows(document: Document) -> Iterator[tuple[str, str, str]]:
    """Each field with its value and where that is from."""
    written = _written(document)
    for field, default in DECISIVE.items():
        value = written.get(field, document.values.get(field))
        if isinstance(value, dict) and value:
            for key in value:
                place = document.places.get((field, key)) or document.place(field)
                yield f"{field}.{printable(str(key))}", _shown(value[key]), printable(place)
        elif value is None or value == "":
            yield field, default, _DEFAULT
        else:
            yield field, _shown(document.values.get(field, value)), printable(document.place(field))


def _below_each_other(console: Console, field: str, value: str, place: str) -> None:
    """A field where the terminal has no room for a table: its place stands below it, unless it is the default."""
    line = f"{field}: {value}" + (f"  ({place})" if place == _DEFAULT else "")
    console.print(Text(wrapped(line, console.width), overflow="fold"))
    if place != _DEFAULT:
        console.print(Padding(Text(place, overflow="fold"), (0, 0, 0, 4)))


def printed(document: Document, output: str) -> bytes:
    """The whole effective document as YAML or JSON; as a file of --config it is the same configuration again."""
    head = {"apiVersion": document.values.get("apiVersion"), "kind": document.values.get("kind")}
    values = {**head, **_written(document)}
    values["evictionHard"] = document.values.get("evictionHard", {})  # without it the defaults would come back
    if values.get(_MERGE):
        values[_MERGE] = False  # it is done, and would bring back what a drop-in or flag took out
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(values, enc_hook=str), indent=2) + b"\n"
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096
    stream = io.BytesIO()
    yaml.dump(msgspec.to_builtins(values, enc_hook=str), stream)
    return stream.getvalue()


def _written(document: Document) -> dict[str, Any]:
    """The fields as they were written; those that a flag sets, as it sets them."""
    flags = [field for field in document.values if document.place(field).startswith("--")]
    return {**document.raw, **{field: document.values[field] for field in flags}}


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(msgspec.json.encode(value, enc_hook=str).decode())
