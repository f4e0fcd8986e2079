"""verify --wait looks again until what is expected is there; --timeout ends what hangs."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from numalign.probe.host import Host
from numalign.probe.watch import Watch
from tests import nvml_stub
from tests.conftest import Run

GOOD = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0-1"
topologyManagerPolicy: single-numa-node
"""
BAD = GOOD.replace("single-numa-node", "single")
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def root(tree: Callable[[str], Path], tmp_path: Path) -> Path:
    """The root directory of a laptop whose kubelet has no configuration yet."""
    shutil.copytree(tree("laptop"), tmp_path / "root", symlinks=True)
    return tmp_path / "root"


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """Starts `numalign verify --root ROOT WORDS…`; kills it in the end where it still runs."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*words: str | Path, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "numalign", "verify", "--root", str(root), *map(str, words)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, cwd=root.parent))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def write(root: Path, text: str) -> None:
    """The kubelet's configuration, whole at once."""
    folder = root / "var/lib/kubelet"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / "config.yaml")


def test_it_ends_as_soon_as_what_is_expected_is_there(root: Path, start: Start) -> None:
    process = start("--wait", "2m", "--kubernetes-version", "1.36", "-o", "npd")
    later = threading.Timer(1.0, write, (root, BAD))
    much_later = threading.Timer(2.0, write, (root, GOOD))
    later.start()
    much_later.start()
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    assert out.endswith(b" checks passed\n")


def test_at_the_deadline_it_judges_and_prints_once(root: Path, start: Start) -> None:
    begin = time.monotonic()
    out, error = start("--wait", "1s").communicate(timeout=60)
    assert (out, error.count(b"\n")) == (b"", 2)
    assert error.startswith(b"numalign: no kubelet configuration: ")
    assert time.monotonic() - begin >= 1
    write(root, BAD)
    process = start("--wait", "1")
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (1, b"")
    assert out.count(b"topology-policy-unknown") == 1


def test_what_comes_from_standard_input_is_looked_at_each_time(run: Run, root: Path) -> None:
    begin = time.monotonic()
    done = run("verify", "--config", "-", "--root", root, "--wait", "1s", "-o", "npd", stdin=BAD.encode())
    assert done.returncode == 1
    assert done.stdout.startswith("topology-policy-unknown: ")
    assert time.monotonic() - begin >= 1


def test_a_root_that_is_not_there_is_not_waited_for(run: Run) -> None:
    done = run("verify", "--root", "/nowhere", "--wait", "10m")
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "numalign: --root /nowhere does not exist")


def test_a_misspelt_check_is_told_before_the_waiting(run: Run, root: Path) -> None:
    done = run("verify", "--root", root, "--wait", "10m", "--only", "gpu-lots")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "numalign: --only: there is no check gpu-lots")


def test_a_machine_out_of_a_file_is_not_waited_for(run: Run) -> None:
    done = run("verify", "--machine", "m.json", "--wait", "10m")
    assert (done.returncode, done.stdout) == (2, "")


def test_an_interrupt_ends_it_cleanly(start: Start) -> None:
    process = start("--wait", "2m")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    process.send_signal(signal.SIGINT)
    assert (*process.communicate(timeout=60), process.returncode) == (b"", b"", 130)


