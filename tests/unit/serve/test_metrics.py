"""The metric table: names, and what a view becomes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unit.serve import views

from rocmwatch.model import CgroupVram, Gpu, GpuEvents, GpuReading, GpuSample, GpuState, Pool, View, frozen
from rocmwatch.serve.metrics import METRICS, Kind, families
from rocmwatch.serve.metrics_doc import document
from rocmwatch.serve.series import MOST_CGROUPS

BASE_UNITS = ("bytes", "celsius", "hertz", "joules", "ratio", "seconds", "watts")
OTHER_UNITS = (
    *("percent", "percentage", "megahertz", "mhz", "khz", "ghz", "kib", "mib", "gib", "kb", "mb", "gb", "kilobytes"),
    *(
        "megabytes",
        "gigabytes",
        "milliseconds",
        "microseconds",
        "minutes",
        "hours",
        "ms",
        "us",
        "milliwatts",
        "kilowatts",
    ),
    *("microjoules", "kelvin", "fahrenheit", "celcius", "millidegrees", "volt", "watt", "joule", "byte", "second"),
)
Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series_of(view: View, now: float = views.NOW) -> Found:
    made = [*families(view, now, at_scrape=False), *families(view, now, at_scrape=True)]
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in made for s in family.samples}


def names_of(view: View, pci: str | None = None) -> set[str]:
    return {name for name, labels in series_of(view) if pci is None or ("pci", pci) in labels}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_ends_in_a_base_unit_or_counts_things(metric):
    words = metric.name.removesuffix("_total").removesuffix("_per_second").split("_")
    assert not set(OTHER_UNITS) & set(words)
    assert not set(BASE_UNITS) & set(words[:-1])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_total_is_on_counters_and_info_on_infos_only(metric):
    assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
    assert (metric.kind is Kind.INFO) == metric.name.endswith("_info")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_help_is_sentences_for_a_person(metric):
    assert metric.help[0].isupper() or metric.help[0].isdigit() or metric.help.startswith("gpu_")
    assert metric.help.endswith(".")
    assert 40 < len(metric.help) < 420
    assert metric.help.isprintable()


def test_names_are_given_once():
    assert len(METRICS) == len({metric.full_name for metric in METRICS})
    assert all(re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name) for metric in METRICS)


@pytest.mark.parametrize(
    "view", [views.every_state(), views.hostile(), views.view()], ids=["every", "hostile", "empty"]
)
def test_a_series_carries_declared_labels_only_and_is_there_once(view):
    for metric in METRICS:
        found = list(metric.getter(view, views.NOW))
        for labels, value in found:
            assert set(labels) <= set(metric.labels)
            assert metric.kind is Kind.INFO or set(labels) == set(metric.labels)
            assert isinstance(value, (int, float))
        assert len(found) == len({tuple(sorted(labels.items())) for labels, _ in found})


def test_every_family_has_a_series_on_a_node_that_reports_everything():
    made = {
        family.name for at_scrape in (False, True) for family in families(views.every_state(), 0, at_scrape=at_scrape)
    }
    assert made == {metric.family_name for metric in METRICS}


def test_what_waits_for_the_snapshot_does_not_look_at_the_clock():
    view = views.every_state()
    first, later = (list(families(view, now, at_scrape=False)) for now in (0.0, views.NOW + 1000))
    assert first == later


def test_nothing_unknown_becomes_a_series():
    unknown = GpuReading(
        gpu=Gpu(gpu="0", pci="0000:05:00.0", pool=Pool.VRAM), state=GpuState.ACTIVE, sample=GpuSample()
    )
    assert names_of(views.view(unknown), "0000:05:00.0") == {"rocmwatch_gpu_info", "rocmwatch_gpu_state"}


@pytest.mark.parametrize("state", [GpuState.STALLED, GpuState.LOST])
def test_a_gpu_that_cannot_be_read_keeps_its_identity_and_state_only(state):
    # even where the sampler left something in it
    view = views.view(views.reading(0, state=state))
    found = series_of(view)
    kept = {f"rocmwatch_{name}" for name in ("gpu_info", "gpu_state", "gpu_state_changes_total", "field_supported")}
    assert names_of(view, "0000:05:00.0") == kept
    assert found["rocmwatch_gpus", ()] == 1
    states = {dict(labels)["state"]: value for (name, labels), value in found.items() if name == "rocmwatch_gpu_state"}
    assert states == {word.value: int(word is state) for word in GpuState}


def test_what_happened_to_a_gpu_is_told_though_it_is_lost():
    """Else the count of lost GPUs would go with the GPU, just when somebody asks for it."""
    events = GpuEvents(states=frozen({GpuState.LOST: 1}), wedged=frozen({"rebind": 1, "none": 3}), partition_changes=2)
    found = series_of(views.view(views.reading(0, state=GpuState.LOST, events=events)))
    place = (("gpu", "0"), ("pci", "0000:05:00.0"))
    assert found["rocmwatch_gpu_state_changes_total", (*place, ("state", "lost"))] == 1
    assert found["rocmwatch_gpu_wedged_events_total", (*place[:1], ("method", "none"), *place[1:])] == 3
    assert found["rocmwatch_gpu_partition_changes_total", place] == 2


def test_the_largest_control_groups_are_shown_and_no_more():
    groups = tuple(
        CgroupVram(cgroup=f"/job{number}", pci="0000:05:00.0", bytes=number) for number in range(MOST_CGROUPS + 10)
    )
    found = series_of(views.view(views.reading(0), cgroups=groups))
    held = [value for (name, _), value in found.items() if name == "rocmwatch_cgroup_vram_bytes"]
    assert held == list(range(MOST_CGROUPS + 9, 9, -1))


def test_control_groups_whose_names_read_alike_are_one_series():
    groups = tuple(CgroupVram(cgroup=name, pci="0000:05:00.0", bytes=2) for name in ("/a\n", "/a\\n"))
    found = series_of(views.view(views.reading(0), cgroups=groups))
    assert [4] == [value for (name, _), value in found.items() if name == "rocmwatch_cgroup_vram_bytes"]


def test_a_suspended_gpu_has_its_memory_and_no_sensors():
    asleep = views.reading(
        0,
        state=GpuState.SUSPENDED,
        sample=GpuSample(vram_total_bytes=64 * views.GIB, vram_used_bytes=0),
    )
    found = series_of(views.view(asleep))
    place = (("gpu", "0"), ("pci", "0000:05:00.0"))
    assert found["rocmwatch_gpu_vram_used_bytes", place] == 0
    assert found["rocmwatch_gpu_pool_free_bytes", place] == 64 * views.GIB
    assert not {name for name, _ in found if "temperature_celsius" in name or "watts" in name.removesuffix("cap_watts")}


def test_a_sum_over_vram_counts_no_byte_of_a_partitioned_gpu_twice():
    found = series_of(views.view(views.mi300x_cpx(0), views.reading(1)))
    total = sum(value for (name, _), value in found.items() if name == "rocmwatch_gpu_vram_total_bytes")
    assert total == (192 + 64) * views.GIB
    parts = [dict(labels) for name, labels in found if name == "rocmwatch_gpu_partition_vram_total_bytes"]
    assert parts == [{"gpu": "0", "pci": "0000:05:00.0", "partition": str(part)} for part in range(8)]


def test_the_pool_of_an_apu_is_gtt_and_not_its_carve_out():
    found = series_of(views.every_state())
    place = (("gpu", "5"), ("pci", "0000:a5:00.0"))
    assert found["rocmwatch_gpu_pool_total_bytes", place] == 120 * views.GIB
    assert found["rocmwatch_gpu_vram_total_bytes", place] == views.GIB


def test_vram_that_is_used_beyond_its_total_leaves_no_free_series():
    odd = views.reading(0, sample=views.sample(vram_total_bytes=1, vram_used_bytes=2))
    assert "rocmwatch_gpu_vram_free_bytes" not in names_of(views.view(odd))


def test_ages_grow_with_the_clock_of_the_scrape_and_are_never_negative():
    view = views.view()
    age = ("rocmwatch_sample_age_seconds", (("source", "memory"),))
    assert series_of(view, views.NOW)[age] == 2
    assert series_of(view, views.NOW + 0.5)[age] == 2.5
    assert series_of(view, views.NOW - 100)[age] == 0
    assert ("rocmwatch_sample_age_seconds", (("source", "topology"),)) not in series_of(view)


def test_the_page_of_metrics_is_generated_from_the_table():
    page = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
    assert document() == page.read_text(encoding="utf-8"), "python -m rocmwatch.serve.metrics_doc > docs/metrics.md"
