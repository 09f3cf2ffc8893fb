"""Whatever the seed and the moment: a healthy GPU is possible, and its counters only rise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocmwatch.kernel.gpu_metrics import Value, parse_gpu_metrics
from rocmwatch.simulate import MODELS, State, blocks, motion
from rocmwatch.simulate.metrics import gpu_metrics

SEEDS = st.integers(min_value=0, max_value=1 << 32)
MOMENTS = st.floats(min_value=0, max_value=7 * 86_400, allow_nan=False)
MODEL_NAMES = st.sampled_from(list(MODELS))
COUNTERS = ("energy_accumulator", "system_clock_counter", "gfx_activity_acc", "mem_activity_acc", "firmware_timestamp")
WRAP = 1 << 32  # the two accumulators of activity are 32 bits wide; a Radeon's energy never shows all ones of them


def _state(model: str, seed: int, seconds: float, index: int = 0) -> State:
    return motion.healthy(MODELS[model], seed, index, seconds)


@given(MODEL_NAMES, SEEDS, MOMENTS, st.integers(min_value=0, max_value=7))
def test_a_state_is_possible(name: str, seed: int, seconds: float, index: int) -> None:
    model = MODELS[name]
    state = _state(name, seed, seconds, index)

    assert model.vram_floor_bytes <= state.vram_used_bytes <= model.vram_total_bytes
    assert 0 < state.gtt_used_bytes < model.gtt_total_bytes
    assert 0 < state.busy_gfx <= 1
    assert 0 < state.busy_memory <= 1
    assert model.power_idle_watts <= state.power_watts <= model.power_cap_watts
    assert model.xcc_count == len(state.sclk_mhz)
    assert all(0 < clock <= model.sclk.levels_mhz[-1] for clock in state.sclk_mhz)
    assert state.mclk_mhz in model.mclk.levels_mhz
    for sensor in model.sensors:
        critical = dict(sensor.limits_celsius).get("crit", 100)
        assert 20 < state.temperatures_celsius[sensor.label] < critical


@given(MODEL_NAMES, SEEDS, MOMENTS)
def test_free_blocks_and_used_bytes_are_all_there_is(name: str, seed: int, seconds: float) -> None:
    state = _state(name, seed, seconds)

    free = blocks.free_bytes(state.free_blocks)
    assert MODELS[name].vram_total_bytes == free + state.vram_used_bytes
    assert 0 <= state.clear_free_bytes <= free


@given(MODEL_NAMES, SEEDS, MOMENTS, st.floats(min_value=0.1, max_value=5_000))
def test_counters_rise_strictly(name: str, seed: int, seconds: float, later: float) -> None:
    one, two = (_state(name, seed, moment) for moment in (seconds, seconds + later))

    assert one.energy_joules < two.energy_joules
    assert one.busy_gfx_seconds < two.busy_gfx_seconds
    assert one.busy_memory_seconds < two.busy_memory_seconds
    before, after = (parse_gpu_metrics(gpu_metrics(MODELS[name], state)).fields for state in (one, two))
    for counter in COUNTERS:
        if counter in before:
            is_short = counter == "energy_accumulator" and MODELS[name].counts_millijoules
            width = WRAP - 1 if is_short else WRAP if counter.endswith("activity_acc") else 1 << 64
            assert 0 < (_number(after[counter]) - _number(before[counter])) % width < width // 2


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value


@given(MODEL_NAMES, SEEDS, MOMENTS)
def test_the_same_moment_is_always_the_same(name: str, seed: int, seconds: float) -> None:
    assert _state(name, seed, seconds) == _state(name, seed, seconds)


@settings(max_examples=15)
@given(MODEL_NAMES, SEEDS)
def test_energy_is_the_sum_of_power(name: str, seed: int) -> None:
    start, end, step = 40.0, 100.0, 0.1
    moments = [start + step * number for number in range(1, int((end - start) / step) + 1)]
    summed = sum(_state(name, seed, moment).power_watts * step for moment in moments)

    gained = _state(name, seed, end).energy_joules - _state(name, seed, start).energy_joules
    assert gained == pytest.approx(summed, rel=0.03)  # the power that is shown lags by two seconds


@given(SEEDS, st.integers(min_value=0, max_value=1 << 20), st.lists(st.integers(0, 9), max_size=13))
def test_free_memory_is_divided_without_remainder(free_chunks: int, extra: int, crumbs: list[int]) -> None:
    free = free_chunks * blocks.CHUNK_BYTES
    total = free + (extra + 1) * blocks.CHUNK_BYTES

    counts = blocks.split(free, total, tuple(crumbs))

    assert free == blocks.free_bytes(counts)
    assert blocks.max_order(total) == max(counts)
    assert all(count >= 0 for count in counts.values())


@given(SEEDS)
def test_a_healthy_gpu_waits_loads_and_serves(seed: int) -> None:
    for name, model in MODELS.items():
        idle, loading, serving = (_state(name, seed, moment) for moment in (1.0, 14.0, 60.0))
        pool = {"vram": "vram_used_bytes", "gtt": "gtt_used_bytes"}[model.pool]
        total = {"vram": model.vram_total_bytes, "gtt": model.gtt_total_bytes}[model.pool]

        assert getattr(idle, pool) < 0.01 * total
        assert 0.02 * total < getattr(loading, pool) < 0.6 * total
        assert 0.88 * total < getattr(serving, pool) < 0.93 * total
        assert idle.busy_gfx < loading.busy_gfx < serving.busy_gfx
        assert idle.power_watts < loading.power_watts < serving.power_watts
