"""The pictures: nothing overlaps or reaches out of its box, names are never markup, and what is drawn is what is so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from numalign.machine import Machine
from numalign.plan import make_plan
from numalign.report.picture.machine import draw
from numalign.report.picture.overlays import of_plan
from numalign.report.picture.pages import html_page, svg_file
from numalign.report.picture.shapes import Box, Label, Wire, label_width
from tests.conftest import Golden, Run, Tree
from tests.docs_pictures import PICTURES, drawn
from tests.nodes import checkpoint, cpu_state
from tests.report.pictures import CONFIG, NAMES, NASTY, POD, hostile

IMAGES = Path(__file__).parent.parent.parent / "docs/images"
SVG = "{http://www.w3.org/2000/svg}"
Rectangle = tuple[float, float, float, float]
MachineOf = Callable[[str], Machine]


def rectangle(part: Box | Label) -> Rectangle:
    """Left, top, right, bottom."""
    if isinstance(part, Box):
        return part.x, part.y, part.x + part.width, part.y + part.height
    width = label_width(part.text, part.style)
    left = part.x - {"start": 0, "middle": width / 2, "end": width}[part.anchor]
    return left, part.y - 8, left + width, part.y + 2


def faults(parts: tuple[Box | Label | Wire, ...], width: float, height: float, place: str) -> Iterator[str]:
    """What reaches out of a box of that size, or over another part."""
    solid = [part for part in parts if not isinstance(part, Wire)]
    for i, part in enumerate(solid):
        left, top, right, bottom = rectangle(part)
        name = part.tip or part.style if isinstance(part, Box) else part.text
        if left < -0.01 or top < -0.01 or right > width + 0.01 or bottom > height + 0.01:
            yield f"{place}: {name} reaches out"
        for other in solid[i + 1 :]:
            far_left, far_top, far_right, far_bottom = rectangle(other)
            if (
                min(right, far_right) - max(left, far_left) > 0.01
                and min(bottom, far_bottom) - max(top, far_top) > 0.01
            ):
                yield f"{place}: {name} and {other} overlap"
        if isinstance(part, Box):
            yield from faults(part.parts, part.width, part.height, f"{place} › {name}")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_overlaps_and_nothing_is_cut(name: str, machine_of: MachineOf) -> None:
    machine = machine_of(name)
    for each, overlay in ((machine, of_plan(machine, make_plan(machine))), (hostile(machine), None)):
        picture = draw(each, overlay) if overlay else draw(each)
        assert list(faults(picture.parts, picture.width, picture.height, name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_cpu_gpu_and_nic_is_drawn_once(name: str, machine_of: MachineOf) -> None:
    machine = machine_of(name)
    boxes = list(below(draw(machine).parts))
    cpus = sorted(int(label.text) for box in boxes if box.style.startswith("cpu") for label in labels(box)[:1])
    assert cpus == sorted([*machine.online_cpus, *machine.offline_cpus, *legend_cpus(boxes)])
    shown = [label.text for box in boxes if box.style.split()[0] in ("gpu", "nic") for label in labels(box)]
    physical = {nic.bdf for nic in machine.nics}
    for device in machine.devices():
        virtual = getattr(device, "physical_function", None) in physical
        assert shown.count(device.bdf) == (0 if virtual else 1), device.bdf


def below(parts: tuple[Box | Label | Wire, ...]) -> Iterator[Box]:
    for part in parts:
        if isinstance(part, Box):
            yield part
            yield from below(part.parts)


def labels(box: Box) -> list[Label]:
    return [part for part in box.parts if isinstance(part, Label)]


def legend_cpus(boxes: list[Box]) -> list[int]:
    """The legend's swatches have no numbers."""
    return [int(label.text) for box in boxes if box.style == "rows" for label in labels(box) if label.text.isdecimal()]


@pytest.mark.parametrize("name", ["gb200-nvl", "sriov-vfs", "link-degraded"])
def test_the_picture_is_the_golden_one(name: str, run: Run, tree: Tree, golden: Golden) -> None:
    done = run("inspect", "-o", "svg", "--root", tree(name))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == golden(f"{name}.svg", done.stdout)


@pytest.mark.parametrize("name", PICTURES)
def test_the_documentation_has_the_pictures_that_are_drawn(name: str, tmp_path: Path) -> None:
    assert (IMAGES / name).read_text() == drawn(name, tmp_path), "make pictures"


def test_names_are_never_markup(machine_of: MachineOf) -> None:
    machine = hostile(machine_of("dgx-h100"))
    root = ElementTree.fromstring(svg_file(machine))
    assert root.tag == f"{SVG}svg"
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{tag}"
        for tag in ["svg", "title", "desc", "style", "defs", "pattern", "path", "circle", "rect", "g", "text"]
    }
    page = html_page(machine).decode()
    assert "<script" not in page
    assert NASTY not in page
    assert "&lt;script&gt;" in page
    assert [c for c in page if not (c.isprintable() or c == "\n")] == []


def test_a_picture_loads_nothing(machine_of: MachineOf) -> None:
    for data in (svg_file(machine_of("dgx-h100")), html_page(machine_of("dgx-h100"))):
        addresses = set(re.findall(r"[a-z]+://[^\s\"'<)]+", data.decode()))
        assert addresses == {"http://www.w3.org/2000/svg"}
        assert "<script" not in data.decode()


