"""g) What the service takes from a node, all processes together: sensors every second, a scrape every 15 seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator

from measure import MIB, Bench, Figure
from service import Service, Settings
from trees import GPUS, tree

NAME = "footprint"
TITLE = "CPU and memory of the whole service"
CPU_BAR = 0.5
PSS_BAR = 60.0
SCRAPE_SECONDS = 15.0


def measure(bench: Bench) -> Iterator[Figure]:
    scrapes = bench.pick(5, 1)
    with Service(bench, tree(bench, "mi300x"), Settings(1, 1)) as service:
        service.scrape()
        time.sleep(2)
        cpu, since = service.cpu_nanoseconds(), time.monotonic()
        for _ in range(scrapes):
            time.sleep(SCRAPE_SECONDS)
            service.scrape()
        seconds = time.monotonic() - since
        percent = 100 * (service.cpu_nanoseconds() - cpu) / 1e9 / seconds
        pids = service.pids
        pss = service.pss_bytes() / MIB
    what = f"{GPUS} MI300X, sensors 1 s, scraped every 15 s for {seconds:.0f} s"
    yield Figure(NAME, f"{what}: of one core", percent, CPU_BAR, unit="%")
    yield Figure(NAME, f"{what}: memory (PSS) of {len(pids)} processes", pss, PSS_BAR, unit="MiB")
