"""The state of a VRAM allocator: how many free blocks of which order add up to the free bytes."""

from __future__ import annotations

CHUNK_BYTES = 4096
LARGE_ORDER = 9  # 2 MiB: the smallest block that the driver composes large buffers of


def split(free_bytes: int, total_bytes: int, crumbs: tuple[int, ...] = ()) -> dict[int, int]:
    """Divides free memory into blocks as a healthy allocator would: as large as they can be, and a few crumbs.

    Args:
        free_bytes: A multiple of the chunk size.
        total_bytes: The size of the memory, which bounds the largest order.
        crumbs: Blocks that lie around in each of the lowest orders, order 0 first, where there is room for them.

    Returns:
        The number of free blocks by order, every order up to the largest, whose bytes are exactly `free_bytes`.
    """
    left = free_bytes // CHUNK_BYTES
    largest = max_order(total_bytes)
    counts = dict.fromkeys(range(largest + 1), 0)
    for order, wanted in enumerate(crumbs[: largest + 1]):
        counts[order] = min(wanted, left >> order)
        left -= counts[order] << order
    for order in range(largest, -1, -1):
        counts[order] += left >> order
        left &= (1 << order) - 1
    return counts


def max_order(total_bytes: int) -> int:
    """The order of the largest block that fits."""
    return (total_bytes // CHUNK_BYTES).bit_length() - 1


def free_bytes(counts: dict[int, int]) -> int:
    """The bytes in all those blocks."""
    return sum(count << order for order, count in counts.items()) * CHUNK_BYTES
