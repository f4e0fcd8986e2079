"""numalign snapshot: what it packs gives the same map elsewhere, and what others pack does no harm."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import machines
from tests.conftest import Run


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A gzipped tar of the members."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return raw.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


ONLINE = (member("sys/devices/system/cpu/online"), b"0-1\n")


@pytest.mark.parametrize("name", machines.names())
def test_a_snapshot_gives_the_same_map_to_the_byte(
    name: str, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    packed = run("snapshot", tmp_path / "node.tar.gz", "--root", tree(name))
    assert (packed.returncode, packed.stdout) == (0, "")
    direct = run("inspect", "--root", tree(name), "-o", "json")
    assert run("inspect", "--machine", tmp_path / "node.tar.gz", "-o", "json").stdout == direct.stdout
    with tarfile.open(tmp_path / "node.tar.gz") as tar:
        tar.extractall(tmp_path / "unpacked", filter="tar")
    assert run("inspect", "--root", tmp_path / "unpacked", "-o", "json").stdout == direct.stdout


@pytest.mark.parametrize("data", [b"notes\n", b"\x1f\x8b", archive((member("etc/passwd"), b"root\n"))])
def test_a_snapshot_writes_over_no_other_file(
    data: bytes, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "notes").write_bytes(data)
    done = run("snapshot", "notes", "--root", tree("laptop"))
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "numalign: notes is there already, and it is no snapshot that could be written anew",
        "          name another file, or remove this one first",
    ]
    assert (tmp_path / "notes").read_bytes() == data


def test_a_snapshot_writes_over_a_snapshot_and_an_empty_file(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "node").write_bytes(b"")
    sizes = []
    for name in ("laptop", "dgx-h100"):
        assert run("snapshot", "node", "--root", tree(name)).returncode == 0
        sizes.append((tmp_path / "node").stat().st_size)
    assert 0 < sizes[0] != sizes[1]
    assert run("snapshot", "/dev/null", "--root", tree("laptop")).returncode == 0


def test_a_snapshot_of_this_host_gives_this_hosts_map(run: Run, tmp_path: Path) -> None:
    packed = run("snapshot", tmp_path / "node.tar.gz")
    assert packed.returncode == 0
    here = json.loads(run("inspect", "-o", "json").stdout)
    there = json.loads(run("inspect", "--machine", tmp_path / "node.tar.gz", "-o", "json").stdout)
    assert there == here


def test_the_same_host_gives_the_same_archive_on_standard_output_too(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        run("snapshot", tmp_path / name, "--root", tree("sriov-vfs"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (
        run("snapshot", "-", "--root", tree("sriov-vfs")).stdout.encode("utf-8", "surrogateescape")
        == (tmp_path / "a").read_bytes()
    )


def test_this_host_gives_the_same_archive_twice(run: Run, tmp_path: Path) -> None:
    """Two in a row of a few: processes come and go on a host that other tests use as well."""
    archives: list[bytes] = []
    for _ in range(5):
        run("snapshot", tmp_path / "a")
        archives.append((tmp_path / "a").read_bytes())
        if archives[-2:-1] == archives[-1:]:
            return
    pytest.fail("five snapshots of a host, and no two in a row are the same")


def with_kubelet(tree: Callable[[str], Path], root: Path) -> Path:
    """A DGX H100 with a kubelet that reserves half a core, its state file and a plugin's socket."""
    shutil.copytree(tree("dgx-h100"), root, symlinks=True)
    folder = root / "var/lib/kubelet"
    (folder / "plugins_registry").mkdir(parents=True)
    (folder / "plugins_registry/dra.cpu-reg.sock").touch()
    (folder / "config.yaml").write_text(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
        'cpuManagerPolicyOptions: {full-pcpus-only: "true"}\nreservedSystemCPUs: "0"\n'
        "topologyManagerPolicy: single-numa-node\n"
    )
    (folder / "cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":"","checksum":1}')
    return root


