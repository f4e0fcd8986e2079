"""The man pages, a page a command, in the macros of man(7) that groff and mandoc share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from numalign import __version__
from numalign.manual.commands import Entry, Page, pages

__all__ = ["man_pages"]

_EXIT_STATUS = (
    Entry("0", "It holds."),
    Entry("1", "It does not: something was found that counts, a pod is refused, or a document differs."),
    Entry("2", "Wrong usage."),
    Entry("3", "Something needed could not be read."),
)
_ENVIRONMENT = (Entry("NUMALIGN_ROOT", "The directory below which the host is read, where --root is not given."),)
_SPECIAL = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "–": r"\(en", "…": "...", "·": r"\(bu"}
_CODE = re.compile("`([^`]*)`")
_VALUE = re.compile(r"^(<.*>|[A-Z][A-Z=\[\],…-]*)$")


def man_pages() -> dict[str, str]:
    """The text of each man page by its file's name."""
    found = pages()
    names = [_name(page) for page in found]
    return {f"{name}.1": _page(page, names) for name, page in zip(names, found, strict=True)}


def _name(page: Page) -> str:
    return "-".join(page.words)


def _page(page: Page, names: list[str]) -> str:
    name = _name(page)
    sections = {
        "NAME": [f"{_text(name)} \\- {_text(page.summary.rstrip('.'))}"],
        "SYNOPSIS": [f"\\fB{_text(page.name)}\\fR{_text(page.usage.removeprefix(page.name))}"],
        "DESCRIPTION": _joined(".PP", map(_text, page.about)),
        "ARGUMENTS": _listed(page.arguments),
        "COMMANDS": _listed(page.commands),
        "OPTIONS": _listed(page.options),
        "EXIT STATUS": _listed(_EXIT_STATUS),
        "ENVIRONMENT": _listed(_ENVIRONMENT),
        "EXAMPLES": [".nf", *map(_text, page.examples), ".fi"] if page.examples else [],
        "SEE ALSO": [", ".join(f"\\fB{_text(other)}\\fR(1)" for other in _related(name, names))],
    }
    head = f'.TH {_text(name.upper())} 1 "" "numalign {__version__}" "numalign"'
    lines = [r".\" made by python -m numalign.manual from the command line's own help", head, ".nh", ".ad l"]
    for title, body in sections.items():
        if body:
            lines += [f".SH {title}", *body]
    return "\n".join(lines) + "\n"


def _related(name: str, names: list[str]) -> list[str]:
    """The pages above and below a page; of the program, all."""
    near = [other for other in names if other.startswith(f"{name}-") or name.startswith(f"{other}-")]
    return near or names


def _listed(entries: Iterable[Entry]) -> list[str]:
    return [line for entry in entries for line in (".TP", _written(entry.written), _text(entry.help))]


def _written(text: str) -> str:
    """An option as it is written: its flags bold, what it takes in italics."""
    words = ("\\fI{}\\fR" if _VALUE.match(word) else "\\fB{}\\fR" for word in text.split(" "))
    return " ".join(form.format(_text(word)) for form, word in zip(words, text.split(" "), strict=True))


def _joined(macro: str, paragraphs: Iterable[str]) -> list[str]:
    def lines() -> Iterator[str]:
        for number, paragraph in enumerate(paragraphs):
            if number:
                yield macro
            yield paragraph

    return list(lines())


def _text(text: str) -> str:
    """Text as roff takes it for itself; a dot that begins a line is no macro."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    escaped = _CODE.sub(r"\\fB\1\\fR", escaped)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
