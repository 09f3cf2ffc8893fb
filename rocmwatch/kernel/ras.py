r"""What a card counted of its own hardware errors (RAS: reliability, availability, serviceability).

    ue: 0\n                 /sys/class/drm/card1/device/ras/gfx_err_count: uncorrectable, the data is lost
    ce: 12\n                correctable: ECC repaired it
    de: 1\n                 umc_err_count of newer drivers: deferred, bad data that nobody has used so far

Counts since the driver was loaded: the driver adds up what it takes out of the hardware's own counters, and that is
what a read makes it do. It asks the hardware, so these files are read a hundred times less often than a sensor.
While the driver handles a fatal error, or resets the card, the text is `Query currently inaccessible`: the driver's way
to say EBUSY. Such a file is in its format, and nothing is wrong with it but the moment.
Source: drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c (amdgpu_ras_sysfs_read, which makes every file of this name).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import BLANK, shown

FOLDER = "ras"
_FILE = re.compile(r"([a-z][a-z0-9_]{0,30})_err_count")
_LINE = re.compile(rb"([a-z]{1,8}): ([0-9]{1,20})")
_INACCESSIBLE = b"Query currently inaccessible"
_HIGH = 1 << 48


class ErrorCounts(NamedTuple):
    """What one block of the chip counted; `deferred` is `None` where the block does not tell them apart."""

    uncorrectable: int
    correctable: int
    deferred: int | None


def block_of(file: str) -> str | None:
    """The block that a file of the folder is about (`umc` of `umc_err_count`); `None` for any other file."""
    match = _FILE.fullmatch(file)
    return match[1] if match else None


def parse_error_counts(raw: bytes) -> ErrorCounts | None:
    """The counts in a `*_err_count` file; `None` when they cannot be asked for just now.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for another format or a text that was cut short, `ERANGE`
            for a count that cannot be true.
    """
    text = raw.strip(BLANK)
    if not text:
        raise ParseError("ENODATA", "empty")
    if text == _INACCESSIBLE:
        return None
    counts: dict[bytes, int] = {}
    for line in text.split(b"\n"):
        found = _LINE.fullmatch(line.strip(BLANK))
        if found is None or found[1] in counts:
            raise ParseError("EBADMSG", f"no count of errors: {shown(line)}")
        counts[found[1]] = int(found[2])
    if not {b"ue", b"ce"} <= counts.keys() or raw[-1:].isdigit():  # the last digits may be missing
        raise ParseError("EBADMSG", f"cut short: {shown(raw)}")
    if max(counts.values()) > _HIGH:
        raise ParseError("ERANGE", f"{max(counts.values())} errors")
    return ErrorCounts(counts[b"ue"], counts[b"ce"], counts.get(b"de"))
