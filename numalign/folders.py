"""Where the files lie that come with numalign and are not Python."""

from __future__ import annotations

import os

__all__ = ["template_folders"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def template_folders() -> list[str]:
    """In a wheel the templates lie in the package, in a checkout beside it."""
    return [os.path.join(_HERE, "templates"), os.path.join(os.path.dirname(_HERE), "templates")]
