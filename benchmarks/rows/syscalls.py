"""c) The reader's system calls: one read a file, and few besides."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from measure import Bench, Figure, Unmeasured, need
from service import Service, Settings
from trees import ReaderHere, tree

NAME = "syscalls"
TITLE = "system calls of the reader a tick"
BAR = 5.0


def measure(bench: Bench) -> Iterator[Figure]:
    need("strace")
    root = tree(bench, "mi300x")
    with ReaderHere(root) as reader:
        files = len(reader.reads)
    with Service(bench, root, Settings(1, 1)) as service:
        time.sleep(2.5)
        calls = traced(service.reader, bench.folder / "strace", bench.pick(12, 5))
    ticks = whole_ticks(calls)
    if not ticks:
        raise Unmeasured("strace saw no whole tick")
    besides = sorted(sum(tick.values()) - files for tick in ticks)
    usual = ticks[len(ticks) // 2]
    yield Figure(
        NAME,
        f"calls besides one read of each of {files} files, worst of {len(ticks)} ticks",
        besides[-1],
        BAR,
        unit="",
        note=", ".join(f"{name} {count}" for name, count in usual.most_common()),
    )


def traced(pid: int, output: Path, seconds: float) -> list[str]:
    """The names of the calls that a process makes, in order."""
    tracer = subprocess.Popen(["strace", "-f", "-p", str(pid), "-o", str(output)], stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(seconds)
    finally:
        tracer.send_signal(signal.SIGINT)
        _, said = tracer.communicate(timeout=10)
    if not output.exists() or not output.stat().st_size:
        raise Unmeasured(f"strace may not look at the reader: {said.strip()[-200:]}")
    words = (re.match(r"\d+\s+(?:<\.\.\. )?(\w+)", line) for line in output.read_text().splitlines())
    lines = output.read_text().splitlines()
    return [word[1] for word, line in zip(words, lines, strict=True) if word and "resumed>" not in line]


def whole_ticks(calls: list[str]) -> list[Counter[str]]:
    """The calls of each tick: from one wait for a request to the next. A reader waits in `read`."""
    ticks: list[Counter[str]] = []
    current: Counter[str] | None = None
    for name in calls:
        if name == "read":
            if current:
                ticks.append(current)
            current = Counter()
        if current is not None:
            current[name] += 1
    full = max((sum(tick.values()) for tick in ticks), default=0)
    return [tick for tick in ticks if sum(tick.values()) > full // 2]  # those in between asked for less
