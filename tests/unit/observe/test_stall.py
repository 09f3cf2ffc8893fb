"""When a stalled subject is tried again."""

from __future__ import annotations

from rocmwatch.observe.stall import Patience, Stall

PATIENCE = Patience(first_retry_seconds=30.0, last_retry_seconds=600.0)


def test_the_time_between_two_tries_doubles_up_to_the_last() -> None:
    stall = Stall(wait_seconds=30.0, retry_at=130.0)
    waits = []
    for _ in range(7):
        stall.failed_again(1000.0, PATIENCE)
        waits.append(stall.retry_at - 1000.0)

    assert [60.0, 120.0, 240.0, 480.0, 600.0, 600.0, 600.0] == waits


def test_a_stall_that_is_over_is_remembered_as_long_as_it_was_waited_for() -> None:
    stall = Stall(wait_seconds=60.0, retry_at=0.0)
    before = stall.is_forgotten(10_000.0)
    stall.over_at = 1000.0

    assert [False, False, True] == [before, stall.is_forgotten(1060.0), stall.is_forgotten(1060.1)]
