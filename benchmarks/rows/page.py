"""f) Rendering /metrics: the first time against prometheus-client's own gauges, and again through HTTP.

"First" is with nothing to start from: the exposition keeps the text of a family whose series did not change, so every
picture that is measured here has new labels on every series of a GPU.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

from measure import Bench, Figure, cpu_nanoseconds, interleaved
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from service import Client, series
from trees import GPUS, Eye, tree

from rocmwatch.model import View
from rocmwatch.picture import Publisher
from rocmwatch.serve.exposition import Exposition, Format
from rocmwatch.serve.web import WebServer

NAME = "page"
TITLE = "rendering /metrics"
FIRST_BAR = 1.3
AGAIN_BAR = 0.25
REST_SECONDS = 0.01


def measure(bench: Bench) -> Iterator[Figure]:
    with Eye(tree(bench, "mi300x-cpx")) as eye:
        view = eye.view()
    now = view.snapshot.taken_at + 1
    text = b"".join(Exposition().scrape(view, now, Format.TEXT, gzip=False)).decode()
    gauges = plain_gauges(text)
    exposition, anew = Exposition(), unlike(view)
    count = bench.pick(10, 3)

    def ours() -> list[float]:
        views = [next(anew) for _ in range(count)]
        return [cpu_of(lambda view=view: exposition.scrape(view, now, Format.TEXT, gzip=False)) for view in views]

    def theirs() -> list[float]:
        return [cpu_of(lambda: generate_latest(gauges)) for _ in range(count)]

    compared = interleaved(bench.pick(12, 3), ours, theirs)
    yield Figure(
        NAME,
        f"first rendering, {GPUS} MI300X CPX / generate_latest of as many gauges: CPU",
        compared.ratio,
        FIRST_BAR,
        note=f"{compared.ours / 1000:.2f} ms against {compared.theirs / 1000:.2f} ms, {series(text)} series",
    )
    yield again(bench, view)


def again(bench: Bench, view: View) -> Figure:
    """The same picture scraped twice, as Prometheus does it; the server is a process of its own."""
    first, second = [], []
    with Serving(view) as server:
        for _ in range(bench.pick(60, 10)):
            server.publish_anew()
            first.append(server.cpu_of_scrape())
            second.append(server.cpu_of_scrape())
    one, two = sorted(first)[len(first) // 2], sorted(second)[len(second) // 2]
    what = "second scrape of a picture over HTTP / the first: CPU of the server"
    return Figure(NAME, what, two / one, AGAIN_BAR, note=f"{two / 1000:.2f} ms against {one / 1000:.2f} ms, gzip")


def unlike(view: View) -> Iterator[View]:
    """Pictures of the same size, none with a series of a GPU that another one has."""
    for domain in itertools.count(1):
        gpus = tuple(
            replace(reading, gpu=replace(reading.gpu, pci=f"{domain % 0x10000:04x}{reading.gpu.pci[4:]}"))
            for reading in view.snapshot.gpus
        )
        yield replace(view, snapshot=replace(view.snapshot, gpus=gpus))


def cpu_of(work: object) -> float:
    before = time.thread_time_ns()
    work()  # type: ignore[operator]
    return (time.thread_time_ns() - before) / 1000


def plain_gauges(text: str) -> CollectorRegistry:
    """A registry of gauges with the names, labels and values of an exposition."""
    registry = CollectorRegistry()
    made: dict[str, Gauge] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name not in made:
                made[sample.name] = Gauge(sample.name, family.documentation, list(sample.labels), registry=registry)
            gauge = made[sample.name]
            (gauge.labels(**sample.labels) if sample.labels else gauge).set(sample.value)
    return registry


class Serving:
    """Our web server in a forked process, which publishes the same picture anew when it is told to."""

    def __init__(self, view: View) -> None:
        self._orders, orders = os.pipe()
        answers, self._answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._serve(view)
            finally:
                os._exit(1)
        self._tell, self._hear = orders, answers
        os.close(self._orders)
        os.close(self._answers)

    def __enter__(self) -> Serving:
        self._client = Client(int.from_bytes(os.read(self._hear, 8), "little"))
        self._client.scrape()
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def publish_anew(self) -> None:
        os.write(self._tell, b"n")
        os.read(self._hear, 8)

    def cpu_of_scrape(self) -> float:
        """Microseconds of the server."""
        time.sleep(REST_SECONDS)  # what follows an answer belongs to it
        before = cpu_nanoseconds([self.pid])
        assert self._client.scrape().status == 200
        time.sleep(REST_SECONDS)
        return (cpu_nanoseconds([self.pid]) - before) / 1000

    def _serve(self, view: View) -> None:
        publisher = Publisher()
        publisher.publish(view)
        server = WebServer("127.0.0.1", 0, publisher.current, lambda: view.snapshot.taken_at + 1)
        server.start()
        os.write(self._answers, server.port.to_bytes(8, "little"))
        for other in unlike(view):
            if not os.read(self._orders, 1):
                return
            publisher.publish(other)
            os.write(self._answers, b"published"[:8])
