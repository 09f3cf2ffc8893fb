"""a) Reading one tick of sensors against a C loop over the same files on kept descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cloop import CLoop
from measure import Bench, Figure, interleaved
from trees import GPUS, ReaderHere, tree

NAME = "reading"
TITLE = "one tick of sensors against a C loop"
BARS = {"read": 2.0, "read and decode": 4.0}
PAUSE_US = 10_000


class Pace(NamedTuple):
    """How many ticks, and how far apart."""

    pause_us: int
    ticks: int
    rounds: int


def measure(bench: Bench) -> Iterator[Figure]:
    with ReaderHere(tree(bench, "mi300x")) as reader, CLoop(bench, reader.reads) as c_loop:
        for what, work in (("read", reader.reads_only()), ("read and decode", reader.tick)):
            yield figure(reader, c_loop, what, work, Pace(0, bench.pick(200, 100), bench.pick(30, 5)))
            yield figure(reader, c_loop, what, work, Pace(PAUSE_US, bench.pick(30, 10), bench.pick(10, 3)))


def figure(reader: ReaderHere, c_loop: CLoop, what: str, work: Callable[[], object], pace: Pace) -> Figure:
    decode = what != "read"
    compared = interleaved(
        pace.rounds,
        lambda: reader.ticks(pace.ticks, pace.pause_us, work),
        lambda: c_loop.ticks(pace.ticks, pace.pause_us, decode=decode),
    )
    warmth = f"{pace.pause_us // 1000} ms pauses" if pace.pause_us else "back to back"
    return Figure(
        NAME,
        f"{what}, {GPUS} MI300X, {warmth}: CPU / C loop",
        compared.ratio,
        BARS[what],
        note=f"{compared.ours:.0f} us against {compared.theirs:.0f} us for {len(reader.reads)} files",
    )
