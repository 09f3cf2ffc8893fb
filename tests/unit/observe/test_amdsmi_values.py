"""What amdsmi's answers mean. Each trap here was seen from a real version of the library or its wrapper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocmwatch.observe.amdsmi_values import (
    QUESTIONS,
    busy_gfx,
    busy_memory,
    celsius,
    hertz,
    highest_hertz,
    pci_address,
    total_bytes,
    used_bytes,
    watts,
    watts_at_most,
)
from rocmwatch.observe.wire import LIMIT_FIELDS, MEMORY_FIELDS, SENSOR_FIELDS, TOTAL_FIELDS

NOT_KNOWN = ("N/A", None, "", 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1, float("nan"), True, [], {}, b"1")


def power(**known: object) -> dict[str, object]:
    """An answer of amdsmi_get_power_info."""
    return {"current_socket_power": "N/A", "average_socket_power": "N/A", "power_limit": "N/A", **known}


@pytest.mark.parametrize("value", NOT_KNOWN)
@pytest.mark.parametrize("convert", [used_bytes, total_bytes, celsius])
def test_what_stands_for_not_known_is_not_known(convert: Callable[[object], float | None], value: object) -> None:
    assert convert(value) is None


@pytest.mark.parametrize("value", NOT_KNOWN)
def test_so_it_is_within_an_answer_of_several_numbers(value: object) -> None:
    assert hertz({"clk": value}) is None
    assert highest_hertz({"max_clk": value}) is None
    assert watts(power(current_socket_power=value)) is None
    assert watts_at_most(power(power_limit=value)) is None
    assert busy_gfx({"gfx_activity": value}) is None
    assert busy_memory({"umc_activity": value}) is None


@pytest.mark.parametrize("answer", ["N/A", None, 7, [], {}])
def test_an_answer_of_another_shape_says_nothing(answer: object) -> None:
    assert [None] * 6 == [f(answer) for f in (hertz, highest_hertz, watts, watts_at_most, busy_gfx, busy_memory)]


def test_numbers_come_in_base_units() -> None:
    assert used_bytes(297795584) == 297795584
    assert celsius(61) == 61.0
    assert hertz({"clk": 2100}) == 2.1e9
    assert highest_hertz({"max_clk": 1300}) == 1.3e9
    assert watts(power(current_socket_power=587)) == 587.0
    assert watts_at_most(power(power_limit=750_000_000)) == 750.0
    assert busy_gfx({"gfx_activity": 37}) == 0.37


def test_nothing_in_use_is_a_number_and_no_memory_at_all_is_not() -> None:
    assert used_bytes(0) == 0
    assert total_bytes(0) is None


def test_idle_is_a_number() -> None:
    assert busy_gfx({"gfx_activity": 0}) == 0


@pytest.mark.parametrize("percent", [101, 255, 3700])
def test_more_than_all_of_the_time_is_not_believed(percent: int) -> None:
    assert busy_gfx({"gfx_activity": percent}) is None


@pytest.mark.parametrize("degrees", [0, -273, 255, 61000])
def test_temperatures_that_no_card_has_are_not_believed(degrees: int) -> None:
    assert celsius(degrees) is None


def test_a_highest_clock_of_0_is_none() -> None:
    assert highest_hertz({"clk": 900, "min_clk": "N/A", "max_clk": 0}) is None


def test_a_card_that_is_awake_does_not_draw_0_watts() -> None:
    assert watts(power(socket_power=0)) is None


def test_0_watts_do_not_hide_the_power_beside_them() -> None:
    assert watts(power(current_socket_power=0, socket_power=0, average_socket_power=8)) == 8.0


def test_255_watts_may_be_all_ones_and_are_not_believed() -> None:
    assert watts(power(socket_power=255)) is None
    assert watts(power(socket_power=255, average_socket_power=254)) == 254.0


@pytest.mark.parametrize("limit", [0, 750, 4294967295])
def test_a_power_limit_that_is_not_in_microwatts_is_not_believed(limit: int) -> None:
    assert watts_at_most(power(power_limit=limit)) is None


def test_the_address_is_read_off_the_number_with_the_partition_left_out() -> None:
    assert pci_address(0x2600) == "0000:26:00.0"
    assert pci_address(0x0001_0000_0000_C581) == "10000:c5:10.1"
    assert pci_address(0x3000_2600) == pci_address(0x2600)


@pytest.mark.parametrize("number", [0, -1, None, "0000:26:00.0", 1 << 64])
def test_there_is_no_address_in_anything_else(number: object) -> None:
    assert pci_address(number) is None


def test_every_answer_is_of_a_field_that_there_is() -> None:
    fields = {*MEMORY_FIELDS, *TOTAL_FIELDS, *SENSOR_FIELDS, *LIMIT_FIELDS}
    assert {name for question in QUESTIONS for name, _ in question.answers} - fields == set()


def test_no_call_is_asked_that_sleeps_lies_or_jumps() -> None:
    forbidden = {
        "amdsmi_get_violation_status",
        "amdsmi_get_gpu_device_bdf",
        "amdsmi_get_gpu_device_uuid",
        "amdsmi_get_gpu_vram_usage",
        "amdsmi_get_energy_count",
    }
    assert {question.call for question in QUESTIONS} & forbidden == set()
