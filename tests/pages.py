"""The pages of the documentation as tests read them: their blocks, their examples, and a node to run them on.

```console blocks: lines that begin with `$ ` are commands, what follows is their output; a line `…` is any lines.
```sh blocks are scripts that must succeed. Both run in a folder with the tree dgx-h100, on a node that is one.
A block that begins with a comment `# NAME` is the file NAME.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import machines

__all__ = ["CHECKOUT", "ELSEWHERE", "NOT_RUN", "PAGES", "PLAIN", "STAND_INS", "Block", "Place", "blocks", "matches"]
__all__ += ["examples", "named_file", "named_machines", "why_not_run"]

CHECKOUT = Path(__file__).parent.parent
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]

STAND_INS: dict[str, str] = {
    # program -> why it is not run: a program that takes any words and succeeds stands in for it
    **dict.fromkeys(("kubectl", "oc", "helm", "kubeadm", "crictl"), "needs a cluster"),
    **dict.fromkeys(("aws", "eksctl", "az", "gcloud", "talosctl", "butane"), "needs an account or machines of a cloud"),
    **dict.fromkeys(("systemctl", "journalctl", "reboot", "update-grub", "grubby"), "changes the host"),
    **dict.fromkeys(("docker", "podman", "ansible-playbook", "ssh", "scp"), "needs other hosts or a daemon"),
    **dict.fromkeys(("make", "pip", "pipx"), "installs from the network; tests/test_wheel.py installs"),
}
NOT_RUN: dict[str, str] = {
    # a line of a ```sh block as it stands, without its comment -> why it is left out
    "python3 -m venv ~/numalign": "tests/test_wheel.py installs into an empty environment",
    "~/numalign/bin/pip install .": "tests/test_wheel.py installs into an empty environment",
    "install -m 755 dist/numalign.pyz /usr/local/bin/numalign": "tests/test_pyz.py builds the file and runs it",
    "kubectl get deployment web -o yaml | numalign predict -": "needs a cluster with the Deployment",
}
ELSEWHERE: dict[str, str] = {
    # kind of block -> the test that reads it
    **dict.fromkeys(("machine", "file", "drop-in", "plugins_registry"), "tests/checks/test_pages.py"),
    **dict.fromkeys(("cpu_manager_state", "memory_manager_state"), "tests/checks/test_pages.py"),
    **dict.fromkeys(("verify", "accepted", "assigned", "cgroups", "nvml"), "tests/checks/test_node_pages.py"),
    **dict.fromkeys(("pod-resources", "registered", "sockets"), "tests/checks/test_node_pages.py"),
}
PLAIN = ("yaml", "json", "toml", "ini", "jinja", "python", "text")
"""Kinds of blocks that are files, or nothing to run."""

_BLOCK = re.compile(r"^( *)```([\w-]*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?:#|//) ([\w./-]+\.[\w.]+)\n")
_ABSOLUTE = re.compile(r"(?<![\w./:~@})$-])/(?=(?:etc|var|usr/local|opt|run|boot|host)/)")
_TOOLS = (
    "bash",
    "cat",
    "cp",
    "diff",
    "env",
    "grep",
    "head",
    "install",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sed",
    "sort",
    "tar",
)
_DIRECTORIES = (
    *("var/lib/kubelet", "var/lib/node_exporter/textfile_collector", "etc/kubernetes/kubelet.conf.d"),
    *(f"var/lib/rancher/{name}/agent/etc/kubelet.conf.d" for name in ("k3s", "rke2")),
    *(f"etc/rancher/{name}/config.yaml.d" for name in ("k3s", "rke2")),
    *("etc/systemd/system", "etc/cron.d", "etc/node-problem-detector", "etc/numalign", "usr/local/bin"),
)
_ANY_LINES = "…"
_CONFIGURATION = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0-3,56-59,112-115,168-171"
topologyManagerPolicy: single-numa-node
"""


