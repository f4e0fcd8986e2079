"""The man pages are those of the command line, and man shows them without a complaint; the site's tables are whole."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from numalign.checks.pages import ids
from numalign.cli.commands import COMMANDS, Command
from numalign.cli.options import ARGUMENTS
from numalign.cli.parameters import function_of, option_of, parameters_of
from numalign.manual.commands import pages
from numalign.manual.man import man_pages
from numalign.manual.site import checks_by_subject, options

MAN = Path(__file__).parent.parent / "docs/man"


def test_the_pages_are_those_of_the_command_line() -> None:
    assert {path.name: path.read_text() for path in MAN.iterdir()} == man_pages(), "make man writes them anew"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words))
def test_every_option_and_example_of_a_command_is_on_its_page_and_on_the_site(command: Command) -> None:
    page = man_pages()[f"numalign-{'-'.join(command.words)}.1"].replace("\\", "")
    on_site = options(" ".join(command.words))
    for name in parameters_of(function_of(command)):
        if f"{command.words[0]}.{name}" in ARGUMENTS:
            assert f"fI{name.upper()}fR" in page
            continue
        for flag in option_of(command, name).flags:
            assert f"fB{flag}" in page.replace(",fR fB", "fB")
            assert flag in on_site
    for example in command.examples:
        assert example in page.replace("(aq", "'")


def test_every_command_and_group_has_a_page() -> None:
    words = {command.words[: depth + 1] for command in COMMANDS for depth in range(len(command.words))}
    assert {page.words[1:] for page in pages()} == words | {()}


TOOLS = {
    # reader of manuals -> how it is asked to complain; an image has one of them, or none
    "man": ("--warnings", "-E", "UTF-8", "-l"),
    "mandoc": ("-T", "utf8", "-W", "warning"),
}
INSTALLED = [tool for tool in TOOLS if shutil.which(tool)]

if INSTALLED:

    @pytest.mark.parametrize("tool", INSTALLED)
    def test_it_is_shown_without_a_warning(tool: str) -> None:
        for path in sorted(MAN.iterdir()):
            environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
            words = [tool, *TOOLS[tool], str(path)]
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
            assert (done.returncode, done.stderr) == (0, ""), path.name
            assert f"{path.stem.upper()}(1)" in done.stdout


def test_every_check_has_one_subject() -> None:
    listed = [id for found in checks_by_subject().values() for id in found]
    assert sorted(listed) == ids()
