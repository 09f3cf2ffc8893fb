"""Which fields of gpu_metrics make up a reading, and how to pick them out at once.

Every revision has its own places and units for the same things; here is the table of them, and what it is compiled to:
one `struct` that skips whatever is not needed, and the limits beside which a number cannot be true.
Sources: the get_gpu_metrics functions in drivers/gpu/drm/amd/pm/swsmu, and the sensors beside them that show the units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from struct import Struct
from typing import NamedTuple

from rocmwatch.kernel import throttle, xgmi
from rocmwatch.kernel.gpu_metrics_layouts import ATTRIBUTE_TABLE, WIDTHS, LayoutField

READING = (  # the order of a plan's numbers; the clocks of the dies come after them
    "temperature_edge",
    "temperature_junction",
    "temperature_memory",
    "power",
    "energy",
    "busy_gfx",
    "busy_memory",
    "clock_sclk",
    "clock_mclk",
)
ENERGY_AT = READING.index("energy")
SCLK_AT = READING.index("clock_sclk")


class Unit(NamedTuple):
    """What to multiply with to come to the base unit, and which numbers can be true (in the file's unit)."""

    scale: float
    low: int
    high: int


_C = Unit(1.0, 1, 200)
_CENTI_C = Unit(0.01, 1, 20_000)
_W = Unit(1.0, 1, 10_000)
_MILLI_W = Unit(
    0.001, 200, 10_000_000
)  # below 0.2 W the firmware counts in watts (Renoir's does, from some version on)
_PERCENT = Unit(0.01, 0, 100)
_CENTI_PERCENT = Unit(0.0001, 0, 10_000)
_MHZ = Unit(1e6, 0, 10_000)
_ENERGY = Unit(2.0**-16, 1, (1 << 64) - 1)
_NEVER = Unit(0.0, 1, 0)

_BITS = {"I": 32, "Q": 64}

DIES = "current_gfxclk"
HBM = "temperature_hbm"
THROTTLED = "indep_throttle_status"
BUSY = "gfx_busy_inst"
CLOCK_SCALE = _MHZ.scale
CLOCK_HIGH = _MHZ.high

# A reading's name -> the kernel's name and the unit. What stands there twice is taken from the second when the first is
# not available.
Sources = tuple[tuple[str, str, Unit], ...]

_RADEON: Sources = (
    ("temperature_edge", "temperature_edge", _C),
    ("temperature_junction", "temperature_hotspot", _C),
    ("temperature_memory", "temperature_mem", _C),
    ("power", "average_socket_power", _W),
    ("energy", "energy_accumulator", _ENERGY),
    ("busy_gfx", "average_gfx_activity", _PERCENT),
    ("busy_memory", "average_umc_activity", _PERCENT),
    ("clock_sclk", "current_gfxclk", _MHZ),
    ("clock_mclk", "current_uclk", _MHZ),
)
_VEGA: Sources = tuple(source for source in _RADEON if source[0] != "energy")  # counted by none, in no known unit
_MI300: Sources = (
    ("temperature_junction", "temperature_hotspot", _C),
    ("temperature_memory", "temperature_mem", _C),
    ("power", "curr_socket_power", _W),
    ("energy", "energy_accumulator", _ENERGY),
    ("busy_gfx", "average_gfx_activity", _PERCENT),
    ("busy_memory", "average_umc_activity", _PERCENT),
    ("clock_mclk", "current_uclk", _MHZ),
)
_APU_2: Sources = (
    ("temperature_edge", "temperature_gfx", _CENTI_C),
    ("power", "average_socket_power", _MILLI_W),
    ("busy_gfx", "average_gfx_activity", _CENTI_PERCENT),
    ("clock_sclk", "current_gfxclk", _MHZ),
    ("clock_sclk", "average_gfxclk_frequency", _MHZ),
    ("clock_mclk", "current_uclk", _MHZ),
    ("clock_mclk", "average_uclk_frequency", _MHZ),
)
_APU_3: Sources = (  # no busy_gfx: percent or 1/100 percent, by the firmware's version; gpu_busy_percent has it right
    ("temperature_edge", "temperature_gfx", _CENTI_C),
    ("power", "average_socket_power", _MILLI_W),
    ("clock_sclk", "average_gfxclk_frequency", _MHZ),
    ("clock_mclk", "average_uclk_frequency", _MHZ),
)
SOURCES: dict[tuple[int, int], Sources] = {
    (1, 0): _VEGA,
    (1, 1): _RADEON,
    (1, 2): _RADEON,
    (1, 3): _RADEON,
    (1, 4): _MI300,
    (1, 5): _MI300,
    (1, 6): _MI300,
    (1, 7): _MI300,
    (1, 8): _MI300,
    (1, 9): _MI300,
    (2, 0): _APU_2,
    (2, 1): _APU_2,
    (2, 2): _APU_2,
    (2, 3): _APU_2,
    (2, 4): _APU_2,
    (3, 0): _APU_3,
}
ATTRIBUTE_UNITS = {attribute.name: attribute.unit for attribute in ATTRIBUTE_TABLE}
"""The unit that an attribute of 1.9 has to announce. One that announces another has been renumbered: it is not used."""


class Plan(NamedTuple):
    """How to turn the bytes of one layout into a reading.

    Attributes:
        header: The file's first bytes: size and revision, which have to be the same for the plan to fit.
        least: The bytes that it needs.
        unpack: Yields only the numbers that are needed.
        pick: Puts them into the order of READING; what there is none of picks the first.
        units: Scale, low and high beside each of them; nothing lies between the limits of what there is none of.
        seconds: (place in the reading, number to take when the first choice was not available), both with one unit.
        dies: Which numbers are the clocks of the dies, for revisions that have several.
        hbm: Which numbers tell, by not being all ones, that the energy's unit is known.
        accumulated: Puts the accumulators into the order of `throttle.ACCUMULATED`; yields nothing where a revision
            has none, and so for the others that may be missing.
        accumulator_bits: Their width.
        throttled: Which number has a bit for each reason to hold the clocks down.
        links: Cuts each of `xgmi.FIELDS` out of the file, for all links: two dozen numbers that nobody needs here.
        busy: Yields how busy each compute die is, percent. For partitioned cards only: nobody else asks.
        busy_by_partition: Whether they come by partition, eight for each, or else by die.
        words: Yields what describes the layout in a file that describes itself (1.9), and `expected` what it was.
    """

    header: bytes
    least: int
    unpack: Callable[[bytes], tuple[int, ...]]
    pick: Callable[[tuple[int, ...]], tuple[int, ...]]
    units: tuple[Unit, ...]
    seconds: tuple[tuple[int, int], ...]
    dies: slice | None
    hbm: slice | None
    accumulated: Callable[[tuple[int, ...]], tuple[int, ...]]
    accumulator_bits: int
    throttled: int | None
    links: Callable[[bytes], tuple[bytes, ...]]
    busy: Callable[[bytes], tuple[int, ...]] | None
    busy_by_partition: bool
    words: Callable[[bytes], tuple[int, ...]] | None
    expected: tuple[int, ...]


def make_plan(
    revision: tuple[int, int],
    layout: Sequence[LayoutField],
    raw: bytes,
    size: int,
    words: Sequence[tuple[int, str]] = (),
) -> Plan:
    """Compiles a layout.

    Args:
        revision: Of the file.
        layout: Its fields.
        raw: The bytes at hand.
        size: What its header says it has.
        words: Offset and type of what describes the layout within the file, where anything does.
    """
    sources = SOURCES[revision]
    names = {name for _, name, _ in sources} | {DIES, HBM, THROTTLED, *throttle.ACCUMULATED}
    needed = sorted({field.name: field for field in layout if field.name in names}.values(), key=_offset)
    starts: dict[str, slice] = {}
    parts = [(0, "B")]  # a byte of the header: the number to pick for what there is none of
    position = 1
    for field in needed:
        parts.append((field.offset, f"{field.count}{field.fmt}"))
        starts[field.name] = slice(position, position + field.count)
        position += field.count
    picks = [0] * len(READING)
    units = [_NEVER] * len(READING)
    seconds = []
    formats = {field.name: field.fmt for field in needed}
    for reading, name, unit in sources:
        at = READING.index(reading)
        if name not in starts:
            continue
        if units[at] is not _NEVER:
            seconds.append((at, starts[name].start))
            continue
        picks[at] = starts[name].start
        units[at] = unit._replace(high=min(unit.high, _greatest(formats[name])))
    read_words = skipping(words).unpack_from if words else None
    accumulators = {formats.get(name) for name in throttle.ACCUMULATED}
    bits = _BITS.get(accumulators.pop() or "", 0) if len(accumulators) == 1 else 0
    busy = [field for field in layout if field.name == BUSY or field.name.endswith(f".{BUSY}")]
    return Plan(
        header=raw[:4],
        least=size,
        unpack=skipping(parts).unpack_from,
        pick=itemgetter(*picks),
        units=tuple(units),
        seconds=tuple(seconds),
        dies=starts.get(DIES) if sources is _MI300 else None,
        hbm=starts.get(HBM) if sources is _RADEON else None,
        accumulated=itemgetter(*(starts[name].start for name in throttle.ACCUMULATED)) if bits else _nothing,
        accumulator_bits=bits,
        throttled=starts[THROTTLED].start if formats.get(THROTTLED) == "Q" else None,
        links=_links(layout),
        busy=skipping((field.offset, f"{field.count}{field.fmt}") for field in busy).unpack_from if busy else None,
        busy_by_partition=len(busy) > 1,
        words=read_words,
        expected=read_words(raw) if read_words else (),
    )


def _nothing(_numbers: object) -> tuple[()]:
    return ()


def _links(layout: Iterable[LayoutField]) -> Callable[[bytes], tuple[bytes, ...]]:
    """Cuts out the counters of the links, and their states where the revision has them."""
    places = {
        field.name: slice(field.offset, field.offset + field.count * WIDTHS[field.fmt])
        for field in layout
        if field.fmt == xgmi.FIELDS.get(field.name)
    }
    if len(places.keys() & {xgmi.READ, xgmi.WRITTEN}) < 2:
        return _nothing
    return itemgetter(*(places.get(name, slice(0, 0)) for name in xgmi.FIELDS))


def skipping(parts: Iterable[tuple[int, str]]) -> Struct:
    """A struct of parts at given offsets, in their order, and pad bytes between them."""
    text = "<"
    end = 0
    for offset, form in parts:
        text += f"{offset - end}x{form}"
        end = offset + Struct(f"<{form}").size
    return Struct(text)


def _offset(field: LayoutField) -> int:
    return field.offset


def _greatest(fmt: str) -> int:
    """The greatest number of a type that is not all ones."""
    bits = 8 * WIDTHS[fmt]
    return (1 << bits) - 2 if fmt.isupper() else (1 << bits - 1) - 1