class Block(NamedTuple):
    """A fenced block of a page: its kind (`sh`), what follows the kind, and its text without the fence's indent."""

    kind: str
    more: str
    text: str


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, those within lists and tabs too."""
    for _, kind, more, body in _BLOCK.findall(text):
        yield Block(kind, more.strip(), textwrap.dedent(body))


def examples(block: Block) -> Iterator[tuple[str, str | None]]:
    """The commands of a block with the output that is shown; a ```sh block is one script without."""
    if block.kind == "console":
        for example in block.text.removeprefix("$ ").split("\n$ "):
            command, _, output = example.partition("\n")
            yield command, output.rstrip("\n")
    elif block.kind == "sh":
        yield block.text, None


def named_file(block: Block) -> tuple[str, str] | None:
    """The name and the content of the file that a block is."""
    found = _NAMED.match(block.text)
    return (found[1], block.text) if found and block.kind in PLAIN else None


def named_machines(page: Sequence[Block]) -> set[str]:
    """The machines of tests/fixtures that the examples of a page read and do not make themselves."""
    text = "\n".join(block.text for block in page if block.kind in ("sh", "console"))
    read, made = (set(re.findall(pattern, text)) for pattern in (r"--root (\S+)", r"tests\.machines \S+ (\S+)"))
    return (read & set(machines.names())) - made


def why_not_run(command: str) -> str | None:
    """Why a command with its output is not run, if so: its program is one that something stands in for."""
    return STAND_INS.get(shlex.split(command, comments=True)[0])


def matches(shown: str, printed: str) -> bool:
    """Whether the output is what is shown."""
    pattern = "\n".join("(?:.*\n)*.*" if line == _ANY_LINES else re.escape(line) for line in shown.split("\n"))
    return re.fullmatch(pattern, printed.rstrip("\n")) is not None


class Place(NamedTuple):
    """Where the examples of a page run: a folder, and the root directory of the node that they are on."""

    folder: Path
    node: Path

    @classmethod
    def make(cls, folder: Path, tree: Path) -> Place:
        """A place below a folder, whose node has the hardware of a tree and a kubelet's configuration."""
        place = cls(folder / "work", folder / "node")
        subprocess.run(["cp", "-al", tree, place.node], check=True)
        for directory in _DIRECTORIES:
            (place.node / directory).mkdir(parents=True)
        (place.node / "var/lib/kubelet/config.yaml").write_text(_CONFIGURATION)
        place.folder.mkdir()
        (place.folder / "deploy").symlink_to(CHECKOUT / "deploy")
        programs = folder / "programs"
        programs.mkdir()
        for name in _TOOLS:
            (programs / name).symlink_to(next(path for at in ("/bin", "/usr/bin") if (path := Path(at, name)).exists()))
        _script(programs / "numalign", f'exec {shlex.quote(sys.executable)} -m numalign "$@"')
        for name in ("python", "python3"):
            _script(programs / name, f'exec {shlex.quote(sys.executable)} "$@"')
        _script(programs / "sudo", 'exec "$@"')
        for name in STAND_INS:
            _script(programs / name, "cat > /dev/null")
        return place

    def provide(self, command: str, shown: str) -> None:
        """Makes the file that `$ cat NAME` shows, where none of the commands before made it."""
        words = shlex.split(command, comments=True)
        if words[0] == "cat" and len(words) == 2:
            path = Path(_ABSOLUTE.sub(f"{self.node}/", words[1]))
            path = self.folder / path
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{shown}\n")

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a script; files of the host that it names are the node's, and no other program than those here is."""
        kept = [line for line in script.splitlines() if line.partition(" #")[0].strip() not in NOT_RUN]
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        environment |= {
            "PATH": str(self.folder.parent / "programs"),
            "PYTHONPATH": str(CHECKOUT),
            "NUMALIGN_ROOT": str(self.node),
            "HOME": str(self.folder),
            "PYTHONUTF8": "1",
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", _ABSOLUTE.sub(f"{self.node}/", "\n".join(kept))],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        said = (text.replace(str(self.node), "") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(script, done.returncode, *said)


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
