"""What may touch a card's management controller (SMU): temperatures, power, clocks, how busy it is, and their limits.

Up to Linux 6.12 reading any of these wakes a sleeping card, so nothing here is opened before the card was seen awake.
hwmon comes first: gpu_metrics is made of the same firmware table, but some cards leave fields of it at zero. It stands
in for what has no file of its own. A file that is there and fails makes its field `None`, whoever else would know it.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.dpm import Level, current_hertz, highest_hertz, parse_dpm
from rocmwatch.kernel.gpu_metrics import Decoder, MetricsReading
from rocmwatch.kernel.hwmon import Reading, plan
from rocmwatch.kernel.number import parse_text
from rocmwatch.observe.files import NOT_ON_THIS_CARD, TEXT_BYTES, Faults, Folder, Numbers, Pinned
from rocmwatch.observe.partition_files import PartitionFiles
from rocmwatch.observe.wire import LIMIT_FIELDS, SENSOR_FIELDS, Part

_LABEL = re.compile(r"(?:temp|freq)[0-9]+_label")
_BUSY = (
    Reading("busy_gfx", "gpu_busy_percent", 0.01, 0, 100, zero_is_absent=False),
    Reading("busy_memory", "mem_busy_percent", 0.01, 0, 100, zero_is_absent=False),
)
_LEVELS = (("pp_dpm_sclk", "clock_sclk", "clock_limit_sclk"), ("pp_dpm_mclk", "clock_mclk", "clock_limit_mclk"))
_SCLK = SENSOR_FIELDS.index("clock_sclk")
_VALUES = len(SENSOR_FIELDS)
_NO_METRICS = MetricsReading(*(None,) * len(SENSOR_FIELDS), xcc_clocks=())  # type: ignore[arg-type,misc]


class SensorReading(NamedTuple):
    """What the sensors say.

    Attributes:
        values: In the order of SENSOR_FIELDS; `None` when they were not asked.
        xcc_clocks: Hertz of each compute die.
        metrics_format: format_revision of gpu_metrics.
        accumulated: What gpu_metrics counts (see `MetricsReading`), and so for the three after it.
        partitions: Busy ratio and clock of each.
    """

    values: "tuple[float | None, ...] | None"
    xcc_clocks: "tuple[float | None, ...]" = ()
    metrics_format: int | None = None
    accumulated: tuple[int, ...] = ()
    accumulator_bits: int = 0
    throttle_status: int | None = None
    links: tuple[bytes, ...] = ()
    partitions: "tuple[tuple[float | None, float | None], ...]" = ()

    def is_empty(self) -> bool:
        """Whether there is not one value."""
        return all(value is None for value in self.values or ())


class SensorFiles:
    """The open sensor files of one card that is awake."""

    def __init__(self, root: str, device: str, parts: tuple[Part, ...], faults: Faults) -> None:
        self._folder = Folder(root, device, forgiving=True, absent=NOT_ON_THIS_CARD)
        self._decoder = Decoder()
        self._partitions = PartitionFiles(root, parts)
        try:
            readings, limits = self._plan(faults)
            self._numbers = Numbers(self._folder, self._pin_all((*readings, *_BUSY), faults), SENSOR_FIELDS)
            self._limits = Numbers(self._folder, self._pin_all(limits, faults), LIMIT_FIELDS)
            self._metrics = self._folder.pin("gpu_metrics", "gpu_metrics", faults, TEXT_BYTES)
            self._partitions.open(faults)
            self._levels = [
                (level, clock, limit)
                for file, clock, limit in _LEVELS
                if (level := self._folder.pin(file, limit, faults, TEXT_BYTES))
            ]
        except BaseException:
            self.close()
            raise
        closed = self._folder.closed
        self._closed = [SENSOR_FIELDS.index(name) for name in closed if name in SENSOR_FIELDS]
        own = {*self._numbers.names, *closed}
        self._clocks = [(SENSOR_FIELDS.index(clock), level) for level, clock, _ in self._levels if clock not in own]

    def close(self) -> None:
        """Closes every file."""
        self._folder.close()
        self._partitions.close()

    def names(self) -> tuple[str, ...]:
        """The fields that have a file."""
        levels = [name for _, clock, limit in self._levels for name in (clock, limit)]
        return (*self._numbers.names, *self._limits.names, *levels, *self._folder.closed)

    def read(self, faults: Faults) -> SensorReading:
        """The readings of now.

        Raises:
            Gone: When a file says that the device is gone which did not say so when it was new.
        """
        metrics, raw = self._read_metrics(faults)
        values: list[Any] = list(metrics[:_VALUES])
        xcc_clocks = metrics.xcc_clocks
        self._numbers.read_into(values, faults)
        for at in self._closed:
            values[at] = None
        if len(xcc_clocks) > 1 and None not in (values[_SCLK], metrics.clock_sclk):
            values[_SCLK] = metrics.clock_sclk  # of the fastest die: hwmon shows one
        for at, level in self._clocks:  # of a card whose clocks nothing else shows
            if values[at] is None:
                values[at] = self._level(level, SENSOR_FIELDS[at], current_hertz, faults)
        partitions = self._partitions.read(self._decoder, raw, xcc_clocks, faults)
        self._folder.forgiving = False
        return SensorReading(
            tuple(values),
            xcc_clocks,
            raw[2] if raw else None,
            metrics.accumulated,
            metrics.accumulator_bits,
            metrics.throttle_status,
            metrics.links,
            partitions,
        )

    def read_limits(self, faults: Faults) -> tuple[float | None, ...]:
        """The limits, in the order of LIMIT_FIELDS.

        Raises:
            Gone: As `read` does.
        """
        values: list[float | None] = [None] * len(LIMIT_FIELDS)
        self._limits.read_into(values, faults)
        for level, _, limit in self._levels:
            values[LIMIT_FIELDS.index(limit)] = self._level(level, limit, highest_hertz, faults)
        return tuple(values)

    def _read_metrics(self, faults: Faults) -> tuple[MetricsReading, bytes]:
        """What gpu_metrics says, and its bytes when they are good."""
        file = self._metrics
        raw = self._folder.read(file, faults) if file else None
        if file is None or raw is None:
            return _NO_METRICS, b""
        try:
            return self._decoder.decode(raw), raw
        except ParseError as error:
            faults.add(file.name, error.errno, file.path)
            return _NO_METRICS, b""

    def _level(
        self, level: Pinned, field: str, choose: Callable[[Iterable[Level]], int | None], faults: Faults
    ) -> float | None:
        raw = self._folder.read(level._replace(name=field), faults)
        if raw is None:
            return None
        if not raw:  # a card without levels says so with an empty line
            faults.add(field, "ENODATA", level.path)
            return None
        try:
            return choose(parse_dpm(raw).levels)
        except ParseError as error:
            faults.add(field, error.errno, level.path)
            return None

    # Opening

    def _plan(self, faults: Faults) -> tuple[list[Reading], list[Reading]]:
        """The readings and limits that the card's hwmon folder has. Its number is another after each driver start."""
        for folder in self._folder.list("hwmon", "hwmon", faults):
            path = f"hwmon/{folder}"
            names = self._folder.list(path, "hwmon", faults)
            if names:
                chosen = plan({name: self._label(path, name, faults) for name in names})
                return _below(path, chosen.readings), _below(path, chosen.limits)
        return [], []

    def _label(self, folder: str, name: str, faults: Faults) -> bytes:
        """The bytes of a label, which is a constant of the driver; of any other file nothing."""
        if _LABEL.fullmatch(name) is None:
            return b""
        raw = self._folder.text(f"{folder}/{name}", name, faults)
        if raw is not None and parse_text(raw) is None:
            faults.add(name, "ENODATA", f"{self._folder.path}/{folder}/{name}")
        return raw or b""

    def _pin_all(self, readings: Iterable[Reading], faults: Faults) -> list[Pinned]:
        pinned = []
        for name, file, scale, low, high, zero_is_absent in readings:
            opened = self._folder.pin(file, name, faults)
            if opened is not None:
                pinned.append(opened._replace(scale=scale, low=low, high=high, zero_is_absent=zero_is_absent))
        return pinned


def _below(folder: str, readings: Iterable[Reading]) -> list[Reading]:
    return [reading._replace(file=f"{folder}/{reading.file}") for reading in readings]
