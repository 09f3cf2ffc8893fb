r"""What the kernel tells of its devices as it happens: messages of the kobject netlink group.

    change@/devices/pci0000:00/.../0000:05:00.0/drm/card1\0ACTION=change\0SUBSYSTEM=drm\0WEDGED=rebind\0...

`WEDGED` says that a GPU hung, and which ways the driver knows to get it back: `none` after a reset that went well by
itself, else a comma list of `rebind`, `bus-reset`, `vendor-specific`, or `unknown`. Linux sends it since about 6.15.
Source: Documentation/gpu/drm-uapi.rst (device wedging), lib/kobject_uevent.c, drivers/gpu/drm/drm_drv.c.
"""

from __future__ import annotations

from typing import NamedTuple

from rocmwatch.kernel.drm import is_card

METHODS = ("none", "rebind", "bus-reset", "vendor-specific", "unknown")


class Wedged(NamedTuple):
    """A GPU that hung.

    Attributes:
        card: Its cardN.
        method: What the kernel says has to be done, the least drastic one: a word of METHODS.
    """

    card: str
    method: str


def parse_wedged(message: bytes) -> Wedged | None:
    """The event in a kernel's message; `None` when it is about something else, as nearly all are."""
    head, *pairs = message.split(b"\0")
    if not head.startswith(b"change@") or b"WEDGED=" not in message:
        return None
    values = dict(pair.partition(b"=")[::2] for pair in pairs)
    card = head.rpartition(b"/")[2].decode("ascii", "replace")
    if values.get(b"SUBSYSTEM") != b"drm" or b"WEDGED" not in values or not is_card(card):
        return None
    said = values[b"WEDGED"].decode("ascii", "replace").split(",")
    return Wedged(card, next((method for method in METHODS if method in said), "unknown"))
