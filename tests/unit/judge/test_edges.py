"""What the log says: what changed, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocmwatch.judge.edges import Damper, Edge, edges
from rocmwatch.model import (
    Fault,
    Gpu,
    GpuReading,
    GpuSample,
    GpuState,
    Partition,
    Pool,
    ReaderStatus,
    Snapshot,
)

PCI = "0000:05:00.0"
EIO = Fault(source="power", errno="EIO", path="/power1_input")
EBUSY = Fault(source="power", errno="EBUSY", path="/power1_input")


def reading(state: GpuState = GpuState.ACTIVE, *faults: Fault, **gpu: object) -> GpuReading:
    made = replace(Gpu(gpu="0", pci=PCI, pool=Pool.VRAM), **gpu)  # type: ignore[arg-type]
    return GpuReading(gpu=made, state=state, sample=GpuSample(), faults=faults)


def snapshot(*readings: GpuReading, notes: tuple[str, ...] = (), abandoned: int = 0) -> Snapshot:
    return Snapshot(sequence=1, taken_at=0.0, gpus=readings, notes=notes, readers=ReaderStatus(abandoned=abandoned))


def told(old: Snapshot | None, new: Snapshot) -> list[tuple[str, str]]:
    return [(edge.level, edge.event) for edge in edges(old, new)]


WELL = snapshot(reading())


def test_at_first_everything_is_news() -> None:
    new = snapshot(reading(GpuState.ACTIVE, EIO), notes=("no debugfs",), abandoned=1)

    assert [
        Edge("info", "gpu.found", {"gpu": "0", "pci": PCI, "state": "active", "pool": "vram", "partitions": 0}),
        Edge(
            "warning",
            "fields.read_failed",
            {"gpu": "0", "pci": PCI, "errno": "EIO", "fields": "power", "path": "/power1_input"},
        ),
        Edge("warning", "node.limited", {"reason": "no debugfs"}),
        Edge("warning", "readers.abandoned_changed", {"abandoned": 1, "before": 0}),
    ] == list(edges(None, new))


def test_an_hour_without_news_is_an_hour_without_lines() -> None:
    same = snapshot(reading(GpuState.RESETTING, EBUSY), notes=("no debugfs",), abandoned=1)

    assert [] == told(same, replace(same, sequence=2, taken_at=5.0))


@pytest.mark.parametrize(
    ("state", "level"),
    [
        (GpuState.SUSPENDED, "info"),
        (GpuState.STALLED, "warning"),
        (GpuState.RESETTING, "warning"),
        (GpuState.LOST, "warning"),
    ],
)
def test_a_change_of_state_is_told_both_ways(state: GpuState, level: str) -> None:
    there = list(edges(WELL, snapshot(reading(state))))
    back = list(edges(snapshot(reading(state)), WELL))

    facts = {"gpu": "0", "pci": PCI}
    assert [Edge(level, "gpu.state_changed", facts | {"state": state.value, "before": "active"})] == there
    assert [Edge("info", "gpu.state_changed", facts | {"state": "active", "before": state.value})] == back


def test_a_reset_is_one_line_and_not_one_for_each_sensor() -> None:
    many = [replace(EBUSY, source=name) for name in ("power", "temperature_junction", "clock_sclk")]

    assert [("warning", "gpu.state_changed")] == told(WELL, snapshot(reading(GpuState.RESETTING, *many)))
    assert [("warning", "gpu.state_changed"), ("warning", "fields.read_failed")] == told(
        WELL, snapshot(reading(GpuState.RESETTING, *many, EIO))
    )


def test_a_field_that_fails_is_told_when_it_begins_or_fails_otherwise() -> None:
    failing = snapshot(reading(GpuState.ACTIVE, EIO))

    assert [("warning", "fields.read_failed")] == told(WELL, failing)
    assert [] == told(failing, failing)
    assert [("warning", "fields.read_failed")] == told(failing, snapshot(reading(GpuState.ACTIVE, EIO, EBUSY)))
    assert [("info", "fields.read_again")] == told(failing, WELL)


def test_one_cause_in_many_files_is_one_line() -> None:
    many = [replace(EIO, source=name, path=f"/{name}") for name in ("power", "clock_sclk", "busy_gfx")]
    begun = list(edges(WELL, snapshot(reading(GpuState.ACTIVE, *many))))
    spread = list(edges(snapshot(reading(GpuState.ACTIVE, EIO)), snapshot(reading(GpuState.ACTIVE, *many))))

    facts = {"gpu": "0", "pci": PCI, "errno": "EIO"}
    assert [
        Edge("warning", "fields.read_failed", facts | {"fields": "power, clock_sclk, busy_gfx", "path": "/power"})
    ] == begun
    assert [
        Edge("warning", "fields.read_failed", facts | {"fields": "clock_sclk, busy_gfx", "path": "/clock_sclk"})
    ] == spread


def test_a_read_that_flaps_is_told_once_in_a_while_and_everything_else_always() -> None:
    failing = snapshot(reading(GpuState.ACTIVE, EIO))
    damper = Damper(600)
    (begun,), (over,) = edges(WELL, failing), edges(failing, WELL)
    (stalled,) = edges(WELL, snapshot(reading(GpuState.STALLED)))
    other = begun._replace(facts={**begun.facts, "errno": "EBUSY"})

    assert [True, True, False, False, True] == [
        damper.passes(begun, 0.0),
        damper.passes(over, 5.0),
        damper.passes(begun, 10.0),
        damper.passes(over, 15.0),
        damper.passes(other, 15.0),
    ]
    assert [True, False] == [damper.passes(begun, 600.0), damper.passes(begun, 1199.0)]
    assert [True, True] == [damper.passes(stalled, 20.0), damper.passes(stalled, 25.0)]


def test_another_partition_mode_is_told_and_what_moves_in_a_partition_is_not() -> None:
    before = snapshot(reading(compute_partition="SPX"))
    parts = tuple(Partition(partition=str(number), vram_used_bytes=1) for number in range(8))
    after = snapshot(reading(compute_partition="CPX", partitions=parts))
    used = tuple(replace(part, vram_used_bytes=2) for part in parts)

    assert [("info", "gpu.partitions_changed")] == told(before, after)
    assert [] == told(after, snapshot(reading(compute_partition="CPX", partitions=used)))


def test_a_node_without_gpus_says_so_once() -> None:
    assert [("warning", "gpus.none_found")] == told(None, snapshot())
    assert [] == told(snapshot(), snapshot())
    assert [("info", "gpu.found")] == told(snapshot(), WELL)


def test_a_note_comes_and_goes() -> None:
    limited = snapshot(reading(), notes=("no debugfs",))

    assert [("warning", "node.limited")] == told(WELL, limited)
    assert [("info", "node.limit_lifted")] == told(limited, WELL)


def test_readers_that_hang_are_told_when_their_number_changes() -> None:
    assert [("warning", "readers.abandoned_changed")] == told(WELL, snapshot(reading(), abandoned=2))
    assert [("info", "readers.abandoned_changed")] == told(snapshot(reading(), abandoned=2), WELL)


def test_facts_are_plain_values_for_a_log_line() -> None:
    found = list(edges(None, snapshot(reading(GpuState.ACTIVE, EIO), notes=("x",), abandoned=1)))

    assert 4 == len(found)
    assert {str, int} == {type(value) for edge in found for value in edge.facts.values()}
