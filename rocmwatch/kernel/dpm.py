"""The clock levels of a card, and which one it is at.

    S: 19Mhz *              pp_dpm_sclk of a card in deep sleep: "S" comes before the levels
    0: 500Mhz
    1: 800Mhz *             pp_dpm_mclk: the star marks the current level
    0: 16.0GT/s, x16 619Mhz *     pp_dpm_pcie: the clock comes last, or is left out

MHz (written `Mhz`). Cards have been seen with no star (off), two stars, a starred 0 MHz (graphics off), an unstarred
`S`, no space at the ends of lines, NULs up to a page, and with a lone newline: nothing to say. After a fatal memory
error an MI300 says `unavailable`.
Source: drivers/gpu/drm/amd/pm/amdgpu_pm.c (amdgpu_get_pp_dpm_clock), the emit_clk_levels functions in pm/swsmu.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import BLANK, shown

_LINE = re.compile(rb"(S|[0-9]{1,3}): {0,8}(?:([0-9]{1,9}) ?[Mm][Hh]z)? {0,8}(\*)?")
_LINK = re.compile(rb"(?<=: )[0-9.]{1,6}GT/s, {0,2}x[0-9]{1,2}(?![0-9])")
_HIGH_MHZ = 10_000


class Level(NamedTuple):
    """One level: its index as the file has it (`"S"`, `"0"`), its clock in hertz, and whether it is starred."""

    index: str  # type: ignore[assignment]  # the tuple's own method of that name is not missed
    hertz: int
    current: bool


class DpmLevels(NamedTuple):
    """The levels of one clock, in the order of the file."""

    levels: tuple[Level, ...]


def parse_dpm(raw: bytes) -> DpmLevels:
    """The levels in a `pp_dpm_*` file; none for an empty line. A PCIe level without a clock is left out.

    Raises:
        ParseError: `EBADMSG` for a line that is no level, `ERANGE` above 10 GHz.
    """
    levels = []
    for line in raw.strip(BLANK).split(b"\n"):
        text = line.strip(BLANK)
        if not text:
            continue
        without_link, links = _LINK.subn(b"", text, count=1)
        found = _LINE.fullmatch(without_link)
        if found is None or not (found[2] or links):
            raise ParseError("EBADMSG", f"no clock level: {shown(text)}")
        if not found[2]:
            continue
        megahertz = int(found[2])
        if megahertz > _HIGH_MHZ:
            raise ParseError("ERANGE", f"{megahertz} MHz is above {_HIGH_MHZ}")
        levels.append(Level(found[1].decode("ascii"), megahertz * 1_000_000, found[3] is not None))
    return DpmLevels(tuple(levels))


def current_hertz(levels: Iterable[Level]) -> int | None:
    """The clock of the starred level; of the last one when several are, `None` when none is."""
    starred = [level.hertz for level in levels if level.current]
    return starred[-1] if starred else None


def highest_hertz(levels: Iterable[Level]) -> int | None:
    """The clock of the highest level: a limit, and therefore never 0 (cards that are off say 0 for all levels)."""
    return max((level.hertz for level in levels), default=0) or None
