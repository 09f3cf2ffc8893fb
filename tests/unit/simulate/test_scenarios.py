"""What happens in each scenario, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocmwatch.simulate import MODELS, SCENARIOS, SimulatedNode, blocks, motion
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.scenarios.scene import BEGINS_AT, Cast, Scene, Spell, Trouble

SEED = 3
NODE = Cast(MODELS["mi300x"], SEED, 8)
ALONE = Cast(MODELS["apu"], SEED, 1)


def state(scenario: str, seconds: float, index: int = 1, cast: Cast = NODE) -> State:
    return SCENARIOS[scenario].live(cast, index, seconds)


def scene(scenario: str, seconds: float, cast: Cast = NODE) -> Scene:
    return SCENARIOS[scenario].scene(cast, seconds)


def healthy(seconds: float, index: int = 1, cast: Cast = NODE) -> State:
    return motion.healthy(cast.model, cast.seed, index, seconds)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "suspended"])
def test_until_something_happens_a_node_is_healthy(name: str) -> None:
    for seconds in (0.0, 20.0, 45.0, BEGINS_AT - 12.1):
        assert healthy(seconds) == state(name, seconds)
        plain, special = scene("healthy", seconds), scene(name, seconds)
        assert plain.engines == special.engines
        assert (frozenset(), 0, {}) == (special.lost, special.topology_changes, special.files)


def test_every_scenario_is_named_and_says_what_it_is() -> None:
    assert list(SCENARIOS) == [scenario.name for scenario in SCENARIOS.values()]
    assert all(10 < len(scenario.summary) < 75 for scenario in SCENARIOS.values())


@pytest.mark.parametrize(
    ("seconds", "count", "over", "over_at"),
    [(59.9, 0, 0, 0.0), (60.0, 1, 0, 0.0), (149.0, 1, 0, 0.0), (150.0, 1, 1, 150.0), (361.0, 2, 1, 150.0)],
)
def test_a_spell_comes_and_goes(seconds: float, count: int, over: int, over_at: float) -> None:
    spell = Spell(first=60.0, lasts=90.0, every=300.0)

    assert (count, over, over_at) == (spell.count(seconds), spell.over(seconds), spell.over_at(seconds))
    assert (count > over) == spell.holds(seconds)


# thermal


def test_a_hot_gpu_stays_just_below_its_limits() -> None:
    limits = {sensor.label: dict(sensor.limits_celsius)["crit"] for sensor in NODE.model.sensors}
    hot = state("thermal", 200.0)

    for label, celsius in hot.temperatures_celsius.items():
        assert limits[label] - 3 < celsius < limits[label]


def test_a_hot_gpu_slows_down_and_takes_less_power() -> None:
    cool, hot = healthy(200.0), state("thermal", 200.0)

    assert max(hot.sclk_mhz) < 0.6 * min(cool.sclk_mhz)
    assert NODE.model.power_idle_watts < hot.power_watts < 0.8 * cool.power_watts
    assert hot.energy_joules < cool.energy_joules
    assert "thermal" in hot.throttled
    assert hot.busy_gfx == cool.busy_gfx


def test_residencies_count_on_while_it_is_held_down() -> None:
    before, first, later = (state("thermal", seconds).throttle for seconds in (70.0, 100.0, 110.0))

    assert "socket_thermal" not in {name for name, seconds in before.items() if seconds}
    assert 8.0 == pytest.approx(later["socket_thermal"] - first["socket_thermal"])
    assert 0 < later["hbm_thermal"] - first["hbm_thermal"] < 10


def test_one_or_two_gpus_are_hot_and_the_others_are_not() -> None:
    numbers = set()
    for seed in range(20):
        cast = NODE._replace(seed=seed)
        hot = [
            index for index in range(cast.gpus) if state("thermal", 200.0, index, cast) != healthy(200.0, index, cast)
        ]
        numbers.add(len(hot))
    assert {1, 2} == numbers


def test_the_only_gpu_of_a_node_is_the_hot_one() -> None:
    assert 95 < state("thermal", 200.0, 0, ALONE).temperatures_celsius["edge"] < 100


# fragmenting


def _small(found: State) -> float:
    free = blocks.free_bytes(dict(found.free_blocks))
    large = {order: count for order, count in found.free_blocks.items() if order >= blocks.LARGE_ORDER}
    return 1 - blocks.free_bytes(large) / free


@pytest.mark.parametrize(
    ("seconds", "low", "high"), [(60, 0, 0.01), (160, 0.11, 0.13), (400, 0.3, 0.5), (3000, 0.7, 1)]
)
def test_an_eighth_of_the_free_memory_is_crumbs_after_a_thousand_requests(
    seconds: float, low: float, high: float
) -> None:
    found = state("fragmenting", seconds)

    assert low <= _small(found) <= high
    assert healthy(seconds).vram_used_bytes == found.vram_used_bytes
    assert NODE.model.vram_total_bytes - found.vram_used_bytes == blocks.free_bytes(dict(found.free_blocks))


def test_large_blocks_become_smaller_as_well() -> None:
    largest = [
        max(order for order, count in state("fragmenting", seconds).free_blocks.items() if count)
        for seconds in (60.0, 160.0, 400.0, 3000.0)
    ]
    assert sorted(largest, reverse=True) == largest
    assert largest[-1] < largest[0] - 8


def test_buffers_are_moved_when_there_is_no_room_left() -> None:
    early, late, later = (state("fragmenting", seconds) for seconds in (200.0, 1000.0, 1010.0))

    assert (0, 0.0) == (early.evicted_bytes, early.evicted_seconds)
    assert late.evicted_bytes > 0
    assert 0.5 == pytest.approx(later.evicted_seconds - late.evicted_seconds)


# gpu-lost


def test_one_gpu_goes_and_comes_back_as_a_new_one() -> None:
    assert [frozenset(), {1}, {1}, frozenset(), {1}] == [
        scene("gpu-lost", seconds).lost for seconds in (59.0, 60.0, 149.0, 150.0, 360.0)
    ]
    assert [0, 1, 1, 2, 3] == [
        scene("gpu-lost", seconds).topology_changes for seconds in (59.0, 60.0, 149.0, 150.0, 360.0)
    ]
    back = state("gpu-lost", 200.0)
    assert healthy(50.0).vram_used_bytes == back.vram_used_bytes
    assert back.energy_joules < state("gpu-lost", 59.0).energy_joules
    assert 200.0 == back.seconds


def test_the_engine_of_a_lost_gpu_goes_with_it_and_another_one_starts() -> None:
    runs = [scene("gpu-lost", seconds).engines.get(1) for seconds in (50.0, 100.0, 150.5, 152.0)]

    assert [0, None, None, 1] == [None if run is None else run.number for run in runs]
    assert scene("gpu-lost", 100.0).engines.keys() == set(range(8)) - {1}


# partition-switch


def test_a_node_changes_its_mode_when_nobody_uses_it() -> None:
    modes = {seconds: scene("partition-switch", seconds) for seconds in (50.0, 59.0, 60.5, 90.0, 175.0, 180.5, 190.0)}

    assert ["SPX", "SPX", "CPX", "CPX", "CPX", "SPX", "SPX"] == [one.compute for one in modes.values()]
    assert [8, 0, 0, 8, 0, 0, 8] == [len(one.engines) for one in modes.values()]
    assert [0, 0, 1, 1, 1, 2, 2] == [one.topology_changes for one in modes.values()]
    for seconds, one in modes.items():
        used = state("partition-switch", seconds).vram_used_bytes
        assert one.engines or used == NODE.model.vram_floor_bytes


def test_a_partitioned_node_goes_the_other_way_round() -> None:
    cast = Cast(MODELS["mi300x-cpx"], SEED, 2)

    assert ["CPX", "SPX", "CPX"] == [
        scene("partition-switch", seconds, cast).compute for seconds in (10.0, 70.0, 200.0)
    ]


def test_what_has_no_partitions_cannot_switch_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="partition-switch cannot happen to mi210"):
        SimulatedNode(str(tmp_path), "mi210", 1, "partition-switch")


# suspended


def test_only_gpus_that_nobody_uses_fall_asleep() -> None:
    at = scene("suspended", 100.0)
    asleep = {index for (index, name), _ in at.files.items() if name == "power/runtime_status"}

    assert set(range(1, 8)) == asleep
    assert {0} == at.engines.keys()
    assert {1, 2} == {
        index for (index, name), _ in scene("suspended", 70.0).files.items() if name == "power/runtime_status"
    }
    assert NODE.model.vram_floor_bytes == state("suspended", 100.0).vram_used_bytes
    assert healthy(100.0, 0) == state("suspended", 100.0, 0)


def test_the_only_gpu_of_a_node_sleeps_too() -> None:
    assert (0, "power/runtime_status") in scene("suspended", 70.0, ALONE).files
    assert (0, "power/runtime_status") not in scene("suspended", 130.0, ALONE).files


# hung-gpu, dead-sensors


def test_one_gpu_hangs_for_two_minutes() -> None:
    hanging = scene("hung-gpu", 60.0).files

    assert {1} == {index for index, _ in hanging}
    assert {Trouble.HANGS} == set(hanging.values())
    assert {} == scene("hung-gpu", 180.0).files


def test_every_kind_of_failure_comes_and_goes() -> None:
    seen = {}
    for seconds in range(60, 300):
        seen |= scene("dead-sensors", float(seconds)).files
    gone = {key for key, change in seen.items() if change is Trouble.GONE}
    texts = {change(b"\x10\0\x01\x05" + bytes(12)) for change in seen.values() if not isinstance(change, Trouble)}

    assert {0, 5} == {index for index, _ in gone}
    assert {b"", b"\n", b"0\n", b"unavailable\n", b"Query currently inaccessible\n"} < texts
    assert b"\x10\0\x01\x05" + b"\xff" * 12 in texts
    assert b"\x10\0\x01\x05" + bytes(4) in texts
    assert {} == scene("dead-sensors", 250.0).files
