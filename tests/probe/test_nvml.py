"""NVML through the real nvidia-ml-py, with a library that stands in for the driver's and fails as a driver can."""

from __future__ import annotations

import doctest
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numalign.probe.nvml
from numalign.probe import NVML_RECORD, probe
from numalign.probe.gpu import nvlink_counts
from numalign.probe.host import Host
from numalign.probe.nvml import NvmlAnswer, NvmlGpu, NvmlLink, NvmlMig, decode, normalise_bus_id, query
from tests import machines, nvml_stub
from tests.conftest import Run

BUSES = tuple(f"00000000:{bus}:00.0" for bus in ("1B", "43", "52", "61", "9D", "C3", "D1", "DF"))

T = TypeVar("T")
Ask = Callable[..., NvmlAnswer]
Environment = Callable[[Mapping[str, object]], dict[str, str]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml_stub.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def environment(library: Path, tmp_path: Path) -> Environment:
    return lambda said: nvml_stub.environment(library, nvml_stub.settings(tmp_path, said))


@pytest.fixture
def ask(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks the stand-in that answers `said`."""

    def asked(said: Mapping[str, object], deadline: float = 15.0) -> NvmlAnswer:
        for name, value in environment(said).items():
            monkeypatch.setenv(name, value)
        return query(deadline)

    return asked


def left_behind() -> list[str]:
    """The workers that still run."""
    listed = subprocess.run(["ps", "-eo", "ppid,stat,args"], capture_output=True, text=True, check=True).stdout
    mine = str(os.getpid())
    return [line for line in listed.splitlines() if "nvml_worker" in line and line.split()[0] in (mine, "1")]


def children(parent: int) -> list[str]:
    """The process ids of the process's children."""
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()


def wait_for(what: Callable[[], T]) -> T:
    """What `what` gives as soon as that is true, at most ten seconds from now."""
    end = time.monotonic() + 10
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


@given(
    domain=st.integers(0, 0xFFFFFFFF), bus=st.integers(0, 255), device=st.integers(0, 31), function=st.integers(0, 7)
)
def test_a_bus_id_keeps_its_numbers(domain: int, bus: int, device: int, function: int) -> None:
    printed = f"{domain:08X}:{bus:02X}:{device:02X}.{function:X}"
    told = normalise_bus_id(printed)
    assert told == normalise_bus_id(printed.encode()) == f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"
    assert msgspec.convert({"index": 0, "bdf": told}, NvmlGpu) == NvmlGpu(index=0, bdf=told)


@pytest.mark.parametrize(
    "text", ["", "N/A", "0000", ":07:00.0", "00000000:1B:00", "000000000:1B:00.0", b"\xff:1B:00.0"]
)
def test_what_is_no_bus_id_is_unknown(text: str | bytes) -> None:
    assert normalise_bus_id(text) is None


def test_every_gpu_is_told_with_its_address_in_our_spelling(ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES[:2]) | {"1.bus": "00010000:01:00.0", "0.affinity": "00ffffffffffffff 0 ff"}
    said |= {"0.memaffinity": "1", "1.memaffinity": "3", "1.numa": 2}
    assert ask(said) == NvmlAnswer(
        status="ok",
        driver_version="570.124.06",
        nvml_version="12.570.124.06",
        gpus=(
            NvmlGpu(
                index=0,
                bdf="0000:1b:00.0",
                uuid="GPU-00000000-0000-4000-8000-000000000000",
                name="NVIDIA H100 80GB HBM3",
                memory_bytes=85520809984,
                minor=0,
                cpu_affinity="0-55,128-135",
                memory_affinity="0",
            ),
            NvmlGpu(
                index=1,
                bdf="10000:01:00.0",
                uuid="GPU-00000001-0000-4000-8000-000000000000",
                name="NVIDIA H100 80GB HBM3",
                memory_bytes=85520809984,
                minor=1,
                numa_node=2,
                memory_affinity="0-1",
            ),
        ),
    )


def test_eight_gpus_are_told_in_nvmls_order(ask: Ask) -> None:
    answer = ask(nvml_stub.dgx(BUSES[::-1]))
    assert answer == NvmlAnswer(
        status="ok",
        driver_version="570.124.06",
        nvml_version="12.570.124.06",
        gpus=tuple(
            NvmlGpu(
                index=index,
                bdf=bus[4:].lower(),
                uuid=f"GPU-{index:08d}-0000-4000-8000-000000000000",
                name="NVIDIA H100 80GB HBM3",
                memory_bytes=85520809984,
                minor=index,
            )
            for index, bus in enumerate(BUSES[::-1])
        ),
    )


def test_mig_devices_belong_to_their_gpu(ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES[:2]) | {"0.mig": 1, "1.mig": 0}
    for slot, uuid in ((0, "MIG-a"), (3, "MIG-b")):
        said |= {f"0.mig.{slot}.uuid": uuid, f"0.mig.{slot}.name": "NVIDIA H100 MIG 1g.10gb"}
        said |= {f"0.mig.{slot}.memory": 10 << 30, f"0.mig.{slot}.gi": 7 + slot, f"0.mig.{slot}.ci": 0}
    first, second = ask(said).gpus
    assert (first.mig_mode, second.mig_mode, second.mig_devices) == (True, False, ())
    assert first.mig_devices == tuple(
        NvmlMig(
            uuid=uuid, name="NVIDIA H100 MIG 1g.10gb", memory_bytes=10 << 30, gpu_instance=instance, compute_instance=0
        )
        for uuid, instance in (("MIG-a", 7), ("MIG-b", 10))
    )


def test_nvlinks_that_are_up_are_told_with_their_other_end(ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES[:1]) | {"0.link.0": "gpu 00000000:43:00.0", "0.link.5": "switch 00000000:05:00.0"}
    said |= {"0.link.6": "other 00000000:06:00.0", "0.link.7": b"gpu \xff\xfe"}
    assert ask(said).gpus[0].links == (
        NvmlLink(peer="0000:43:00.0", kind="gpu"),
        NvmlLink(peer="0000:05:00.0", kind="switch"),
        NvmlLink(peer="0000:06:00.0", kind="unknown"),
        NvmlLink(peer=None, kind="gpu"),
    )


@pytest.mark.parametrize(
    ("number", "status", "remedy"),
    [
        (9, "no-driver", "modprobe nvidia"),
        (18, "version-mismatch", "reload the modules or reboot"),
        (4, "no-permission", "run as root"),
        (999, "error", "Unknown Error (999)"),
    ],
)
def test_a_failing_start_says_what_to_do(number: int, status: str, remedy: str, ask: Ask) -> None:
    answer = ask({"init": number})
    assert (answer.status, answer.gpus) == (status, ())
    assert remedy in (answer.message or "")


def test_a_library_that_cannot_be_loaded_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not a library")  # found before a real one, if this host has it
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert query() == NvmlAnswer(
        status="no-library",
        message="libnvidia-ml.so.1 cannot be loaded: install the driver's user-space libraries, or mount them",
    )


def test_a_missing_python_module_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('no such module')\n")
    monkeypatch.syspath_prepend(tmp_path)
    answer = query()
    assert answer.status == "error"
    assert "install nvidia-ml-py" in (answer.message or "")


@pytest.mark.parametrize("key", ["driver", "nvml"])
def test_a_version_that_nvml_does_not_tell_costs_nothing_else(key: str, ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES[:2])
    field = {"driver": "driver_version", "nvml": "nvml_version"}[key]
    whole = ask(said)
    del said[key]
    assert ask(said) == msgspec.structs.replace(whole, **{field: None})
    assert len(whole.gpus) == 2


def test_a_gpu_that_is_lost_keeps_the_others(ask: Ask) -> None:
    answer = ask(nvml_stub.dgx(BUSES[:3]) | {"0.handle": 15, "1.MemoryInfo": 15, "1.Name": 999})
    assert answer.status == "ok"
    lost, half_lost, well = answer.gpus
    assert lost == NvmlGpu(index=0, error="GPU is lost")
    assert (half_lost.bdf, half_lost.name, half_lost.memory_bytes, half_lost.error) == (
        "0000:43:00.0",
        None,
        None,
        "GPU is lost",
    )
    assert (well.bdf, well.error) == ("0000:52:00.0", None)


@pytest.mark.parametrize(
    ("hang", "known", "step"),
    [({"hang": "nvmlInit_v2"}, 0, "nvmlInit"), ({"5.hang": "nvmlDeviceGetName"}, 5, "GPU 5")],
)
def test_a_hang_ends_at_the_deadline_and_keeps_what_is_known(
    hang: dict[str, object], known: int, step: str, ask: Ask
) -> None:
    start = time.monotonic()
    answer = ask(nvml_stub.dgx(BUSES) | hang, 2.0)
    assert 2.0 <= time.monotonic() - start < 3.0
    assert (answer.status, len(answer.gpus)) == ("timeout", known)
    assert step in (answer.message or "")
    assert left_behind() == []


def test_a_hang_while_asking_for_more_keeps_the_gpu(ask: Ask) -> None:
    answer = ask(nvml_stub.dgx(BUSES[:2]) | {"1.hang": "nvmlDeviceGetNvLinkState"}, 2.0)
    assert [gpu.bdf for gpu in answer.gpus] == ["0000:1b:00.0", "0000:43:00.0"]


def test_a_crash_is_said_and_keeps_what_is_known(ask: Ask) -> None:
    answer = ask(nvml_stub.dgx(BUSES) | {"crash": "nvmlDeviceGetCount_v2"})
    assert (answer.status, answer.driver_version) == ("crashed", "570.124.06")
    assert "nvmlDeviceGetCount" in (answer.message or "")


def test_names_are_untrusted_text(ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES[:4]) | {"0.name": b"\xff\xfe\x1b[2J", "1.name": "[red]" * 60, "2.bus": "nonsense"}
    garbage, long, strange, stranger = ask(said | {"3.bus": b"\xff\xfe:00.0"}).gpus
    assert garbage.name == "\ufffd\ufffd\x1b[2J"
    assert long.name == ("[red]" * 60)[:95]  # nvidia-ml-py's buffer of 96 bytes
    assert (strange.bdf, stranger.bdf, stranger.name) == (None, None, "NVIDIA H100 80GB HBM3")


def test_a_size_that_nvml_does_not_know_is_none(ask: Ask) -> None:
    first, second = ask(nvml_stub.dgx(BUSES[:2]) | {"0.memory": (1 << 64) - 1}).gpus
    assert (first.bdf, first.memory_bytes, second.memory_bytes) == ("0000:1b:00.0", None, 85520809984)


def test_what_the_library_prints_is_no_answer(ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES[:2])
    assert ask(said | {"print": '{"end": true}'}) == ask(said | {"print": "hello"}) == ask(said)


def test_a_process_with_many_open_files_can_ask(ask: Ask) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this host does not let a process open 2048 files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        assert ask(nvml_stub.dgx(BUSES[:1])).status == "ok"
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_interrupt_leaves_no_worker_behind(environment: Environment) -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}; from numalign.probe.nvml import query; query(60)"
    environ = os.environ | environment({"hang": "nvmlInit_v2"})
    asking = subprocess.Popen([sys.executable, "-c", code], env=environ, stderr=subprocess.DEVNULL)
    (worker,) = wait_for(lambda: children(asking.pid))
    maps = Path(f"/proc/{worker}/maps")
    assert wait_for(lambda: "libnvidia-ml" in maps.read_text())  # it is in the library, and its parent waits for it
    asking.send_signal(signal.SIGINT)
    asking.wait(10)
    assert wait_for(lambda: not os.path.exists(f"/proc/{worker}"))


@pytest.mark.parametrize(
    "gpu",
    [
        {"name": "x" * 257},
        {"uuid": "x" * 257},
        {"bdf": "../../etc"},
        {"bdf": "0000:1b:00.0\n"},
        {"memoryBytes": 1 << 63},
        {"memoryBytes": -1},
        {"numaNode": -1},
        {"memoryAffinity": "9" * 5000},
        {"memoryAffinity": "\u0663"},
        {"cpuAffinity": "0-"},
        {"links": [{"peer": "nonsense", "kind": "gpu"}]},
    ],
)
def test_a_recorded_answer_is_held_to_the_same_bounds(gpu: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        decode(json.dumps({"status": "ok", "gpus": [{"index": 0} | gpu]}))


def test_a_recorded_answer_is_read_back_whole(ask: Ask) -> None:
    said = nvml_stub.dgx(BUSES) | {"0.affinity": " ".join(["5555555555555555"] * 64), "1.affinity": "0"}
    said |= {"0.mig": 1, "0.mig.0.uuid": "MIG-a", "0.link.0": "gpu 00000000:43:00.0", "0.memaffinity": "5"}
    answer = ask(said)
    assert (answer.gpus[0].memory_affinity, answer.gpus[1].cpu_affinity) == ("0,2", "")
    assert decode(msgspec.json.encode(answer).decode()) == answer


def test_the_examples_hold() -> None:
    failed, tried = doctest.testmod(numalign.probe.nvml)
    assert (failed, tried > 0) == (0, True)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A machine whose /proc tells this boot: the root directory of this very host, as a container mounts it."""
    built: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in built:
            built[name] = tmp_path_factory.mktemp(f"own-{name}")
            machines.build(name, built[name])
            boot = built[name] / "proc/sys/kernel/random/boot_id"
            boot.parent.mkdir(parents=True)
            boot.write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
        return built[name]

    return get


def test_the_map_joins_nvml_and_sysfs_by_bus_id(run: Run, own: Callable[[str], Path], environment: Environment) -> None:
    said = nvml_stub.dgx(BUSES) | {"0.link.0": f"gpu {BUSES[1]}", "0.link.1": f"gpu {BUSES[1]}"}
    for index in (2, 3):
        said |= {f"{index}.link.{link}": "switch 00000000:05:00.0" for link in range(18)}
    done = run("inspect", "--root", own("dgx-h100"), "--nvml", "require", "-o", "json", env=environment(said))
    assert (done.returncode, done.stderr) == (0, "")
    machine = json.loads(done.stdout)
    assert machine["warnings"] == []
    assert machine["nvidiaDriver"] == {"version": "570.124.06", "nvml": "ok"}
    assert [gpu["uuid"][:12] for gpu in machine["gpus"]] == [f"GPU-{index:08d}" for index in range(8)]
    assert {gpu["memoryBytes"] for gpu in machine["gpus"]} == {85520809984}
    nvlinks = {(link["a"], link["b"]): link["nvlinks"] for link in machine["links"] if link["nvlinks"]}
    assert nvlinks == {("0000:1b:00.0", "0000:43:00.0"): 2, ("0000:52:00.0", "0000:61:00.0"): 18}
    matrix = run("inspect", "--root", own("dgx-h100"), "--nvml", "require", "-o", "matrix", env=environment(said))
    rows = {line.split()[0]: line.split()[1:9] for line in matrix.stdout.splitlines() if line.startswith("GPU")}
    assert [rows["GPU0"][1], rows["GPU1"][0], rows["GPU2"][3], rows["GPU0"][2]] == ["NV2", "NV2", "NV18", "NODE"]


def test_a_domain_of_32_bits_is_the_kernels_of_16(
    run: Run, own: Callable[[str], Path], environment: Environment
) -> None:
    wide = tuple(bus.replace("00000000:", "03F80000:", 1) for bus in BUSES)
    said = nvml_stub.dgx(wide) | {"0.link.0": f"gpu {wide[1]}"}
    done = run("inspect", "--root", own("dgx-h100"), "--nvml", "require", "-o", "json", env=environment(said))
    assert (done.returncode, done.stderr) == (0, "")
    machine = json.loads(done.stdout)
    assert machine["warnings"] == []
    assert [gpu["uuid"][:12] for gpu in machine["gpus"]] == [f"GPU-{index:08d}" for index in range(8)]
    assert [link["nvlinks"] for link in machine["links"] if link["nvlinks"]] == [1]


def test_a_domain_whose_low_bits_fit_two_gpus_is_not_guessed(
    run: Run, own: Callable[[str], Path], environment: Environment
) -> None:
    said = nvml_stub.dgx(("03F80000:1B:00.0", "03F90000:1B:00.0", *BUSES[1:7]))
    done = run("inspect", "--root", own("dgx-h100"), "--nvml", "require", "-o", "json", env=environment(said))
    warnings = [(warning["id"], warning["subject"]) for warning in json.loads(done.stdout)["warnings"]]
    assert warnings == [
        ("gpu-only-in-nvml", "3f80000:1b:00.0"),
        ("gpu-only-in-nvml", "3f90000:1b:00.0"),
        ("gpu-not-in-nvml", "0000:1b:00.0"),
        ("gpu-not-in-nvml", "0000:df:00.0"),
    ]


@pytest.mark.parametrize(
    ("change", "warnings"),
    [
        ({"0.bus": "00000000:FF:00.0"}, ["gpu-only-in-nvml", "gpu-not-in-nvml"]),
        ({"7.handle": 15}, ["gpu-lost", "gpu-not-in-nvml"]),
        ({"3.memaffinity": "2"}, ["nvml-disagrees"]),
        ({"3.affinity": "ff00000000000000 0000ffffffffffff 0"}, []),
        ({"init": 18}, ["nvml-version-mismatch"]),
    ],
)
def test_what_only_one_of_them_knows_is_a_warning(
    change: dict[str, object], warnings: list[str], run: Run, own: Callable[[str], Path], environment: Environment
) -> None:
    environ = environment(nvml_stub.dgx(BUSES) | change)
    packed = run("snapshot", "node.tar.gz", "--root", own("dgx-h100"), "--nvml", "require", env=environ)
    if "init" in change:
        assert (packed.returncode, "reload the modules" in packed.stderr) == (3, True)
        return
    assert packed.returncode == 0
    machine = json.loads(run("inspect", "--machine", "node.tar.gz", "-o", "json").stdout)
    assert [warning["id"] for warning in machine["warnings"]] == warnings
    assert len(machine["gpus"]) == 8


def test_a_link_whose_other_end_is_a_gpu_counts_whatever_kind_nvml_gives_it() -> None:
    kinds = ("gpu", "unknown", "unknown")
    first = NvmlGpu(
        index=0, bdf="0000:01:00.0", links=tuple(NvmlLink(peer="0000:02:00.0", kind=kind) for kind in kinds)
    )
    second = NvmlGpu(index=1, bdf="0000:02:00.0", links=(NvmlLink(peer=None, kind="unknown"),))
    counts = nvlink_counts(NvmlAnswer(status="ok", gpus=(first, second)))
    assert counts == {frozenset(("0000:01:00.0", "0000:02:00.0")): 3}


@pytest.mark.parametrize(
    ("lost", "indices"),
    [
        ((3,), {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7}),
        ((0, 3), {0: 8, 1: 1, 2: 2, 3: 9, 4: 4, 5: 5, 6: 6, 7: 7}),  # which of the two is which is not known
    ],
)
def test_a_lost_gpu_leaves_the_others_their_index(
    lost: tuple[int, ...], indices: dict[int, int], tree: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(tree("dgx-h100"), tmp_path / "root", symlinks=True)
    gpus = tuple(
        NvmlGpu(index=index, error="GPU is lost")
        if index in lost
        else NvmlGpu(index=index, bdf=normalise_bus_id(BUSES[index]))
        for index in range(8)
    )
    (tmp_path / "root/numalign").mkdir()
    (tmp_path / "root" / NVML_RECORD).write_bytes(msgspec.json.encode(NvmlAnswer(status="ok", gpus=gpus)))
    found = {gpu.bdf: gpu.index for gpu in probe(Host(str(tmp_path / "root"))).gpus}
    assert found == {normalise_bus_id(BUSES[place]): index for place, index in indices.items()}
    assert list(found.values()) == sorted(indices.values())


def test_what_nvml_failed_at_is_a_warning_and_the_rest_of_the_map_stays(tmp_path: Path) -> None:
    machines.build("mig-a100", tmp_path)
    (tmp_path / NVML_RECORD).parent.mkdir()
    answer = NvmlAnswer(status="version-mismatch", message="NVML and the module are of two versions")
    (tmp_path / NVML_RECORD).write_bytes(msgspec.json.encode(answer))
    machine = probe(Host(str(tmp_path)))
    assert [warning.id for warning in machine.warnings] == ["nvml-version-mismatch", "gpu-without-near-nic"]
    assert [gpu.model for gpu in machine.gpus] == ["NVIDIA A100-SXM4-40GB"] * 2


def test_where_the_kernel_does_not_know_nvmls_word_is_kept_apart(
    run: Run, own: Callable[[str], Path], environment: Environment
) -> None:
    said = nvml_stub.dgx(tuple(f"00000000:0{index}:00.0" for index in range(1, 9))) | {"0.memaffinity": "1"}
    done = run("inspect", "--root", own("vm-all-unknown"), "--nvml", "require", "-o", "json", env=environment(said))
    machine = json.loads(done.stdout)
    assert (machine["gpus"][0]["numaNode"], machine["gpus"][0]["nvmlNUMANode"]) == (None, 0)
    (told,) = [warning["message"] for warning in machine["warnings"] if warning["id"] == "nvml-disagrees"]
    assert "NVML places it on NUMA node 0, the kernel does not know" in told


def test_this_hosts_nvml_is_never_asked_about_another_machine(
    run: Run, tree: Callable[[str], Path], environment: Environment
) -> None:
    environ = environment(nvml_stub.dgx(BUSES))
    assert run("snapshot", "node.tar.gz", "--root", tree("dgx-h100")).returncode == 0
    for words in (("--root", tree("dgx-h100")), ("--machine", "node.tar.gz")):
        done = run("inspect", *words, "--nvml", "require", env=environ)
        assert (done.returncode, done.stdout) == (3, "")
        assert "holds no answer of NVML, and this host's is not its" in done.stderr


def test_redaction_covers_nvmls_answers(run: Run, own: Callable[[str], Path], environment: Environment) -> None:
    said = nvml_stub.dgx(BUSES) | {"0.mig": 1, "0.mig.0.uuid": "MIG-12345678-aaaa-bbbb-cccc-1234567890ab"}
    words = ("--root", own("dgx-h100"), "--nvml", "require", "--redact")
    assert run("snapshot", "node.tar.gz", *words, env=environment(said)).returncode == 0
    gpus = json.loads(run("inspect", "--machine", "node.tar.gz", "-o", "json").stdout)["gpus"]
    uuids = [gpu["uuid"] for gpu in gpus] + [gpus[0]["migDevices"][0]["uuid"]]
    assert all(uuid[4:].startswith("00000000-0000-0000-0000-") for uuid in uuids)
    assert len(set(uuids)) == 9
