"""e) CPU a series and scrape against prometheus-node-exporter, which reads all its files anew at each scrape.

Ours includes what is sampled between the scrapes: three ticks at the default interval of 5 s in the usual 15 s.
"""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Callable, Iterator

from measure import Bench, Figure, Unmeasured, cpu_nanoseconds, descendants, median, need
from service import Service, Settings, free_port, series
from trees import GPUS, tree

NAME = "exporter"
TITLE = "CPU a series against prometheus-node-exporter"
PROGRAM = "prometheus-node-exporter"
SCRAPE_SECONDS = 15.0


def measure(bench: Bench) -> Iterator[Figure]:
    need(PROGRAM)
    root = tree(bench, "mi300x")
    port = free_port()
    command = [
        PROGRAM,
        "--collector.disable-defaults",
        "--collector.drm",
        "--collector.hwmon",
        f"--path.sysfs={root}/sys",
    ]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--web.disable-exporter-metrics", "--log.level=error"]
    exporter = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: scrape(port), exporter)
        with Service(bench, root, Settings(5, 5)) as service:
            service.scrape()
            ours, theirs = [], []
            our_text = peer_text = ""
            peer_pids = descendants(exporter.pid)
            our_before, peer_before = service.cpu_nanoseconds(), cpu_nanoseconds(peer_pids)
            for _ in range(bench.pick(6, 2)):
                time.sleep(SCRAPE_SECONDS)
                our_text, peer_text = service.scrape().text, scrape(port)
                our_now, peer_now = service.cpu_nanoseconds(), cpu_nanoseconds(peer_pids)
                ours.append((our_now - our_before) / 1000 / series(our_text))
                theirs.append((peer_now - peer_before) / 1000 / series(peer_text))
                our_before, peer_before = our_now, peer_now
    finally:
        exporter.terminate()
        exporter.wait()
    us, peer = median(ours), median(theirs)
    yield Figure(
        NAME,
        f"{GPUS} MI300X, every 15 s, our three ticks included: CPU a series / theirs",
        us / peer,
        1.0,
        note=f"{us:.1f} us a series ({series(our_text)}) against {peer:.1f} us ({series(peer_text)})",
    )


def scrape(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def wait_for(attempt: Callable[[], str], process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        try:
            if "node_drm_" in attempt():
                return
        except OSError:
            pass
        if process.poll() is not None:
            raise Unmeasured(f"{PROGRAM} ended with {process.returncode}")
        time.sleep(0.05)
    raise Unmeasured(f"{PROGRAM} shows no GPU of the tree")
