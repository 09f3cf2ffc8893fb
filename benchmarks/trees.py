"""The nodes that are measured on, and our parts on them without the daemon around them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cloop import Read, counter_offset
from measure import Bench

from rocmwatch.model import View
from rocmwatch.observe import sensors
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.link import LauncherLink
from rocmwatch.observe.ordinals import Ordinals, boot_id
from rocmwatch.observe.sampler import Pace, Sampler
from rocmwatch.observe.wire import CARDS, LIST, MEMORY, SENSORS, CardsFrame, Order
from rocmwatch.picture import judged
from rocmwatch.simulate import SimulatedNode

GPUS = 8


def tree(bench: Bench, model: str, gpus: int = GPUS) -> str:
    """The root of a simulated node; made once."""

    def make() -> str:
        root = str(bench.folder / f"{model}-{gpus}")
        SimulatedNode(root, model, gpus).create()
        return root

    return str(bench.once(f"tree {model} {gpus}", make))


class ReaderHere:
    """The code of the sensors reader, in this process, so that nothing but its ticks is timed."""

    def __init__(self, root: str) -> None:
        self._reader = sensors.SensorReader(root)
        cards = CardsFrame(*self._reader.answer(Order(CARDS, LIST))).cards
        assert cards
        self._orders = [Order(pci, MEMORY | SENSORS, card) for pci, card in cards]
        self.tick()  # opens, and describes
        self.reads = self._probe()
        self._movers = [mover for read in self.reads if (mover := Mover.of(read.path))]
        self._count = 0

    def __enter__(self) -> ReaderHere:
        return self

    def __exit__(self, *_: object) -> None:
        for mover in self._movers:
            os.close(mover.descriptor)
        self._reader.close()

    def tick(self) -> list[object]:
        """Every frame of one tick: read, decoded and ready to be sent."""
        return [self._reader.answer(order) for order in self._orders]

    def ticks(self, count: int, pause_us: int, work: Callable[[], object] | None = None) -> list[float]:
        """Microseconds of CPU of each tick."""
        work = work or self.tick
        clock = time.thread_time_ns
        pause = pause_us / 1e6
        values = []
        for _ in range(count):
            self._change()
            if pause:
                time.sleep(pause)
            before = clock()
            work()
            values.append((clock() - before) / 1000)
        return values

    def reads_only(self) -> Callable[[], object]:
        """The same reads in the same order with nothing done to the bytes."""
        plan = self._descriptors
        pread = os.pread

        def read() -> None:
            for descriptor, size in plan:
                pread(descriptor, size, 0)

        return read

    def _probe(self) -> list[Read]:
        """Which files a tick reads: watched while it does."""
        self._descriptors: list[tuple[int, int]] = []
        pread = os.pread

        def watching(descriptor: int, size: int, offset: int) -> bytes:
            self._descriptors.append((descriptor, size))
            return pread(descriptor, size, offset)

        os.pread = watching
        try:
            self.tick()
        finally:
            os.pread = pread
        return [Read(os.readlink(f"/proc/self/fd/{descriptor}"), size) for descriptor, size in self._descriptors]

    def _change(self) -> None:
        """What a busy card does between two readings: every number moves, and the time stamp in gpu_metrics."""
        self._count += 1
        stamp = self._count.to_bytes(8, "little")
        digit = b"12"[self._count % 2 :][:1]
        for mover in self._movers:
            os.pwrite(mover.descriptor, stamp if mover.binary else digit, mover.offset)


class Mover(NamedTuple):
    """What changes in a file from tick to tick, its length staying: a time stamp, or the last of several digits."""

    descriptor: int
    offset: int
    binary: bool

    @classmethod
    def of(cls, path: str) -> Mover | None:
        raw = Path(path).read_bytes()
        binary = path.endswith("/gpu_metrics")
        number = re.match(rb"\d\d+", raw)
        if not binary and number is None:
            return None
        offset = counter_offset(raw) if binary or number is None else number.end() - 1
        return cls(os.open(path, os.O_WRONLY | os.O_CLOEXEC), offset, binary)


class FastClock:
    """A clock on which every tick is one interval later, so that all that is due now and then becomes due."""

    def __init__(self, step_seconds: float) -> None:
        self._step = step_seconds
        self._now = 1_000_000.0

    def advance(self) -> None:
        self._now += self._step

    def monotonic(self) -> float:
        return self._now

    def unix(self) -> float:
        return 1_700_000_000.0 + self._now


class Eye:
    """Launcher, reader and sampler as the daemon has them, without giving up this process's capabilities."""

    def __init__(self, root: str, step_seconds: float = 5.0) -> None:
        self.clock = FastClock(step_seconds)
        self.launcher = LauncherLink(root)
        self._crew = Crew(self.launcher)
        self._sampler = Sampler(self._crew, self.clock, Ordinals(None, boot_id(root)), Pace(step_seconds, step_seconds))

    def __enter__(self) -> Eye:
        return self

    def __exit__(self, *_: object) -> None:
        self._crew.close()
        self.launcher.close()

    def view(self) -> View:
        """The picture after one more tick."""
        self.clock.advance()
        return View(
            snapshot=judged(self._sampler.tick()),
            version="0",
            started_at=self.clock.unix(),
            hostname="bench",
            root="",
            config_loaded_at=self.clock.unix(),
        )
