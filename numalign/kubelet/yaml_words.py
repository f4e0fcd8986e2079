"""The words of the kubelet's YAML library for what ruamel.yaml finds wrong with a text.

Source: go.yaml.in/yaml/v2 (yaml.go, fail; scannerc.go, parserc.go, readerc.go).
"""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.parser import ParserError

__all__ = ["words"]

_WORDS = (
    # what ruamel.yaml says -> what the kubelet's library does
    (r"(mapping values|mapping keys) are not allowed here", r"\1 are not allowed in this context"),
    (r"sequence entries are not allowed here", "block sequence entries are not allowed in this context"),
    (r"expected (',' or '[]}]'), but got .*", r"did not find expected \1"),
    (r"expected the node content, but found .*", "did not find expected node content"),
    (r"expected '(<document start>)', but found .*", r"did not find expected \1"),
    (r"found undefined tag handle .*", "found undefined tag handle"),
    (r"found unknown escape character .*", "found unknown escape character"),
    (r"expected escape sequence of \d+ hexdecimal numbers, .*", "did not find expected hexdecimal number"),
    (r"expected URI, but found .*", "did not find expected whitespace or line break"),
    (r"expected ' ', but found .*", "did not find expected whitespace or line break"),
    (r"expected '>' but found .*", "did not find the expected '>'"),
    (r"found unexpected document separator", "found unexpected document indicator"),
    (r"expected indentation indicator in the range .*", "found an indentation indicator equal to 0"),
    (
        r"expected (a comment or a line break|chomping or indentation indicators), but found .*",
        "did not find expected comment or line break",
    ),
    (r"found character .* that cannot start any token", "found character that cannot start any token"),
    (r"(.*) \(version 1\.\* is required\)", r"\1"),
)
_TABLE = tuple((re.compile(pattern, re.DOTALL), said) for pattern, said in _WORDS)
_BLOCK_END = re.compile(r"expected <block end>, but found .*", re.DOTALL)
_SIMPLE_KEY = "could not find expected ':'"


def words(error: MarkedYAMLError, end: int) -> str:
    """What the kubelet says of an error in a text of `end` characters: `yaml: line 3: …`.

    Its lines are one less in errors of the grammar, and it names none for the first line of a text. Where the text ends
    within a line, it counts that line as ended.
    """
    problem = (error.problem or error.context or "").strip()
    grammar = isinstance(error, ParserError)
    said = _said(problem, error.context or "")
    line = _line(error.problem_mark, end if grammar or problem == _SIMPLE_KEY else None)
    if line:
        line += not grammar
    elif error.context_mark is not None:
        line = error.context_mark.line
    return f"yaml: line {line}: {said}" if line else f"yaml: {said}"


def _said(problem: str, context: str) -> str:
    if _BLOCK_END.fullmatch(problem):
        return "did not find expected key" if "mapping" in context else "did not find expected '-' indicator"
    for pattern, said in _TABLE:
        match = pattern.fullmatch(problem)
        if match is not None:
            return match.expand(said)
    return problem


def _line(mark: Any, end: int | None) -> int:
    """The line of a mark, from 0, and of the end of the text that after it."""
    if mark is None:
        return 0
    return int(mark.line) + (end is not None and mark.index >= end and mark.column > 0)
