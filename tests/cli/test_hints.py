"""What a refusal names as the way out is one: typed in, it works."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Run

Tree = Callable[[str], Path]
RENDER = "render kubelet-config"


def ways_out(words: list[str], hint: str) -> Iterator[list[str]]:
    """The command line with each of the options that the hint names, instead of its own of that name."""
    for leave, flag, values in re.findall(
        r"(leave out )?(--[a-z-]+)((?: (?!or )[^\s?]*[^\s?,](?: or [0-9]+)*)?)", hint
    ):
        for value in values.strip().split(" or "):
            kept, rest = [], iter(words)
            for word in rest:
                given = next(rest) if word.startswith("--") else None
                beside = flag == "--option" and (given or "").split("=")[0] != value.split("=")[0]
                same = word == flag and not (beside and "did you mean" not in hint)
                if not same:
                    kept += [word] if given is None else [word, given]
            yield kept if leave else [*kept, flag, value]


@pytest.mark.parametrize(
    ("name", "command", "number"),
    [
        ("dgx-h100", "plan --option align-by-socket=true", 1),
        ("dgx-h100", "plan --option max-allowable-numa-nodes=4", 1),
        ("dgx-h100", "plan --option full-pcpus-only=maybe", 1),
        ("dgx-h100", "plan --option full-pcpus-onyl=true", 1),
        ("dgx-h100", "plan --option strict-cpu-reservation=true --kubernetes-version 1.31", 1),
        ("gb200-nvl", "plan --policy restricted --kubernetes-version 1.30", 1),
        ("gb200-nvl", "plan --memory-manager static", 1),
        ("dgx-h100", "plan --reserved-cpus 0-999", 1),
        ("dgx-h100", "plan --reserved-cpus 0-223", 1),
        ("dgx-h100", "plan --reserved-cpus 0", 1),
        ("dgx-h100", "plan --reserved-cpu-count 5", 2),
        ("dgx-h100", "plan --reserved-cpu-count 500", 1),
        ("dgx-h100", "plan --reserved-cores-per-numa 99", 1),
        ("dgx-h100", "plan --kube-reserved-memory 1Gi", 1),
        ("dgx-h100", "render pod --gpus 9", 1),
        ("dgx-h100", "render pod --gpus 8", 2),
        ("dgx-h100", "render pod --gpus 8 --policy restricted --reserved-cores-per-numa 30", 1),
        ("link-degraded", "render pod --gpus 1 --nic rdma/a", 2),
        ("dgx-h100", f"{RENDER} --target eks", 1),
        ("dgx-h100", f"{RENDER} --target drop-in --kubernetes-version 1.27", 1),
        ("gb200-nvl", f"{RENDER} --target aks", 1),
        ("gb200-nvl", f"{RENDER} --target openshift-performance-profile", 1),
    ],
)
def test_every_way_out_works(name: str, command: str, number: int, run: Run, tree: Tree) -> None:
    words = command.split()
    done = run(*words, "--root", tree(name))
    assert done.returncode in (1, 2)
    hint = done.stderr.splitlines()[1].strip()
    ways = list(ways_out(words, hint))
    assert len(ways) == number, hint
    for way in ways:
        tried = run(*way, "--root", tree(name))
        assert (tried.returncode, way) == (0, way), tried.stderr
