"""The VRAM allocator's table of free blocks: the only true measure of fragmentation.

      size: 17163091968                          /sys/kernel/debug/dri/0000:03:00.0/amdgpu_vram_mm
      usage: 9012543488
    chunk_size: 4KiB, total: 16368MiB, free: 7773MiB, clear_free: 512MiB
    order-12 free:       48 MiB, blocks: 3
    order- 0 free:       12 KiB, blocks: 3
    reserved:

| format | kernels | a line of it |
|---|---|---|
| F0 | 5.15 | `0x0000000000000200-0x0000000000000400: 512: free` (pages; no buddy allocator yet) |
| F1 | 6.1, 6.5 | `order-12 free: 48MiB, pages: 3` (they are blocks) |
| F2 | 6.8 | `order-12 free:       48 MiB, blocks: 3` |
| F3 | 6.12 | as F2, and `clear_free` in the head |
| F4 | 7.3 | `order-12 free:       48 MiB, used:        0 MiB, free_blocks: 3, used_blocks: 0` |

A block of order n has chunk size << n bytes. The printed sizes are rounded, the counts are not: only counts are used.
Source: drm_buddy_print in drivers/gpu/drm/drm_buddy.c (now drivers/gpu/buddy.c), amdgpu_vram_mgr_debug, drm_mm_print.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import BLANK, shown

_PAGE = 4096
_MIB = 1 << 20
_HIGH = 1 << 50  # bytes; more is a wrong number
_HIGH_ORDER = 40

_ORDER = re.compile(
    rb"order-\s*([0-9]{1,3})\s+free:\s*[0-9]+\s*[KM]iB,\s*"
    rb"(?:(pages|blocks):\s*([0-9]{1,16})|used:\s*[0-9]+\s*[KM]iB,\s*free_blocks:\s*([0-9]{1,16}),\s*used_blocks:\s*([0-9]{1,16}))"
)
_HEAD = re.compile(
    rb"chunk_size:\s*([0-9]{1,9})\s*KiB,\s*total:\s*([0-9]{1,12})\s*MiB,\s*free:\s*[0-9]{1,12}\s*MiB"
    rb"(?:,\s*clear_free:\s*([0-9]{1,12})\s*MiB)?"
)
_RANGE = re.compile(rb"0x([0-9a-f]{1,16})-0x([0-9a-f]{1,16}):\s*[0-9]+:\s*(free|used)")
_SIZE = re.compile(rb"size:\s*([0-9]{1,16})")


class BuddyTable(NamedTuple):
    """The allocator's state.

    Attributes:
        format: `F0` to `F4`, see above.
        chunk_bytes: The size of a block of order 0.
        free_blocks: Free blocks by order, zeros included.
        used_blocks: The same for blocks in use, where the kernel prints it (F4).
        total_bytes: What the allocator manages.
        free_bytes: The sum over the free blocks.
        clear_free_bytes: The part of it that is known to be zeroed (F3 and F4), in whole MiB.
    """

    format: str
    chunk_bytes: int
    free_blocks: dict[int, int]
    used_blocks: dict[int, int] | None
    total_bytes: int | None
    free_bytes: int
    clear_free_bytes: int | None


def parse_buddy(raw: bytes) -> BuddyTable:
    """Understands the table in any of its five formats.

    A part of a table, as people quote it, is understood as far as it goes; one that begins like the whole file has to
    go down to order 0, as otherwise the read was cut.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` when it is no such table, or one cut short, `ERANGE` when
            the blocks come to more than there is.
    """
    lines = [line.strip(BLANK) for line in raw.split(b"\n")]
    if not any(lines):
        raise ParseError("ENODATA", "empty")
    size = next((int(found[1]) for found in map(_SIZE.fullmatch, lines) if found), None)
    has_orders = any(line.startswith(b"order-") for line in lines)
    table = _orders(lines, size) if has_orders else _ranges(lines, size)
    total = _HIGH if table.total_bytes is None else table.total_bytes
    if not table.free_bytes <= total <= _HIGH:
        raise ParseError("ERANGE", f"{table.free_bytes} free bytes of {table.total_bytes}")
    return table


def _orders(lines: list[bytes], size: int | None) -> BuddyTable:
    """F1 to F4."""
    head = next((found for found in map(_HEAD.fullmatch, lines) if found), None)
    free: dict[int, int] = {}
    used: dict[int, int] = {}
    words: set[bytes] = set()
    for line in lines:
        if not line.startswith(b"order-"):
            continue
        found = _ORDER.fullmatch(line)
        if found is None or int(found[1]) in free:
            raise ParseError("EBADMSG", f"no line of free blocks, or a second one: {shown(line)}")
        order = int(found[1])
        if order > _HIGH_ORDER:
            raise ParseError("ERANGE", f"order {order}")
        free[order] = int(found[3] or found[4])
        if found[5]:
            used[order] = int(found[5])
        words.add(found[2] or b"free_blocks")
    if size is not None and (head is None or 0 not in free):
        raise ParseError("EBADMSG", "the table is cut short")
    if len(words) > 1:
        raise ParseError("EBADMSG", "lines of several formats")
    chunk = int(head[1]) * 1024 if head else _PAGE
    clear = int(head[3]) * _MIB if head and head[3] else None
    total = size if size is not None else int(head[2]) * _MIB if head else None
    form = {b"pages": "F1", b"blocks": "F2" if clear is None else "F3", b"free_blocks": "F4"}[words.pop()]
    free_bytes = sum(count * chunk << order for order, count in free.items())
    return BuddyTable(form, chunk, free, used or None, total, free_bytes, clear)


def _ranges(lines: list[bytes], size: int | None) -> BuddyTable:
    """F0: the free ranges, split into aligned blocks of powers of two as a buddy allocator would hold them."""
    found = [match for match in map(_RANGE.fullmatch, lines) if match]
    if size is None or not found or not any(line.startswith(b"total:") for line in lines):
        raise ParseError("EBADMSG", "no table of blocks, or one that is cut short")
    if size * _PAGE > _HIGH:
        raise ParseError("ERANGE", f"{size} pages")
    free = dict.fromkeys(range(size.bit_length() - 1, -1, -1), 0)
    for start, end in _merged([(int(match[1], 16), int(match[2], 16)) for match in found if match[3] == b"free"]):
        if not start <= end <= size:
            raise ParseError("ERANGE", f"pages {start} to {end} of {size}")
        _split(start, end, free)
    free_bytes = sum(count * _PAGE << order for order, count in free.items())
    return BuddyTable("F0", _PAGE, free, None, size * _PAGE, free_bytes, None)


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        elif merged and merged[-1][1] > start:
            raise ParseError("EBADMSG", f"free pages twice, at {start}")
        else:
            merged.append((start, end))
    return merged


def _split(start: int, end: int, into: dict[int, int]) -> None:
    """Counts the largest aligned blocks that the pages from start to end divide into."""
    while start < end:
        fitting = (end - start).bit_length() - 1
        aligned = (start & -start).bit_length() - 1 if start else fitting
        order = min(fitting, aligned)
        into[order] += 1
        start += 1 << order
