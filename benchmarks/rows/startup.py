"""h) From the start of the process to ready, against importing the libraries that it stands on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from measure import Bench, Figure, interleaved
from service import Service, Settings
from trees import GPUS, tree

NAME = "startup"
TITLE = "start to ready"
BAR = 3.0
LIBRARIES = "import prometheus_client, apscheduler.schedulers.background, pydantic"


def measure(bench: Bench) -> Iterator[Figure]:
    root = tree(bench, "mi300x")

    def ours() -> list[float]:
        with Service(bench, root, Settings(5, 5)) as service:
            return [service.ready_seconds]

    def theirs() -> list[float]:
        before = time.monotonic()
        subprocess.run([sys.executable, "-c", LIBRARIES], check=True)
        return [time.monotonic() - before]

    compared = interleaved(bench.pick(15, 3), ours, theirs)
    yield Figure(
        NAME,
        f"start to /-/ready with {GPUS} MI300X / importing three libraries: wall",
        compared.ratio,
        BAR,
        note=f"{compared.ours * 1000:.0f} ms against {compared.theirs * 1000:.0f} ms",
    )
