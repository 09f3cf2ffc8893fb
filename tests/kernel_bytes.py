"""Kernel files for tests, in made-up values: binary metrics packed beside the product's own tables.

Offsets and sizes here come from compiling the kernel's structs and not from `gpu_metrics_layouts`, so that a slip there
does not confirm itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

Place = tuple[int, str, int]  # offset, struct format, value

SIZES = {
    (1, 0): 80,
    (1, 1): 96,
    (1, 2): 104,
    (1, 3): 120,
    (1, 4): 288,
    (1, 5): 360,
    (1, 6): 1664,
    (1, 7): 2208,
    (1, 8): 3872,
    (2, 0): 120,
    (2, 1): 120,
    (2, 2): 128,
    (2, 3): 152,
    (2, 4): 168,
    (3, 0): 264,
}


def metrics(revision: tuple[int, int], places: Iterable[Place] = (), *, size: int | None = None) -> bytes:
    """A gpu_metrics file in which everything but the given places is "not available"."""
    size = SIZES[revision] if size is None else size
    raw = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", raw, 0, size, *revision)
    for offset, form, value in places:
        struct.pack_into(f"<{form}", raw, offset, value)
    return bytes(raw)


def attribute(number: int, unit: int, kind: int, form: str, *values: int) -> bytes:
    """An attribute of gpu_metrics 1.9: `kind` is the type's number, `form` the same for `struct`."""
    word = unit << 24 | kind << 20 | number << 10 | len(values)
    return struct.pack("<Q", word) + struct.pack(f"<{len(values)}{form}", *values)


def attributes(*parts: bytes, revision: tuple[int, int] = (1, 9), count: int | None = None) -> bytes:
    """A gpu_metrics file that describes itself."""
    body = b"".join(parts)
    return struct.pack("<HBBi", 8 + len(body), *revision, len(parts) if count is None else count) + body
