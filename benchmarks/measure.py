"""What a row of the benchmark says, and how CPU time and memory of processes are taken.

A figure is a ratio of two things measured in the same run, so that it means the same on another machine; absolute
times stand beside it as information.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

MIB = 1 << 20
REST_SECONDS = 0.2


class Unmeasured(Exception):
    """A row cannot be measured on this machine; its text says why."""


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Attributes:
        row: The short name of its row (`--only`).
        what: What is compared with what.
        value: The median.
        bar: What it has to reach; None when it is shown as information only.
        at_least: The bar is a lower one.
        unit: Written behind value and bar: `x`, `%`, `MiB`, or a count.
        note: Absolutes.
    """

    row: str
    what: str
    value: float
    bar: float | None
    at_least: bool = False
    unit: str = "x"
    note: str = ""

    def reached(self, slack: float = 1) -> bool:
        """Whether the value is on the right side of the bar, or of a bar moved by a factor."""
        if self.bar is None:
            return True
        return self.value >= self.bar / slack if self.at_least else self.value <= self.bar * slack


@dataclass
class Bench:
    """What every row gets.

    Attributes:
        quick: Fewer repetitions: shows that it runs, not what it costs.
        folder: A folder for trees and results, in memory where there is a memory file system.
        shared: What rows keep for each other (a tree, a compiled C loop), by name.
    """

    quick: bool
    folder: Path
    shared: dict[str, object] = field(default_factory=dict)

    def pick(self, full: int, quick: int) -> int:
        """The number of repetitions."""
        return quick if self.quick else full

    def once(self, name: str, make: Callable[[], object]) -> object:
        """What `make` gives, made once for all rows."""
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]


Row = ModuleType  # with `NAME`, `TITLE` and `measure(bench) -> Iterable[Figure]`


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder in memory if possible: sysfs and procfs touch no disk either."""
    memory = "/dev/shm"
    usable = os.path.isdir(memory) and os.access(memory, os.W_OK)
    path = tempfile.mkdtemp(prefix="rocmwatch-bench-", dir=memory if usable else None)
    os.chmod(path, 0o755)
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


class Compared(NamedTuple):
    """Two sides of a comparison.

    Attributes:
        ratio: The median, over the rounds, of ours to theirs: a slow moment of the machine spoils its own round only.
        ours: The median of all our values.
        theirs: The same of theirs.
    """

    ratio: float
    ours: float
    theirs: float


def interleaved(rounds: int, ours: Callable[[], Sequence[float]], theirs: Callable[[], Sequence[float]]) -> Compared:
    """Both sides in turns, with a rest between the rounds, so that a slow moment of the machine meets both of them."""
    mine: list[list[float]] = []
    other: list[list[float]] = []
    for turn in range(rounds):
        for take, values in ((ours, mine), (theirs, other))[:: 1 if turn % 2 == 0 else -1]:
            values.append(list(take()))
        time.sleep(REST_SECONDS)
    ratios = [median(one) / median(two) for one, two in zip(mine, other, strict=True)]
    return Compared(median(ratios), median(chain.from_iterable(mine)), median(chain.from_iterable(other)))


def descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        current = waiting.pop()
        found.append(current)
        try:
            for task in os.listdir(f"/proc/{current}/task"):
                waiting.extend(
                    int(child) for child in Path(f"/proc/{current}/task/{task}/children").read_text().split()
                )
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def cpu_nanoseconds(pids: Iterable[int]) -> int:
    """CPU time of processes so far, all threads. The scheduler's count: /proc/PID/stat has only 10 ms steps."""
    total = 0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
    return total


def pss_bytes(pids: Iterable[int]) -> int:
    """Memory of processes, with what they share counted once."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def need(*programs: str) -> None:
    """Says what a row lacks."""
    lost = [name for name in programs if shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin") is None]
    if lost:
        raise Unmeasured(f"not installed: {', '.join(lost)}")
