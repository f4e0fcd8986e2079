"""Every page of a check of a running node has a node on which `numalign verify` finds it.

A page says what differs from a healthy node: ```machine, ```file PATH, ```nvml (settings of the stand-in library),
```registered (resources and their devices in the checkpoint), ```sockets (`listen PATH`, `stale PATH`),
```pod-resources (what the API answers), ```assigned (entries of the checkpoint), ```cgroups (UIDs of pods),
```accepted (the machine that was), and ```verify: the command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from numalign.checks.pages import ids, page
from numalign.machine import Machine, encode
from tests import nvml_stub
from tests.checks.test_pages import severities
from tests.conftest import Run
from tests.kubelet.pod_resources_server import read_answers
from tests.testnode import BUSES, MakeNode, Testnode

BLOCK = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)\n?^```$", re.MULTILINE | re.DOTALL)
IDS = [id for id in ids() if "```verify" in (page(id) or "")]


@pytest.fixture
def accepted(machine_of: Callable[[str], Machine], tmp_path: Path) -> Callable[[str], object]:
    """Writes the map of a machine to accepted.json where the command runs."""
    return lambda name: (tmp_path / "accepted.json").write_bytes(encode(machine_of(name)))


def prepare(node: Testnode, kind: str, path: str, content: str) -> None:
    """Does what a block of a page says."""
    if kind == "file":
        node.write(path, content)
    elif kind == "registered":
        node.checkpoint(json.loads(content))
    elif kind == "assigned":
        node.checkpoint({}, json.loads(content))
    elif kind == "nvml":
        said = dict(line.split(" = ", 1) for line in content.splitlines())
        node.nvml(nvml_stub.dgx(BUSES) | said)
    elif kind == "cgroups":
        node.pod_cgroups(*content.split())
    elif kind == "sockets":
        for line in content.splitlines():
            verb, _, place = line.partition(" ")
            {"listen": node.listen, "stale": node.stale}[verb](place)


@pytest.mark.parametrize("id", IDS)
def test_the_node_of_a_page_is_found_by_its_check(
    id: str, testnode: MakeNode, run: Run, accepted: Callable[[str], object]
) -> None:
    blocks = [(kind, path, content) for kind, path, content in BLOCK.findall(page(id) or "")]
    (machine,) = [content for kind, _, content in blocks if kind == "machine"]
    (command,) = [content for kind, _, content in blocks if kind == "verify"]
    node = testnode(machine)
    node.kubelet()
    for kind, path, content in blocks:
        prepare(node, kind, path, content)
        if kind == "accepted":
            accepted(content)
    with ExitStack() as stack:
        for answers in [read_answers(content.encode()) for kind, _, content in blocks if kind == "pod-resources"]:
            stack.enter_context(node.pod_resources(answers))
        found = node.verify(run, *shlex.split(command)[2:])
    assert {finding["severity"] for finding in found.findings(id)} <= severities(id)
    assert (found.status(id), found.reason(id)) == ("failed", "None")
