r"""How an MI300 or MI350 is divided.

    CPX\n                   /sys/class/drm/card1/device/current_compute_partition: SPX DPX TPX QPX CPX
    NPS4\n                  .../current_memory_partition: NPS1 NPS2 NPS3 NPS4 NPS6 NPS8
    SPX, DPX, CPX\n         .../available_compute_partition (no mode, a list)

Source: drivers/gpu/drm/amd/amdgpu/amdgpu_gfx.c, amdgpu_gmc.c; Documentation/gpu/amdgpu/process-isolation and
driver-misc ("compute partition", "memory partition").
"""

from __future__ import annotations

import re

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import BLANK, shown

_MODE = re.compile(rb"[A-Z]PX|NPS[0-9]{1,2}")
_NO_MODE = frozenset({b"", b"UNKNOWN", b"NOT SUPPORTED"})


def parse_partition_mode(raw: bytes) -> str | None:
    """The mode in upper case, `SPX` or `NPS1` for one.

    Returns:
        `None` where the driver does not say: an empty file, `UNKNOWN`, `Not supported`.

    Raises:
        ParseError: `EBADMSG` for anything else.
    """
    word = raw.strip(BLANK).upper()
    if word in _NO_MODE:
        return None
    if _MODE.fullmatch(word) is None:
        raise ParseError("EBADMSG", f"no partition mode: {shown(word)}")
    return word.decode("ascii")
