"""What memory numbers mean: the pool, and what of it a large buffer can get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocmwatch.judge.memory import PoolBytes, fragmentation, free_bytes, pool_bytes
from rocmwatch.model import FreeBlocks, Gpu, GpuSample, Pool

GIB = 1 << 30
CHUNK = 4096


def table(blocks: dict[int, int], chunk: int = CHUNK) -> FreeBlocks:
    """A table of (order -> free blocks)."""
    free = sum(chunk * count << order for order, count in blocks.items())
    return FreeBlocks(format="F3", chunk_bytes=chunk, free_bytes=free, blocks=tuple(blocks.items()))


@pytest.mark.parametrize(
    ("total", "used", "free"),
    [
        (100, 40, 60),
        (100, 100, 0),
        (100, 0, 100),
        (None, 40, None),
        (100, None, None),
        (None, None, None),
        (10, 11, None),
    ],
)
def test_free_is_what_total_and_used_leave_when_they_agree(
    total: int | None, used: int | None, free: int | None
) -> None:
    assert free == free_bytes(total, used)


SAMPLE = GpuSample(vram_total_bytes=100, vram_used_bytes=30, gtt_total_bytes=1000, gtt_used_bytes=200)


@pytest.mark.parametrize(
    ("pool", "sample", "expected"),
    [
        (Pool.VRAM, SAMPLE, PoolBytes(100, 30, 70)),
        (Pool.GTT, SAMPLE, PoolBytes(1000, 200, 800)),
        (Pool.VRAM, GpuSample(vram_total_bytes=100, gtt_total_bytes=9, gtt_used_bytes=1), PoolBytes(100, None, None)),
        (Pool.GTT, GpuSample(vram_total_bytes=100, vram_used_bytes=30), PoolBytes(None, None, None)),
        (Pool.VRAM, None, PoolBytes(None, None, None)),
    ],
)
def test_the_pool_is_vram_or_gtt_and_never_both(pool: Pool, sample: GpuSample | None, expected: PoolBytes) -> None:
    assert expected == pool_bytes(Gpu(gpu="0", pci="0000:05:00.0", pool=pool), sample)


def test_what_a_large_buffer_can_get_is_the_sum_of_blocks_of_2_mib_and_more() -> None:
    found = fragmentation(table({18: 1, 10: 2, 9: 4, 8: 512, 0: 9}))

    assert GIB + 2 * (4 << 20) + 4 * (2 << 20) == found.allocatable_bytes
    assert GIB == found.largest_free_block_bytes
    assert 1 - found.allocatable_bytes / found.free_bytes == found.ratio
    assert {18: 1, 10: 2, 9: 4, 8: 512, 0: 9} == found.free_blocks


def test_memory_that_is_whole_is_not_fragmented_and_dust_is() -> None:
    assert (0.0, 1.0) == (fragmentation(table({19: 1})).ratio, fragmentation(table({0: 1 << 19})).ratio)


def test_many_blocks_of_2_mib_are_as_good_as_a_large_one() -> None:
    assert 0.0 == fragmentation(table({9: 4096})).ratio


@pytest.mark.parametrize(
    ("blocks", "known"), [({18: 1}, True), ({17: 1, 8: 511}, False), ({}, False), ({18: 0}, False)]
)
def test_with_less_than_a_gib_free_the_share_says_nothing(blocks: dict[int, int], known: bool) -> None:
    found = fragmentation(table(blocks))

    assert known == (found.ratio is not None)
    assert 0 <= found.allocatable_bytes <= found.free_bytes


def test_the_size_of_a_chunk_is_the_drivers() -> None:
    """64 KiB chunks: 2 MiB are order 5 then."""
    found = fragmentation(table({14: 1, 5: 3, 4: 100}, chunk=64 << 10))

    assert GIB + 3 * (2 << 20) == found.allocatable_bytes


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 1 << 30), max_size=30), st.sampled_from([4096, 8192, 65536]))
def test_any_table_makes_sense(blocks: dict[int, int], chunk: int) -> None:
    found = fragmentation(table(blocks, chunk))

    assert 0 <= found.allocatable_bytes <= found.free_bytes
    assert found.largest_free_block_bytes <= found.free_bytes
    assert found.ratio is None or 0.0 <= found.ratio <= 1.0