def test_the_kubelets_files_travel_with_it(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = with_kubelet(tree, tmp_path / "root")
    run("snapshot", tmp_path / "node.tar.gz", "--root", root)
    there = run("verify", "--machine", "node.tar.gz", "-o", "json")
    here = run("verify", "--root", root, "-o", "json")
    assert there.returncode == here.returncode == 1
    assert there.stdout.replace("node.tar.gz:/var", "/var") == here.stdout.replace(f"{root}/var", "/var")
    assert {"reserved-cpus-split-core", "cpu-state-unusable", "dra-cpus"} <= {
        finding["id"] for finding in json.loads(there.stdout)["findings"]
    }


def test_a_redacted_one_has_none_of_the_kubelets_files(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = with_kubelet(tree, tmp_path / "root")
    run("snapshot", tmp_path / "node.tar.gz", "--root", root, "--redact")
    with tarfile.open(tmp_path / "node.tar.gz") as tar:
        assert not [name for name in tar.getnames() if "kubelet" in name]
    there = run("verify", "--machine", tmp_path / "node.tar.gz")
    assert (there.returncode, there.stdout) == (3, "")
    assert "config.yaml is not in it" in there.stderr


def test_it_is_small(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    run("snapshot", tmp_path / "node.tar.gz", "--root", tree("dgx-h100"))
    assert (tmp_path / "node.tar.gz").stat().st_size < 64 << 10


def test_warnings_about_unreadable_files_travel_with_it(run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(tree("laptop"), root, symlinks=True)
    broken = root / "sys/devices/system/node/node0/meminfo"
    broken.unlink()
    broken.mkdir()
    run("snapshot", tmp_path / "node.tar.gz", "--root", root)
    direct = run("inspect", "--root", root, "-o", "json").stdout
    assert "file-unreadable" in direct
    assert run("inspect", "--machine", tmp_path / "node.tar.gz", "-o", "json").stdout == direct


def test_redacted_snapshots_hold_no_name_and_no_serial_number(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    personal = json.loads(run("inspect", "--root", tree("socket-direct"), "-o", "json").stdout)
    secrets = {personal["name"]} | {nic["systemImageGuid"] for nic in personal["nics"] if nic["systemImageGuid"]}
    secrets |= {gpu["uuid"] for gpu in personal["gpus"] if gpu["uuid"]}
    assert len(secrets) > 2
    run("snapshot", tmp_path / "node.tar.gz", "--redact", "--root", tree("socket-direct"))
    content = gzip.decompress((tmp_path / "node.tar.gz").read_bytes()).decode("utf-8", "replace")
    assert [secret for secret in secrets if secret in content] == []
    redacted = json.loads(run("inspect", "--machine", tmp_path / "node.tar.gz", "-o", "json").stdout)
    assert {warning["id"] for warning in redacted["warnings"]} == {warning["id"] for warning in personal["warnings"]}
    for document in (personal, redacted):
        del document["name"], document["kernelCommandLine"], document["warnings"]
        for device in (*document["gpus"], *document["nics"]):
            device.pop("uuid", None)
            device.pop("systemImageGuid", None)
    assert redacted == personal


def test_redacted_snapshots_hold_no_mac_address_in_a_netdevs_name(run: Run, tmp_path: Path) -> None:
    fixture = machines.path_of("bonded-nics").read_text()
    for netdev, name in (("ens1f0np0", "enx00505612ab34"), ("ens1f1np1", "enx00505612ab33")):
        fixture = fixture.replace(netdev, name)
    (tmp_path / "bonded.yaml").write_text(fixture)
    machines.build(tmp_path / "bonded.yaml", tmp_path / "root")
    run("snapshot", tmp_path / "node.tar.gz", "--redact", "--root", tmp_path / "root")
    assert b"00505612ab" not in gzip.decompress((tmp_path / "node.tar.gz").read_bytes())
    machine = json.loads(run("inspect", "--machine", tmp_path / "node.tar.gz", "-o", "json").stdout)
    assert machine["bonds"][0] == {
        "name": "bond0",
        "netdevs": ["enx000000000002", "enx000000000001"],
        "nics": ["0000:02:00.0", "0000:02:00.1"],
    }


@pytest.mark.parametrize(
    "members",
    [
        (ONLINE, (member("../outside"), b"x")),
        (ONLINE, (member("/etc/outside"), b"x")),
        (ONLINE, (member("sys/../../outside"), b"x")),
        (ONLINE, (member("dev/zero", tarfile.CHRTYPE), b"")),
        (ONLINE, (member("pipe", tarfile.FIFOTYPE), b"")),
    ],
)
def test_members_that_leave_the_archive_or_are_devices_are_refused(
    members: tuple[tuple[tarfile.TarInfo, bytes], ...], run: Run, tmp_path: Path
) -> None:
    done = run("inspect", "--machine", "-", stdin=archive(*members))
    assert (done.returncode, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_links_out_of_the_archive_lead_back_into_it(run: Run) -> None:
    data = archive(
        ONLINE,
        (member("proc/sys/kernel/hostname", tarfile.SYMTYPE, "/etc/hostname"), b""),
        (member("proc/cmdline", tarfile.SYMTYPE, "../../../../../../proc/version"), b""),
        (member("proc/version"), b"inside\n"),
        (member("proc/meminfo", tarfile.LNKTYPE, "../../etc/passwd"), b""),
    )
    machine = json.loads(run("inspect", "--machine", "-", "-o", "json", stdin=data).stdout)
    assert (machine["name"], machine["kernelCommandLine"], machine["memoryBytes"]) == (None, "inside", None)


@pytest.mark.parametrize("number", [1 << 40, 4096, 0, -1])
def test_a_recorded_error_that_no_kernel_has_is_malformed(number: int, run: Run) -> None:
    errors = json.dumps({"proc/meminfo": number}).encode()
    done = run(
        "inspect", "--machine", "-", "-o", "json", stdin=archive(ONLINE, (member("numalign/errors.json"), errors))
    )
    assert (done.returncode, done.stderr) == (0, "")
    warnings = [(warning["id"], warning["subject"]) for warning in json.loads(done.stdout)["warnings"]]
    assert ("file-malformed", "/numalign/errors.json") in warnings


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_does(run: Run) -> None:
    bomb = gzip.compress(bytes(64 << 20), 9) * 6
    info = member("sys/big")
    info.size = 300 << 20
    done = run("inspect", "--machine", "-", stdin=gzip.compress(info.tobuf()) + bomb)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no snapshot has" in done.stderr


@pytest.mark.parametrize("cut", [2, 20, 200, -20])
def test_a_cut_archive_is_refused(cut: int, run: Run, tree: Callable[[str], Path], tmp_path: Path) -> None:
    run("snapshot", tmp_path / "node.tar.gz", "--root", tree("laptop"))
    done = run("inspect", "--machine", "-", stdin=(tmp_path / "node.tar.gz").read_bytes()[:cut])
    assert (done.returncode, done.stdout) == (3, "")


def damaged_header(raw: bytes) -> bytes:
    at = raw.index(b"sys/devices/system/cpu/cpu1")
    return raw[:at] + b"?" + raw[at + 1 :]


def zeroed_header(raw: bytes) -> bytes:
    at = raw.index(b"sys/devices/system/cpu/cpu1")
    return raw[:at] + bytes(512) + raw[at + 512 :]


def cut_at_a_member(raw: bytes) -> bytes:
    return raw[: raw.index(b"sys/devices/system/cpu/cpu1")]


def cut_in_a_header(raw: bytes) -> bytes:
    return raw[: raw.index(b"sys/devices/system/cpu/cpu1") + 100]


@pytest.mark.parametrize("damage", [damaged_header, zeroed_header, cut_at_a_member, cut_in_a_header])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_an_archive_without_its_proper_end_is_refused(
    damage: Callable[[bytes], bytes],
    pack: Callable[[bytes], bytes],
    run: Run,
    tree: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    run("snapshot", tmp_path / "node.tar.gz", "--root", tree("laptop"))
    raw = gzip.decompress((tmp_path / "node.tar.gz").read_bytes())
    done = run("inspect", "--machine", "-", stdin=pack(damage(raw)))
    assert (done.returncode, done.stdout) == (3, "")
    assert "damaged" in done.stderr


@pytest.mark.parametrize("cut", [-1, -8])
def test_an_archive_that_gzip_finds_changed_is_refused(
    cut: int, run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    """A whole tar archive with a length or a checksum that is not its own."""
    run("snapshot", tmp_path / "node.tar.gz", "--root", tree("laptop"))
    data = bytearray((tmp_path / "node.tar.gz").read_bytes())
    data[cut] ^= 1
    done = run("inspect", "--machine", "-", stdin=bytes(data))
    assert (done.returncode, done.stdout) == (3, "")
    assert "damaged" in done.stderr


def test_a_file_that_cannot_be_written_is_said(run: Run, tree: Callable[[str], Path]) -> None:
    done = run("snapshot", "/nowhere/node.tar.gz", "--root", tree("laptop"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "/nowhere/node.tar.gz: cannot be written" in done.stderr


def test_an_archive_of_endless_names_is_refused(run: Run, tmp_path: Path) -> None:
    """Headers of long names, each of which is for the next: tarfile follows them by recursion."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2
    (tmp_path / "names.tar").write_bytes((header.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")) * 3000)
    done = run("inspect", "--machine", "names.tar")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)


def test_an_archive_of_very_many_directories_is_refused(run: Run, tmp_path: Path) -> None:
    deep = [(member(f"{number:x}/" + "a/" * 480 + "f"), b"") for number in range(1000)]
    (tmp_path / "deep.tar.gz").write_bytes(archive(*deep))
    done = run("inspect", "--machine", "deep.tar.gz")
    assert (done.returncode, "members" in done.stderr) == (3, True)


def test_deep_json_is_no_machine(run: Run) -> None:
    done = run("inspect", "--machine", "-", stdin=b'{"a":' * 100_000)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 2)


def test_a_netdev_whose_name_is_no_text_is_left_out_and_said(
    run: Run, tree: Callable[[str], Path], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(tree("server-2s"), root, symlinks=True)
    net = next((root / "sys/devices").rglob("net"))
    os.mkdir(os.fsencode(net) + b"/x\xff")
    direct = run("inspect", "--root", root, "-o", "json")
    assert [warning["id"] for warning in json.loads(direct.stdout)["warnings"]] == ["file-malformed"]
    run("snapshot", "node.tar.gz", "--root", root)
    assert run("inspect", "--machine", "node.tar.gz", "-o", "json").stdout == direct.stdout
