"""numalign fleet."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from numalign.cli import progress
from numalign.cli.files import emit, emit_document, read_file, write_file
from numalign.cli.numbers import whole_number
from numalign.errors import CannotRead, WrongUsage
from numalign.words import count, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numalign.admission.manifest import Submitted
    from numalign.cli.fleet_answers import Answer
    from numalign.cli.gather import Found
    from numalign.fleet import Fleet

__all__ = ["fleet"]

_HINT = "numalign inspect -o json and numalign snapshot write what is read here, one file a node"


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
    """Sort nodes into classes of equal topology, and tell what is odd about those that are like none.

    PATHS are Machine documents (numalign inspect -o json), snapshots, and directories of them. With --out-dir one
    configuration is written for each class; with --pod it is said how many of a pod fit on the empty nodes.
    """
    from numalign.cli.fleet_answers import Wishes, answer
    from numalign.cli.gather import gather
    from numalign.cli.render import target_named
    from numalign.cli.wishes import plan_wishes

    asked = Wishes(plan_wishes(**wishes), target_named(target), template, out_dir, device, mig_strategy)
    smallest = whole_number("--class-from", class_from, least=1)
    pods = _pods(pod, paths)
    found = gather(paths)
    if found.unread:
        progress.end()
    for unread in found.unread:
        print(f"not read  {printable(unread.source)}: {printable(unread.reason)}", file=sys.stderr)
    _refuse_nothing(found)
    answered = answer(found, asked, pods, smallest)
    whole = answered.fleet
    if out_dir is not None:
        _write(answered.files, out_dir)
    _print(answered, output, out)
    return int(_fails(whole, fail_on, writing=out_dir is not None))


def _pods(file: str | None, paths: tuple[str, ...]) -> Sequence[Submitted]:
    """The pods of --pod. Raises WrongUsage, CannotRead."""
    if file is None:
        return ()
    if file == "-" and "-" in paths:
        raise WrongUsage("standard input can be read only once", hint="name a file for the pod")
    from numalign.admission.manifest import read_pods
    from numalign.cli.predict import MAX_PODS_FILE

    return read_pods(read_file(file, MAX_PODS_FILE), "standard input" if file == "-" else file)[0]


def _refuse_nothing(found: Found) -> None:
    """Raises CannotRead where no node was read."""
    if not len(found.gathering):
        what = count(len(found.unread), "file or directory", "files or directories")
        raise CannotRead(f"no node could be read, of {what}" if found.unread else "nothing to read", hint=_HINT)


def _write(files: Mapping[str, bytes], folder: str) -> None:
    """Writes the configurations, each whole or not at all, and tells those that an earlier run left. Raises
    CannotRead."""
    try:
        os.makedirs(folder, exist_ok=True)
        there = os.listdir(folder)
    except OSError as error:
        raise CannotRead(f"--out-dir {folder}: {error.strerror}") from error
    for name, data in files.items():
        write_file(os.path.join(folder, name), data)
    suffixes = {name.rpartition(".")[2] for name in files}
    old = [name for name in sorted(there) if name not in files and _is_class_file(name, suffixes)]
    if old:
        print(f"warning  left alone in {printable(folder)}: {', '.join(old)}, of no class now", file=sys.stderr)


def _is_class_file(name: str, suffixes: set[str]) -> bool:
    stem, _, suffix = name.rpartition(".")
    return suffix in suffixes and 0 < len(stem) < 3 and stem.isascii() and stem.isalpha() and stem.islower()


def _print(answered: Answer, output: str, out: str | None) -> None:
    if output == "yaml":
        from numalign.report.document import to_yaml

        emit(to_yaml(answered.fleet), out)
    elif output == "html":
        from numalign.report.fleet import page_values
        from numalign.report.page import fill_page
        from numalign.report.picture.classes import class_pictures

        pictures = class_pictures(answered.members)
        emit(fill_page("fleet.html.j2", **page_values(answered.fleet), pictures=pictures).encode(), out)
    else:
        emit_document(answered.fleet, output, "fleet:draw", out)


def _fails(whole: Fleet, fail_on: str | None, *, writing: bool) -> bool:
    """Whether something is not as it was asked for: a configuration that cannot be made, a pod that fits nowhere, or
    what --fail-on names."""
    unmade = writing and any(one.configuration and one.configuration.reason for one in whole.classes)
    nowhere = any(pod.total == 0 for pod in whole.pods)
    odd = any(one.topology for one in whole.odd)
    named = {"odd": odd, "unread": bool(whole.unread), "any": bool(whole.odd or whole.unread)}
    return unmade or nowhere or (fail_on is not None and named[fail_on])
