"""A real Prometheus scrapes the daemon, in both formats; what it stored is what the node's files say."""

from __future__ import annotations

import http.client
import http.server
import json
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from e2e import running
from e2e.running import Service, eventually
from prometheus_client.parser import text_string_to_metric_families

from rocmwatch.simulate import SimulatedNode

pytestmark = pytest.mark.promtool

CONFIG = "sampling: {interval: 1s, sensors: 1s, fragmentation: 60s}"
TEXT = "text/plain;version=0.0.4"
FORMATS = {"openmetrics": "application/openmetrics-text", "text": "text/plain"}


class Between(http.server.ThreadingHTTPServer):
    """Stands between Prometheus and the daemon: hands on what both say, but for the formats, and remembers it.

    Attributes:
        accept: Asked for instead of what Prometheus asks for (Debian's cannot be told to prefer the text format).
        answers: Of each answer: status, format, coding.
    """

    def __init__(self, port: int, accept: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = port
        self.accept = accept
        self.answers: list[tuple[int, str, str | None]] = []


class _Passing(http.server.BaseHTTPRequestHandler):
    server: Between

    def do_GET(self) -> None:
        asked = {name: self.headers[name] for name in ("Accept", "Accept-Encoding") if name in self.headers}
        if self.server.accept:
            asked["Accept"] = self.server.accept
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=10)
        connection.request("GET", self.path, headers=asked)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        form = answer.headers["Content-Type"].partition(";")[0]
        self.server.answers.append((answer.status, form, answer.headers["Content-Encoding"]))
        self.send_response(answer.status)
        for name in ("Content-Type", "Content-Encoding", "Content-Length"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def between(port: int, accept: str | None) -> Iterator[Between]:
    with Between(port, accept) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Prometheus:
    """A running Prometheus that scrapes some ports, each as a job."""

    def __init__(self, folder: Path, jobs: dict[str, int]) -> None:
        self.port = running.free_port()
        scrapes = [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{at}"]}]} for name, at in jobs.items()
        ]
        config = folder / "prometheus.json"  # which is YAML
        config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}))
        self._log = folder / "prometheus.log"
        self._command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def __enter__(self) -> Prometheus:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    def query(self, expression: str) -> dict[str, float]:
        """Series -> value; nothing while it is starting."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            assert self._process.poll() is None, self._log.read_text()
            return {}
        return {series(item["metric"]): float(item["value"][1]) for item in result}


class Watched(NamedTuple):
    """A Prometheus, by format who stands between it and the daemon, and a second daemon, which it asks directly."""

    prometheus: Prometheus
    ways: dict[str, Between]
    doomed: Service


def series(labels: dict[str, str]) -> str:
    """A series in one spelling, without what Prometheus adds."""
    own = sorted(item for item in labels.items() if item[0] not in {"__name__", "job", "instance"})
    return labels.get("__name__", "") + json.dumps(own)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedNode]:
    """A node at work that stands still."""
    with SimulatedNode(str(tmp_path_factory.mktemp("node") / "root"), "mi300x", 4) as node:
        node.step(90)
        yield node


@pytest.fixture(scope="module")
def service(node: SimulatedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("daemon"), node.root, CONFIG) as service:
        yield service


@pytest.fixture(scope="module")
def watched(service: Service, node: SimulatedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A Prometheus that has scraped the daemon in each format at least twice."""
    with ExitStack() as stack:
        ways = {name: stack.enter_context(between(service.port, TEXT if name == "text" else None)) for name in FORMATS}
        jobs = {name: way.server_port for name, way in ways.items()}
        doomed = stack.enter_context(Service(tmp_path_factory.mktemp("doomed"), node.root, CONFIG))
        jobs |= {"doomed": doomed.port}
        prometheus = stack.enter_context(Prometheus(tmp_path_factory.mktemp("prometheus"), jobs))
        eventually(lambda: all(len(way.answers) >= 2 for way in ways.values()), "two scrapes in each format")
        eventually(lambda: sum_of(prometheus, "sum(up)") == 3, "all up")
        yield Watched(prometheus, ways, doomed)


def sum_of(prometheus: Prometheus, expression: str) -> float:
    return sum(prometheus.query(expression).values())


FORMAT = pytest.mark.parametrize("form", FORMATS)


@FORMAT
def test_it_is_scraped_in_each_format_and_compressed(watched: Watched, form: str) -> None:
    prometheus, ways, _ = watched

    assert set(ways[form].answers) == {(200, FORMATS[form], "gzip")}
    assert sum_of(prometheus, f'up{{job="{form}"}}') == 1
    assert sum_of(prometheus, f'scrape_samples_scraped{{job="{form}"}}') > 100


@FORMAT
def test_every_series_of_a_gpu_has_arrived_as_it_was_served(watched: Watched, service: Service, form: str) -> None:
    text = service.get("/metrics")[1].decode()
    served = {
        series({"__name__": sample.name} | sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("rocmwatch_gpu")
    }
    stored = watched.prometheus.query(f'{{__name__=~"rocmwatch_gpu.*",job="{form}"}}')

    assert len(served) > 100
    assert stored == served


@FORMAT
@pytest.mark.parametrize(
    ("metric", "file", "factor"),
    [
        ("gpu_vram_used_bytes", "mem_info_vram_used", 1),
        ("gpu_vram_total_bytes", "mem_info_vram_total", 1),
        ("gpu_gtt_used_bytes", "mem_info_gtt_used", 1),
        ('gpu_temperature_celsius{sensor="junction"}', "hwmon/hwmon*/temp2_input", 1e-3),
        ("gpu_power_watts", "hwmon/hwmon*/power1_input", 1e-6),
        ("gpu_power_cap_watts", "hwmon/hwmon*/power1_cap", 1e-6),
    ],
)
def test_what_is_stored_is_what_the_files_say(
    watched: Watched,
    node: SimulatedNode,
    form: str,
    metric: str,
    file: str,
    factor: float,
) -> None:
    name, _, labels = metric.partition("{")
    stored = watched.prometheus.query(f'sum by (pci) (rocmwatch_{name}{{job="{form}",{labels or "}"})')
    expected = {}
    for place in node.places:
        [path] = Path(node.root, "sys/bus/pci/devices", place.pci).glob(file)
        expected[series({"pci": place.pci})] = pytest.approx(int(path.read_text()) * factor)

    assert stored == expected


@FORMAT
def test_types_and_words_for_people_have_arrived(watched: Watched, form: str) -> None:
    prometheus = watched.prometheus
    target = urllib.parse.urlencode({"match_target": f'{{job="{form}"}}'})
    with urllib.request.urlopen(f"http://127.0.0.1:{prometheus.port}/api/v1/targets/metadata?{target}") as answer:
        entries = {entry["metric"]: entry for entry in json.load(answer)["data"]}
    counter = "rocmwatch_reader_restarts" + ("" if form == "openmetrics" else "_total")

    assert entries[counter]["type"] == "counter"
    assert entries["rocmwatch_gpu_vram_used_bytes"]["type"] == "gauge"
    assert all(entry["help"] for entry in entries.values())


def test_promtool_finds_nothing_wrong_with_a_live_scrape(service: Service) -> None:
    text = service.get("/metrics")[1]
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_daemon_that_is_gone_is_down_and_its_series_end(watched: Watched) -> None:
    before = watched.prometheus.query('rocmwatch_gpus{job="doomed"}')
    watched.doomed.end()
    eventually(lambda: watched.prometheus.query('up{job="doomed"} == 0'), "down")

    assert list(before.values()) == [4]
    assert watched.prometheus.query('rocmwatch_gpus{job="doomed"}') == {}
