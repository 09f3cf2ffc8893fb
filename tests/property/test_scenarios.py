"""Whatever the seed and the moment: what a scenario makes of a GPU is possible, and always the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocmwatch.simulate import MODELS, SCENARIOS, blocks
from rocmwatch.simulate.motion import GTT_FLOOR_BYTES
from rocmwatch.simulate.places import places
from rocmwatch.simulate.processes import processes
from rocmwatch.simulate.scenarios.scene import Cast
from rocmwatch.simulate.stage import in_mode

SEEDS = st.integers(min_value=0, max_value=1 << 32)
MOMENTS = st.floats(min_value=0, max_value=86_400, allow_nan=False)
CASTS = st.builds(
    lambda model, seed, gpus: Cast(MODELS[model], seed, min(gpus, len(MODELS[model].pci))),
    st.sampled_from(list(MODELS)),
    SEEDS,
    st.integers(1, 8),
)
NAMES = st.sampled_from(list(SCENARIOS))


@given(NAMES, CASTS, MOMENTS)
def test_a_gpu_is_possible_in_every_scenario(name: str, cast: Cast, seconds: float) -> None:
    model = cast.model
    for index in range(cast.gpus):
        state = SCENARIOS[name].live(cast, index, seconds)
        assert seconds == state.seconds
        assert model.vram_floor_bytes <= state.vram_used_bytes <= model.vram_total_bytes
        assert model.vram_total_bytes == state.vram_used_bytes + blocks.free_bytes(dict(state.free_blocks))
        assert 0 < state.busy_gfx <= 1
        assert model.power_idle_watts <= state.power_watts <= model.power_cap_watts
        assert all(0 < clock <= model.sclk.levels_mhz[-1] for clock in state.sclk_mhz)
        assert all(0 <= share for share in state.throttle.values())
        for sensor in model.sensors:
            critical = dict(sensor.limits_celsius).get("crit", 100)
            assert 20 < state.temperatures_celsius[sensor.label] < critical


@given(NAMES, CASTS, MOMENTS)
def test_the_same_moment_is_always_the_same(name: str, cast: Cast, seconds: float) -> None:
    scenario = SCENARIOS[name]

    assert scenario.live(cast, 0, seconds) == scenario.live(cast, 0, seconds)
    one, two = scenario.scene(cast, seconds), scenario.scene(cast, seconds)
    assert (one.engines, one.compute, one.lost, one.topology_changes, one.files.keys()) == (
        two.engines,
        two.compute,
        two.lost,
        two.topology_changes,
        two.files.keys(),
    )


@given(
    st.sampled_from(["healthy", "thermal", "hung-gpu", "suspended", "fragmenting", "dead-sensors"]),
    CASTS,
    MOMENTS,
    st.floats(min_value=0.1, max_value=1000),
)
def test_counters_rise_where_no_life_begins_anew(name: str, cast: Cast, seconds: float, later: float) -> None:
    for index in range(cast.gpus):
        one, two = (SCENARIOS[name].live(cast, index, moment) for moment in (seconds, seconds + later))
        assert one.energy_joules < two.energy_joules
        assert one.busy_gfx_seconds < two.busy_gfx_seconds
        assert one.evicted_seconds <= two.evicted_seconds
        for reason, held in one.throttle.items():
            assert held <= two.throttle[reason]
            assert two.throttle[reason] - held <= later * 1.001


@settings(max_examples=15)
@given(CASTS)
def test_energy_is_the_sum_of_power_of_a_hot_gpu_too(cast: Cast) -> None:
    start, end, step = 50.0, 130.0, 0.1
    live = SCENARIOS["thermal"].live
    moments = [start + step * number for number in range(1, int((end - start) / step) + 1)]
    summed = sum(live(cast, cast.victim, moment).power_watts * step for moment in moments)

    gained = live(cast, cast.victim, end).energy_joules - live(cast, cast.victim, start).energy_joules
    assert gained == pytest.approx(summed, rel=0.03)


@given(NAMES, CASTS, MOMENTS)
def test_what_is_held_and_the_drivers_floor_are_what_is_used(name: str, cast: Cast, seconds: float) -> None:
    if not SCENARIOS[name].suits(cast.model):
        return
    scene = SCENARIOS[name].scene(cast, seconds)
    model = in_mode(cast.model, scene.compute)
    gpus = tuple(gpu for gpu in places(model, cast.gpus, cast.seed) if gpu.index not in scene.lost)
    states = {gpu.index: SCENARIOS[name].live(cast, gpu.index, seconds) for gpu in gpus}

    held: dict[str, int] = {}
    host: dict[str, int] = {}
    pids = set()
    for process in processes(model, gpus, states, scene.engines):
        assert process.pid not in pids
        pids |= set(range(process.pid, process.pid + process.threads))
        for client in process.clients:
            held[client.pci] = held.get(client.pci, 0) + client.vram_bytes
            host[client.pci] = host.get(client.pci, 0) + client.gtt_bytes
    for gpu in gpus:
        state = states[gpu.index]
        assert state.vram_used_bytes == model.vram_floor_bytes + held[gpu.pci]
        assert gpu.index not in scene.engines or state.gtt_used_bytes == GTT_FLOOR_BYTES + host[gpu.pci]
