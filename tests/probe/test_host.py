"""File access below a root: links stay inside, and what cannot be read is noted."""

from __future__ import annotations

import doctest
import os
import tempfile
from pathlib import Path

import pytest

import numalign.probe.host
from numalign.cpuset import CpuSet
from numalign.probe.host import MAX_FILE, Host, whole_number

NOBODY = 65534


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.probe.host)
    assert (failed, tried > 0) == (0, True)


def test_links_are_followed_as_the_host_would_and_never_out_of_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sys/devices/a").mkdir(parents=True)
    (root / "sys/bus").mkdir()
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("inside\n")
    (root / "sys/devices/a/value").write_text("7\n")
    (root / "sys/bus/a").symlink_to("../devices/a")
    (root / "sys/bus/absolute").symlink_to("/etc/passwd")
    (root / "sys/bus/up").symlink_to("../../../../../../../../etc/passwd")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("outside\n")
    host = Host(str(root))
    assert host.number("sys/bus/a/value") == 7
    assert host.real("sys/bus/a") == "sys/devices/a"
    assert [host.text("sys/bus/absolute"), host.text("sys/bus/up")] == ["inside", "inside"]
    assert host.problems == {}


def test_loops_and_endless_paths_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "self").symlink_to("self/self")
    (tmp_path / "long").symlink_to("/".join(["."] * 1500))
    for link in range(39):
        (tmp_path / f"l{link}").symlink_to("/".join([f"l{link + 1}", *["."] * 190]))
    host = Host(str(tmp_path))
    assert [host.text("a"), host.text("self"), host.names("b"), host.real("long")] == [None, None, [], ""]
    assert host.real("l0/cpu") is None


def test_a_missing_file_is_no_problem_and_a_bad_one_is(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "garbage").write_bytes(b"\xff\xfe0-3")
    (tmp_path / "huge").write_text("1" * 500)
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    host = Host(str(tmp_path))
    assert host.number("missing") is None
    assert host.problems == {}
    assert [host.number(name) for name in ("empty", "garbage", "huge", "directory", "pipe")] == [None] * 5
    assert {path: problem.kind for path, problem in host.problems.items()} == {
        "empty": "malformed",
        "garbage": "malformed",
        "huge": "malformed",
        "directory": "unreadable",
        "pipe": "unreadable",
    }
    assert host.cpulist("empty") == CpuSet()


def test_no_more_than_a_bounded_part_of_a_file_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(8 << 30)
    assert len(Host(str(tmp_path)).read("sparse") or b"") == MAX_FILE


def test_an_unreadable_file_is_a_problem_with_its_reason() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        secret = Path(folder, "secret")
        secret.write_text("1")
        secret.chmod(0)
        host = Host(folder)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)  # root would read everything
        try:
            assert host.number("secret") is None
        finally:
            os.seteuid(user)
        assert host.problems["secret"].reason == "Permission denied"


def test_a_file_larger_than_any_is_no_value(tmp_path: Path) -> None:
    (tmp_path / "online").write_text("0-1" + " " * MAX_FILE + ",2-127")
    host = Host(str(tmp_path))
    assert host.cpulist("online") is None
    assert [problem.kind for problem in host.problems.values()] == ["too-large"]
    assert host.text("online", 3) == "0-1"


@pytest.mark.parametrize("text", ["1_2", "99999999999999999999", "+5", "0x", "1e3", "٣"])
def test_what_no_kernel_writes_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        whole_number(text)


def test_names_that_are_no_text_are_left_out_and_said(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/x\xff")
    (tmp_path / "eth0").mkdir()
    (tmp_path / "driver").symlink_to(os.fsdecode(b"drivers/a\xff"))
    host = Host(str(tmp_path))
    assert host.names("") == ["driver", "eth0"]
    assert [problem.kind for problem in host.problems.values()] == ["malformed"]
    assert host.target("driver") == "a\ufffd"


def test_more_problems_than_are_kept_are_counted(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    for number in range(250):
        host.note("malformed", str(number), "so")
    assert (len(host.problems), host.further_problems) == (200, 50)


def test_below_a_directory_of_which_something_is_noted_nothing_is_missing(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    host.note("unreadable", "sys/a/b", "Permission denied")
    host.expect("sys/a/b/c")
    host.expect("sys/a/other")
    assert [(problem.kind, problem.path) for problem in host.problems.values()] == [
        ("unreadable", "sys/a/b"),
        ("missing", "sys/a/other"),
    ]
