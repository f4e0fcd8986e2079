"""numalign inspect, as a process."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from numalign import __version__
from numalign.cpuset import CpuSet
from numalign.machine import decode
from tests import machines
from tests.conftest import Golden, Run

# Machine and format of each golden file.
LOOKS = [
    ("dgx-h100", "text"),
    ("dgx-h100", "tree"),
    ("dgx-h100", "matrix"),
    ("gb200-nvl", "text"),
    ("gb200-nvl", "tree"),
    ("sriov-vfs", "text"),
    ("sriov-vfs", "tree"),
    ("vm-all-unknown", "text"),
    ("vm-all-unknown", "matrix"),
    ("mig-a100", "text"),
    ("no-driver", "text"),
    ("laptop", "text"),
]


@pytest.mark.parametrize(("name", "output"), LOOKS)
def test_people_see_the_golden_text(
    name: str, output: str, run: Run, tree: Callable[[str], Path], golden: Golden
) -> None:
    done = run("inspect", "--root", tree(name), "-o", output)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == golden(f"{name}.{output}", done.stdout)


def test_devices_of_a_numa_node_that_is_not_on_the_map_stay_in_sight(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    shutil.rmtree(root / "sys/devices/system/node")
    (row,) = [line for line in run("inspect", "--root", root).stdout.splitlines() if line.startswith("   ?")]
    assert "0-7 H100 80GB HBM3  mlx5_0,3-6,9-11 InfiniBand, mlx5_1-2,7-8 Ethernet" in row
    titles = [line for line in run("inspect", "--root", root, "-o", "tree").stdout.splitlines() if "NUMA node " in line]
    assert titles == [f"{mark}─ NUMA node {id}, known only from its devices" for mark, id in (("├", 0), ("└", 1))]


def test_a_device_on_a_numa_node_that_does_not_exist_is_in_the_table(run: Run, tree: Callable[[str], Path]) -> None:
    machine = decode(run("inspect", "--root", tree("numa-node-out-of-range"), "-o", "json").stdout)
    ids = {node.id for node in machine.numa_nodes}
    (stray,) = [gpu for gpu in machine.gpus if gpu.numa_node not in ids]
    text = run("inspect", "--root", tree("numa-node-out-of-range")).stdout
    (row,) = [line.split() for line in text.splitlines() if line.startswith("   ?")]
    assert row[:2] == ["?", str(stray.index)]


@pytest.mark.parametrize("output", ["text", "tree", "matrix"])
@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", ["sixty-four", "gb200-nvl", "node-zero-lie"])
def test_a_narrow_terminal_loses_no_device(
    name: str, columns: int, output: str, run: Run, tree: Callable[[str], Path]
) -> None:
    done = run("inspect", "--root", tree(name), "-o", output, env={"COLUMNS": str(columns)})
    assert done.returncode == 0
    assert "…" not in done.stdout
    whole = "".join(done.stdout.split())
    machine = decode(run("inspect", "--root", tree(name), "-o", "json").stdout)
    if output != "tree":
        assert max(map(len, done.stdout.splitlines())) <= columns
    rows = {
        number for listed in re.findall(r"^GPU([\d,-]+) ", done.stdout, re.MULTILINE) for number in CpuSet.parse(listed)
    }
    for gpu in machine.gpus:
        assert gpu.index in rows if output == "matrix" else gpu.bdf in whole


@pytest.mark.parametrize("name", machines.names())
def test_yaml_and_json_are_one_document(name: str, run: Run, tree: Callable[[str], Path]) -> None:
    as_json = run("inspect", "--root", tree(name), "-o", "json").stdout
    as_yaml = run("inspect", "--root", tree(name), "-o", "yaml").stdout
    assert YAML(typ="safe").load(as_yaml) == json.loads(as_json)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_machine_document_gives_the_same_map_to_the_byte(
    output: str, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    first = run("inspect", "--root", tree("sriov-vfs"), "-o", output, "--out", tmp_path / "machine")
    assert (first.returncode, first.stdout) == (0, "")
    document = (tmp_path / "machine").read_bytes()
    for words, stdin in (((tmp_path / "machine",), None), (("-",), document)):
        again = run("inspect", "--machine", *words, "-o", output, stdin=stdin)
        assert again.stdout.encode() == document


def test_the_environment_names_the_root_and_an_option_beats_it(run: Run, tree: Callable[[str], Path]) -> None:
    env = {"NUMALIGN_ROOT": str(tree("laptop"))}
    assert json.loads(run("inspect", "-o", "json", env=env).stdout)["name"] == "laptop"
    other = run("inspect", "-o", "json", "--root", tree("mig-a100"), env=env)
    assert json.loads(other.stdout)["name"] == "mig-a100"


def test_this_host_is_shown(run: Run) -> None:
    done = run("inspect", "-o", "json")
    assert done.returncode == 0
    online = Path("/sys/devices/system/cpu/online").read_text().strip()
    assert json.loads(done.stdout)["onlineCPUs"] == online


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--root", "/nowhere"), 3, "/nowhere does not exist"),
        (("--root", "/dev/null"), 3, "is no directory"),
        (("--root", "."), 3, "no CPUs found below"),
        (("--machine", "/nowhere"), 3, "/nowhere: No such file"),
        (("--machine", "x", "--root", "."), 2, "two machines"),
        (("-o", "jason"), 2, "jason"),
        (("--nvml", "maybe"), 2, "maybe"),
        (("--wrong",), 2, "--wrong"),
        (("extra",), 2, "extra"),
        (("--out", "/nowhere/file"), 3, "cannot be written"),
    ],
)
def test_a_mistake_gets_one_clear_line(words: tuple[str, ...], status: int, says: str, run: Run) -> None:
    done = run("inspect", *words)
    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    "document", [b"", b"{}", b"{", b"[]", b"a: b", b"\x1f\x8bgarbage", b"\xff\xfe", b"- " * 100, b'{"kind": "Machine"}']
)
def test_what_is_no_machine_is_refused(document: bytes, run: Run) -> None:
    done = run("inspect", "--machine", "-", stdin=document)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("numalign: standard input")


def test_names_cannot_steer_the_terminal(run: Run, tree: Callable[[str], Path]) -> None:
    document = json.loads(run("inspect", "--root", tree("mig-a100"), "-o", "json").stdout)
    evil = "\x1b[2J\x1b]0;x\x07[red]a[/]\n\u202e"
    document["name"] = document["cpuModel"] = document["gpus"][0]["model"] = evil
    document["nics"][0]["netdevs"] = [evil]
    for output in ("text", "tree", "matrix"):
        done = run("inspect", "--machine", "-", "-o", output, stdin=json.dumps(document).encode())
        assert done.returncode == 0
        assert all(character == "\n" or character.isprintable() for character in done.stdout)
        assert r"\x1b[2J" in done.stdout


def test_a_latin_1_terminal_gets_plain_letters(run: Run, tree: Callable[[str], Path]) -> None:
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = run("inspect", "--root", tree("dgx-h100"), "-o", "tree", env=env)
    assert done.returncode == 0
    assert "dgx-h100 - 2 x Xeon" in done.stdout
    assert "`- NUMA node 1" in done.stdout


def test_a_reader_that_leaves_is_no_error(tree: Callable[[str], Path]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "numalign", "inspect", "--root", str(tree("sixty-four")), "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 0


def test_colour_is_for_terminals_only(tree: Callable[[str], Path]) -> None:
    words = [sys.executable, "-m", "numalign", "inspect", "--root", str(tree("numa-node-out-of-range"))]
    for variable, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
        text = on_terminal(words, {**environment, "TERM": "xterm", **variable})
        assert ("\x1b[33m" in text, "warning" in text) == (coloured, True)


def on_terminal(words: list[str], environment: dict[str, str]) -> str:
    """What a process prints on a pseudo-terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(words, stdout=follower, stderr=follower, stdin=follower, env=environment) as process:
        os.close(follower)
        text = b""
        while select.select([leader], [], [], 20)[0]:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
        process.wait(20)
    os.close(leader)
    return text.decode()


def test_the_version_is_printed(run: Run) -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"numalign {__version__}\n")


@pytest.mark.parametrize(("redirect", "says"), [(">/dev/full", "No space left on device"), (">&-", "is closed")])
@pytest.mark.parametrize("output", ["text", "json"])
def test_an_output_that_cannot_be_written_is_no_verdict(redirect: str, says: str, output: str) -> None:
    import subprocess
    import sys

    line = f"{sys.executable} -m numalign inspect -o {output} {redirect}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("numalign:"), "Traceback" in done.stderr) == (3, 1, False)
    assert says in done.stderr
