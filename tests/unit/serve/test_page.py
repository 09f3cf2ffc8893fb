"""The page: well-formed, complete, and safe with hostile names."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from unit.serve import views

from rocmwatch.judge.trends import Trends
from rocmwatch.serve.page import Wish, render_page
from rocmwatch.serve.wording import size, span

VOID = {"meta", "link", "br"}


class Checker(HTMLParser):
    """Elements in balance, and what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


@pytest.mark.parametrize(
    "view", [None, views.view(), views.every_state(), views.hostile()], ids=["none", "no_gpu", "every_state", "hostile"]
)
def test_a_page_is_well_formed_and_has_neither_script_nor_inline_style(view):
    page = read(render_page(view, views.NOW))
    assert page.seen.count("style") == 1
    assert not {"script", "iframe", "object", "form", "base"} & set(page.seen)
    assert not [name for name, _ in page.attributes if name == "style" or name.startswith("on")]


def test_a_hostile_name_is_shown_and_not_obeyed():
    page = render_page(views.hostile(), views.NOW)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\x1b" not in page
    assert page.encode()


def test_every_gpu_has_a_row_with_its_state():
    page = read(render_page(views.every_state(), views.NOW))
    assert page.seen.count("tbody") == 7
    for word in ("active", "suspended", "stalled", "resetting", "lost"):
        assert word in page.texts
    for pci in ("0000:05:00.0", "0000:c9:00.0"):
        assert pci in page.texts


def test_a_gpu_without_a_reading_shows_dashes_and_no_zero():
    stalled = views.view(views.every_state().snapshot.gpus[2], sources={}, notes=())
    page = read(render_page(stalled, views.NOW))
    assert page.texts.count("\N{EN DASH}") == 6
    assert not [text for text in page.texts if text.startswith("0") and not text.startswith("0000:")]


def test_what_is_wrong_is_said_at_the_top():
    view = replace(views.view(views.reading(0)), config_last_reload_successful=False, root="/tmp/node")
    page = render_page(view, views.NOW)
    assert "reload of the configuration was refused" in page
    assert "Reads the tree /tmp/node" in page
    assert "No AMD GPU" in render_page(views.view(), views.NOW)
    unlisted = render_page(views.view(listed=False), views.NOW)
    assert "not known" in unlisted
    assert "No AMD GPU" not in unlisted


def cells(reading, query=()):
    """The text of a page of one GPU."""
    return " ".join(read(render_page(views.view(reading, notes=()), views.NOW, Wish(query))).texts)


def test_what_should_not_be_so_is_said_in_words():
    text = cells(views.mi300x_cpx())
    assert "clocks held down by power 25 %, hbm thermal 1 % of the time" in text
    assert "1 with trouble" in text
    assert "prochot" not in text
    assert "uncorrectable errors: gfx 1" in text
    assert "1.0 GiB of its buffers lie in host memory" in text
    assert "lanes" not in text
    narrow = replace(views.LINK, width=8)
    assert "PCIe uses 8 of 16 lanes" in cells(views.reading(pcie=narrow))


def test_a_gpu_that_is_well_has_no_trouble():
    sample = views.sample(throttled=views.frozen({"power": 0}))
    well = views.reading(sample=sample, ras_errors=views.frozen({("umc", "correctable"): 5}))
    page = render_page(views.view(well), views.NOW).partition("</style>")[2]
    assert "troubles" not in page
    assert "with trouble" not in page


@pytest.mark.parametrize(("celsius", "near"), [(94.9, False), (95.0, True), (101.0, True)])
def test_a_temperature_near_its_limit_is_said_in_words(celsius, near):
    sample = views.sample(temperatures_celsius=views.frozen({"junction": celsius, "edge": 50.0}))
    reading = views.reading(sample=sample)
    assert near is ("near the limit: junction" in cells(reading))
    assert near is ('class="bar hot"' in render_page(views.view(reading), views.NOW))


def test_old_data_is_called_old():
    assert "old: read 31 s ago" in cells(views.reading(sampled_at=views.NOW - 31))
    assert "old:" not in cells(views.reading(sampled_at=views.NOW - 29))


@pytest.mark.parametrize(("step", "age", "is_old"), [(5.0, 15, False), (5.0, 16, True), (60.0, 180, False)])
def test_data_is_old_after_three_steps_of_what_is_remembered(step, age, is_old):
    view = views.view(views.reading(sampled_at=views.NOW - age))
    trends = Trends().take(view.snapshot, views.NOW, views.NOW, step)
    assert is_old is ("old:" in render_page(replace(view, trends=trends), views.NOW))


def test_partitions_are_folded_and_the_link_remembers_the_others():
    view = views.view(views.mi300x_cpx(0), views.mi300x_cpx(1))
    page = read(render_page(view, views.NOW, Wish({"1"})))
    links = [value for name, value in page.attributes if name == "href" and value and "#gpu-" in value]
    assert ["/?open=1&open=0#gpu-0", "/#gpu-1"] == links
    assert "0 B of 24.0 GiB" in page.texts
    assert "busy 0 % · 2100\N{NO-BREAK SPACE}MHz" in page.texts
    assert page.texts.count("show 8 partitions") == 1
    assert page.texts.count("hide 8 partitions") == 1


def test_what_is_asked_to_be_open_and_is_no_gpu_does_no_harm():
    page = render_page(views.view(views.mi300x_cpx(0)), views.NOW, Wish({"<script>", "99", "0;url=//evil"}))
    assert "<script" not in page
    assert "evil" not in page
    assert 'content="10;url=/"' in page
    assert 'href="/?open=0#gpu-0"' in page


def test_it_loads_anew_what_is_unfolded_and_without_a_fragment():
    # An address with a #fragment would be taken for a jump within the page, and nothing would be loaded.
    view = views.view(views.mi300x_cpx(0), views.mi300x_cpx(1))
    page = read(render_page(view, views.NOW, Wish({"0", "1"})))
    assert ("content", "10;url=/?open=0&open=1") in page.attributes


def test_a_wish_outlives_a_daemon_that_starts_anew():
    wish = Wish({"1", "0", "<", "0;url=//evil"}, is_still=True)
    page = read(render_page(None, views.NOW, wish))
    assert ("content", "10;url=/?open=0&open=1&still=1") in page.attributes


def test_it_stands_still_when_that_is_wished_and_remembers_it():
    view = views.view(views.mi300x_cpx(0), views.mi300x_cpx(1))
    page = read(render_page(view, views.NOW, Wish({"1"}, is_still=True)))
    assert ("http-equiv", "refresh") not in page.attributes
    links = [value for name, value in page.attributes if name == "href" and value and value.startswith("/")]
    assert ["/?open=1", "/?open=1&open=0&still=1#gpu-0", "/?still=1#gpu-1"] == links[:3]
    moving = read(render_page(view, views.NOW, Wish({"1"})))
    assert ("href", "/?open=1&still=1") in moving.attributes


@pytest.mark.parametrize(
    "link", ["/metrics", "/api/v1/snapshot", "/api/v1/holders", "/api/v1/trends", "/api/v1/status", "/-/healthy"]
)
def test_the_page_leads_on(link):
    assert ("href", link) in read(render_page(None, views.NOW)).attributes


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (191.5 * views.GIB, "191.5 GiB"), (1000 * 2**20, "1000 MiB")],
)
def test_sizes_are_in_binary_units(count, words):
    assert words == size(count)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0.4, "0 s"), (59, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (3600, "1 h"), (273_600, "3 d 4 h")],
)
def test_spans_are_in_their_two_largest_units(seconds, words):
    assert words == span(seconds)
