"""A source succeeded when every GPU that it was asked for answered; else its last success stays where it was."""

from __future__ import annotations

import pytest

from rocmwatch.model import SourceStatus
from rocmwatch.observe.sources import Sources
from rocmwatch.observe.wire import FRAGMENTATION, MEMORY, RAS, SENSOR_FIELDS, SENSORS, GpuFrame, Order

VALUES = (None, 61.0, *(None,) * 7)
EMPTY = (None,) * len(SENSOR_FIELDS)
TABLE = ("F3", 4096, 4096, ((0, 1),))
ERRORS = (("umc", 0, 3, None),)
REFUSED = (SENSORS, "power", "EBUSY", "/power1_input")
WELL = GpuFrame("active", MEMORY | SENSORS, (1, 2, 3), sensors=VALUES)
ASLEEP = GpuFrame("suspended", MEMORY | SENSORS, (1, 2, 3))
WITHOUT_SENSORS = GpuFrame("active", MEMORY | SENSORS, (1, 2, 3), sensors=EMPTY)
RESETTING = GpuFrame("resetting", MEMORY | SENSORS, (1, 2, 3), sensors=EMPTY, faults=(REFUSED,))
ONE_FAILS = GpuFrame("active", MEMORY | SENSORS, (1, None, 3), sensors=VALUES, faults=(REFUSED,))
GONE = GpuFrame("gone")


def last_success(what: int, *frames: GpuFrame | None) -> dict[str, float | None]:
    """When each source succeeded last, if all of them did at 100 and these frames came back at 200."""
    sources = Sources()
    everything = MEMORY | SENSORS | FRAGMENTATION | RAS
    well = WELL._replace(done=everything, table=TABLE, ras=ERRORS)
    sources.note_gpus([(Order("a", everything), well)], 100.0, 0.1, listed=True)
    results = [(Order(str(number), what), frame) for number, frame in enumerate(frames)]
    sources.note_gpus(results, 200.0, 0.2, listed=True)
    return {name: status.last_success_at for name, status in sources.current().items()}


@pytest.mark.parametrize(
    ("frames", "memory", "sensors"),
    [
        ((WELL, WELL), 200.0, 200.0),
        ((WELL, None), 100.0, 100.0),
        ((None, WELL), 100.0, 100.0),
        ((WELL, GONE), 100.0, 100.0),
        ((WELL, ASLEEP), 200.0, 200.0),
        ((WELL, WITHOUT_SENSORS), 200.0, 200.0),
        ((WELL, ONE_FAILS), 200.0, 200.0),
        ((WELL, RESETTING), 200.0, 100.0),
    ],
)
def test_memory_and_sensors(frames: tuple[GpuFrame | None, ...], memory: float, sensors: float) -> None:
    found = last_success(MEMORY | SENSORS, *frames)

    assert (memory, sensors, 100.0) == (found["memory"], found["sensors"], found["fragmentation"])


@pytest.mark.parametrize(
    ("tables", "at"),
    [
        ((TABLE, TABLE), 200.0),
        ((TABLE, "ENOENT"), 200.0),
        (("ENOENT", "ENOENT"), 100.0),
        (("EACCES", "EACCES"), 100.0),
        ((TABLE, "EIO"), 100.0),
        ((TABLE, "EBADMSG"), 100.0),
        ((TABLE, None), 100.0),
    ],
)
def test_fragmentation(tables: tuple[object, ...], at: float) -> None:
    frames = [WELL._replace(table=table) if table else None for table in tables]  # type: ignore[arg-type]

    assert at == last_success(FRAGMENTATION | MEMORY, *frames)["fragmentation"]


ASKED = WELL._replace(done=MEMORY | RAS, ras=ERRORS)
ONE_BLOCK_FAILS = ASKED._replace(faults=((RAS, "ras_gfx", "EINVAL", "/ras/gfx_err_count"),))


@pytest.mark.parametrize(
    ("frames", "at"),
    [
        ((ASKED, ASKED), 200.0),
        ((ASKED, WELL), 200.0),
        ((ASKED, ASKED._replace(ras=())), 200.0),
        ((ASKED._replace(ras=()),), 100.0),
        ((ASKED, ASKED._replace(ras=None)), 100.0),
        ((ASKED, ONE_BLOCK_FAILS), 100.0),
        ((ASKED, None), 100.0),
        ((WELL, WELL), 100.0),
    ],
)
def test_errors(frames: tuple[GpuFrame | None, ...], at: float) -> None:
    """A GPU that was left alone, and one that counts nothing, have nothing to fail."""
    assert at == last_success(MEMORY | RAS, *frames)["ras"]


def test_what_was_not_due_keeps_its_last_words() -> None:
    expected = {"memory": 200.0, "sensors": 100.0, "fragmentation": 100.0, "ras": 100.0}
    assert expected == last_success(MEMORY, WELL)


def test_on_a_node_without_a_gpu_there_is_no_memory_that_fails() -> None:
    sources = Sources()
    sources.note_gpus([], 100.0, 0.1, listed=True)

    assert {"memory": SourceStatus(last_success_at=100.0, duration_seconds=0.1)} == sources.current()


def test_where_it_is_not_known_which_gpus_there_are_no_memory_was_read() -> None:
    sources = Sources()
    sources.note_gpus([], 100.0, 0.1, listed=False)

    assert {} == sources.current()


def test_a_source_that_never_succeeded_has_a_duration_and_no_success() -> None:
    sources = Sources()
    sources.note_gpus([(Order("a", MEMORY), None)], 100.0, 0.1, listed=True)
    sources.note_topology(["nodes"], {}, 100.0, 0.3)

    assert SourceStatus(last_success_at=None, duration_seconds=0.1) == sources.current()["memory"]
    assert SourceStatus(last_success_at=None, duration_seconds=0.3) == sources.current()["topology"]
