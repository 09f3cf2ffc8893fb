"""i) Ten thousand ticks: what stays behind. With a deliberate leak each, to show that one would be seen.

Memory is counted by tracemalloc, as resident memory hides small leaks behind what the allocator keeps.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable, Iterator
from typing import NamedTuple

from measure import Bench, Figure, descendants
from trees import Eye, ReaderHere, tree

from rocmwatch.serve.exposition import Exposition, Format

NAME = "leaks"
TITLE = "descriptors, threads and memory over many ticks"
WARM_UP = 500
KIB = 1024
LEAKED_BYTES = 100
LEAKED_DESCRIPTORS_EVERY = 100
KIB_BAR = 16.0  # caches that fill; the smallest object, kept each tick, would be 280 KiB after 10,000
SCRAPE_EVERY = 10


class Held(NamedTuple):
    """What processes hold."""

    descriptors: int
    threads: int
    traced: int


def measure(bench: Bench) -> Iterator[Figure]:
    root = tree(bench, "mi300x")
    ticks = bench.pick(10_000, 1_000)
    with Eye(root) as eye:
        exposition = Exposition()
        count = 0

        def whole() -> None:
            nonlocal count
            view = eye.view()
            count += 1
            if count % SCRAPE_EVERY == 0:
                exposition.scrape(view, eye.clock.unix(), Format.TEXT, gzip=True)

        yield from judged(f"{ticks:,} ticks, main and its children", growth(whole, ticks))
    with ReaderHere(root) as reader:
        yield from judged(f"{ticks:,} ticks of the reader's code", growth(reader.tick, ticks))

    kept: list[object] = []
    leaky = growth(lambda: leak(kept), ticks)
    yield Figure(
        NAME,
        f"a deliberate leak of {LEAKED_BYTES} bytes a tick is seen as",
        leaky.traced / KIB,
        ticks * LEAKED_BYTES / KIB,
        at_least=True,
        unit="KiB",
    )
    expected = ticks // LEAKED_DESCRIPTORS_EVERY
    what = f"a deliberate leak of {expected} descriptors is seen as"
    yield Figure(NAME, what, leaky.descriptors, expected, at_least=True, unit="")
    for thing in kept:
        if isinstance(thing, int):
            os.close(thing)


def judged(what: str, grown: Held) -> Iterator[Figure]:
    yield Figure(NAME, f"{what}: more descriptors than before", grown.descriptors, 0, unit="")
    yield Figure(NAME, f"{what}: more threads than before", grown.threads, 0, unit="")
    yield Figure(NAME, f"{what}: more memory than before", grown.traced / KIB, KIB_BAR, unit="KiB")


def growth(work: Callable[[], object], ticks: int) -> Held:
    """What is held after many ticks more than after a few."""
    tracemalloc.start()
    try:
        for _ in range(WARM_UP):
            work()
        before = held()
        for _ in range(ticks):
            work()
        after = held()
    finally:
        tracemalloc.stop()
    return Held(*(late - early for late, early in zip(after, before, strict=True)))


def held() -> Held:
    gc.collect()
    pids = descendants(os.getpid())
    return Held(
        descriptors=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        threads=sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids),
        traced=tracemalloc.get_traced_memory()[0],
    )


def leak(kept: list[object]) -> None:
    """One tick's worth of it."""
    kept.append(bytes(LEAKED_BYTES))
    if len(kept) % LEAKED_DESCRIPTORS_EVERY == 0:
        kept.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
