"""The pictures as a real browser shows them: nothing overlaps or is cut, nothing is loaded, all text can be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numalign.machine import Machine
from numalign.plan import make_plan
from numalign.report.picture.overlay import NOTHING, Overlay
from numalign.report.picture.overlays import of_plan
from numalign.report.picture.pages import html_page, svg_file
from tests.conftest import Run, Tree
from tests.report.pictures import CONFIG, POD, hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no browser here: none of {', '.join(BROWSERS)}")

# Each group's first rectangle frames all that is in it; wires cross it on purpose. Text is measured by the browser.
FAULTS = """
() => {
  const found = [];
  const area = element => element.tagName === 'g' ? element.querySelector(':scope > rect') : element;
  const check = (parts, frame, place) => {
    const shown = parts.filter(part => ['g', 'text'].includes(part.tagName));
    const boxes = shown.map(part => area(part).getBoundingClientRect());
    shown.forEach((part, i) => {
      const box = boxes[i], name = part.tagName === 'text' ? part.textContent : area(part).getAttribute('class');
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 2
          || box.bottom > frame.bottom + 1)
        found.push(`${place}: ${name} reaches out`);
      for (let j = i + 1; j < shown.length; j++) {
        const other = boxes[j];
        const both = part.tagName === 'text' && shown[j].tagName === 'text';  // lines of text may touch
        if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 0.5
            && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > (both ? 5 : 2.5))
          found.push(`${place}: ${name} and ${shown[j].textContent.slice(0, 40)} overlap`);
      }
      if (part.tagName === 'g') check([...part.children], box, `${place} > ${name}`);
    });
  };
  const svg = document.querySelector('svg');
  check([...svg.children], svg.getBoundingClientRect(), 'picture');
  return found;
}
"""

# The contrast of each text to what is filled behind it, by the formula of WCAG 2; hatched cells count as the page.
PALE = """
() => {
  const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).map(Number);
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  };
  const page = getComputedStyle(document.querySelector('svg > rect.page')).fill;
  const behind = element => {
    for (let group = element.closest('g'); group; group = group.parentElement.closest('g')) {
      const fill = getComputedStyle(group.querySelector(':scope > rect')).fill;
      if (fill.startsWith('rgb')) return fill;
      if (fill.startsWith('url')) return page;
    }
    return page;
  };
  const pale = new Set();
  for (const text of document.querySelectorAll('svg text')) {
    const pair = [light(getComputedStyle(text).fill), light(behind(text))].sort((a, b) => b - a);
    if ((pair[0] + 0.05) / (pair[1] + 0.05) < 4.5) pale.add(`${text.getAttribute('class')}: ${text.textContent}`);
  }
  return [...pale];
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab, which must not complain, and must load nothing but its own file."""
    tab = browser.new_page(viewport={"width": 1300, "height": 900})
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: None if request.url.startswith("file:") else complaints.append(request.url))
    yield tab
    tab.close()
    assert complaints == []


def shown(page: Page, data: bytes, tmp_path: Path, suffix: str) -> Page:
    """The file in the tab; an SVG in a bare page, since a browser measures nothing in a document that is none."""
    file = tmp_path / f"picture.{suffix}"
    file.write_bytes(data)
    if suffix == "svg":
        body = data.decode().partition("?>")[2]
        file = tmp_path / "picture.html"
        file.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>x</title><body style='margin:0'>{body}")
    page.goto(file.as_uri())
    return page


# One of each kind; tests/report/test_picture.py has all of them.
MACHINES = ["aws-p5-48xlarge", "dgx-a100-nps4", "dgx-h100", "gb200-nvl", "laptop"]
MACHINES += ["no-node-dir", "power9-smt4", "sixty-four", "sriov-vfs", "vm-all-unknown"]


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_overlaps_and_nothing_is_cut(
    name: str, page: Page, machine_of: Callable[[str], Machine], tmp_path: Path
) -> None:
    machine = machine_of(name)
    pictures: tuple[tuple[Machine, Overlay], ...] = (
        (machine, of_plan(machine, make_plan(machine))),
        (hostile(machine), NOTHING),
    )
    for each, overlay in pictures:
        assert shown(page, svg_file(each, overlay), tmp_path, "svg").evaluate(FAULTS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(scheme: Any, page: Page, run: Run, tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    pods = [POD.partition("---")[0].replace("llama", f"llama-{i}").replace("cpu: 26", "cpu: 2") for i in range(3)]
    (tmp_path / "pods.yaml").write_text("---\n".join([*pods, POD]))
    page.emulate_media(color_scheme=scheme)
    for words in (
        ("predict", "pods.yaml", "--config", "kubelet.yaml", "--root", tree("dgx-h100")),
        ("inspect", "--root", tree("link-degraded")),
        ("inspect", "--root", tree("vm-all-unknown")),
        ("plan", "--root", tree("smt-part-off")),
    ):
        done = run(*words, "-o", "svg")
        assert done.stderr == ""
        tab = shown(page, done.stdout.encode(), tmp_path, "svg")
        assert tab.evaluate(FAULTS) == []
        assert tab.evaluate(PALE) == []


def test_a_page_fits_a_telephone_and_paper_and_needs_no_script(
    browser: Browser, run: Run, tree: Tree, tmp_path: Path
) -> None:
    (tmp_path / "kubelet.yaml").write_text(CONFIG)
    (tmp_path / "pods.yaml").write_text(POD)
    for words in (
        ("inspect", "--root", tree("dgx-a100-nps4")),
        ("plan", "--root", tree("dgx-h100")),
        ("predict", "pods.yaml", "--config", "kubelet.yaml", "--root", tree("dgx-h100")),
    ):
        done = run(*words, "-o", "html")
        context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
        tab = context.new_page()
        (tmp_path / "page.html").write_text(done.stdout)
        tab.goto((tmp_path / "page.html").as_uri())
        bodies = tab.locator("body").bounding_box()
        assert bodies is not None
        assert bodies["width"] <= 390
        assert tab.locator("svg").is_visible()
        assert tab.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"
        context.close()


def test_hostile_names_are_text_on_a_page(page: Page, machine_of: Callable[[str], Machine], tmp_path: Path) -> None:
    tab = shown(page, html_page(hostile(machine_of("dgx-h100"))), tmp_path, "html")
    assert tab.locator("script").count() == 0
    assert "<script>alert(1)</script>" in tab.locator("svg").first.inner_html().replace("&lt;", "<").replace(
        "&gt;", ">"
    )


def test_the_file_is_a_picture_by_itself(page: Page, run: Run, tree: Tree, tmp_path: Path) -> None:
    done = run("inspect", "-o", "svg", "--root", tree("dgx-h100"))
    (tmp_path / "node.svg").write_text(done.stdout)
    (tmp_path / "page.html").write_text('<!DOCTYPE html><title>x</title><img src="node.svg" alt="the node">')
    page.goto((tmp_path / "page.html").as_uri())
    width, height = page.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]")
    assert width > 1000
    assert height > 500


def test_hovering_tells_more(page: Page, machine_of: Callable[[str], Machine], tmp_path: Path) -> None:
    machine = machine_of("dgx-h100")
    tab = shown(page, svg_file(machine), tmp_path, "svg")
    cards = "[...document.querySelectorAll('rect.gpu')]"
    tips = tab.evaluate(f"{cards}.map(card => card.parentElement.querySelector('title')?.textContent)")
    assert [gpu.uuid for gpu in machine.gpus if not any(tip and str(gpu.uuid) in tip for tip in tips)] == []
