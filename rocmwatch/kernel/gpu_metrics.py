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


def is_apu(format_revision: int) -> bool:
    """Whether a format is one that only APUs report (2 and 3)."""
    return format_revision in (2, 3)


def parse_gpu_metrics(raw: bytes) -> Metrics:
    """Every field of the file that is known by name.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for a revision that is not known, or for fewer bytes than the
            header or the revision say.
    """
    size, revision = _header(raw, SIZES)
    layout = _walk(raw, size).layout if revision == ATTRIBUTE_REVISION else LAYOUTS[revision]
    return Metrics(*revision, _values(raw, layout))


def parse_xcp_metrics(raw: bytes) -> Metrics:
    """The same for a partition's own file (`xcp/xcp_metrics`), which has other layouts under its revisions.

    Raises:
        ParseError: As `parse_gpu_metrics` does.
    """
    size, revision = _header(raw, XCP_SIZES)
    layout = _walk(raw, size).layout if revision == XCP_ATTRIBUTE_REVISION else XCP_LAYOUTS[revision]
    return Metrics(*revision, _values(raw, layout))


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
        if plan.dies is None:
            return MetricsReading._make((*values, ()))
        clocks = tuple([number * CLOCK_SCALE if 0 <= number <= CLOCK_HIGH else None for number in numbers[plan.dies]])
        values[SCLK_AT] = max([clock for clock in clocks if clock is not None], default=None)
        return MetricsReading._make((*values, clocks))

    def _understand(self, raw: bytes) -> Plan:
        self._plan = _NOTHING
        size, revision = _header(raw, SIZES)
        if revision == ATTRIBUTE_REVISION:
            walk = _walk(raw, size)
            trusted = [
                field
                for field, unit in zip(walk.layout, walk.units, strict=True)
                if ATTRIBUTE_UNITS.get(field.name) == unit
            ]
            self._plan = make_plan(revision, trusted, raw, size, walk.words)
        else:
            self._plan = make_plan(revision, LAYOUTS[revision], raw, size)
        return self._plan


class _Walk(NamedTuple):
    """What a file of attributes is made of.

    Attributes:
        layout: Its known attributes.
        units: The unit number of each of them.
        words: Offset and type of everything that describes the layout: the count, and the encoding words.
    """

    layout: tuple[LayoutField, ...]
    units: tuple[int, ...]
    words: tuple[tuple[int, str], ...]


def _header(raw: bytes, sizes: Mapping[tuple[int, int], int]) -> tuple[int, tuple[int, int]]:
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


def _walk(raw: bytes, size: int) -> _Walk:
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
    return _Walk(tuple(layout.values()), tuple(units.values()), tuple(words))


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
