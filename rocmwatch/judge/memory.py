"""What the memory numbers mean: the pool that models live in, and how much of it a large buffer can still get."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rocmwatch.model import Fragmentation, FreeBlocks, Gpu, GpuSample, Pool, frozen

LARGE_BLOCK_BYTES = 2 << 20  # amdgpu composes a large buffer of blocks of at least this (amdgpu_vram_mgr_new)
LEAST_FREE_BYTES = 1 << 30  # with less free, the share of it in small blocks says nothing


class PoolBytes(NamedTuple):
    """The memory pool of a GPU, in bytes; `None` where it was not reported."""

    total_bytes: int | None
    used_bytes: int | None
    free_bytes: int | None


def free_bytes(total_bytes: int | None, used_bytes: int | None) -> int | None:
    """Total less used; `None` when either is not known, or when they contradict each other."""
    if total_bytes is None or used_bytes is None or used_bytes > total_bytes:
        return None
    return total_bytes - used_bytes


def pool_bytes(gpu: Gpu, sample: GpuSample | None) -> PoolBytes:
    """VRAM, or GTT on a unified-memory APU: the two are never added."""
    if sample is None:
        return PoolBytes(None, None, None)
    if gpu.pool is Pool.GTT:
        total, used = sample.gtt_total_bytes, sample.gtt_used_bytes
    else:
        total, used = sample.vram_total_bytes, sample.vram_used_bytes
    return PoolBytes(total, used, free_bytes(total, used))


@lru_cache(maxsize=64)
def fragmentation(table: FreeBlocks) -> Fragmentation:
    """The meaning of a table of free blocks. What matters is the sum over large blocks, not the largest one."""
    sizes = {order: table.chunk_bytes << order for order, _ in table.blocks}
    allocatable = sum(sizes[order] * count for order, count in table.blocks if sizes[order] >= LARGE_BLOCK_BYTES)
    largest = max((sizes[order] for order, count in table.blocks if count), default=0)
    ratio = None if table.free_bytes < LEAST_FREE_BYTES else 1 - allocatable / table.free_bytes
    return Fragmentation(
        free_bytes=table.free_bytes,
        allocatable_bytes=allocatable,
        ratio=ratio,
        largest_free_block_bytes=largest,
        free_blocks=frozen(dict(table.blocks)),
    )
