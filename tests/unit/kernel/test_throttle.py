import pytest

from rocmwatch.kernel.throttle import REASONS, ThrottleMeter, throttled_now

ALL_ONES = 0xFFFFFFFF
NONE = {"power": 0, "current": 0, "thermal": 0, "prochot": 0}


@pytest.mark.parametrize(
    ("bit", "reason"),
    [
        (0, "power"),  # PPT0
        (7, "power"),  # SPPT of an APU
        (16, "current"),  # TDC of graphics
        (23, "current"),  # APCC
        (32, "thermal"),  # the chip
        (36, "thermal"),  # its hottest place
        (45, "thermal"),  # VRHOT1
        (46, "prochot"),
        (47, "prochot"),
    ],
)
def test_each_bit_is_one_reason(bit, reason):
    assert {**NONE, reason: 1} == throttled_now(1 << bit)


@pytest.mark.parametrize("status", [0, 1 << 56, 1 << 57])
def test_nothing_of_these_holds(status):
    assert NONE == throttled_now(status)


def test_several_reasons_hold_at_once():
    assert dict.fromkeys(NONE, 1) == throttled_now(1 | 1 << 16 | 1 << 32 | 1 << 47)


def shares(*readings, bits=32):
    """What comes of the last of several readings."""
    meter = ThrottleMeter()
    found = {}
    for reading in readings:
        found = dict(meter.update(bits, reading))
    return found


def test_a_single_reading_says_nothing():
    assert {} == shares((1000, 1, 2, 3, 4, 5))


def test_the_share_of_each_reason_is_its_part_of_the_rounds_between_two_readings():
    expected = {"prochot": 0.0, "power": 0.5, "socket_thermal": 1.0, "vr_thermal": 0.25, "hbm_thermal": 0.75}
    assert expected == shares((1000, 9, 9, 9, 9, 9), (1100, 9, 59, 109, 34, 84))
    assert tuple(expected) == REASONS


def test_each_pair_stands_for_itself():
    assert 0.1 == shares((0, 0, 0, 0, 0, 0), (100, 0, 90, 0, 0, 0), (200, 0, 100, 0, 0, 0))["power"]


@pytest.mark.parametrize("bits", [32, 64])
def test_a_counter_that_stood_still_says_nothing(bits):
    assert {} == shares((1000, 1, 2, 3, 4, 5), (1000, 1, 2, 3, 4, 5), bits=bits)


def test_a_counter_of_32_bits_wraps():
    before, after = (ALL_ONES - 50, 0, ALL_ONES - 10, 0, 0, 0), (49, 0, 14, 0, 0, 0)
    assert {"power": 0.25} == {reason: share for reason, share in shares(before, after).items() if share}


@pytest.mark.parametrize("bits", [32, 64])
def test_a_driver_that_was_loaded_anew_says_nothing_until_the_next_reading(bits):
    old, new, later = (500_000, 0, 40_000, 0, 0, 0), (1000, 0, 10, 0, 0, 0), (1100, 0, 60, 0, 0, 0)
    assert {} == shares(old, new, bits=bits)
    assert 0.5 == shares(old, new, later, bits=bits)["power"]


def test_a_driver_that_was_loaded_anew_long_after_the_counter_s_middle_is_no_wrap():
    assert {} == shares((3_000_000_000, 0, 40_000, 0, 0, 0), (1000, 0, 10, 0, 0, 0))


def test_64_bits_do_not_wrap():
    assert {} == shares(((1 << 64) - 50, 0, 0, 0, 0, 0), (50, 0, 0, 0, 0, 0), bits=64)


def test_a_share_above_one_takes_the_others_with_it():
    assert {} == shares((1000, 0, 0, 0, 0, 0), (1100, 0, 101, 50, 0, 0))


def test_what_is_not_available_is_left_out():
    assert {"power"} == shares(
        (1000, *[ALL_ONES] * 5), (1100, 0, 0, ALL_ONES, 0, 0), (1200, ALL_ONES, 9, 0, *[ALL_ONES] * 2)
    ).keys()
    assert {} == shares((ALL_ONES, 0, 0, 0, 0, 0), (1100, 0, 0, 0, 0, 0))
    assert {} == shares((1000, 0, 0, 0, 0, 0), (ALL_ONES, 0, 0, 0, 0, 0))


def test_other_counters_are_not_compared_with_these():
    meter = ThrottleMeter()
    meter.update(32, (1000, 0, 0, 0, 0, 0))
    assert {} == meter.update(64, (1100, 0, 50, 0, 0, 0))
    assert {} == meter.update(64, ())
    assert {} == meter.update(64, (1200, 0, 60, 0, 0, 0))
    meter.forget()
    assert {} == meter.update(64, (1300, 0, 70, 0, 0, 0))
