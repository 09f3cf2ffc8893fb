"""Exposition text: golden, parsable by others, made once."""

from __future__ import annotations

import gzip
import platform
import re
import subprocess
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from unit.serve import views

from rocmwatch.model import View
from rocmwatch.serve.exposition import Exposition, Format
from rocmwatch.serve.wording import printable

VIEWS = {
    "every_state": views.every_state(),
    "mi210x2": views.view(views.reading(0), views.reading(1)),
    "hostile": views.hostile(),
    "no_gpu": views.view(),
}


def text_of(view: View, form: Format, now: float = views.NOW) -> str:
    return b"".join(Exposition().scrape(view, now, form, gzip=False)).decode()


@pytest.mark.parametrize("form", list(Format), ids=lambda form: form.name.lower())
@pytest.mark.parametrize("name", list(VIEWS))
def test_a_view_renders_as_agreed(name, form, golden):
    text = text_of(VIEWS[name], form).replace(f'python="{platform.python_version()}"', 'python="3"')
    golden(f"exposition/{name}.{'prom' if form is Format.TEXT else 'openmetrics'}", text)


@pytest.mark.promtool
@pytest.mark.parametrize("name", list(VIEWS))
def test_promtool_finds_nothing_to_say_about_the_text(name):
    ran = subprocess.run(
        ["promtool", "check", "metrics"],
        check=False,
        input=text_of(VIEWS[name], Format.TEXT),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("name", list(VIEWS))
def test_both_formats_say_the_same_to_a_parser(name):
    text, openmetrics = (
        {
            (s.name, tuple(sorted(s.labels.items()))): s.value
            for f in parse(text_of(VIEWS[name], form))
            for s in f.samples
        }
        for parse, form in ((parse_text, Format.TEXT), (parse_openmetrics, Format.OPENMETRICS))
    )
    assert text == openmetrics
    assert text


def test_counters_are_named_by_the_rules_of_each_format():
    view = views.view(views.reading(0))
    text, openmetrics = (text_of(view, form) for form in Format)
    assert "# TYPE rocmwatch_gpu_energy_joules_total counter\n" in text
    assert "# TYPE rocmwatch_gpu_energy_joules counter\n# UNIT rocmwatch_gpu_energy_joules joules\n" in openmetrics
    assert 'rocmwatch_gpu_energy_joules_total{gpu="0",pci="0000:05:00.0"} 123456.789\n' in openmetrics
    assert openmetrics.endswith("# EOF\n")
    assert openmetrics.count("# EOF") == 1


@given(st.text())
def test_any_product_name_survives_the_way_to_a_parser(product):
    view = views.view(views.reading(0, gpu=views.gpu(0, product=product)))
    infos = [s for f in parse_text(text_of(view, Format.TEXT)) for s in f.samples if s.name == "rocmwatch_gpu_info"]
    assert [printable(product)] == [info.labels["product"] for info in infos]


@given(st.text(st.characters()))
def test_printable_text_is_printable_and_harmless_text_is_left_alone(text):
    assert printable(text).isprintable()
    assert printable(text).encode().decode() == printable(text)
    assert printable(printable(text)) == printable(text)
    if text.isprintable():
        assert printable(text) == text


@pytest.mark.parametrize("form", list(Format), ids=lambda form: form.name.lower())
@pytest.mark.parametrize("view", [views.every_state(), views.view()], ids=["every_state", "no_gpu"])
def test_the_compressed_text_is_one_gzip_member_of_the_same_text(form, view):
    exposition = Exposition()
    for now in (views.NOW, views.NOW + 3):
        packed = b"".join(exposition.scrape(view, now, form, gzip=True))
        assert gzip.decompress(packed) == b"".join(exposition.scrape(view, now, form, gzip=False))
        assert packed.count(b"\x1f\x8b\x08\x00\x00\x00\x00\x00") == 1
        assert len(packed) < 0.5 * len(gzip.decompress(packed))


def test_the_kept_part_is_the_same_object_until_another_view_comes():
    exposition = Exposition()
    view, other = views.view(views.reading(0)), views.view(views.reading(0))
    for zipped in (False, True):
        first, again = (exposition.scrape(view, now, Format.TEXT, gzip=zipped) for now in (views.NOW, views.NOW + 9))
        assert first[0] is again[0]
        assert first[1] != again[1]
    assert exposition.scrape(other, views.NOW, Format.TEXT, gzip=False)[0] is not first[0]


def test_first_scrapes_at_the_same_time_render_once():
    exposition, view = Exposition(), views.view(*(views.mi300x_cpx(number) for number in range(8)))
    start, heads = threading.Barrier(8), []

    def scrape() -> None:
        start.wait(10)
        heads.append(exposition.scrape(view, views.NOW, Format.TEXT, gzip=True)[0])

    threads = [threading.Thread(target=scrape) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(heads) == 8
    assert len({id(head) for head in heads}) == 1


def test_no_value_is_nan_or_infinite():
    assert not re.search(r" (NaN|[+-]Inf)\n", text_of(VIEWS["every_state"], Format.TEXT))
