"""b) A whole tick, from the scheduler to the published picture, in all processes, against C at the same pace."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from statistics import mean, median

from cloop import CLoop
from measure import Bench, Figure
from service import Service, Settings
from trees import GPUS, ReaderHere, tree

NAME = "tick"
TITLE = "a whole tick in all processes against a C loop"
BAR = 30.0
SETTLE_SECONDS = 3.0


def measure(bench: Bench) -> Iterator[Figure]:
    root = tree(bench, "mi300x")
    seconds = bench.pick(60, 8)
    with ReaderHere(root) as reader:
        reads = reader.reads
    with CLoop(bench, reads) as c_loop, Service(bench, root, Settings(1, 1)) as service:
        time.sleep(SETTLE_SECONDS)
        c_loop.start(seconds, 1_000_000, decode=True)  # at the same time, at the same pace
        ours = []
        for before, after in itertools.pairwise(cpu_each_second(service, seconds)):
            ours.append((after - before) / 1000)
        theirs = c_loop.finish()
    yield Figure(
        NAME,
        f"whole tick, {GPUS} MI300X, every second, all processes: CPU / C loop",
        median(ours) / median(theirs),
        BAR,
        note=f"{median(ours):.0f} us a second (mean {mean(ours):.0f}; scheduler, pipes, pictures and idle wake-ups"
        f" included) against {median(theirs):.0f} us (mean {mean(theirs):.0f})",
    )


def cpu_each_second(service: Service, seconds: int) -> Iterator[int]:
    """CPU time so far, nanoseconds, a tick apart."""
    start = time.monotonic()
    for second in range(seconds + 1):
        time.sleep(max(0.0, start + second - time.monotonic()))
        yield service.cpu_nanoseconds()
