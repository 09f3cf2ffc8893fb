from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.model import Trend
from rocmwatch.serve.sparkline import HEIGHT, WIDTH, minutes, span_of, sparkline


def trend(*points: float | None, step: float = 5.0) -> Trend:
    return Trend(step_seconds=step, ended_at=0.0, points=points)


def drawn(its: Trend, low: float = 0.0, high: float = 12.0) -> str:
    svg = sparkline(its, low, high, "a label")
    found = re.search(r'd="([^"]*)"', svg)
    return found[1] if found else ""


def test_a_minute_is_its_largest_value_and_the_last_one_ends_with_the_last_point() -> None:
    assert [1.0, 9.0, 12.0] == minutes(trend(1, *range(10), 9, 9, *range(1, 13)))
    assert [None, 3.0] == minutes(trend(*[None] * 12, *[None] * 11, 3))


def test_an_hour_is_drawn_at_most_and_to_the_right_end() -> None:
    assert WIDTH == len(minutes(trend(*range(720))))
    assert drawn(trend(*[6] * 24)) == f"M{WIDTH - 2} {HEIGHT // 2}h0h1"


def test_long_steps_are_a_column_each() -> None:
    assert [1.0, 2.0, 3.0] == minutes(trend(1, 2, 3, step=600.0))


def test_gaps_stay_gaps() -> None:
    assert drawn(trend(0, None, 12, 12, step=60.0)) == "M56 12h0M58 0h0h1"


def test_what_is_outside_of_the_scale_stays_inside_of_the_drawing() -> None:
    assert drawn(trend(-5, 50, step=60.0)) == "M58 12h0l1 -12"


@pytest.mark.parametrize("points", [(), (1.0,), (None,) * 30, (None, 1.0, None)])
def test_too_little_draws_nothing(points: tuple[float | None, ...]) -> None:
    assert "" == sparkline(trend(*points), 0.0, 1.0, "a label")
    assert "" == sparkline(None, 0.0, 1.0, "a label")


def test_the_ends_are_the_smallest_and_the_largest() -> None:
    assert (1.0, 7.0) == span_of(trend(3.0, None, 7.0, 1.0))
    assert span_of(trend(None)) is None


@given(
    st.lists(st.one_of(st.none(), st.floats(-1e15, 1e15)), max_size=720),
    st.sampled_from([5.0, 7.0, 30.0, 60.0, 61.0, 3600.0]),
    st.floats(-1e15, 1e15),
    st.floats(-1e15, 1e15),
)
def test_no_trend_draws_outside_or_at_length(points: list[float | None], step: float, low: float, high: float) -> None:
    its = trend(*points, step=step)
    svg = sparkline(its, low, max(low, high), "a label")
    x, y = 0, 0
    for verb, numbers in re.findall(r"([Mhl])([-0-9 ]*)", drawn(its, low, max(low, high))):
        values = [int(number) for number in numbers.split()]
        x = values[0] if verb == "M" else x + values[0]
        y = values[1] if verb == "M" else y + (values[1] if verb == "l" else 0)
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert len(minutes(its)) <= WIDTH + 1
    assert len(svg) < 1200
