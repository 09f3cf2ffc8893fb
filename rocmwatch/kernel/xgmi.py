"""What went over the links between cards (XGMI), as gpu_metrics counts it from 1.4 on.

    xgmi_read_data_acc 0 91234567 ...   KB of 1024 bytes, by link, since the firmware started
    xgmi_link_status 65535 1 ...        from 1.7 on: 0 inactive, 1 active, 2 not to be told (a virtual function);
                                        all ones for a link that is switched off, or a card that is in no hive

The driver's own file for errors of these links, `xgmi_error`, clears the hardware's count when it is read: never here.
Source: drivers/gpu/drm/amd/pm/swsmu/smu13 (xgmi_read_data_acc); amdgpu_get_xgmi_link_status in amdgpu_xgmi.c.
"""

from __future__ import annotations

from struct import iter_unpack

READ, WRITTEN, STATUS = "xgmi_read_data_acc", "xgmi_write_data_acc", "xgmi_link_status"
FIELDS = {READ: "Q", WRITTEN: "Q", STATUS: "H"}
"""The kernel's fields and their types, in the order in which they travel."""

_KILOBYTE = 1024
_NOT_AVAILABLE = (1 << 64) - 1
_NO_STATUS = 0xFFFF


def link_bytes(kilobytes: bytes, status: bytes = b"") -> dict[str, int]:
    """Bytes by the number of the link.

    A link without a status that never carried anything is none: it has no entry. One that did carry something is there,
    whatever its status: drivers do not know how to ask every card.

    Args:
        kilobytes: A counter for each link, as it is in the file.
        status: The same of its state, where the revision has it.
    """
    states = [state for (state,) in iter_unpack("<H", status)]
    return {
        str(link): count * _KILOBYTE
        for link, (count,) in enumerate(iter_unpack("<Q", kilobytes))
        if count != _NOT_AVAILABLE and (count or link >= len(states) or states[link] != _NO_STATUS)
    }
