"""When a GPU's counts of hardware errors are due."""

from __future__ import annotations

import pytest

from rocmwatch.observe.rarely import LEAST_SECONDS, Rarely

EVERY = 300.0


def first_due(rarely: Rarely, begin: float, end: float) -> float | None:
    """The first second at which it is due."""
    return next((now for now in map(float, range(int(begin), int(end))) if rarely.is_due(now, EVERY, 0.0)), None)


def asked(rarely: Rarely, now: float, *, refused: bool = False) -> None:
    assert rarely.is_due(now, EVERY, 0.0)
    rarely.answered(asked=True, refused=refused)


def test_a_new_gpu_is_asked_at_once_and_then_at_its_pace() -> None:
    rarely = Rarely()
    asked(rarely, 0.0)

    assert 300.0 == first_due(rarely, 1, 1000)


def test_one_that_sleeps_is_asked_as_soon_as_it_is_awake() -> None:
    rarely = Rarely()
    asked(rarely, 0.0)
    for now in (300.0, 305.0, 310.0):
        assert rarely.is_due(now, EVERY, 0.0)
        rarely.answered(asked=False, refused=True)
    asked(rarely, 315.0)

    assert 615.0 == first_due(rarely, 316, 1000)


def test_one_that_refuses_is_asked_again_after_the_least_time() -> None:
    rarely = Rarely()
    asked(rarely, 0.0, refused=True)

    assert LEAST_SECONDS == first_due(rarely, 1, 1000)


def test_one_that_hangs_when_it_is_asked_is_asked_less_and_less() -> None:
    rarely = Rarely()
    now, waits = 0.0, []
    for _ in range(3):
        assert rarely.is_due(now, EVERY, 0.0)
        rarely.missed()
        due = first_due(rarely, now + 1, now + 10_000)
        assert due is not None
        waits.append(due - now)
        now = due
    asked(rarely, now)

    assert [600.0, 1200.0, 2400.0] == waits
    assert now + 300.0 == first_due(rarely, now + 1, now + 1000), "and it is forgiven"


def test_a_wait_is_a_day_at_most_unless_a_longer_pace_is_asked_for() -> None:
    rarely = Rarely()
    for now in range(0, 40 * 86_400, 86_400):
        assert rarely.is_due(float(now), EVERY, 0.0)
        rarely.missed()

    assert not rarely.is_due(40.0 * 86_400, 50 * 86_400.0, 0.0)


def test_one_that_hangs_when_it_is_not_asked_keeps_its_pace() -> None:
    rarely = Rarely()
    asked(rarely, 0.0)
    assert not rarely.is_due(100.0, EVERY, 0.0)
    rarely.missed()

    assert 300.0 == first_due(rarely, 101, 1000)


@pytest.mark.parametrize(("hung", "due"), [(False, 60.0), (True, 600.0)])
def test_a_driver_that_may_be_another_one_is_asked_soon_but_not_one_that_hangs(hung: bool, due: float) -> None:
    rarely = Rarely()
    assert rarely.is_due(0.0, EVERY, 0.0)
    if hung:
        rarely.missed()
    else:
        rarely.answered(asked=True, refused=False)
    rarely.forget()

    assert due == first_due(rarely, 1, 1000)


def test_a_tick_that_comes_a_little_early_counts() -> None:
    rarely = Rarely()
    asked(rarely, 0.0)

    assert rarely.is_due(298.0, EVERY, 2.5)
