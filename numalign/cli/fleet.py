"""numalign fleet."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from numalign.cli.files import emit, emit_document, read_file, write_file
from numalign.errors import CannotRead, NumalignError, WrongUsage
from numalign.words import count, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numalign.cli.gather import Found
    from numalign.fleet import Fleet, Unread

__all__ = ["fleet"]

_MOST_SHOWN = 1000
"""Lines about documents that could not be read, after which only their number is said."""


def fleet(
    *,
    paths: tuple[str, ...],
    out_dir: str | None = None,
    target: str = "kubelet",
    template: str | None = None,
    pod: str | None = None,
    device: tuple[str, ...] = (),
    mig_strategy: str | None = None,
    class_from: str | None = None,
    fail_on: str | None = None,
    output: str = "text",
    out: str | None = None,
    **wishes: Any,
) -> int:
    """Sort nodes into classes of equal topology, and tell what is odd about those that fit in none.

    PATHS are Machine documents (numalign inspect -o json), snapshots, and directories of them. With --out-dir one
    configuration is written for each class, with --pod it is said how many of a pod fit on the nodes.
    """
    from numalign.cli.answers import Wishes, answer
    from numalign.cli.gather import gather
    from numalign.cli.render import target_named
    from numalign.cli.wishes import plan_wishes

    asked = Wishes(
        plan=plan_wishes(**wishes),
        target=target_named(target),
        template=template,
        folder=out_dir,
        device=device,
        mig_strategy=mig_strategy,
    )
    smallest = _class_from(class_from)
    pods = _pods(pod, paths)
    found = gather(paths)
    _tell_unread(found.unread)
    _refuse_nothing(found)
    whole = answer(found, asked, pods, smallest)
    if out_dir is not None:
        _write(whole.files, out_dir)
    _print(whole.fleet, output, out)
    return _status(whole.fleet, fail_on, written=out_dir is not None)
