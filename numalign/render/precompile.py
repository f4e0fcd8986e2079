"""Writes compiled.py, the templates as Python, since importing Jinja2 takes longer than rendering all of them.

usage: python -m numalign.render.precompile

A function for each template, of what Jinja2 parses from it. A template with something else in it than what is written
here stays Jinja2's, and so do all of them where one was changed and compiled.py was not made anew.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import nodes

from numalign.render import environment, template_digest

__all__ = ["compiled_module", "main"]

_HEAD = '''# mypy: disable-error-code="var-annotated"
"""The templates as Python, made by numalign.render.precompile: not to be changed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numalign.render.filters import attribute, fields, flags, note, out, quoted

__all__ = ["DIGEST", "TEMPLATES"]
'''
_COMPARISONS = {
    "eq": "==", "ne": "!=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">=", "in": "in", "notin": "not in",
}  # fmt: skip
_FILTERS = {"fields": "fields", "flags": "flags", "note": "note", "quoted": "quoted", "string": "str"}


class _Function:
    """A template's function: its lines; `own` are the names that it sets itself."""

    def __init__(self, template: nodes.Template) -> None:
        self.lines: list[str] = []
        self.own = {name.name for name in template.find_all(nodes.Name) if name.ctx == "store"}
        self._body(template.body, 1)

    def _body(self, body: list[nodes.Node], depth: int) -> None:
        for node in body:
            self._statement(node, depth)

    def _write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _statement(self, node: nodes.Node, depth: int) -> None:
        match node:
            case nodes.Output():
                for part in node.nodes:
                    text = repr(part.data) if isinstance(part, nodes.TemplateData) else f"out({self._value(part)})"
                    self._write(depth, f"yield {text}")
            case nodes.Assign(target=nodes.Name()):
                self._write(depth, f"{self._value(node.target)} = {self._value(node.node)}")
            case nodes.If():
                branches = [node, *node.elif_]
                for keyword, branch in zip(["if"] + ["elif"] * len(node.elif_), branches, strict=True):
                    self._write(depth, f"{keyword} {self._value(branch.test)}:")
                    self._body(branch.body, depth + 1)
                if node.else_:
                    self._write(depth, "else:")
                    self._body(node.else_, depth + 1)
            case nodes.For(recursive=False, else_=[]):
                self._write(depth, f"for {self._value(node.target)} in {self._value(node.iter)}:")
                if node.test is not None:
                    self._write(depth + 1, f"if not {self._value(node.test)}:")
                    self._write(depth + 2, "continue")
                self._body(node.body, depth + 1)
            case nodes.Include(template=nodes.Const(value=template)):
                self._write(depth, f"yield from {_name(template)}(given)")
            case _:
                raise NotImplementedError(type(node).__name__)

    def _value(self, node: nodes.Node | None) -> str:
        value = self._value
        match node:
            case nodes.Const():
                return repr(node.value)
            case nodes.Name():
                return f"own_{node.name}" if node.name in self.own else f"given[{node.name!r}]"
            case nodes.Getattr():
                return f"attribute({value(node.node)}, {node.attr!r})"
            case nodes.Getitem():
                return f"{value(node.node)}[{value(node.arg)}]"
            case nodes.Filter(node=nodes.Expr(), dyn_args=None, dyn_kwargs=None, kwargs=[]) if node.name in _FILTERS:
                return f"{_FILTERS[node.name]}({', '.join(map(value, (node.node, *node.args)))})"
            case nodes.Call(dyn_args=None, dyn_kwargs=None, kwargs=[]):
                return f"{value(node.node)}({', '.join(map(value, node.args))})"
            case nodes.Compare(ops=[operand]):
                return f"({value(node.expr)} {_COMPARISONS[operand.op]} {value(operand.expr)})"
            case nodes.Not():
                return f"(not {value(node.node)})"
            case nodes.BinExpr():
                return f"({value(node.left)} {node.operator} {value(node.right)})"
            case nodes.CondExpr(expr2=nodes.Expr()):
                return f"({value(node.expr1)} if {value(node.test)} else {value(node.expr2)})"
            case nodes.Concat():
                return f"''.join(map(str, ({', '.join(map(value, node.nodes))},)))"
            case nodes.Tuple():
                return f"({', '.join(map(value, node.items))},)"
            case nodes.List():
                return f"[{', '.join(map(value, node.items))}]"
            case nodes.Dict():
                return "{" + ", ".join(f"{value(pair.key)}: {value(pair.value)}" for pair in node.items) + "}"
        raise NotImplementedError(type(node).__name__)


def _name(template: str) -> str:
    return "t_" + "".join(c if c.isalnum() else "_" for c in template.removesuffix(".j2"))


def compiled_module() -> str:
    """The text of compiled.py for the templates as they are."""
    made, parts = environment(sandboxed=False), [_HEAD]
    names = sorted(name for name in made.list_templates() if name.endswith(".j2") and "/" not in name)
    done = []
    for name in names:
        source = Path(made.get_template(name).filename or "").read_text()
        try:
            lines = _Function(made.parse(source)).lines
        except NotImplementedError:
            continue
        done.append(name)
        parts.append("\n".join([f"def {_name(name)}(given: Mapping[str, Any]) -> Iterator[str]:", *lines]) + "\n")
    rows = "\n".join(f"    {name!r}: {_name(name)}," for name in done)
    parts.append(f"DIGEST = {template_digest()}\nTEMPLATES = {{\n{rows}\n}}\n")
    return "\n\n".join(parts)


def main() -> None:
    """Writes the module beside this one."""
    Path(__file__).with_name("compiled.py").write_text(compiled_module())


if __name__ == "__main__":
    main()
