"""What amdsmi says of a GPU, laid over what the files say."""

from __future__ import annotations

from typing import Any

import pytest

from rocmwatch.observe.amdsmi_frame import AmdsmiFrame
from rocmwatch.observe.amdsmi_overlay import contradiction, lacks_something, laid_over
from rocmwatch.observe.wire import LIMIT_FIELDS, MEMORY_FIELDS, SENSOR_FIELDS, SENSORS, SLOW, TOTAL_FIELDS, GpuFrame

GIB = 1 << 30
ALL = {
    "vram_used_bytes": 5 * GIB,
    "vram_total_bytes": 192 * GIB,
    "temperature_junction": 61.0,
    "clock_sclk": 2.1e9,
    "power": 587.0,
    "power_cap": 750.0,
}


def by_files(known: dict[str, Any], **more: Any) -> GpuFrame:
    """A whole frame with these values."""
    return GpuFrame(
        state="active",
        memory=tuple(known.get(name) for name in MEMORY_FIELDS),
        sensors=tuple(known.get(name) for name in SENSOR_FIELDS),
        totals=tuple(known.get(name) for name in TOTAL_FIELDS),
        limits=tuple(known.get(name) for name in LIMIT_FIELDS),
        **more,
    )


def by_amdsmi(*errors: tuple[str, str, str], **known: float) -> AmdsmiFrame:
    return AmdsmiFrame(tuple(known.items()), errors)


def known(frame: GpuFrame) -> dict[str, Any]:
    """The values of a frame by name."""
    pairs = (
        (MEMORY_FIELDS, frame.memory),
        (SENSOR_FIELDS, frame.sensors),
        (TOTAL_FIELDS, frame.totals),
        (LIMIT_FIELDS, frame.limits),
    )
    return {n: v for names, values in pairs for n, v in zip(names, values or (), strict=False) if v is not None}


def test_its_values_win_and_the_files_fill_the_gaps() -> None:
    frame = laid_over(by_files(ALL), by_amdsmi(power=588.0, temperature_memory=55.0), gaps_only=False)

    assert {**ALL, "power": 588.0, "temperature_memory": 55.0} == known(frame)


def test_with_gaps_only_the_files_win() -> None:
    frame = laid_over(by_files(ALL), by_amdsmi(power=588.0, temperature_memory=55.0), gaps_only=True)

    assert {**ALL, "temperature_memory": 55.0} == known(frame)


def test_what_a_pass_did_not_read_is_not_made_up() -> None:
    frame = GpuFrame(state="active", memory=(1, 2, 3))

    assert {"vram_used_bytes": 4, "visible_vram_used_bytes": 2, "gtt_used_bytes": 3} == known(
        laid_over(frame, by_amdsmi(vram_used_bytes=4, power=588.0, power_cap=750.0), gaps_only=False)
    )


def test_the_clock_of_one_die_does_not_replace_that_of_the_fastest() -> None:
    frame = laid_over(by_files(ALL, xcc_clocks=(1.9e9, 2.1e9)), by_amdsmi(clock_sclk=1.9e9), gaps_only=False)

    assert ALL == known(frame)


def test_a_failed_call_is_a_fault_where_nobody_else_knows_the_value() -> None:
    errors = (("power", "AMDSMI_10", "call"), ("busy_gfx", "AMDSMI_10", "call"), ("limit_critical_edge", "E", "call"))
    frame = laid_over(by_files(ALL), by_amdsmi(*errors), gaps_only=False)

    assert ((SENSORS, "busy_gfx", "AMDSMI_10", "call"), (SLOW, "limit_critical_edge", "E", "call")) == frame.faults


def test_a_file_that_failed_is_told_once() -> None:
    fault = (SENSORS, "busy_gfx", "EIO", "/sys/gpu_busy_percent")
    frame = laid_over(by_files(ALL, faults=(fault,)), by_amdsmi(("busy_gfx", "AMDSMI_10", "call")), gaps_only=False)

    assert (fault,) == frame.faults


@pytest.mark.parametrize("name", ["vram_used_bytes", "vram_total_bytes", "temperature_junction"])
def test_what_is_needed_is_vram_and_a_temperature(name: str) -> None:
    assert not lacks_something(by_files(ALL))
    assert lacks_something(by_files({key: value for key, value in ALL.items() if key != name}))


def test_a_card_without_power_lacks_nothing() -> None:
    assert not lacks_something(by_files({key: value for key, value in ALL.items() if key != "power"}))


def test_a_file_that_fails_is_no_gap() -> None:
    assert not lacks_something(by_files({}, faults=((SENSORS, "temperature_junction", "EIO", "path"),)))


@pytest.mark.parametrize(
    ("answer", "total", "is_wrong"),
    [
        (by_amdsmi(vram_total_bytes=192 * GIB, vram_used_bytes=192 * GIB), 192 * GIB, False),
        (by_amdsmi(vram_total_bytes=191 * GIB), 192 * GIB, True),
        (by_amdsmi(vram_used_bytes=193 * GIB), 192 * GIB, True),
        (by_amdsmi(vram_total_bytes=GIB, vram_used_bytes=2 * GIB), None, True),
        (by_amdsmi(vram_total_bytes=192 * GIB), None, False),
        (by_amdsmi(vram_total_bytes=64 * GIB), 0, False),
        (by_amdsmi(), 192 * GIB, False),
    ],
)
def test_an_answer_that_cannot_be_true_is_found_out(answer: AmdsmiFrame, total: int | None, is_wrong: bool) -> None:
    assert is_wrong == bool(contradiction(answer, total))
