"""Pages and pictures: the templates in templates/pages, so that no name in them is markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numalign import __version__
from numalign.folders import template_folders
from numalign.words import printable, size

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["fill_page"]


def fill_page(template: str, **given: Any) -> str:
    """The template of that name in templates/pages, filled in."""
    return _environment().get_template(f"pages/{template}").render(version=__version__, **given)


def _environment() -> Environment:
    """Jinja2 as it reads the pages: every text is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(template_folders()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    made.filters.update(px=_px, size=size, printable=printable)
    return made


def _px(number: float) -> str:
    """A length with at most one digit behind the point."""
    return f"{number:.1f}".removesuffix(".0")
