"""All sensors of a GPU in one binary read.

    78 00 01 03 29 00 2e 00 34 00 ...       structure_size 120, format 1, content 3, then 41 C, 46 C, 52 C
                                            /sys/class/drm/card1/device/gpu_metrics

| family | temperatures | busy | power | clocks | energy |
|---|---|---|---|---|---|
| 1.x | degrees C | percent | W | MHz | 2^-16 J (15.259 uJ) where the unit is known, see below |
| 2.x (APU) | 1/100 degree C | 1/100 percent | mW | MHz | - |
| 3.0 (APU) | 1/100 degree C | percent | mW | MHz | - |

A field whose bits are all ones is "not available": the driver fills the struct with 0xff before it writes. A longer file
than its revision needs is fine (the rest is not looked at), a shorter one is refused, and so is a revision that is not
known: its fields may lie anywhere.
In 1.1 to 1.3 the energy counter has the unit above on MI200 only; Radeons that count at all have been seen counting
millijoules in 32 bits that wrap. MI200 is told by its temperature_hbm, which no other card of these revisions fills.
A 0 for power is a second die, whose sister reports for both, or an MI50, whose hwmon is right: absence, not 0 W.
Source: drivers/gpu/drm/amd/include/kgd_pp_interface.h, the get_gpu_metrics functions in drivers/gpu/drm/amd/pm/swsmu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.gpu_metrics_layouts import (
    ATTRIBUTE_REVISION,
    ATTRIBUTE_TYPES,
    ATTRIBUTES,
    CELSIUS,
    HEADER_BYTES,
    LAYOUTS,
    MEGAHERTZ,
    NONE,
    PERCENT,
    SIZES,
    WATTS,
    WIDTHS,
    LayoutField,
)
from rocmwatch.kernel.number import shown

Values = dict[str, "int | None | tuple[int | None, ...]"]

_HEADER = Struct("<HBB")
_ATTRIBUTE_HEADER = Struct("<HBBi")
_WORD = Struct("<Q")


class Metrics(NamedTuple):
    """A whole file, field by field, under the kernel's names and in the kernel's units; all ones is `None`."""

    format_revision: int
    content_revision: int
    fields: Values


class MetricsReading(NamedTuple):
    """What is sampled of it, in base units; `None` is "not reported", or a number that cannot be true.

    Attributes:
        temperature_edge: Degrees Celsius, and so for the others.
        temperature_junction: The hottest place of the chip.
        temperature_memory: The hottest memory stack.
        power: Watts; never 0.
        energy: Joules, a counter.
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


# --- which fields make up a reading, and in which unit they come -------------------------------------------------------


class _Unit(NamedTuple):
    """Low and high are what can be true, in the file's unit; all ones is cut off by the field's width."""

    scale: float
    low: int
    high: int


_C = _Unit(1.0, 1, 200)
_CENTI_C = _Unit(0.01, 1, 20_000)
_W = _Unit(1.0, 1, 10_000)
_MILLI_W = _Unit(0.001, 1, 10_000_000)
_PERCENT = _Unit(0.01, 0, 100)
_CENTI_PERCENT = _Unit(0.0001, 0, 10_000)
_MHZ = _Unit(1e6, 0, 10_000)
_ENERGY = _Unit(2.0**-16, 1, (1 << 64) - 1)
_DIES = "current_gfxclk"
_HBM = "temperature_hbm"

_Source = tuple[str, _Unit]  # a field's name in the kernel, and its unit
_Sources = tuple["_Source | None", ...]  # in the order of MetricsReading's first nine fields

_RADEON: _Sources = (
    ("temperature_edge", _C),
    ("temperature_hotspot", _C),
    ("temperature_mem", _C),
    ("average_socket_power", _W),
    ("energy_accumulator", _ENERGY),
    ("average_gfx_activity", _PERCENT),
    ("average_umc_activity", _PERCENT),
    ("current_gfxclk", _MHZ),
    ("current_uclk", _MHZ),
)
_MI300: _Sources = (
    None,
    ("temperature_hotspot", _C),
    ("temperature_mem", _C),
    ("curr_socket_power", _W),
    ("energy_accumulator", _ENERGY),
    ("average_gfx_activity", _PERCENT),
    ("average_umc_activity", _PERCENT),
    None,
    ("current_uclk", _MHZ),
)
_APU_2: _Sources = (
    ("temperature_gfx", _CENTI_C),
    None,
    None,
    ("average_socket_power", _MILLI_W),
    None,
    ("average_gfx_activity", _CENTI_PERCENT),
    None,
    ("current_gfxclk", _MHZ),
    ("current_uclk", _MHZ),
)
_APU_3: _Sources = (
    ("temperature_gfx", _CENTI_C),
    None,
    None,
    ("average_socket_power", _MILLI_W),
    None,
    ("average_gfx_activity", _PERCENT),
    None,
    ("average_gfxclk_frequency", _MHZ),
    ("average_uclk_frequency", _MHZ),
)
_ENERGY_AT = MetricsReading._fields.index("energy")
_SCLK_AT = MetricsReading._fields.index("clock_sclk")
_ATTRIBUTE_UNITS = {_C: CELSIUS, _W: WATTS, _PERCENT: PERCENT, _MHZ: MEGAHERTZ, _ENERGY: NONE}