def test_progress_is_for_a_terminal_and_gone_in_the_end(start: Start) -> None:
    ours, theirs = pty.openpty()
    process = start("--wait", "2s", stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # how a terminal says that nobody has it open any more
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 3
    told, _, rest = seen.rpartition(b"\r\x1b[K")
    assert b"waiting (2 s at most): no kubelet configuration: " in told
    assert b"waiting" not in rest


def test_what_hangs_is_ended_and_named(run: Run, root: Path) -> None:
    os.mkfifo(root.parent / "fifo.yaml")
    for words, status in (((), 3), (("-o", "npd"), 2)):
        done = run("verify", "--root", root, "--config", "fifo.yaml", "--timeout", "1s", *words, timeout=20)
        line = "verify did not end within 1 s: still reading fifo.yaml (--timeout allows more)\n"
        expected = (line, "") if words else ("", f"numalign: {line}")
        assert (done.returncode, done.stdout, done.stderr) == (status, *expected)


def test_the_deadline_begins_after_the_waiting(start: Start) -> None:
    process = start("--wait", "1s", "--timeout", "30s")
    assert process.wait(timeout=60) == 3
    assert process.stderr is not None
    assert process.stderr.read().startswith(b"numalign: no kubelet configuration")


def test_a_fifo_where_the_kubelets_file_should_be_does_not_hang(run: Run, root: Path) -> None:
    (root / "var/lib/kubelet").mkdir(parents=True)
    os.mkfifo(root / "var/lib/kubelet/config.yaml")
    done = run("verify", "--root", root, timeout=20)
    assert (done.returncode, done.stdout) == (3, "")


def test_a_driver_that_hangs_is_not_waited_for(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = tmp_path / "dgx"
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    boot = root / "proc/sys/kernel/random/boot_id"  # as a container has the host's root mounted
    boot.parent.mkdir(parents=True)
    boot.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    library, said = nvml_stub.build(tmp_path), nvml_stub.settings(tmp_path, {"hang": "nvmlInit_v2"})
    done = run("verify", "--root", root, "--config", "-", "--timeout", "2s", stdin=GOOD.encode(), timeout=15,
               env=nvml_stub.environment(library, said))  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("numalign: verify did not end within 2 s")
    listed = subprocess.run(["ps", "-eo", "ppid,args"], capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if "nvml_worker" in line and line.split()[0] == "1"] == []


def test_those_that_were_asked_do_not_outlive_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, time; from numalign.cli.waiting import deadline\n"
        "with deadline(0.5, 3, on_stdout=False):\n"
        "    child = subprocess.Popen(['sleep', '1000'], start_new_session=True, stderr=subprocess.DEVNULL)\n"
        "    print(child.pid, flush=True); time.sleep(1000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 3
    pid = int(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
        pytest.fail("the child outlives its parent")


def test_a_watch_wakes_when_a_socket_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    (tmp_path / "var/lib/kubelet/device-plugins").mkdir(parents=True)
    watch = Watch(Host(str(tmp_path)))
    assert watch.wait(0.0) is False
    with socket.socket(socket.AF_UNIX) as server:
        # a path of a socket has 107 bytes at most
        monkeypatch.chdir(tmp_path / "var/lib/kubelet/device-plugins")
        server.bind("kubelet.sock")
        begin = time.monotonic()
        assert watch.wait(60.0) is True
        assert time.monotonic() - begin < 10
    watch.settle()
    assert watch.wait(0.0) is False
    (tmp_path / "var/lib/kubelet/plugins_registry").mkdir()
    assert watch.wait(60.0) is True
    watch.settle()
    watch.wait(0.0)
    (tmp_path / "var/lib/kubelet/plugins_registry/gpu.sock").touch()
    assert watch.wait(60.0) is True
    watch.close()
    assert watch.wait(0.0) is False


def test_a_watch_does_not_leave_its_root(tmp_path: Path) -> None:
    (tmp_path / "root/var/lib").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "root/var/lib/kubelet").symlink_to(tmp_path / "outside")
    watch = Watch(Host(str(tmp_path / "root")))
    assert watch.wait(0.0) is False
    (tmp_path / "outside/file").touch()
    assert watch.wait(0.2) is False
    watch.close()


class Monitor:
    """What a Watch uses of pyudev's Monitor, on a pipe: a byte is an event."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)

    def fileno(self) -> int:
        return self.reading

    def poll(self, timeout: float) -> bytes | None:
        assert timeout == 0
        try:
            return os.read(self.reading, 1)
        except BlockingIOError:
            return None


def test_a_watch_of_the_live_host_wakes_by_udev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monitor = Monitor()
    monkeypatch.setattr("numalign.probe.watch._monitor", lambda: monitor)
    monkeypatch.setattr("numalign.probe.watch._FOLDERS", ())
    watch = Watch(Host("/"))
    assert watch.wait(0.0) is False
    os.write(monitor.writing, b"..")
    assert watch.wait(60.0) is True
    watch.settle()
    assert watch.wait(0.0) is False
    os.write(monitor.writing, b".")
    elsewhere = Watch(Host(str(tmp_path)))
    assert elsewhere.wait(0.0) is False
    for fd in (monitor.reading, monitor.writing):
        os.close(fd)
