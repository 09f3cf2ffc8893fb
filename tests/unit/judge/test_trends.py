from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.judge.trends import FEWEST_POINTS, POINTS, Trends, slope_per_second
from rocmwatch.model import (
    Gpu,
    GpuReading,
    GpuSample,
    GpuState,
    Pool,
    Pressure,
    Snapshot,
    Trend,
    frozen,
)

PCI = "0000:05:00.0"
UNIX = 1_800_000_000.0


def snapshot(
    used: int | None = None, state: GpuState = GpuState.ACTIVE, energy: float | None = None, faults: int | None = None
) -> Snapshot:
    sample = GpuSample(vram_used_bytes=used, energy_joules=energy)
    gpu = Gpu(gpu="0", pci=PCI, pool=Pool.VRAM)
    reading = GpuReading(gpu=gpu, state=state, sample=sample, pressure=Pressure(page_faults=faults))
    return Snapshot(sequence=1, taken_at=UNIX, gpus=(reading,))


class Course:
    """Snapshots, one after the other."""

    def __init__(self) -> None:
        self.trends = Trends()
        self.now = 1000.0
        self.last: dict[str, Trend] = {}

    def see(self, seen: Snapshot, seconds: float = 5.0, interval: float = 5.0) -> None:
        self.now += seconds
        self.last = dict(self.trends.take(seen, self.now, UNIX + self.now, interval).get(PCI, {}))

    def points(self, name: str = "vram_used_bytes") -> list[float | None]:
        return list(self.last[name].points)


@pytest.fixture
def course() -> Course:
    return Course()


def test_a_point_is_the_last_value_of_its_step(course: Course) -> None:
    for used in (1, 2, 3, 4):
        course.see(snapshot(used), seconds=2.5)

    assert [1, 3, 4] == course.points()


def test_every_kind_of_value_has_its_name(course: Course) -> None:
    sample = GpuSample(
        vram_used_bytes=1,
        gtt_used_bytes=2,
        temperatures_celsius=frozen({"junction": 61.0}),
        clocks_hertz=frozen({"sclk": 1e9}),
        busy_ratio=frozen({"gfx": 0.5}),
        power_watts=300.0,
        throttle_ratio=frozen({"power": 0.1, "prochot": 0.2}),
    )
    gpu = Gpu(gpu="0", pci=PCI, pool=Pool.GTT)
    course.see(Snapshot(sequence=1, taken_at=UNIX, gpus=(GpuReading(gpu=gpu, state=GpuState.ACTIVE, sample=sample),)))

    expected = {
        "pool_used_bytes": 2.0,
        "vram_used_bytes": 1.0,
        "gtt_used_bytes": 2.0,
        "temperature_junction": 61.0,
        "clock_sclk": 1e9,
        "busy_gfx": 0.5,
        "power_watts": 300.0,
        "throttle_ratio": 0.2,
    }
    assert expected == {name: trend.points[-1] for name, trend in course.last.items()}


def test_what_cannot_be_read_is_a_gap(course: Course) -> None:
    course.see(snapshot(1))
    course.see(snapshot(2, GpuState.STALLED))
    course.see(snapshot(None))
    course.see(snapshot(4))

    assert [1, None, None, 4] == course.points()


def test_a_pause_is_a_gap_and_an_hour_of_nothing_is_forgotten(course: Course) -> None:
    course.see(snapshot(1))
    course.see(snapshot(2), seconds=15.0)
    assert [1, None, None, 2] == course.points()
    course.see(snapshot(3), seconds=1e6)
    assert [3] == course.points()
    for _ in range(POINTS):
        course.see(snapshot(None, GpuState.LOST))
    assert {} == course.last


def test_an_hour_is_kept(course: Course) -> None:
    for used in range(POINTS + 30):
        course.see(snapshot(used))

    assert list(range(30, POINTS + 30)) == course.points()
    assert 3600.0 == POINTS * course.last["vram_used_bytes"].step_seconds


def test_a_longer_interval_makes_longer_steps_and_begins_anew(course: Course) -> None:
    course.see(snapshot(1))
    course.see(snapshot(2), seconds=60.0, interval=60.0)
    course.see(snapshot(3), seconds=60.0, interval=60.0)

    assert (60.0, [2, 3]) == (course.last["vram_used_bytes"].step_seconds, course.points())


def test_what_was_published_does_not_change(course: Course) -> None:
    course.see(snapshot(1))
    before = course.last["vram_used_bytes"]
    course.see(snapshot(2))

    assert [1] == list(before.points)


def test_a_counter_becomes_a_rate_and_its_reset_none(course: Course) -> None:
    for energy, faults in ((1000.0, 10), (2500.0, 10), (100.0, 20), (600.0, 20)):
        course.see(snapshot(1, energy=energy, faults=faults))

    assert [300.0, None, 100.0] == course.points("power_mean_watts")
    assert [0.0, 2.0, 0.0] == course.points("page_faults_per_second")


def trend(*points: float | None) -> Trend:
    return Trend(step_seconds=5.0, ended_at=0.0, points=points)


def test_a_slope_is_that_of_the_last_ten_minutes() -> None:
    assert slope_per_second(trend(*[7.0] * 500, *range(0, 1200, 10))) == pytest.approx(2.0)
    assert slope_per_second(trend(*[5.0] * 40)) == 0.0
    assert slope_per_second(trend(*[5.0] * (FEWEST_POINTS - 1))) is None
    assert slope_per_second(trend(*[None] * 200, 1.0)) is None
    assert slope_per_second(Trend(step_seconds=900.0, ended_at=0.0, points=tuple(range(40)))) is None  # ten hours


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e3, 1e3),
    st.lists(st.booleans(), min_size=40, max_size=120).filter(lambda x: sum(x) > 20),
)
def test_gaps_do_not_bend_a_line(start: float, rise: float, there: list[bool]) -> None:
    points = [start + rise * at if seen else None for at, seen in enumerate(there)]

    found = slope_per_second(trend(*points))

    assert found is not None
    assert math.isclose(found, rise / 5.0, rel_tol=1e-6, abs_tol=1e-6)


@given(st.lists(st.tuples(st.floats(0, 5000), st.one_of(st.none(), st.integers(0, 100))), max_size=60))
def test_no_order_of_moments_makes_more_points_than_there_may_be(course_of: list[tuple[float, int | None]]) -> None:
    trends = Trends()
    for now, used in course_of:
        for series in trends.take(snapshot(used), now, UNIX, 5.0).values():
            for one in series.values():
                assert 1 <= len(one.points) <= POINTS
                assert any(point is not None for point in one.points)
