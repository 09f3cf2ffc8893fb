"""b) A whole tick, from the scheduler to the published picture, in all processes, against C at the same pace."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cloop import CLoop
from measure import Bench, Figure, median
from service import Service, Settings
from trees import GPUS, ReaderHere, tree

NAME = "tick"
TITLE = "a whole tick in all processes against a C loop"
BAR = 30.0
SETTLE_SECONDS = 3.0


def measure(bench: Bench) -> Iterator[Figure]:
    root = tree(bench, "mi300x")
    ticks = bench.pick(60, 8)
    with CLoop(bench, ReaderHere(root).reads) as c_loop, Service(bench, root, Settings(1, 1)) as service:
        time.sleep(SETTLE_SECONDS)
        c_loop.start(ticks, 1_000_000, decode=True)  # at the same time, at the same pace
        cpu, since = service.cpu_nanoseconds(), time.monotonic()
        theirs = median(c_loop.finish())
        seconds = time.monotonic() - since
        ours = (service.cpu_nanoseconds() - cpu) / 1000 / seconds
    yield Figure(
        NAME,
        f"memory and sensors, {GPUS} MI300X, every second, all processes: CPU / C loop",
        ours / theirs,
        BAR,
        note=f"{ours:.0f} us a tick (scheduler, pipes, pictures, idle wake-ups included) against {theirs:.0f} us",
    )
