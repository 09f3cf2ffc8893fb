"""`fragmenting`: the free memory stays what it is, and breaks into ever smaller blocks, request after request.

Blocks below 2 MiB are of no use for large buffers: after a thousand requests that is an eighth of what is free, and it
goes on to three quarters. Then buffers have to be moved to make room, and queues stop meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rocmwatch.simulate import blocks, motion
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import MIB
from rocmwatch.simulate.scenarios.scene import BEGINS_AT, Cast, Scenario

_REQUESTS_PER_SECOND = 10.0
_FIRST_REQUESTS = 1000.0
_FIRST_RATIO = 0.12
_LAST_RATIO = 0.75
_MORE_REQUESTS = 4000.0
_SHARES = {8: 0.60, 7: 0.25, 6: 0.10, 5: 0.04, 4: 0.01}  # of the small blocks' bytes, by order
_PRESSED_RATIO = 0.30
_EVICTED_SHARE = 0.05  # of the time, and of 1 GiB


def ratio(seconds: float) -> float:
    """The share of the free memory that lies in small blocks."""
    requests = max(0.0, seconds - BEGINS_AT) * _REQUESTS_PER_SECOND
    if requests <= _FIRST_REQUESTS:
        return _FIRST_RATIO * requests / _FIRST_REQUESTS
    more = 1 - math.exp((_FIRST_REQUESTS - requests) / _MORE_REQUESTS)
    return _FIRST_RATIO + (_LAST_RATIO - _FIRST_RATIO) * more


def _pressed_since() -> float:
    """When the ratio comes to the point from which on buffers have to be moved."""
    part = (_PRESSED_RATIO - _FIRST_RATIO) / (_LAST_RATIO - _FIRST_RATIO)
    return BEGINS_AT + (_FIRST_REQUESTS - _MORE_REQUESTS * math.log(1 - part)) / _REQUESTS_PER_SECOND


def live(cast: Cast, index: int, seconds: float) -> State:
    """A GPU that serves, with ever smaller blocks."""
    state = motion.healthy(cast.model, cast.seed, index, seconds)
    share = ratio(seconds)
    if not share:
        return state
    free = cast.model.vram_total_bytes - state.vram_used_bytes
    pressed = max(0.0, seconds - _pressed_since()) if cast.model.pool == "vram" else 0.0
    return replace(
        state,
        free_blocks=shattered(free, cast.model.vram_total_bytes, share),
        evicted_bytes=int(512 * min(1.0, _EVICTED_SHARE * pressed)) * MIB,
        evicted_seconds=_EVICTED_SHARE * pressed,
    )


def shattered(free_bytes: int, total_bytes: int, small: float) -> dict[int, int]:
    """Free blocks, so large a share of them below 2 MiB, and the others smaller the more there are of those.

    Args:
        free_bytes: A multiple of the chunk size.
        total_bytes: Of the whole memory.
        small: From 0 to 1.

    Returns:
        The number of blocks by order; their bytes are exactly `free_bytes`.
    """
    chunks = free_bytes // blocks.CHUNK_BYTES
    counts = dict.fromkeys(range(blocks.max_order(total_bytes) + 1), 0)
    for order, share in _SHARES.items():
        counts[order] = int(small * share * chunks) >> order
    left = chunks - sum(count << order for order, count in counts.items())
    largest = max(blocks.LARGE_ORDER, min(max(counts), round(max(counts) - small * 20)))
    counts[largest] += left >> largest
    rest = blocks.split((left & ((1 << largest) - 1)) * blocks.CHUNK_BYTES, total_bytes)
    return {order: count + rest[order] for order, count in counts.items()}


FRAGMENTING = Scenario(
    name="fragmenting", summary="free memory breaks into ever smaller blocks, over thousands of requests", live=live
)
