"""Whatever a tree holds, reading it never raises anything but our own error, and never gives a wrong shape."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numalign.errors import CannotRead
from numalign.machine import contradiction, decode, encode
from numalign.probe import probe
from numalign.probe.host import Host

GARBAGE = (b"", b"\0", b"-1", b"0-", b"999999999999999999999", b"\xff" * 40, b"0-65535", b"a" * 5000, b"[red]\x1b[2J\n")
SMALL = ("sriov-vfs", "mig-a100", "sparse-node-ids", "bonded-nics")


def damage(root: Path, seed: int, share: float) -> None:
    """Cuts, empties, removes or overwrites a share of the tree's files, links and directories."""
    chance = random.Random(seed)
    paths = sorted(root.rglob("*"))
    for path in paths:
        if chance.random() > share or not (path.exists() or path.is_symlink()):
            continue
        if path.is_symlink():
            path.unlink()
            if chance.random() < 0.5:
                path.symlink_to(chance.choice(("/", "..", ".", path.name, "/nowhere", "../" * 30 + "etc")))
        elif path.is_dir():
            if chance.random() < 0.1:
                shutil.rmtree(path)
                if chance.random() < 0.5:
                    path.write_bytes(chance.choice(GARBAGE))
        elif chance.random() < 0.3:
            path.unlink()
        elif chance.random() < 0.5:
            path.write_bytes(path.read_bytes()[: chance.randrange(4)])
        else:
            path.write_bytes(chance.choice(GARBAGE))


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32), share=st.sampled_from((0.02, 0.2, 0.7)))
def test_a_damaged_tree_gives_a_map_or_our_own_error(
    name: str, seed: int, share: float, tree: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("damaged") / "root"
    shutil.copytree(tree(name), root, symlinks=True)
    damage(root, seed, share)
    try:
        machine = probe(Host(str(root)))
    except CannotRead as error:
        machine = None
        assert "no CPUs found" in error.message  # noqa: PT017 - both ends are right
    finally:
        shutil.rmtree(root.parent)
    if machine is not None:
        assert decode(encode(machine)) == machine
        assert contradiction(machine) is None
        assert sorted(cpu for core in machine.cores for cpu in core.cpus) == list(machine.online_cpus)
