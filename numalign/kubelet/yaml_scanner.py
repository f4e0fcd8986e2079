"""The tokens of YAML as the kubelet's library finds them, where ruamel.yaml finds others.

Source: go.yaml.in/yaml/v2 (scannerc.go, readerc.go), which the kubelet uses.
"""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.reader import Reader
from ruamel.yaml.scanner import Scanner, ScannerError

__all__ = ["JsonScanner", "KubeletReader", "KubeletScanner", "as_yaml"]

_BREAKS = "\r\n\x85\u2028\u2029"
_ENDS = "\0" + _BREAKS
_BLANKS = " \t"
_AFTER_ANCHOR = _ENDS + _BLANKS + "?:,]}%@`"
_LONGEST_TAG = 200
_DIRECTIVES = ("YAML", "TAG")
_ESCAPED = re.compile(r"\\.")
_NOT_IN_YAML = re.compile("[\\x7f-\\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class KubeletReader(Reader):
    """Counts a line after every line break of YAML 1.1, those of Unicode too."""

    def forward(self, length: int = 1) -> None:
        if self.pointer + length + 1 >= len(self.buffer):
            self.update(length + 1)
        passed = self.buffer[self.pointer : self.pointer + length]
        if passed.isascii() and "\n" not in passed and "\r" not in passed:
            self.pointer += length
            self.index += length
            self.column += length
            return
        for character in passed:
            self.pointer += 1
            self.index += 1
            if character in "\n\x85\u2028\u2029" or (character == "\r" and self.buffer[self.pointer] != "\n"):
                self.line += 1
                self.column = 0
            elif character != "\ufeff":
                self.column += 1


class KubeletScanner(Scanner):
    """Takes tabs for blanks where the kubelet's library does: within brackets, in plain text, and in a line after a
    key, a colon or a value; takes names of anchors, directives and escapes as it does."""

    ESCAPE_REPLACEMENTS = {  # noqa: RUF012 - as the class above has it
        **{mark: text for mark, text in Scanner.ESCAPE_REPLACEMENTS.items() if mark != "/"},
        "'": "'",
    }

    def scan_to_next_token(self) -> Any:
        while True:
            super().scan_to_next_token()
            if self.allow_simple_key or self.reader.peek() != "\t":
                return
            while self.reader.peek() in _BLANKS:
                self.reader.forward()

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:
        """The blanks and line breaks within plain text, folded; None before a document's marker."""
        blanks = self._blanks()
        if self.reader.peek() not in _BREAKS:
            return [blanks] if blanks else []
        self.allow_simple_key = True
        first, more = self.scan_line_break(), []
        while not self._at_marker():
            character = self.reader.peek()
            if character == "\t" and self.reader.column < indent:
                raise self._wrong("a plain scalar", start_mark, "found a tab character that violates indentation")
            if character in _BLANKS:
                self.reader.forward()
            elif character in _BREAKS:
                more.append(self.scan_line_break())
            else:
                return [*([first] if first != "\n" else []), *more] or [" "]
        return None

    def scan_block_scalar_indicators(self, start_mark: Any) -> Any:
        """How a block ends (True: with all its line breaks, False: with none) and how far it is indented, if said."""
        chomping, increment = self._chomping(), None
        if self.reader.peek() in "123456789":
            increment = int(self.reader.peek())
            self.reader.forward()
        elif self.reader.peek() == "0":
            raise self._wrong("a block scalar", start_mark, "found an indentation indicator equal to 0")
        if chomping is None and increment is not None:
            chomping = self._chomping()
        self._blanks()
        return chomping, increment

    def scan_block_scalar_indentation(self) -> Any:
        """The line breaks before a block's first line, and the most blanks in any of these lines."""
        breaks: list[str] = []
        most, end = 0, self.reader.get_mark()
        while True:
            while self.reader.peek() == " ":
                self.reader.forward()
            most = max(most, self.reader.column)
            self._refuse_tab(end)
            if self.reader.peek() not in _BREAKS:
                return breaks, most, end
            breaks.append(self.scan_line_break())
            end = self.reader.get_mark()

    def scan_block_scalar_breaks(self, indent: int) -> Any:
        found = super().scan_block_scalar_breaks(indent)
        if self.reader.column < indent:
            self._refuse_tab(found[1])
        return found

    def _refuse_tab(self, start: Any) -> None:
        if self.reader.peek() == "\t":
            what = "found a tab character where an indentation space is expected"
            raise self._wrong("a block scalar", start, what)

    def _chomping(self) -> bool | None:
        mark = self.reader.peek()
        if mark not in "+-":
            return None
        self.reader.forward()
        return bool(mark == "+")

    def scan_anchor(self, TokenClass: Any) -> Any:
        start, what = self.reader.get_mark(), "an alias" if self.reader.peek() == "*" else "an anchor"
        self.reader.forward()
        name = self._name()
        if not name or self.reader.peek() not in _AFTER_ANCHOR:
            raise self._wrong(what, start, "did not find expected alphabetic or numeric character")
        return TokenClass(name, start, self.reader.get_mark())

    def scan_tag(self) -> Any:
        """A tag, cut off where it is longer than any that means something: to decode it ruamel.yaml takes the square of
        its length."""
        token = super().scan_tag()
        handle, suffix = token.value
        token.value = (handle, suffix[:_LONGEST_TAG])
        return token

    def scan_directive(self) -> Any:
        start, length = self.reader.get_mark(), 1
        while self._is_of_name(self.reader.peek(length)):
            length += 1
        if length == 1:
            raise self._wrong("a directive", start, "could not find expected directive name")
        if self.reader.prefix(length)[1:] not in _DIRECTIVES:
            raise self._wrong("a directive", start, "found unknown directive name")
        return super().scan_directive()

    def scan_flow_scalar_non_spaces(self, double: Any, start_mark: Any) -> Any:
        try:
            return super().scan_flow_scalar_non_spaces(double, start_mark)
        except (OverflowError, ValueError):
            raise self._wrong("a quoted scalar", start_mark, "found invalid Unicode character escape code") from None

    def _name(self) -> str:
        """The letters, digits, underscores and dashes that come next."""
        length = 0
        while self._is_of_name(self.reader.peek(length)):
            length += 1
        name: str = self.reader.prefix(length)
        self.reader.forward(length)
        return name

    @staticmethod
    def _is_of_name(character: str) -> bool:
        return character in "_-" or (character.isascii() and character.isalnum())

    def _blanks(self) -> str:
        length = 0
        while self.reader.peek(length) in _BLANKS:
            length += 1
        blanks: str = self.reader.prefix(length)
        self.reader.forward(length)
        return blanks

    def _at_marker(self) -> bool:
        """Whether a document ends here: `---` or `...` at the beginning of a line."""
        at_start = self.reader.column == 0 and self.reader.prefix(3) in ("---", "...")
        return at_start and self.reader.peek(3) in _ENDS + _BLANKS

    def _wrong(self, what: str, start: Any, problem: str) -> ScannerError:
        return ScannerError(f"while scanning {what}", start, problem, self.reader.get_mark())


class JsonScanner(KubeletScanner):
    """For a text that is JSON: its keys may be of any length, and their colons stand in another line."""

    def stale_possible_simple_keys(self) -> None:
        """Drops no key."""


def as_yaml(text: str) -> str:
    """A JSON text as YAML that means the same: tabs stand between tokens only, what is no character of YAML or a line
    break to it only in strings, where it can be escaped."""
    text = _ESCAPED.sub(lambda match: "/" if match[0] == r"\/" else match[0], text.replace("\t", " "))
    return _NOT_IN_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