def _sources(revision: tuple[int, int]) -> _Sources:
    if revision[0] == 1:
        return _RADEON if revision[1] < 4 else _MI300
    return _APU_2 if revision[0] == 2 else _APU_3


# --- the cold path: every field --------------------------------------------------------------------------------------


def parse_gpu_metrics(raw: bytes) -> Metrics:
    """Every field of the file.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for a revision that is not known, or for fewer bytes than the
            header or the revision say.
    """
    size, revision = _header(raw)
    if revision == ATTRIBUTE_REVISION:
        return Metrics(*revision, _values(raw, _attribute_layout(raw, size)[0]))
    return Metrics(*revision, _values(raw, LAYOUTS[revision]))


def _header(raw: bytes) -> tuple[int, tuple[int, int]]:
    """(structure_size, (format, content)) of a file that holds what they promise."""
    if len(raw) < HEADER_BYTES:
        raise ParseError("EBADMSG" if raw else "ENODATA", f"{len(raw)} bytes of gpu_metrics")
    size, form, content = _HEADER.unpack_from(raw)
    revision = (form, content)
    least = SIZES.get(revision)
    if least is None:
        raise ParseError("EBADMSG", f"gpu_metrics of an unknown revision {form}.{content} ({shown(raw[:8])})")
    if size < least or len(raw) < size:
        raise ParseError("EBADMSG", f"gpu_metrics {form}.{content} needs {least} bytes, says {size} and has {len(raw)}")
    return size, revision


def _attribute_layout(raw: bytes, size: int) -> tuple[tuple[LayoutField, ...], tuple[int, ...], list[tuple[int, str]]]:
    """Walks the attributes of 1.9: their layout, their unit numbers, and where what says so lies (offset, type)."""
    count = _ATTRIBUTE_HEADER.unpack_from(raw)[3]
    offset = _ATTRIBUTE_HEADER.size
    fields = []
    units = []
    words = [(HEADER_BYTES, "i")]
    if count < 0:
        raise ParseError("EBADMSG", f"gpu_metrics with {count} attributes")
    for _ in range(count):
        if offset + _WORD.size > size:
            raise ParseError("EBADMSG", f"gpu_metrics of {count} attributes ends after {len(words) - 1}")
        encoding = _WORD.unpack_from(raw, offset)[0]
        words.append((offset, "Q"))
        offset += _WORD.size
        kind, number, values = encoding >> 20 & 0xF, encoding >> 10 & 0x3FF, encoding & 0x3FF
        if kind >= len(ATTRIBUTE_TYPES):
            raise ParseError("EBADMSG", f"gpu_metrics attribute {number} of an unknown type {kind}")
        fmt = ATTRIBUTE_TYPES[kind]
        if number in ATTRIBUTES and values:
            fields.append(LayoutField(ATTRIBUTES[number], fmt, values, offset))
            units.append(encoding >> 24 & 0xFF)
        offset += WIDTHS[fmt] * values
        if offset > size:
            raise ParseError("EBADMSG", f"gpu_metrics attribute {number} goes beyond the end")
    return tuple(fields), tuple(units), words


def _values(raw: bytes, layout: Iterable[LayoutField]) -> Values:
    values: Values = {}
    for field in layout:
        missing = _all_ones(field.fmt)
        numbers = tuple(
            None if number == missing else number
            for number in Struct(f"<{field.count}{field.fmt}").unpack_from(raw, field.offset)
        )
        values.setdefault(field.name, numbers[0] if field.count == 1 else numbers)
    return values


def _all_ones(fmt: str) -> int:
    return -1 if fmt.islower() else (1 << 8 * WIDTHS[fmt]) - 1


# --- the hot path: the fields of a reading ---------------------------------------------------------------------------


