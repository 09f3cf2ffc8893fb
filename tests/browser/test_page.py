"""The page in a real browser: nothing complains, nothing sticks out, everybody can read and reach it."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from browser.chromium import Browser, Page
from browser.conftest import Serve
from browser.pages import PAGES, partitioned
from unit.serve import views
from watching import eventually

from rocmwatch.model import View
from rocmwatch.serve.web import WebServer

WIDTHS = (360, 1217, 1280)  # a telephone; the narrowest window that shows a table; a common one
Look = Callable[..., "contextmanager[Page]"]

STICKS_OUT = """
[...document.querySelectorAll("body *")].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && !e.closest(".skip, thead") && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 80))
"""
# WCAG 2: relative luminance and contrast. Every element that has text of its own, against the ground below it; and
# every shape of the drawings against the ground of theirs.
CONTRASTS = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const texts = [...document.querySelectorAll("body *")]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.getClientRects().length)
    .map(e => [contrast(parts(getComputedStyle(e).color), ground(e)), 4.5, e.outerHTML.slice(0, 60)]);
  const shapes = [...document.querySelectorAll(".used, .mark, .spark path")].map(e => {
    const style = getComputedStyle(e);
    return [contrast(parts(e.tagName === "path" ? style.stroke : style.fill), ground(e)), 3, e.outerHTML.slice(0, 60)];
  });
  return [...texts, ...shapes];
})()
"""
FOCUS = """
(() => { const e = document.activeElement, s = getComputedStyle(e);
  return [e.getAttribute("href"), s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2]; })()
"""


@pytest.fixture
def look(browser: Browser, serve: Serve) -> Look:
    """Opens a page of a view in a tab of its own."""

    @contextmanager
    def open_it(
        view: View, width: int = 1280, query: str = "", *, dark: bool = False, script: bool = True
    ) -> Iterator[Page]:
        with closing(Page(browser, width, dark=dark, script=script)) as page:
            page.open(serve(view) + query)
            yield page

    return open_it


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_nothing_complains_and_nothing_sticks_out(look: Look, name: str, width: int) -> None:
    with look(PAGES[name](), width, "?open=0") as page:
        assert [] == page.complaints
        assert width == page.run("document.scrollingElement.scrollWidth")
        assert [] == page.run(STICKS_OUT)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["partitioned", "every_state", "troubled", "no_gpu"])
def test_everything_can_be_read(look: Look, name: str, dark: bool) -> None:
    with look(PAGES[name](), query="?open=0", dark=dark) as page:
        found = page.run(CONTRASTS)

    assert len(found) > 5
    assert [] == [(round(contrast, 2), what) for contrast, least, what in found if contrast < least]


def test_the_two_schemes_are_two(look: Look) -> None:
    grounds = []
    for dark in (False, True):
        with look(views.view(), dark=dark) as page:
            grounds.append(page.run("getComputedStyle(document.body).backgroundColor"))

    assert 2 == len(set(grounds))


def test_every_link_is_reached_by_the_keyboard_and_seen_there(look: Look) -> None:
    with look(partitioned()) as page:
        links = page.run('[...document.querySelectorAll("a")].map(e => e.getAttribute("href"))')
        reached = []
        for _ in links:
            page.press("Tab")
            reached.append(page.run(FOCUS))

    assert links == [href for href, _ in reached]
    assert 1 + 1 + 8 + 6 == len(links)  # skip, stop, unfold each, and those at the foot
    assert [] == [href for href, is_seen in reached if not is_seen]


def test_partitions_are_unfolded_by_a_key_and_stay_so_when_the_page_loads_anew(look: Look) -> None:
    shown = 'document.querySelectorAll(".parts li").length'
    with look(partitioned(), script=False) as page:
        assert 0 == page.run(shown)
        for _ in range(3):  # past the links that skip and stop
            page.press("Tab")
        page.press("Enter")
        page.loaded()
        assert (8, "?open=0", "true") == (
            page.run(shown),
            page.run("location.search"),
            page.run('document.querySelector("#gpu-0").getAttribute("aria-expanded")'),
        )
        page.open(page.run("location.href").partition("#")[0] + "&open=7")
        assert 15 == page.run(shown)


@pytest.mark.parametrize("place", ["", "?open=0#gpu-0"], ids=["folded", "unfolded"])
def test_it_loads_anew_by_itself_and_without_a_script(browser: Browser, place: str) -> None:
    asked = []

    def current() -> View:
        asked.append(1)
        return views.view(*(views.mi300x_cpx(number) for number in range(8)))

    server = WebServer("127.0.0.1", 0, current, lambda: views.NOW)
    server.start()
    try:
        with closing(Page(browser, script=False)) as page:
            page.open(f"http://127.0.0.1:{server.port}/{place}")
            assert 1 == len(asked)
            page.run("scrollTo(0, 700)")
            assert eventually(lambda: len(asked) > 1, 60.0)
            page.loaded()
            assert eventually(lambda: 700 == page.run("scrollY"), 60.0)
            assert place.partition("#")[0] == page.run("location.search")
    finally:
        server.stop()


def test_it_stands_still_when_told_to_by_a_key(look: Look) -> None:
    with look(partitioned(), query="?open=0", script=False) as page:
        for _ in range(2):  # past the link that skips
            page.press("Tab")
        page.press("Enter")
        page.loaded()
        assert "?open=0&still=1" == page.run("location.search")
        assert 0 == page.run('document.querySelectorAll("meta[http-equiv=refresh]").length')


def test_every_link_is_large_enough_for_a_finger(look: Look) -> None:
    heights = '[...document.querySelectorAll("a:not(.skip)")].map(e => [e.getBoundingClientRect().height, e.outerHTML])'
    with look(partitioned(), 360) as page:
        found = page.run(heights)

    assert 1 + 8 + 6 == len(found)
    assert [] == [html for height, html in found if height < 24]  # CSS pixels: WCAG 2.2, target size


def test_the_page_of_63_partitions_is_small(serve: Serve) -> None:
    view = partitioned()
    assert 63 == sum(len(reading.gpu.partitions) for reading in view.snapshot.gpus)
    address = serve(view)
    everything = "&".join(f"open={number}" for number in range(8))
    sizes = []
    for query in ("", everything):
        with urllib.request.urlopen(f"{address}?{query}") as answer:
            sizes.append(len(answer.read()))

    print(f"63 partitions: {sizes[0]} bytes folded, {sizes[1]} unfolded")
    assert max(sizes) <= 100_000


def test_what_it_says_to_those_who_cannot_see_it_is_complete(look: Look) -> None:
    with look(PAGES["partitioned"](), query="?open=0") as page:
        drawings = page.run('[...document.querySelectorAll("svg")].map(e => e.getAttribute("aria-label"))')
        headings = page.run('[...document.querySelectorAll("h1, h2, h3")].map(e => Number(e.tagName[1]))')
        landmarks = page.run('["header", "main", "footer"].map(name => document.querySelectorAll(name).length)')

    assert all(drawings)
    assert any(re.fullmatch(r"last hour: \d+ °C to \d+ °C", label) for label in drawings)
    assert ([1, 2], [1, 1, 1]) == (headings, landmarks)
