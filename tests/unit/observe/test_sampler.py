"""How often what is read, and what a snapshot says of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from watching import MINUTE, PACE, Watcher

from rocmwatch.kernel.gpu_metrics import MetricsReading
from rocmwatch.kernel.memory import MEMORY
from rocmwatch.model import GpuSample, PcieLink, Snapshot
from rocmwatch.observe.sampler import Pace
from rocmwatch.observe.sensor_files import SensorReading
from rocmwatch.observe.wire import MEMORY_FIELDS, PCIE_FIELDS, SENSOR_FIELDS, TOTAL_FIELDS, GpuFrame
from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]


def moments(watcher: Watcher, ticks: int, seconds: float, attribute: str) -> list[float]:
    """When something was read, in seconds after the first time, as so many ticks show it."""
    found: list[float] = []
    for _ in range(ticks):
        at = getattr(watcher.tick(seconds).gpus[0], attribute)
        if at not in found:
            found.append(at)
    return [round(at - found[0], 3) for at in found]


def test_memory_is_read_in_every_tick(node: Node, watch: Watch) -> None:
    watcher = watch(node().root, pace=PACE._replace(memory=0.1, sensors=1.0))

    assert [0.0, 0.1, 0.2, 0.3, 0.4] == moments(watcher, 5, 0.1, "sampled_at")


@pytest.mark.parametrize(
    ("memory", "sensors", "expected"),
    [
        (1.0, 1.0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
        (1.0, 5.0, [0.0, 5.0]),
        (2.0, 5.0, [0.0, 4.0, 8.0, 12.0, 16.0]),  # the nearest tick, not the next one
        (5.0, 5.0, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0]),
    ],
)
def test_sensors_are_read_with_the_nearest_tick(
    node: Node, watch: Watch, memory: float, sensors: float, expected: list[float]
) -> None:
    watcher = watch(node().root, pace=PACE._replace(memory=memory, sensors=sensors))

    assert expected == moments(watcher, 10, memory, "sensors_at")


def test_a_tick_that_comes_a_little_early_counts(node: Node, watch: Watch) -> None:
    watcher = watch(node().root, pace=PACE._replace(memory=1.0, sensors=5.0))

    assert 2 == len(moments(watcher, 6, 0.99, "sensors_at"))


def test_an_old_table_of_blocks_is_read_once_a_minute_whatever_is_asked(node: Node, watch: Watch) -> None:
    """It is printed by walking all free blocks under the allocator's lock, up to Linux 6.12."""
    watcher = watch(node().root, pace=PACE._replace(fragmentation=10.0))

    assert [0.0, 60.0, 120.0] == moments(watcher, 26, 5.0, "fragmentation_at")


def test_a_cheap_table_of_blocks_is_read_as_often_as_asked(node: Node, watch: Watch) -> None:
    made = node()
    file = Path(made.root, f"sys/kernel/debug/dri/{made.places[0].pci}/amdgpu_vram_mm")
    file.write_text(
        "  size: 1073741824\n  usage: 0\nchunk_size: 4KiB, total: 1024MiB, free: 1024MiB, clear_free: 0MiB\n"
        "order-18 free:     1024 MiB, used:        0 MiB, free_blocks: 1, used_blocks: 0\n"
        "order- 0 free:        0 KiB, used:        0 KiB, free_blocks: 0, used_blocks: 0\n"
    )
    watcher = watch(made.root, pace=PACE._replace(fragmentation=10.0))

    assert [0.0, 10.0, 20.0, 30.0] == moments(watcher, 8, 5.0, "fragmentation_at")


def test_another_pace_holds_from_the_next_tick_on(node: Node, watch: Watch) -> None:
    watcher = watch(node().root, pace=PACE._replace(memory=1.0, sensors=30.0))
    watcher.tick(1.0)
    watcher.sampler.pace = Pace(memory=1.0, sensors=2.0, deadline=0.5)

    assert [0.0, 2.0, 4.0, 6.0] == moments(watcher, 6, 1.0, "sensors_at")


def test_values_that_move_are_seen_to_move(node: Node, watch: Watch) -> None:
    made = node("mi300x", gpus=2)
    watcher = watch(made.root)
    seen = set()
    for _ in range(5):
        made.step(20.0)
        snapshot = watcher.tick()
        for reading, state in zip(snapshot.gpus, made.states, strict=True):
            assert reading.sample is not None
            assert state.vram_used_bytes == reading.sample.vram_used_bytes
            assert {str(die): mhz * 1e6 for die, mhz in enumerate(state.sclk_mhz)} == reading.sample.xcc_clocks_hertz
            seen.add(reading.sample.energy_joules)

    assert 10 == len(seen)


def test_snapshots_are_numbered_and_dated(node: Node, watch: Watch) -> None:
    watcher = watch(node().root)
    snapshots = [watcher.tick() for _ in range(3)]

    assert [1, 2, 3] == [snapshot.sequence for snapshot in snapshots]
    assert [5.0, 5.0] == [round(b.taken_at - a.taken_at, 3) for a, b in pairwise(snapshots)]


def test_what_was_published_is_not_changed_by_what_comes_later(node: Node, watch: Watch) -> None:
    made = node("mi300x-cpx", gpus=1)
    watcher = watch(made.root)
    first = watcher.tick()
    kept = _frozen(first)
    Path(made.root, made.places[0].device, "mem_info_vram_used").write_text("unavailable\n")
    made.step(100.0)
    for _ in range(15):
        watcher.tick(MINUTE)

    assert kept == _frozen(first)


def _frozen(snapshot: Snapshot) -> str:
    return repr([getattr(snapshot, field.name) for field in dataclasses.fields(snapshot)])


def test_the_version_of_the_driver_is_told_where_it_has_one(node: Node, watch: Watch) -> None:
    """Only ROCm's own driver does."""
    made = node()
    watcher = watch(made.root)
    before = watcher.tick().driver_version
    Path(made.root, "sys/module/amdgpu/version").write_text("6.12.12\n")
    after = watcher.tick(MINUTE).driver_version

    assert (None, "6.12.12") == (before, after)


def test_no_name_changes_on_the_way(node: Node) -> None:
    """Fields travel by their order: it has to be the same at both ends."""
    counters = ("accumulated", "accumulator_bits", "throttle_status", "links")
    assert (*SENSOR_FIELDS, "xcc_clocks", *counters) == MetricsReading._fields
    assert counters == SensorReading._fields[3:-1]
    assert (*counters, "partition_readings", "pcie", "ras") == GpuFrame._fields[-7:]
    assert {f"pcie_{field.name}" for field in dataclasses.fields(PcieLink)} == set(PCIE_FIELDS)
    assert {field.name for field in MEMORY} == {*MEMORY_FIELDS, *TOTAL_FIELDS}
    assert {*MEMORY_FIELDS, *TOTAL_FIELDS} <= {field.name for field in dataclasses.fields(GpuSample)}
