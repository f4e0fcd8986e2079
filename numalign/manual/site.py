"""The parts of the site that follow from tables, as Markdown: options, checks by subject, targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numalign.checks.assignments import ASSIGNMENTS
from numalign.checks.devices import DEVICES
from numalign.checks.expected import EXPECTED
from numalign.checks.finding import Check
from numalign.checks.hardware import HARDWARE
from numalign.checks.itself import SELF
from numalign.checks.pages import rule
from numalign.checks.pods import PODS
from numalign.checks.running import RUNNING, RUNNING_NODE
from numalign.checks.system import SYSTEM
from numalign.checks.table import CHECKS, KUBELETS_OWN, LOADING
from numalign.manual.commands import Entry, Page, pages
from numalign.render.targets import Target

__all__ = ["checks_by_subject", "checks_index", "options", "target_page"]

_TABLES: dict[str, tuple[Check[Any], ...]] = {
    # subject -> its checks
    "The machine": HARDWARE,
    "What the machine should be": EXPECTED,
    "Devices and their plugins": DEVICES,
    "The running kubelet": (*RUNNING_NODE, *RUNNING),
    "The system around the kubelet": SYSTEM,
    "Pods and what they hold": (*PODS, *ASSIGNMENTS),
    "A container (verify --self)": SELF,
}
_STAGES = {
    "featureGates": "What the kubelet refuses: feature gates",
    "validate": "What the kubelet refuses: validation",
    "start": "What the kubelet refuses: at its start",
}
_MODULES = {
    # the module that finds it -> subject
    "configuration": "Reading the configuration",
    "finding": "State files of an earlier run",
    "policies": "Policies and their options",
    "reserved": "Reserved CPUs",
    "memory": "Memory",
    "dra": "Dynamic resource allocation",
}
_ORDER = (
    "Reading the configuration",
    *_STAGES.values(),
    "State files of an earlier run",
    "Policies and their options",
    "Reserved CPUs",
    "Memory",
    *_TABLES,
    "Dynamic resource allocation",
)
_STATE_FILES = """\
A kubelet that ran before under other policies or reservations does not start on its state files: [putting it in
place](../render.md#putting-it-in-place) says what to remove."""


def checks_by_subject() -> dict[str, tuple[str, ...]]:
    """The ids of all checks by what they are about; each id once."""
    found: dict[str, list[str]] = {subject: [] for subject in _ORDER}
    found["Reading the configuration"] += LOADING
    seen = set(LOADING)
    for subject, id in _placed():
        if id not in seen:
            found[subject].append(id)
            seen.add(id)
    return {subject: tuple(ids) for subject, ids in found.items()}


def _placed() -> Iterator[tuple[str, str]]:
    for stage, ids in KUBELETS_OWN.items():
        yield from ((_STAGES[stage], id) for id in ids)
    for subject, checks in _TABLES.items():
        yield from ((subject, id) for check in checks for id in check.ids)
    for check in CHECKS:
        subject = _MODULES.get(check.find.__module__.rpartition(".")[2], "")
        yield from ((subject, id) for id in check.ids)


def checks_index(folder: str) -> str:
    """A table of the checks for each subject; `folder` has their pages."""
    parts = []
    for subject, ids in checks_by_subject().items():
        rows = (rule(id) for id in ids)
        lines = [f"| [`{row.id}`]({folder}/{row.id}.md) | {row.severity} | {_cell(row.summary)} |" for row in rows]
        parts.append("\n".join([f"### {subject}", "", "| check | severity | |", "|---|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def options(name: str) -> str:
    """The usage, arguments, options and examples of a command (`verify`, `render pod`) as `--help` has them."""
    page = next(page for page in pages() if page.name == f"numalign {name}")
    listed = (*page.arguments, *page.options)
    return "\n".join(["```text", page.usage, "```", "", *_definitions(listed), *_examples(page)])


def _definitions(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        yield from (f"`{entry.written}`", f":   {_prose(entry.help)}", "")


def _examples(page: Page) -> list[str]:
    return ["```sh", *page.examples, "```", ""] if page.examples else []


def target_page(target: Target, rendered: str, own: str = "") -> str:
    """The page of a target: what is written and where it goes; `rendered` is the document for a DGX H100, `own` what
    was written by hand about it, which comes first."""
    kind = target.template.removesuffix(".j2").rpartition(".")[2]
    command = f"numalign render kubelet-config --target {target.name}"
    parts = [
        own.strip() or f"# {target.name}",
        "## What is written",
        f"{target.title}, by `{command}`.{_since(target)}",
        *_lacks(target),
        "## Applying it",
        f"{_sentence(target.apply)}.",
        *_older(target),
        _STATE_FILES,
        "## For a DGX H100",
        f"```console\n$ {command} --root dgx-h100\n```",
        f"```{'yaml' if kind == 'bu' else kind}\n{rendered.rstrip()}\n```",
        "The [wishes](../plan.md) change what is in it; [targets](../targets.md) has the others.",
    ]
    return "\n\n".join(parts) + "\n"


def _since(target: Target) -> str:
    from numalign.kubelet.versions import OLDEST

    return f" It needs Kubernetes 1.{target.since} or newer." if target.since > OLDEST else ""


def _older(target: Target) -> list[str]:
    if target.apply_before is None:
        return []
    minor, apply = target.apply_before
    return [f"Before Kubernetes 1.{minor}: {_prose(apply)}."]


def _lacks(target: Target) -> list[str]:
    if not target.lacks:
        return []
    rows = [f"| `{field}` | {_cell(why)} |" for field, why in target.lacks.items()]
    return [
        "## What it cannot express",
        "Where one of these is asked for, nothing is rendered, and the exit status is 1.",
        "\n".join(["| field | |", "|---|---|", *rows]),
    ]


def _prose(text: str) -> str:
    """Plain text as Markdown that shows it letter for letter."""
    for character in "\\*_<[":
        text = text.replace(character, f"\\{character}")
    return text


def _sentence(text: str) -> str:
    return _prose(text[:1].upper() + text[1:])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
