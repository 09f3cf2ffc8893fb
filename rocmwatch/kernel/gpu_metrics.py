"""All sensors of a GPU in one binary read.

    78 00 01 03 29 00 2e 00 34 00 ...       structure_size 120, format 1, content 3, then 41 C, 46 C, 52 C
                                            /sys/class/drm/card1/device/gpu_metrics

| family | temperatures | busy | power | clocks | energy |
|---|---|---|---|---|---|
| 1.x | degrees C | percent | W | MHz | 2^-16 J (15.259 uJ) where the unit is known, see below |
| 2.x (APU) | 1/100 degree C | 1/100 percent | mW | MHz | - |
| 3.0 (APU) | 1/100 degree C | depends on the firmware | mW | MHz | - |

A field whose bits are all ones is "not available": the driver fills the struct with 0xff before it writes. A longer
file than its revision needs is fine (the rest is not looked at), a shorter one is refused, and so is a revision that is
not known: its fields may lie anywhere.
In 1.1 to 1.3 the energy counter has the unit above on MI200 only: Radeons have been seen counting millijoules in 32
bits that wrap, and newer kernels put 2^32 - 1 there for cards that stopped counting. MI200 is told by temperature_hbm,
which no other card of these revisions fills.
A 0 for power is a second die, whose sister reports for both, or an MI50, whose hwmon is right: absence, not 0 W.
Source: drivers/gpu/drm/amd/include/kgd_pp_interface.h, the get_gpu_metrics functions in drivers/gpu/drm/amd/pm/swsmu.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.gpu_metrics_layouts import (
    ATTRIBUTE_REVISION,
    ATTRIBUTE_TYPES,
    ATTRIBUTES,
    HEADER_BYTES,
    LAYOUTS,
    SIZES,
    WIDTHS,
    XCP_ATTRIBUTE_REVISION,
    XCP_LAYOUTS,
    XCP_SIZES,
    LayoutField,
)
from rocmwatch.kernel.gpu_metrics_plan import (
    ATTRIBUTE_UNITS,
    CLOCK_HIGH,
    CLOCK_SCALE,
    ENERGY_AT,
    SCLK_AT,
    Plan,
    make_plan,
)
from rocmwatch.kernel.number import shown

Value = int | tuple[int | None, ...] | None

_HEADER = Struct("<HBB")
_COUNT = Struct("<i")
_WORD = Struct("<Q")
_MISSING_U16 = 0xFFFF
_MISSING_U64 = (1 << 64) - 1
DIES_OF_A_PARTITION = 8  # places for them in each partition's struct


class Metrics(NamedTuple):
    """A whole file, field by field, under the kernel's names and in the kernel's units; all ones is `None`."""

    format_revision: int
    content_revision: int
    fields: dict[str, Value]


class MetricsReading(NamedTuple):
    """What is sampled of it, in base units; `None` is "not reported", or a number that cannot be true.

    Attributes:
        temperature_edge: Degrees Celsius, and so for the others.
        temperature_junction: The hottest place of the chip.
        temperature_memory: The hottest memory stack.
        power: Watts; never 0.
        energy: Joules, a counter; never 0.
        busy_gfx: Ratio, 0 to 1.
        busy_memory: The same of the memory controller.
        clock_sclk: Hertz; the highest of the dies.
        clock_mclk: Hertz.
        xcc_clocks: The graphics clock of each compute die; empty where the revision knows only one clock.
        accumulated: Accumulators, as they are in the file and in the order of `throttle.ACCUMULATED`: what they mean is
            told from two readings. Empty where the revision has none.
        accumulator_bits: Their width; 0 without any.
        throttle_status: What `throttle.throttled_now` understands.
        links: For each of `xgmi.FIELDS` the bytes of all links, for `xgmi.link_bytes`.
    """

    temperature_edge: float | None
    temperature_junction: float | None
    temperature_memory: float | None
    power: float | None
    energy: float | None
    busy_gfx: float | None
    busy_memory: float | None
    clock_sclk: float | None
    clock_mclk: float | None
    xcc_clocks: tuple[float | None, ...]
    accumulated: tuple[int, ...] = ()
    accumulator_bits: int = 0
    throttle_status: int | None = None
    links: tuple[bytes, ...] = ()


def is_apu(format_revision: int) -> bool:
    """Whether a format is one that only APUs report (2 and 3)."""
    return format_revision in (2, 3)


def parse_gpu_metrics(raw: bytes) -> Metrics:
    """Every field of the file that is known by name.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for a revision that is not known, or for fewer bytes than the
            header or the revision say.
    """
    size, revision = header_of(raw, SIZES)
    layout = walk(raw, size).layout if revision == ATTRIBUTE_REVISION else LAYOUTS[revision]
    return Metrics(*revision, _values(raw, layout))


def parse_xcp_metrics(raw: bytes) -> Metrics:
    """The same for a partition's own file (`xcp/xcp_metrics`), which has other layouts under its revisions.

    Raises:
        ParseError: As `parse_gpu_metrics` does.
    """
    size, revision = header_of(raw, XCP_SIZES)
    layout = walk(raw, size).layout if revision == XCP_ATTRIBUTE_REVISION else XCP_LAYOUTS[revision]
    return Metrics(*revision, _values(raw, layout))


def mean_busy(percents: Iterable[int]) -> float | None:
    """The mean of what can be true, as a ratio."""
    known = [percent for percent in percents if 0 <= percent <= 100]
    return sum(known) / len(known) / 100 if known else None


class Decoder:
    """Turns one GPU's gpu_metrics into readings, tick after tick.

    It keeps the compiled layout between ticks, as a layout changes only with the driver. Every file is checked against
    it (the header, and for 1.9 every attribute's encoding word), and understood anew when it differs.
    """

    __slots__ = ("_plan",)

    def __init__(self) -> None:
        self._plan = _NOTHING

    def decode(self, raw: bytes) -> MetricsReading:
        """The reading in a file's bytes.

        Raises:
            ParseError: As `parse_gpu_metrics` does.
        """
        plan = self._plan
        if (
            raw[:HEADER_BYTES] != plan.header
            or len(raw) < plan.least
            or (plan.words is not None and plan.words(raw) != plan.expected)
        ):
            plan = self._understand(raw)
        numbers = plan.unpack(raw)
        values: list[float | None] = [
            number * scale if low <= number <= high else None
            for number, (scale, low, high) in zip(plan.pick(numbers), plan.units, strict=False)
        ]
        if plan.hbm is not None and min(numbers[plan.hbm]) == _MISSING_U16:
            values[ENERGY_AT] = None
        for at, second in plan.seconds:
            if values[at] is None and numbers[second] <= CLOCK_HIGH:
                values[at] = numbers[second] * CLOCK_SCALE
        clocks: tuple[float | None, ...] = ()
        if plan.dies is not None:
            clocks = tuple([n * CLOCK_SCALE if 0 <= n <= CLOCK_HIGH else None for n in numbers[plan.dies]])
            values[SCLK_AT] = max([clock for clock in clocks if clock is not None], default=None)
        status = None if plan.throttled is None else numbers[plan.throttled]
        return MetricsReading._make(
            (
                *values,
                clocks,
                plan.accumulated(numbers),
                plan.accumulator_bits,
                status if status != _MISSING_U64 else None,
                plan.links(raw),
            )
        )

    def busy(self, raw: bytes, number: int, dies: slice) -> float | None:
        """How busy one partition is, 0 to 1: the mean of its compute dies; `None` where the file does not say.

        Args:
            raw: The bytes that were decoded last.
            number: The partition's number.
            dies: Its dies, among all of the card.
        """
        plan = self._plan
        if plan.busy is None:
            return None
        if plan.busy_by_partition:
            dies = slice(DIES_OF_A_PARTITION * number, DIES_OF_A_PARTITION * (number + 1))
        return mean_busy(plan.busy(raw)[dies])

    def _understand(self, raw: bytes) -> Plan:
        self._plan = _NOTHING
        size, revision = header_of(raw, SIZES)
        if revision == ATTRIBUTE_REVISION:
            found = walk(raw, size)
            trusted = [
                field
                for field, unit in zip(found.layout, found.units, strict=True)
                if ATTRIBUTE_UNITS.get(field.name) == unit
            ]
            self._plan = make_plan(revision, trusted, raw, size, found.words)
        else:
            self._plan = make_plan(revision, LAYOUTS[revision], raw, size)
        return self._plan


class Walk(NamedTuple):
    """What a file of attributes is made of.

    Attributes:
        layout: Its known attributes.
        units: The unit number of each of them.
        words: Offset and type of everything that describes the layout: the count, and the encoding words.
    """

    layout: tuple[LayoutField, ...]
    units: tuple[int, ...]
    words: tuple[tuple[int, str], ...]


def header_of(raw: bytes, sizes: Mapping[tuple[int, int], int]) -> tuple[int, tuple[int, int]]:
    """(structure_size, (format, content)) of a file that has what they promise."""
    if len(raw) < HEADER_BYTES:
        raise ParseError("EBADMSG" if raw else "ENODATA", f"{len(raw)} bytes are no metrics")
    size, form, content = _HEADER.unpack_from(raw)
    least = sizes.get((form, content))
    if least is None:
        raise ParseError("EBADMSG", f"metrics of an unknown revision, {form}.{content}: {shown(raw[:8])}")
    if size < least or len(raw) < size:
        raise ParseError("EBADMSG", f"metrics {form}.{content} take {least} bytes; these say {size}, have {len(raw)}")
    return size, (form, content)


def walk(raw: bytes, size: int) -> Walk:
    """Goes from attribute to attribute: an encoding word says unit, type, number and count, and values follow it."""
    (count,) = _COUNT.unpack_from(raw, HEADER_BYTES)
    if count < 0:
        raise ParseError("EBADMSG", f"metrics of {count} attributes")
    offset = HEADER_BYTES + _COUNT.size
    layout: dict[str, LayoutField] = {}
    units: dict[str, int] = {}
    words = [(HEADER_BYTES, "i")]
    for index in range(count):
        if offset + _WORD.size > size:
            raise ParseError("EBADMSG", f"metrics of {count} attributes end after {index}")
        (encoding,) = _WORD.unpack_from(raw, offset)
        words.append((offset, "Q"))
        offset += _WORD.size
        kind, number, values = encoding >> 20 & 0xF, encoding >> 10 & 0x3FF, encoding & 0x3FF
        if kind >= len(ATTRIBUTE_TYPES):
            raise ParseError("EBADMSG", f"metrics attribute {number} has an unknown type, {kind}")
        name = ATTRIBUTES.get(number)
        if name is not None and values and name not in layout:
            layout[name] = LayoutField(name, ATTRIBUTE_TYPES[kind], values, offset)
            units[name] = encoding >> 24 & 0xFF
        offset += WIDTHS[ATTRIBUTE_TYPES[kind]] * values
        if offset > size:
            raise ParseError("EBADMSG", f"metrics attribute {number} goes beyond the end")
    return Walk(tuple(layout.values()), tuple(units.values()), tuple(words))


def _values(raw: bytes, layout: Iterable[LayoutField]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, fmt, count, offset in layout:
        missing = -1 if fmt.islower() else (1 << 8 * WIDTHS[fmt]) - 1
        numbers = tuple(
            None if number == missing else number for number in Struct(f"<{count}{fmt}").unpack_from(raw, offset)
        )
        values[name] = numbers[0] if count == 1 else numbers
    return values


_NOTHING = make_plan((1, 3), (), b"", 1 << 32)  # fits no file
