r"""The link between a card and the host.

    16.0 GT/s PCIe\n        /sys/class/drm/card1/device/current_link_speed; max_link_speed is what the card could do
    16\n                    .../current_link_width, and max_link_width: lanes
    0\n                     .../pcie_replay_count: packets that had to be sent again, since the driver was loaded

Transfers per second and lane. Drivers of the bus say `Unknown` (once `Unknown speed`) for a speed that they have no
word for, and 0, 63 (a register that reads all ones) or 255 for a width: the link is down, or the card does not answer.
The files of the link belong to the PCI core, which, from the end of 2025 on, wakes a sleeping card to read them; the
count belongs to the driver and is a register: so neither is read of a card that sleeps.
Source: drivers/pci/pci-sysfs.c, pci_speed_string in drivers/pci/probe.c; amdgpu_device_get_pcie_replay_count.
"""

from __future__ import annotations

import re

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import BLANK, parse_number, shown

CURRENT_SPEED, MAX_SPEED = "current_link_speed", "max_link_speed"
CURRENT_WIDTH, MAX_WIDTH = "current_link_width", "max_link_width"
REPLAYS = "pcie_replay_count"

_SPEED = re.compile(rb"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
_UNKNOWN = frozenset({b"Unknown", b"Unknown speed"})
_GIGA = 1_000_000_000
_HIGH_GIGATRANSFERS = 256
_NO_WIDTH = (0, 63, 255)
_MOST_LANES = 32
_MOST_REPLAYS = (1 << 64) - 2  # all ones: the register could not be read


def parse_link_speed(raw: bytes) -> float | None:
    """Transfers per second; `None` where the bus does not know.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for anything that is no speed, `ERANGE` for one that cannot
            be true.
    """
    text = raw.strip(BLANK)
    if not text:
        raise ParseError("ENODATA", "empty")
    if text in _UNKNOWN:
        return None
    found = _SPEED.fullmatch(text)
    if found is None:
        raise ParseError("EBADMSG", f"no speed of a link: {shown(text)}")
    speed = float(found[1])
    if not 0 < speed <= _HIGH_GIGATRANSFERS:
        raise ParseError("ERANGE", f"{shown(text)} is no speed of a link")
    return speed * _GIGA


def parse_link_width(raw: bytes) -> int | None:
    """Lanes; `None` where there is no link to speak of.

    Raises:
        ParseError: As `parse_number` does.
    """
    width = parse_number(raw, 0, 255)
    if width in _NO_WIDTH:
        return None
    if width > _MOST_LANES:
        raise ParseError("ERANGE", f"{width} lanes")
    return width


def parse_replays(raw: bytes) -> int:
    """The count of packets that were sent again.

    Raises:
        ParseError: As `parse_number` does.
    """
    return parse_number(raw, 0, _MOST_REPLAYS)
