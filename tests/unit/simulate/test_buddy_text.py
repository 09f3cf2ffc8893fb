from __future__ import annotations

from pathlib import Path

import pytest

from rocmwatch.kernel.buddy import parse_buddy
from rocmwatch.simulate import blocks
from rocmwatch.simulate.buddy_text import Allocator, buddy_text

GIB = 1 << 30
FORMATS = ["F0", "F1", "F2", "F3", "F4"]


def _allocator(total: int, free: int, crumbs: tuple[int, ...] = (3, 0, 0, 2, 0, 0, 0, 0, 0, 7)) -> Allocator:
    return Allocator(
        total_bytes=total,
        used_bytes=total - free,
        visible_used_bytes=total - free,
        free_blocks=blocks.split(free, total, crumbs),
        clear_free_bytes=free // 4,
        reserved=((total - (1 << 20), 4096),),
    )


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("free", [0, 4096, 3 * GIB + 4096, 15 * GIB, 16 * GIB])
def test_the_parser_reads_back_every_format(table_format: str, free: int) -> None:
    allocator = _allocator(16 * GIB, free)

    table = parse_buddy(buddy_text(allocator, table_format))

    assert (table_format, 4096, free, 16 * GIB) == (
        table.format,
        table.chunk_bytes,
        table.free_bytes,
        table.total_bytes,
    )


@pytest.mark.parametrize("table_format", FORMATS)
def test_the_blocks_of_a_half_used_memory_come_back_one_by_one(table_format: str) -> None:
    allocator = _allocator(16 * GIB, 5 * GIB + 12 * 4096)

    table = parse_buddy(buddy_text(allocator, table_format))

    expected = {order: count for order, count in allocator.free_blocks.items() if count}
    assert expected == {order: count for order, count in table.free_blocks.items() if count}


def test_the_newest_format_tells_the_used_blocks_too() -> None:
    table = parse_buddy(buddy_text(_allocator(16 * GIB, 5 * GIB), "F4"))

    assert table.used_blocks is not None
    assert 11 * GIB == blocks.free_bytes(table.used_blocks)


def test_the_table_looks_as_linux_6_12_prints_it() -> None:
    text = buddy_text(_allocator(32 << 20, 5 << 20, (3,)), "F3").decode()

    assert text == (
        "  use_type: 1\n"
        "  use_tt: 0\n"
        "  size: 33554432\n"
        "  usage: 28311552\n"
        "  vis usage:28311552\n"
        "default_page_size: 4KiB\n"
        "chunk_size: 4KiB, total: 32MiB, free: 5MiB, clear_free: 1MiB\n"
        "order-13 free:        0 KiB, blocks: 0\n"
        "order-12 free:        0 KiB, blocks: 0\n"
        "order-11 free:        0 KiB, blocks: 0\n"
        "order-10 free:        4 MiB, blocks: 1\n"
        "order- 9 free:        0 KiB, blocks: 0\n"
        "order- 8 free:        0 KiB, blocks: 0\n"
        "order- 7 free:      512 KiB, blocks: 1\n"
        "order- 6 free:      256 KiB, blocks: 1\n"
        "order- 5 free:      128 KiB, blocks: 1\n"
        "order- 4 free:       64 KiB, blocks: 1\n"
        "order- 3 free:       32 KiB, blocks: 1\n"
        "order- 2 free:       16 KiB, blocks: 1\n"
        "order- 1 free:        0 KiB, blocks: 0\n"
        "order- 0 free:       16 KiB, blocks: 4\n"
        "reserved:\n"
        "0x0000000001f00000-0x0000000001f01000: 4096\n"
    )


@pytest.mark.recorded
@pytest.mark.parametrize(
    "name",
    [
        "healthy.F1_linux-6.1",
        "healthy.F2_linux-6.8",
        "healthy.F3_linux-6.12",
        "fragmented.F1_linux-6.1",
        "fragmented.F3_linux-6.12",
    ],
)
def test_the_same_state_gives_the_same_text_as_elsewhere(recorded: Path, name: str) -> None:
    text = (recorded / f"synthetic/amdgpu_vram_mm/{name}.txt").read_bytes()
    table = parse_buddy(text)
    used = int(text.split(b"usage: ")[1].split()[0])
    allocator = Allocator(
        total_bytes=table.total_bytes or 0,
        used_bytes=used,
        visible_used_bytes=used,
        free_blocks=table.free_blocks,
        clear_free_bytes=table.clear_free_bytes or 0,
        reserved=((0x2FF0000000, 4096),),
    )

    assert text == buddy_text(allocator, name.split(".")[1][:2])
