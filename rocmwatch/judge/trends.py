"""The last hour of every GPU: rings of points, how steeply they rise, and how quickly counters count. Pure.

A point is the last value within its step; a step without one is a gap. The step is 5 s, or the time between two samples
where that is longer, and there are 720 points at most: an hour at 5 s. Time is monotonic here, so that a clock that is
set changes nothing; a pause of the machine is a gap.

    pool_used_bytes vram_used_bytes gtt_used_bytes      as they are
    temperature_edge temperature_junction ...           degrees Celsius
    clock_sclk clock_mclk                               hertz
    power_watts busy_gfx busy_memory fragmentation_ratio throttle_ratio (the largest of the reasons)
    power_mean_watts evicted_ratio page_faults_per_second
                                                        rates of counters: joules, seconds and faults per second

A counter that goes down was begun anew: that step has no rate.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from rocmwatch.judge.memory import pool_bytes
from rocmwatch.model import GpuReading, GpuState, Snapshot, Trend, frozen

POINTS = 720
STEP_SECONDS = 5.0
SLOPE_SECONDS = 600.0
FEWEST_POINTS = 12  # a slope of fewer is noise
_GAP = math.nan
_SILENT = frozenset({GpuState.STALLED, GpuState.LOST})

_RATES: tuple[tuple[str, Callable[[GpuReading], float | None]], ...] = (
    ("power_mean_watts", lambda reading: reading.sample.energy_joules if reading.sample else None),
    ("evicted_ratio", lambda reading: reading.pressure.evicted_seconds),
    ("page_faults_per_second", lambda reading: reading.pressure.page_faults),
)


class Points(Sequence[float | None]):
    """Values, oldest first, `None` in the gaps. Never changed."""

    __slots__ = ("_values",)

    def __init__(self, values: array[float]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> float | None: ...

    @overload
    def __getitem__(self, index: slice) -> Points: ...

    def __getitem__(self, index: int | slice) -> float | Points | None:
        """A value, or some of them."""
        if isinstance(index, slice):
            return Points(self._values[index])
        value = self._values[index]
        return None if value != value else value  # noqa: PLR0124  # a gap is what is not itself

    def __iter__(self) -> Iterator[float | None]:
        return (None if value != value else value for value in self._values)  # noqa: PLR0124

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True)
class _Ring:
    values: array[float] = field(default_factory=lambda: array("d"))
    seen_in: int = 0  # the last step with a value


class Trends:
    """The rings of a node."""

    def __init__(self) -> None:
        self._step_seconds = STEP_SECONDS
        self._step: int | None = None  # the number of the step that the last points are of
        self._rings: dict[tuple[str, str], _Ring] = {}
        self._counters: dict[tuple[str, str], tuple[float, float]] = {}  # (value, monotonic) as last seen

    def take(
        self, snapshot: Snapshot, now: float, unix: float, interval_seconds: float
    ) -> Mapping[str, Mapping[str, Trend]]:
        """Takes in a snapshot.

        Args:
            snapshot: What was just seen.
            now: Monotonic time.
            unix: The same moment for showing.
            interval_seconds: From snapshot to snapshot.

        Returns:
            The trends by PCI address and name; they do not change any more.
        """
        self._pace(max(STEP_SECONDS, interval_seconds))
        step = int(now // self._step_seconds)
        new = 1 if self._step is None else max(0, step - self._step)
        self._step = step if self._step is None else max(step, self._step)
        self._advance(new)
        for reading in snapshot.gpus:
            for name, value in self._values(reading, now):
                ring = self._rings.setdefault((reading.gpu.pci, name), _Ring(array("d", [_GAP])))
                ring.values[-1] = value
                ring.seen_in = self._step
        return self._published(unix)

    def _pace(self, step_seconds: float) -> None:
        if step_seconds != self._step_seconds:  # points of two paces cannot stand beside each other
            self._step_seconds, self._step = step_seconds, None
            self._rings.clear()

    def _advance(self, steps: int) -> None:
        """Goes on by so many steps; what had no value for the whole time is forgotten."""
        if not steps:
            return
        oldest = (self._step or 0) - POINTS
        self._rings = {key: ring for key, ring in self._rings.items() if ring.seen_in > oldest}
        gaps = array("d", [_GAP]) * min(steps, POINTS)
        for ring in self._rings.values():
            ring.values.extend(gaps)
            del ring.values[:-POINTS]

    def _values(self, reading: GpuReading, now: float) -> Iterator[tuple[str, float]]:
        if reading.state in _SILENT or reading.sample is None:
            return
        for name, value in _levels(reading):
            if value is not None:
                yield name, value
        for name, counter in _RATES:
            count = counter(reading)
            key = (reading.gpu.pci, name)
            before = self._counters.get(key)
            if count is None:
                self._counters.pop(key, None)
            elif before is None or count < before[0] or now - before[1] > SLOPE_SECONDS:
                self._counters[key] = (count, now)
            elif now - before[1] >= self._step_seconds / 2:
                self._counters[key] = (count, now)
                yield name, (count - before[0]) / (now - before[1])

    def _published(self, unix: float) -> Mapping[str, Mapping[str, Trend]]:
        by_gpu: dict[str, dict[str, Trend]] = {}
        for (pci, name), ring in sorted(self._rings.items()):
            points = Points(ring.values[:])
            by_gpu.setdefault(pci, {})[name] = Trend(step_seconds=self._step_seconds, ended_at=unix, points=points)
        return frozen({pci: frozen(trends) for pci, trends in by_gpu.items()})


def slope_per_second(trend: Trend) -> float | None:
    """How a value grows, by least squares over the points of the last ten minutes; `None` with too few of them."""
    window = trend.points[-max(1, int(SLOPE_SECONDS / trend.step_seconds)) :]
    pairs = [(at, value) for at, value in enumerate(window) if value is not None]
    if len(pairs) < FEWEST_POINTS:
        return None
    mean_at = sum(at for at, _ in pairs) / len(pairs)
    mean = sum(value for _, value in pairs) / len(pairs)
    spread = sum((at - mean_at) ** 2 for at, _ in pairs)
    return sum((at - mean_at) * (value - mean) for at, value in pairs) / spread / trend.step_seconds


def _levels(reading: GpuReading) -> Iterator[tuple[str, float | None]]:
    sample = reading.sample
    if sample is None:
        return
    yield "pool_used_bytes", pool_bytes(reading.gpu, sample).used_bytes
    yield "vram_used_bytes", sample.vram_used_bytes
    yield "gtt_used_bytes", sample.gtt_used_bytes
    for sensor, celsius in sample.temperatures_celsius.items():
        yield f"temperature_{sensor}", celsius
    for clock, hertz in sample.clocks_hertz.items():
        yield f"clock_{clock}", hertz
    for engine, ratio in sample.busy_ratio.items():
        yield f"busy_{engine}", ratio
    yield "power_watts", sample.power_watts
    yield "fragmentation_ratio", reading.fragmentation.ratio if reading.fragmentation else None
    yield "throttle_ratio", max(sample.throttle_ratio.values(), default=None)
