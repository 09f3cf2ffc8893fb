"""Which entries of /sys/class/drm are GPUs of ours.

    card0 card1 card1-DP-1 card9 renderD128 version      ls /sys/class/drm

    DRIVER=amdgpu                                        card1/device/uevent
    PCI_CLASS=120000
    PCI_ID=1002:740F
    PCI_SUBSYS_ID=1002:0C34
    PCI_SLOT_NAME=0000:C3:00.0
    MODALIAS=pci:v00001002d0000740Fsv00001002sd00000C34bc12sc00i00

A partitioned MI300 has seven more cards, whose device is a platform device (`amdgpu_xcp_0`) without a PCI address: they
are no GPUs. Numbers of cards change from boot to boot, so that the PCI address is the identity.
Source: drivers/gpu/drm/drm_sysfs.c, drivers/pci/pci-driver.c (pci_uevent), amdgpu_xcp_drv.c.
"""

from __future__ import annotations

import re

_CARD = re.compile(r"card[0-9]+")
_MINOR = re.compile(r"(?:card|renderD)([0-9]{1,7})")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def is_card(name: str) -> bool:
    """Whether a name in /sys/class/drm is a card (`card12`), and no connector (`card1-DP-1`) or render node."""
    return _CARD.fullmatch(name) is not None


def minor_of(name: str) -> int | None:
    """The number in `renderD128` or `card9`; `None` for any other name."""
    found = _MINOR.fullmatch(name)
    return int(found[1]) if found else None


def parse_address(raw: bytes) -> str | None:
    """A PCI address in lower case; `None` for anything else."""
    address = raw.strip().decode("ascii", "backslashreplace").lower()
    return address if _PCI.fullmatch(address) else None


def parse_uevent(raw: bytes) -> dict[str, str]:
    """A device's `uevent` file; lines without an equals sign are left out."""
    text = raw.strip(b"\0").decode("ascii", "backslashreplace")
    pairs = (line.partition("=") for line in text.split("\n"))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def pci_of(uevent: dict[str, str]) -> str | None:
    """The PCI address, in lower case, of a device that the amdgpu driver runs.

    Returns:
        `None` for another driver (radeon has none of the files that we read) and for a device that is not on PCI.
    """
    address = uevent.get("PCI_SLOT_NAME", "").lower()
    return address if uevent.get("DRIVER") == "amdgpu" and _PCI.fullmatch(address) else None
