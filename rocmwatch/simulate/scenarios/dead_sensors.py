"""`dead-sensors`: sensors fail in every way that drivers have, on one GPU after the other, and come back.

    without a file      hwmon attributes that are not there
    empty               a query that failed prints an empty line, or nothing at all
    0                   after a fatal hardware error the backend says "fine" and writes no value
    garbage, unavailable, Query currently inaccessible
    gpu_metrics         cut short, or all ones: a dead device

A file that goes is emptied before, so that whoever has it open does not go on reading the last value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.scenarios.healthy import live
from rocmwatch.simulate.scenarios.scene import Cast, Change, Scenario, Scene, Spell, Trouble, engines_of

_ALL_AGAIN_SECONDS = 240.0


def _always(text: bytes) -> Callable[[bytes], bytes]:
    return lambda _: text


def _cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def _all_ones(raw: bytes) -> bytes:
    """The header is the driver's own; the rest is what a device that is dead answers."""
    return raw[:4] + b"\xff" * (len(raw) - 4)


class _Death(NamedTuple):
    """Which files of which GPU die how, and when.

    Attributes:
        gpu: Counted round where there are fewer.
        begin: Seconds.
        end: Seconds.
    """

    gpu: int
    begin: float
    end: float
    files: Callable[[Model], tuple[str, ...]]
    change: Change


def _temperatures(model: Model) -> tuple[str, ...]:
    return tuple(f"hwmon/temp{sensor.number}_input" for sensor in model.sensors)


def _power(_: Model) -> tuple[str, ...]:
    return "hwmon/power1_average", "hwmon/power1_input"


def _clocks(model: Model) -> tuple[str, ...]:
    return tuple(f"hwmon/freq{clock.hwmon_number}_input" for clock in (model.sclk, model.mclk))


def _levels(model: Model) -> tuple[str, ...]:
    return model.sclk.dpm_file, model.mclk.dpm_file


def _errors(model: Model) -> tuple[str, ...]:
    return tuple(f"ras/{block}_err_count" for block in model.ras_blocks)


def _metrics(_: Model) -> tuple[str, ...]:
    return ("gpu_metrics",)


def _busy(_: Model) -> tuple[str, ...]:
    return "gpu_busy_percent", "mem_busy_percent"


_DEATHS = (
    _Death(0, 60, 120, _temperatures, Trouble.GONE),
    _Death(0, 130, 190, _power, _always(b"\n")),
    _Death(1, 60, 120, _power, _always(b"0\n")),
    _Death(1, 130, 190, _metrics, _cut),
    _Death(2, 65, 125, _temperatures, _always(b"0\n")),
    _Death(2, 65, 125, _levels, _always(b"unavailable\n")),
    _Death(2, 60, 190, _errors, _always(b"Query currently inaccessible\n")),
    _Death(3, 70, 130, _metrics, _all_ones),
    _Death(3, 140, 200, _busy, _always(b"")),
    _Death(4, 75, 135, _clocks, _always(b"4294967295\xff?\n")),
    _Death(5, 80, 140, _power, Trouble.GONE),
    _Death(5, 80, 140, _metrics, _all_ones),
)


def _dead(cast: Cast, seconds: float) -> Iterator[tuple[tuple[int, str], Change]]:
    for death in _DEATHS:
        spell = Spell(death.begin, death.end - death.begin, _ALL_AGAIN_SECONDS)
        if spell.holds(seconds):
            for file in death.files(cast.model):
                yield (death.gpu % cast.gpus, file), death.change


def scene(cast: Cast, seconds: float) -> Scene:
    """What fails at the moment."""
    return Scene(engines=engines_of(cast, seconds), files=dict(_dead(cast, seconds)))


DEAD_SENSORS = Scenario(
    name="dead-sensors", summary="sensors vanish, print nothing, 0 or garbage, and come back", live=live, scene=scene
)
