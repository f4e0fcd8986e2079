"""What is shown to a person who waits: on a terminal alone, after a second, and gone in the end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from numalign.cli import progress
from numalign.machine import Machine, encode
from tests.cli.test_width import on_terminal
from tests.conftest import Run

Late = Callable[[float], Path]
ERASE = "\r\x1b[K"


@pytest.fixture
def late(tmp_path: Path, machine_of: Callable[[str], Machine]) -> Late:
    """A pipe into which somebody writes a Machine document so many seconds later."""

    def pipe(seconds: float) -> Path:
        path = tmp_path / "pi\x1b[31mpe"
        os.mkfifo(path)
        document = encode(machine_of("laptop"))

        def write() -> None:
            time.sleep(seconds)
            path.write_bytes(document)

        threading.Thread(target=write, daemon=True).start()
        return path

    return pipe


def test_a_command_that_takes_long_says_what_it_is_at(late: Late, tmp_path: Path) -> None:
    written = on_terminal(["inspect", "--machine", str(late(2.2))], 200, NO_COLOR="1")
    line, _, answer = written.rpartition(ERASE)
    assert line.startswith(f"{ERASE}reading {tmp_path}/pi\\x1b[31mpe, 1 s")
    assert answer.startswith("laptop")


def test_a_quick_command_says_nothing() -> None:
    assert ERASE not in on_terminal(["kubelet", "features"], 80)


def test_a_dumb_terminal_gets_no_line(late: Late) -> None:
    written = on_terminal(["inspect", "--machine", str(late(1.6))], 80, TERM="dumb")
    assert (written[:6], ERASE in written) == ("laptop", False)


def test_nothing_is_written_into_a_pipe(run: Run, late: Late) -> None:
    done = run("inspect", "--machine", late(1.6))
    assert (done.returncode, done.stderr) == (0, "")
    assert ERASE not in done.stdout


def test_a_refusal_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    threading.Timer(1.6, lambda: (tmp_path / "pipe").write_text("[]")).start()
    written = on_terminal(["inspect", "--machine", str(tmp_path / "pipe")], 80)
    assert written.rpartition(ERASE)[2].startswith("numalign: ")


def test_without_a_terminal_there_is_no_thread() -> None:
    before = threading.active_count()
    with progress.shown():
        progress.say("something")
        assert threading.active_count() == before
