"""The VRAM allocator's state as debugfs' amdgpu_vram_mm prints it, in the words of each kernel.

    F0  5.15        a list of ranges in pages (drm_mm)
    F1  6.1, 6.5    chunk_size: 4KiB, total: 196592MiB, free: 112866MiB
                    order-24 free: 65536MiB, pages: 1
    F2  6.8         order-24 free:    65536 MiB, blocks: 1
    F3  6.12        the header goes on: `, clear_free: 3072MiB`
    F4  7.3         order-24 free:    65536 MiB, used:        0 MiB, free_blocks: 1, used_blocks: 0

Source: drivers/gpu/drm/drm_buddy.c (drm_buddy_print) and amdgpu/amdgpu_vram_mgr.c (amdgpu_vram_mgr_debug).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rocmwatch.simulate import blocks
from rocmwatch.simulate.parts import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocator:
    """What the table shows.

    Attributes:
        visible_used_bytes: The part of `used_bytes` that the CPU can reach.
        free_blocks: Number of free blocks by order.
        reserved: First byte and size of the ranges that the driver keeps for itself.
    """

    total_bytes: int
    used_bytes: int
    visible_used_bytes: int
    free_blocks: Mapping[int, int]
    clear_free_bytes: int
    reserved: tuple[tuple[int, int], ...] = ()


def buddy_text(allocator: Allocator, table_format: str) -> bytes:
    """The file's bytes in one of the formats `F0` to `F4`."""
    return _FORMATS[table_format](allocator).encode()


def _f0(allocator: Allocator) -> str:
    pages = allocator.total_bytes // blocks.CHUNK_BYTES
    lines = [f"0x{start:016x}-0x{end:016x}: {end - start}: {word}" for start, end, word in _ranges(allocator, pages)]
    free = sum(count << order for order, count in allocator.free_blocks.items())
    return "\n".join(
        (
            "  use_type: 1",
            "  use_tt: 0",
            f"  size: {pages}",
            *lines,
            f"total: {pages}, used {pages - free} free {free}",
            f"man size:{pages} pages, ram usage:{allocator.used_bytes // MIB}MB, "
            f"vis usage:{allocator.visible_used_bytes // MIB}MB",
            "",
        )
    )


def _ranges(allocator: Allocator, pages: int) -> list[tuple[int, int, str]]:
    """Blocks laid out from the largest down, used pages between them so that they stay apart, as far as these go."""
    spare = pages - sum(count << order for order, count in allocator.free_blocks.items())
    ranges: list[tuple[int, int, str]] = []
    at = 0
    for order in sorted(allocator.free_blocks, reverse=True):
        for _ in range(allocator.free_blocks[order]):
            if at and spare >= 1 << order:
                ranges.append((at, at + (1 << order), "used"))
                at, spare = at + (1 << order), spare - (1 << order)
            ranges.append((at, at + (1 << order), "free"))
            at += 1 << order
    if at < pages:
        ranges.append((at, pages, "used"))
    return ranges


def _f1(allocator: Allocator) -> str:
    def line(order: int, count: int) -> str:
        size, unit = _rounded(count, order)
        return f"order-{order} free: {size}{unit}, pages: {count}"

    return _table(allocator, "", line)


def _f2(allocator: Allocator) -> str:
    return _table(allocator, "", _f2_line)


def _f3(allocator: Allocator) -> str:
    return _table(allocator, f", clear_free: {allocator.clear_free_bytes // MIB}MiB", _f2_line)


def _f4(allocator: Allocator) -> str:
    used = blocks.split(allocator.used_bytes, allocator.total_bytes)

    def line(order: int, count: int) -> str:
        block = blocks.CHUNK_BYTES << order
        size, unit = (MIB, "MiB") if block >= MIB else (1024, "KiB")  # by the block here, by the sum in F1 to F3
        return (
            f"order-{order:2d} free: {count * block // size:8d} {unit}, used: {used[order] * block // size:8d} {unit}, "
            f"free_blocks: {count}, used_blocks: {used[order]}"
        )

    return _table(allocator, f", clear_free: {allocator.clear_free_bytes // MIB}MiB", line)


def _f2_line(order: int, count: int) -> str:
    size, unit = _rounded(count, order)
    return f"order-{order:2d} free: {size:8d} {unit}, blocks: {count}"


def _rounded(count: int, order: int) -> tuple[int, str]:
    size = count * blocks.CHUNK_BYTES << order
    return (size // 1024, "KiB") if size < MIB else (size // MIB, "MiB")


def _table(allocator: Allocator, header_end: str, line: Callable[[int, int], str]) -> str:
    free = sum(count << order for order, count in allocator.free_blocks.items()) * blocks.CHUNK_BYTES
    return "\n".join(
        (
            "  use_type: 1",
            "  use_tt: 0",
            f"  size: {allocator.total_bytes}",
            f"  usage: {allocator.used_bytes}",
            f"  vis usage:{allocator.visible_used_bytes}",
            "default_page_size: 4KiB",
            f"chunk_size: 4KiB, total: {allocator.total_bytes // MIB}MiB, free: {free // MIB}MiB{header_end}",
            *(line(order, allocator.free_blocks[order]) for order in sorted(allocator.free_blocks, reverse=True)),
            "reserved:",
            *(f"0x{start:016x}-0x{start + size:016x}: {size}" for start, size in allocator.reserved),
            "",
        )
    )


_FORMATS: dict[str, Callable[[Allocator], str]] = {"F0": _f0, "F1": _f1, "F2": _f2, "F3": _f3, "F4": _f4}
