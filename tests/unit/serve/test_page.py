"""The page: well-formed, complete, and safe with hostile names."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from unit.serve import views

from rocmwatch.serve.page import render_page
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
    assert page.seen.count("tr") == 1 + 7
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


@pytest.mark.parametrize("link", ["/metrics", "/api/v1/snapshot", "/api/v1/status", "/-/healthy"])
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
