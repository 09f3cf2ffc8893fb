"""What happened to a GPU, counted: changes, and no first sight."""

from __future__ import annotations

from rocmwatch.model import GpuState
from rocmwatch.observe.events import EventCounts

ACTIVE, STALLED, LOST = GpuState.ACTIVE, GpuState.STALLED, GpuState.LOST


def changes(*seen: tuple[str | None, str | None, int]) -> int:
    events = EventCounts()
    for modes in seen:
        events.partitioned(*modes)
    return events.published().partition_changes


def test_states_are_counted_when_they_are_entered() -> None:
    events = EventCounts()
    for state in (STALLED, STALLED, ACTIVE, ACTIVE, STALLED, LOST, ACTIVE):
        events.entered(state)

    expected = {**dict.fromkeys(GpuState, 0), ACTIVE: 2, STALLED: 1, LOST: 1}
    assert expected == events.published().states


def test_what_was_published_stays_as_it_was() -> None:
    events = EventCounts()
    events.entered(ACTIVE)
    before = events.published()
    events.entered(LOST)
    events.wedged("rebind")

    assert (0, {}) == (before.states[LOST], before.wedged)
    assert (1, {"rebind": 1}) == (events.published().states[LOST], events.published().wedged)
    assert events.published() is events.published(), "nothing is made anew when nothing happened"


def test_a_thousand_words_of_the_kernel_do_not_become_a_thousand_series() -> None:
    events = EventCounts()
    events.wedged("none")
    for number in range(1000):
        events.wedged(f"way {number}")
    events.wedged("none")

    assert (16, 2) == (len(events.published().wedged), events.published().wedged["none"])


def test_a_mode_that_becomes_another_is_one_change() -> None:
    assert 0 == changes(("SPX", "NPS1", 1), ("SPX", "NPS1", 1))
    assert 1 == changes(("SPX", "NPS1", 1), ("CPX", "NPS1", 8))
    assert 1 == changes(("CPX", "NPS1", 8), ("CPX", "NPS4", 8))
    assert 1 == changes(("SPX", "NPS1", 1), ("CPX", "NPS4", 8)), "both at once is one"
    assert 2 == changes(("SPX", "NPS1", 1), ("CPX", "NPS1", 8), ("SPX", "NPS1", 1))


def test_a_change_that_is_seen_in_two_steps_is_one() -> None:
    assert 1 == changes(("SPX", "NPS1", 1), ("SPX", "NPS1", 0), ("SPX", "NPS1", 8), ("CPX", "NPS1", 8))


def test_a_mode_that_cannot_be_read_for_a_moment_is_no_change() -> None:
    assert 0 == changes(("SPX", "NPS1", 1), (None, None, 1), ("SPX", "NPS1", 1))
    assert 1 == changes(("SPX", "NPS1", 1), (None, None, 8), ("CPX", "NPS1", 8))


def test_without_a_mode_the_number_of_partitions_tells() -> None:
    assert 0 == changes((None, None, 1), (None, None, 0), (None, None, 1))
    assert 1 == changes((None, None, 1), (None, None, 0), (None, None, 8))