def states(svg: str) -> dict[int, str]:
    """How each CPU is drawn."""
    found = {}
    for group in ElementTree.fromstring(svg.encode()).iter(f"{SVG}g"):
        rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if rect is not None and text is not None and (rect.get("class") or "").startswith("cpu"):
            number = text.text or ""
            if number.isdecimal():
                found[int(number)] = (rect.get("class") or "").removeprefix("cpu").strip()
    return found


def test_a_configuration_shows_reserved_free_and_shared_cpus(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    done = run("inspect", "-o", "svg", "--config", "kubelet.yaml", "--root", tree("dgx-h100"))
    assert (done.returncode, done.stderr) == (0, "")
    now = states(done.stdout)
    reserved = {0, 1, 56, 57, 112, 168, 169}
    assert {cpu for cpu, state in now.items() if state == "reserved"} == reserved
    assert {cpu for cpu, state in now.items() if state == "shared"} == {113}  # the sibling of a reserved one
    assert {cpu for cpu, state in now.items() if state == "free"} == set(range(224)) - reserved - {113}


def test_a_plan_shows_what_it_reserves(run: Run, tree: Tree, machine_of: MachineOf) -> None:
    plan = make_plan(machine_of("dgx-h100"))
    done = run("plan", "-o", "svg", "--root", tree("dgx-h100"))
    now = states(done.stdout)
    assert sorted(cpu for cpu, state in now.items() if state == "reserved") == list(plan.reserved_cpus)
    assert sorted(cpu for cpu, state in now.items() if state == "free") == list(plan.exclusive_cpus)


def test_a_prediction_shows_which_container_got_what(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    (tmp_path / "pods.yaml").write_text(POD)
    words = ("predict", "pods.yaml", "--config", "kubelet.yaml", "--root", tree("dgx-h100"))
    done = run(*words, "-o", "svg")
    assert (done.returncode, done.stderr) == (1, "")  # big is refused
    now = states(done.stdout)
    taken = {cpu for cpu, state in now.items() if state.startswith("taken")}
    assert len(taken) == 30
    shown = " ".join(ElementTree.fromstring(done.stdout.encode()).itertext())
    assert "✓ llama admitted" in shown
    assert "✗ big refused, never on this node" in shown
    assert "llama/main: CPUs 2-14,114-126, 2 nvidia.com/gpu" in shown
    held = re.findall(r'class="gpu held"', done.stdout)
    assert len(held) == 2
    page = run(*words, "-o", "html")
    assert page.returncode == 1
    assert "Resources cannot be allocated with Topology locality" in page.stdout
    assert states(page.stdout[page.stdout.index("<svg") : page.stdout.index("</svg>") + 6]) == now


def test_pods_that_run_are_in_the_picture(run: Run, tree: Tree, tmp_path: Path, machine_of: MachineOf) -> None:
    gpu = machine_of("dgx-h100").gpus[5]
    held = checkpoint([("uid-a", "nvidia.com/gpu", {1: [str(gpu.uuid or gpu.bdf)]})], {"nvidia.com/gpu": []})
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    (tmp_path / "device-plugins").mkdir()
    (tmp_path / "device-plugins/kubelet_internal_checkpoint").write_text(held)
    (tmp_path / "cpu_manager_state").write_text(cpu_state("0-57,60-169,172-223", {"uid-a": "58-59,170-171"}))
    words = ("--config", "kubelet.yaml", "--state-dir", str(tmp_path), "--root", tree("dgx-h100"))
    done = run("inspect", "-o", "svg", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert {cpu for cpu, state in states(done.stdout).items() if state.startswith("taken")} == {58, 59, 170, 171}
    assert "uid-a: CPUs 58-59,170-171, 1 nvidia.com/gpu" in " ".join(
        ElementTree.fromstring(done.stdout.encode()).itertext()
    )
    assert done.stdout.count('class="gpu held"') == 1


def test_a_configuration_is_for_pictures_only(run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    done = run("inspect", "--config", "kubelet.yaml", "--root", tree("dgx-h100"))
    assert done.returncode == 2
    assert "-o svg" in done.stderr


def test_a_picture_is_written_whole_or_not_at_all(run: Run, tree: Tree, tmp_path: Path) -> None:
    done = run("inspect", "-o", "html", "--out", "node.html", "--root", tree("laptop"))
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "node.html").read_text().endswith("</html>\n")


def test_numbers_beyond_all_machines_are_drawn_or_refused(run: Run, tree: Tree, tmp_path: Path) -> None:
    machine = json.loads(run("inspect", "-o", "json", "--root", tree("smt-part-off")).stdout)
    sockets = [{**socket, "id": (1 << 62) - number} for number, socket in enumerate(machine["sockets"])]
    (tmp_path / "odd.json").write_text(json.dumps({**machine, "sockets": sockets}))
    done = run("inspect", "-o", "svg", "--machine", "odd.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert str(1 << 62) in done.stdout
    caches = [{**cache, "sizeBytes": 10**400} for cache in machine["l3Caches"]]
    (tmp_path / "huge.json").write_text(json.dumps({**machine, "l3Caches": caches}))
    done = run("inspect", "-o", "svg", "--machine", "huge.json")
    assert (done.returncode, done.stdout) == (3, "")
    assert "l3Caches[0].sizeBytes" in done.stderr