class _Plan(NamedTuple):
    """How to turn one file layout into a reading.

    `unpack` yields only the numbers that are needed, `pick` puts them into the order of `MetricsReading`, and `units`
    is beside that. An absent field picks any number and has a range that holds none.
    """

    least: int
    unpack: Callable[[bytes], tuple[int, ...]]
    pick: Callable[[tuple[int, ...]], tuple[int, ...]]
    units: tuple[tuple[float, int, int], ...]
    dies: slice | None
    hbm: slice | None
    words: Callable[[bytes], tuple[int, ...]] | None
    expected: tuple[int, ...]


_NEVER = (0.0, 1, 0)


def _plan(
    layout: Sequence[LayoutField], sources: _Sources, least: int, word_offsets: Sequence[tuple[int, str]], raw: bytes
) -> _Plan:
    by_name = {field.name: field for field in reversed(layout)}
    names = {source[0] for source in sources if source is not None} | {_DIES}
    if sources is _RADEON:
        names.add(_HBM)
    needed = sorted((by_name[name] for name in names if name in by_name), key=lambda field: field.offset)
    starts = {}
    position = 0
    for field in needed:
        starts[field.name] = position
        position += field.count
    picks = []
    units: list[tuple[float, int, int]] = []
    for source in sources:
        if source is None or source[0] not in starts:
            picks.append(0)
            units.append(_NEVER)
        else:
            name, unit = source
            picks.append(starts[name])
            units.append((unit.scale, unit.low, min(unit.high, _greatest(by_name[name].fmt))))
    dies = by_name.get(_DIES)
    hbm = by_name.get(_HBM) if sources is _RADEON and any(picks) else None
    words = _skipping(word_offsets).unpack_from if word_offsets else None
    return _Plan(
        least=least,
        unpack=_skipping([(field.offset, f"{field.count}{field.fmt}") for field in needed]).unpack_from,
        pick=itemgetter(*picks),
        units=tuple(units),
        dies=slice(starts[_DIES], starts[_DIES] + dies.count) if dies and sources is _MI300 else None,
        hbm=slice(starts[_HBM], starts[_HBM] + hbm.count) if hbm else None,
        words=words,
        expected=words(raw) if words else (),
    )


def _greatest(fmt: str) -> int:
    """The greatest number of a type that is not all ones."""
    return (1 << 8 * WIDTHS[fmt]) - 2 if fmt.isupper() else (1 << 8 * WIDTHS[fmt] - 1) - 1


def _skipping(parts: Iterable[tuple[int, str]]) -> Struct:
    """A struct of parts at given offsets, and pad bytes between them."""
    text = "<"
    at = 0
    for offset, form in parts:
        text += f"{offset - at}x{form}"
        at = offset + Struct(f"<{form}").size
    return Struct(text)


class Decoder:
    """Turns one GPU's gpu_metrics into readings, tick after tick.

    It keeps the compiled layout between ticks: a layout changes only with the driver. Every read is checked against it
    (the header; for 1.9 also every attribute's encoding word), and understood anew when it differs.
    """

    __slots__ = ("_header", "_plan")

    def __init__(self) -> None:
        self._header = b""
        self._plan: Any = None

    def decode(self, raw: bytes) -> MetricsReading:
        """The reading in a file's bytes.

        Raises:
            ParseError: As `parse_gpu_metrics` does.
        """
        plan: _Plan = self._plan
        if (
            raw[:HEADER_BYTES] != self._header
            or len(raw) < plan.least
            or (plan.words and plan.words(raw) != plan.expected)
        ):
            plan = self._understand(raw)
        numbers = plan.unpack(raw)
        values = [
            number * scale if low <= number <= high else None
            for number, (scale, low, high) in zip(plan.pick(numbers), plan.units)
        ]
        if plan.hbm is not None and min(numbers[plan.hbm]) == 0xFFFF:
            values[_ENERGY_AT] = None
        if plan.dies is None:
            return MetricsReading(*values, ())
        clocks = tuple([number * 1e6 if 0 <= number <= 10_000 else None for number in numbers[plan.dies]])
        values[_SCLK_AT] = max([clock for clock in clocks if clock is not None], default=None)
        return MetricsReading(*values, clocks)

    def _understand(self, raw: bytes) -> _Plan:
        self._header = b""
        size, revision = _header(raw)
        if revision == ATTRIBUTE_REVISION:
            layout, units, words = _attribute_layout(raw, size)
            expected = {source[0]: _ATTRIBUTE_UNITS[source[1]] for source in _MI300 if source} | {_DIES: MEGAHERTZ}
            known = [field for field, unit in zip(layout, units) if expected.get(field.name) == unit]
            plan = _plan(known, _MI300, size, words, raw)
        else:
            plan = _plan(LAYOUTS[revision], _sources(revision), size, (), raw)
        self._header, self._plan = raw[:HEADER_BYTES], plan
        return plan
