"""What one compute partition is doing, on kernels that give each partition a file of its own.

    /sys/class/drm/renderD129/device/xcp/xcp_metrics        binary, like gpu_metrics, in revisions of its own (1.0, 1.1)

Clocks in MHz and load in percent, for each compute die of the partition; all ones is "not available". The other
kernels have the same numbers in the whole card's gpu_metrics: 1.6 to 1.8 by partition, the rest by die.
Source: drivers/gpu/drm/amd/include/kgd_pp_interface.h (struct amdgpu_partition_metrics_v1_0 and _v1_1),
drivers/gpu/drm/amd/amdgpu/amdgpu_xcp.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rocmwatch.kernel.gpu_metrics import header_of, mean_busy, walk
from rocmwatch.kernel.gpu_metrics_layouts import (
    HEADER_BYTES,
    XCP_ATTRIBUTE_REVISION,
    XCP_LAYOUTS,
    XCP_SIZES,
    LayoutField,
)
from rocmwatch.kernel.gpu_metrics_plan import ATTRIBUTE_UNITS, BUSY, CLOCK_HIGH, CLOCK_SCALE, DIES, skipping

FILE = "xcp/xcp_metrics"


class PartitionReading(NamedTuple):
    """How one partition is doing: `busy_ratio` is the mean of its compute dies, `sclk_hertz` the highest of them."""

    busy_ratio: float | None
    sclk_hertz: float | None


NO_READING = PartitionReading(None, None)


class _Plan(NamedTuple):
    """How to find the two arrays in the bytes of one layout; see `gpu_metrics_plan.Plan`."""

    header: bytes
    least: int
    unpack: Callable[[bytes], tuple[int, ...]]
    clocks: slice
    busy: slice
    words: Callable[[bytes], tuple[int, ...]]
    expected: tuple[int, ...]


class PartitionDecoder:
    """Turns one partition's file into readings, tick after tick; it keeps what it understood of the layout."""

    __slots__ = ("_plan",)

    def __init__(self) -> None:
        self._plan: _Plan | None = None

    def decode(self, raw: bytes) -> PartitionReading:
        """The reading in a file's bytes.

        Raises:
            ParseError: As `gpu_metrics.parse_xcp_metrics` does.
        """
        plan = self._plan
        if (
            plan is None
            or raw[:HEADER_BYTES] != plan.header
            or len(raw) < plan.least
            or plan.words(raw) != plan.expected
        ):
            self._plan = None
            plan = self._plan = _understood(raw)
        numbers = plan.unpack(raw)
        return PartitionReading(mean_busy(numbers[plan.busy]), highest_clock(numbers[plan.clocks]))


def highest_clock(megahertz: Iterable[int]) -> float | None:
    """The highest of what can be true, in hertz."""
    return max((clock * CLOCK_SCALE for clock in megahertz if 0 <= clock <= CLOCK_HIGH), default=None)


def _understood(raw: bytes) -> _Plan:
    size, revision = header_of(raw, XCP_SIZES)
    layout: Sequence[LayoutField]
    words: Sequence[tuple[int, str]] = ()
    if revision == XCP_ATTRIBUTE_REVISION:
        found = walk(raw, size)
        words = found.words
        layout = [f for f, unit in zip(found.layout, found.units, strict=True) if ATTRIBUTE_UNITS.get(f.name) == unit]
    else:
        layout = XCP_LAYOUTS[revision]
    needed = sorted((field for field in layout if field.name in (DIES, BUSY)), key=lambda field: field.offset)
    places = {DIES: slice(0, 0), BUSY: slice(0, 0)}
    position = 0
    for field in needed:
        places[field.name] = slice(position, position + field.count)
        position += field.count
    read_words = skipping(words).unpack_from
    return _Plan(
        header=raw[:HEADER_BYTES],
        least=size,
        unpack=skipping((field.offset, f"{field.count}{field.fmt}") for field in needed).unpack_from,
        clocks=places[DIES],
        busy=places[BUSY],
        words=read_words,
        expected=read_words(raw),
    )
