r"""What a DRM client has of a GPU: /proc/PID/fdinfo/FD of an open /dev/dri/renderD* or card*.

    drm-pdev:\t0000:05:00.0         which GPU; of a partition its parent, the partition is told by the node that is open
    drm-client-id:\t42              descriptors that were duplicated or inherited share a client
    drm-memory-vram:\t1048576 KiB   bytes mapped in VRAM; `drm-resident-vram` in newer kernels, `vram mem` (kB) in 5.15
    amd-evicted-vram:\t0 KiB        bytes that belong into VRAM and lie in host memory now (since Linux 6.5)

Without a unit a number is bytes. Memory that is shared within an XGMI hive is counted under each GPU's client, so the
sum of all clients may be more than there is. Linux 5.15 has no client number: there, it is the address space (`pasid`).
Source: Documentation/gpu/drm-usage-stats.rst, drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c.
"""

from __future__ import annotations

from typing import NamedTuple

from rocmwatch.kernel.drm import parse_address

_UNITS = {b"": 1, b"kb": 1 << 10, b"kib": 1 << 10, b"mib": 1 << 20, b"gib": 1 << 30}
_HIGH = 1 << 50  # 1 PiB: more is a wrong number
_DRIVERS = (None, b"amdgpu")  # 5.15 does not name it

# The model's name -> the keys that say it, the best first.
_SIZES: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("vram_bytes", (b"drm-resident-vram", b"drm-memory-vram", b"vram mem")),
    ("gtt_bytes", (b"drm-resident-gtt", b"drm-memory-gtt", b"gtt mem")),
    ("evicted_bytes", (b"amd-evicted-vram",)),
    ("requested_bytes", (b"amd-requested-vram",)),
)


class Client(NamedTuple):
    """A DRM client of an AMD GPU.

    Attributes:
        pci: The GPU's address.
        client: What tells clients of one GPU apart, within one kernel.
        vram_bytes: Mapped in VRAM; `None` where the file does not say, and so for the others.
    """

    pci: str
    client: str
    vram_bytes: int | None
    gtt_bytes: int | None
    evicted_bytes: int | None
    requested_bytes: int | None


def parse_fdinfo(raw: bytes) -> Client | None:
    """The client behind a descriptor; `None` when it is none of an AMD GPU.

    Lines that make no sense are ignored: drivers and kernels add their own.
    """
    values: dict[bytes, bytes] = {}
    for line in raw.splitlines():
        key, colon, value = line.partition(b":")
        if colon:
            values.setdefault(key.strip(), value.strip())
    pci = parse_address(values.get(b"drm-pdev") or values.get(b"pdev") or b"")
    if pci is None or values.get(b"drm-driver") not in _DRIVERS:
        return None
    name = b"drm-client-id" if b"drm-client-id" in values else b"pasid"
    client = f"{name.decode()} {values.get(name, b'').decode('ascii', 'backslashreplace')}"
    sizes = (next((size for key in keys if (size := _bytes(values.get(key))) is not None), None) for _, keys in _SIZES)
    return Client(pci, client, *sizes)


def _bytes(text: bytes | None) -> int | None:
    number, _, unit = (text or b"").partition(b" ")
    factor = _UNITS.get(unit.strip().lower())
    if factor is None or not number.isdigit() or len(number) > 20:
        return None
    value = int(number) * factor
    return value if value <= _HIGH else None
