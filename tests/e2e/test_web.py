"""The web server as clients meet it: real sockets on loopback, well-behaved ones and others."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import jsonschema
import pytest
import structlog.testing
from unit.serve import views
from unit.serve.test_documents import SCHEMAS
from watching import eventually

from rocmwatch.errors import RocmwatchError
from rocmwatch.model import View
from rocmwatch.serve import lobby
from rocmwatch.serve.web import WebServer

BIG = views.view(*(views.mi300x_cpx(number) for number in range(8)))


class Site:
    """A server whose view, clock and reload a test can change."""

    def __init__(self) -> None:
        self.view: View | None = BIG
        self.now = views.NOW
        self.reloads: list[bool] = []
        self.reload_answer = True
        self.server = WebServer("127.0.0.1", 0, lambda: self.view, lambda: self.now, self._reload)

    def _reload(self) -> bool:
        self.reloads.append(self.reload_answer)
        return self.reload_answer

    def ask(self, path: str = "/metrics", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        answer.text = answer.read()  # type: ignore[attr-defined]
        connection.close()
        return answer

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=10)

    def talk(self, said: bytes, seconds: float = 10) -> bytes:
        """Everything that the server answers to these bytes before it closes."""
        with self.connect() as sock:
            sock.settimeout(seconds)
            with suppress(ConnectionError):
                sock.sendall(said)
            heard = b""
            with suppress(ConnectionError):
                while piece := sock.recv(65536):
                    heard += piece
            return heard


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.server.start()
    yield made
    made.server.stop()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# What is shown


def test_text_openmetrics_and_gzip_are_given_as_asked(site):
    text = site.ask()
    packed = site.ask(Accept_Encoding="gzip")
    openmetrics = site.ask(Accept="application/openmetrics-text; version=1.0.0")
    assert (text.status, text.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert text.headers["Content-Encoding"] is None
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.text) == text.text
    assert openmetrics.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.text.endswith(b"# EOF\n")
    assert b'rocmwatch_sample_age_seconds{source="memory"} 2.0\n' in text.text
    site.now += 5
    assert b'rocmwatch_sample_age_seconds{source="memory"} 7.0\n' in site.ask().text


def test_curl_unpacks_what_is_compressed(site, require):
    require("curl")
    url = f"http://127.0.0.1:{site.server.port}/metrics"
    plain, packed = (
        subprocess.run(["curl", "-sS", *more, url], check=True, capture_output=True, timeout=30).stdout
        for more in ((), ("--compressed",))
    )
    assert plain == packed
    assert plain.endswith(b'{source="fragmentation"} 40.0\n')


def test_a_new_view_is_shown_at_once(site):
    before = site.ask().text
    site.view = views.view(views.reading(0))
    assert site.ask().text != before
    assert b"rocmwatch_gpus 1.0\n" in site.ask().text


def test_the_documents_are_served_as_json(site):
    for path, schema in (("/api/v1/snapshot", "sample-1"), ("/api/v1/status", "status-1")):
        answer = site.ask(path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        jsonschema.validate(json.loads(answer.text), json.loads((SCHEMAS / f"{schema}.json").read_text()))


def test_before_the_first_view_it_is_healthy_but_not_ready(site):
    site.view = None
    codes = {
        path: site.ask(path).status
        for path in ("/-/healthy", "/-/ready", "/metrics", "/api/v1/snapshot", "/api/v1/status", "/")
    }
    assert codes == {
        "/-/healthy": 200,
        "/-/ready": 503,
        "/metrics": 503,
        "/api/v1/snapshot": 503,
        "/api/v1/status": 503,
        "/": 200,
    }
    site.view = BIG
    assert site.ask("/-/ready").status == 200


def test_head_has_the_headers_of_get_and_no_body(site):
    for path in ("/", "/metrics", "/-/healthy", "/api/v1/status"):
        get, head = site.ask(path), site.ask(path, "HEAD")
        assert (head.status, head.text) == (200, b"")
        assert head.headers["Content-Length"] == str(len(get.text))


def test_what_is_not_there_is_404_and_what_is_not_allowed_405(site):
    assert site.ask("/metric").status == 404
    assert site.ask("/metrics/").status == 404
    assert site.ask("/../etc/passwd").status == 404
    assert site.ask("/metrics?debug=1").status == 200
    for path, method, allow in (
        ("/metrics", "POST", "GET, HEAD"),
        ("/", "DELETE", "GET, HEAD"),
        ("/-/reload", "GET", "POST"),
        ("/-/healthy", "OPTIONS", "GET, HEAD"),
    ):
        answer = site.ask(path, method)
        assert (answer.status, answer.headers["Allow"]) == (405, allow)


def test_every_answer_carries_headers_that_keep_browsers_safe(site):
    for path in ("/", "/metrics", "/nothing", "/api/v1/snapshot"):
        headers = site.ask(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert headers["Server"] == "rocmwatch"


def test_reload_says_how_it_went(site):
    assert site.ask("/-/reload", "POST").status == 200
    site.reload_answer = False
    assert site.ask("/-/reload", "POST").status == 500
    assert site.ask("/-/reload", "POST", Origin="http://elsewhere.example").status == 403
    same = f"http://127.0.0.1:{site.server.port}"
    assert site.ask("/-/reload", "POST", Origin=same).status == 500
    assert site.reloads == [True, False, False]


def test_reload_is_refused_where_it_is_off():
    server = WebServer("127.0.0.1", 0, lambda: BIG, lambda: views.NOW)
    server.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", "/-/reload")
    answer = connection.getresponse()
    assert (answer.status, b"exporter.reload" in answer.read()) == (403, True)
    connection.close()
    server.stop()


def test_a_reload_that_raises_is_a_500_and_the_server_goes_on(site, monkeypatch):
    monkeypatch.setattr(site.server._application, "_reload", lambda: 1 / 0)
    assert site.ask("/-/reload", "POST").status == 500
    assert site.ask("/-/reload", "POST").status == 500
    assert site.ask().status == 200


# Connections


def test_a_connection_serves_many_requests(site):
    connection = http.client.HTTPConnection("127.0.0.1", site.server.port, timeout=10)
    ports = set()
    for path in ("/metrics", "/-/healthy", "/nothing", "/", "/metrics"):
        connection.request("GET", path)
        connection.getresponse().read()
        ports.add(connection.sock.getsockname()[1])
    assert len(ports) == 1
    connection.close()


def test_http_1_0_and_connection_close_are_honoured(site):
    assert site.talk(b"GET /-/healthy HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nrocmwatch is serving\n")
    answer = site.talk(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nrocmwatch is serving\n")


def test_a_request_that_comes_byte_by_byte_is_answered(site):
    with site.connect() as sock:
        for byte in b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n":
            sock.send(bytes([byte]))
            time.sleep(0.002)
        assert sock.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_that_come_together_are_answered_in_turn_or_the_connection_says_close(site):
    request = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = site.talk(request * 2)
    assert answer.count(b"HTTP/1.1 200 OK") == 2 or b"Connection: close\r\n" in answer


def test_a_client_that_closes_its_side_after_asking_still_gets_its_answer(site):
    with site.connect() as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        heard = b""
        while piece := sock.recv(65536):
            heard += piece
    assert heard.endswith(b'{source="fragmentation"} 40.0\n')


def test_a_reader_that_is_slow_gets_the_whole_answer(site):
    with site.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        heard = b""
        while piece := sock.recv(4096):
            heard += piece
            time.sleep(0.002)
    head, _, body = heard.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head
    assert body.endswith(b'{source="fragmentation"} 40.0\n')


def test_half_a_request_is_timed_out_and_silence_is_closed(site, monkeypatch):
    monkeypatch.setattr(lobby, "REQUEST_SECONDS", 0.2)
    started = time.monotonic()
    assert site.talk(b"GET /metrics HTTP/1.1\r\nHost:").startswith(b"HTTP/1.1 408 ")
    assert site.talk(b"") == b""
    assert 0.3 < time.monotonic() - started < 5


def test_an_idle_connection_is_closed_after_its_time(site, monkeypatch):
    monkeypatch.setattr(lobby, "IDLE_SECONDS", 0.3)
    answer = site.talk(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n", seconds=5)
    assert answer.endswith(b"rocmwatch is serving\n")


def test_who_never_reads_is_dropped_and_no_worker_waits_for_them(site, monkeypatch):
    monkeypatch.setattr(lobby, "ANSWER_SECONDS", 0.5)
    site.view = views.view(*(views.mi300x_cpx(number) for number in range(64)))  # far more than a socket buffer
    before = descriptors()
    clients = []
    for _ in range(20):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(("127.0.0.1", site.server.port))
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        clients.append(sock)
    assert site.ask("/-/healthy").status == 200
    assert eventually(lambda: descriptors() <= before + len(clients) + 2)
    for sock in clients:
        sock.close()


def test_the_oldest_connection_makes_room_when_there_are_too_many(site, monkeypatch):
    monkeypatch.setattr(lobby, "MOST_CONNECTIONS", 10)
    clients = [site.connect() for _ in range(30)]
    assert site.ask("/-/healthy").status == 200
    clients[0].settimeout(5)
    assert clients[0].recv(1) == b""
    clients[-1].sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
    assert clients[-1].recv(4096).startswith(b"HTTP/1.1 200 OK")
    for sock in clients:
        sock.close()


# Requests that nobody should send

HOST = b"Host: x\r\n"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"hello\r\n\r\n", b"400"),
        (b"GET\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/9.9\r\n\r\n", b"505"),
        (b"GET /metrics HTTP/1.x\r\n\r\n", b"400"),
        (b"get /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\nHost: x\n\n", b"400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n X: continues nothing\r\n\r\n", b"400"),
        (b"GET //[ HTTP/1.1\r\n\r\n", b"400"),
        (b"HEAD http://[::1/ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: 40\r\nContent-Length: 0\r\n\r\n", b"400"),
        (b"GET /-/healthy HTTP/1.0\r\nConnection: Keep-Alive\r\nTransfer-Encoding: chunked\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", b"501"),
        (b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),  # someone speaks TLS
        (b"\x00" * 200 + b"\r\n\r\n", b"400"),
        (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /%ff%00%0d%0a HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", b"404"),
        (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\n" + b"X-Y: z\r\n" * 100_000 + b"\r\n", b"413"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: 60000\r\n\r\n" + b"a" * 60_000, b"405"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + b"ffffff\r\n" + b"a" * 9999, b"405"),
        (b"GET /-/healthy HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", b"200"),
    ],
    ids=range(30),
)
def test_a_bad_request_is_answered_at_once_and_its_connection_closed(site, said, status):
    started = time.monotonic()
    with structlog.testing.capture_logs() as logged:
        answer = site.talk(said)
    assert not logged, "what strangers send is no news"
    assert answer.split(b" ", 2)[1] == status
    assert time.monotonic() - started < 2.5
    assert site.ask("/-/healthy").status == 200


def test_a_body_without_end_is_cut_off(site):
    with site.connect() as sock:
        sock.settimeout(10)
        sock.sendall(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent, end = 0, time.monotonic() + 8
        with suppress(ConnectionError, TimeoutError):
            while time.monotonic() < end and sent < 1 << 30:
                sent += sock.send(b"a" * 65536)
    assert sent < 100 << 20
    assert site.ask("/-/healthy").status == 200


# Many clients


@contextmanager
def two_hundred_slow_clients(site: Site) -> Iterator[list[socket.socket]]:
    """A quarter each: bytes that dribble in, half closed in a request, asking without reading, silence."""
    clients = []
    over = threading.Event()
    for number in range(200):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.settimeout(5)
        sock.connect(("127.0.0.1", site.server.port))
        if number % 4 == 1:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
            sock.shutdown(socket.SHUT_WR)
        elif number % 4 == 2:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 10)
        clients.append(sock)

    def dribble() -> None:
        while not over.wait(0.05):
            for sock in clients[::4]:
                with suppress(OSError):
                    sock.send(b"X")

    dribbler = threading.Thread(target=dribble)
    dribbler.start()
    try:
        yield clients
    finally:
        over.set()
        dribbler.join(10)
        for sock in clients:
            sock.close()


def test_two_hundred_slow_clients_do_not_slow_a_scrape(site):
    site.ask(Accept_Encoding="gzip")
    threads, memory, before = threading.active_count(), resident_bytes(), descriptors()
    seconds = []
    with two_hundred_slow_clients(site):
        for number in range(60):
            started = time.monotonic()
            assert site.ask(Accept_Encoding="gzip" if number % 2 else "identity").status == 200
            seconds.append(time.monotonic() - started)
            time.sleep(0.02)
        assert threading.active_count() == threads + 1  # the dribbler
        assert resident_bytes() - memory < 64 << 20
    assert statistics.quantiles(seconds, n=20)[-1] < 1.0
    assert eventually(lambda: descriptors() <= before + 1)


def test_scrapes_at_the_same_time_are_all_answered(site):
    answers: list[bytes] = []

    def scrape() -> None:
        answers.extend(site.ask().text for _ in range(10))

    threads = [threading.Thread(target=scrape) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 160
    assert len(set(answers)) == 1


# Starting and stopping


def test_stop_is_quick_whatever_clients_do_and_frees_the_address():
    site = Site()
    before = descriptors()
    site.server.start()
    with two_hundred_slow_clients(site):
        site.ask()
        started = time.monotonic()
        site.server.stop()
        assert time.monotonic() - started < 1.0
        again = WebServer("127.0.0.1", site.server.port, lambda: None, lambda: 0.0)
        again.start()
        again.stop()
    assert eventually(lambda: descriptors() == before)
    site.server.stop()  # once more does no harm


def test_a_port_in_use_is_told_in_one_line(site):
    with pytest.raises(RocmwatchError) as caught:
        WebServer("127.0.0.1", site.server.port, lambda: None, lambda: 0.0).start()
    assert str(caught.value).startswith(f"cannot listen on 127.0.0.1:{site.server.port}: the port is in use")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "::2", "\x00", "a" * 300])
def test_an_address_that_cannot_be_had_is_told_in_one_line(host):
    with pytest.raises(RocmwatchError, match="cannot listen on ") as caught:
        WebServer(host, 0, lambda: None, lambda: 0.0).start()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("localhost", "localhost"),
        ("::1", "::1"),
        ("", "::1"),
        ("::", "::1"),
    ],
)
def test_it_listens_where_it_is_told(host, reached):
    if ":" in host + reached and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    server = WebServer(host, 0, lambda: BIG, lambda: views.NOW)
    server.start()
    try:
        connection = http.client.HTTPConnection(reached, server.port, timeout=5)
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.stop()


def test_an_idle_server_sleeps(site):
    site.ask()
    time.sleep(1.2)  # the one parting of that client
    started, used = time.monotonic(), time.process_time()
    time.sleep(2)
    assert (time.process_time() - used) / (time.monotonic() - started) < 0.0005


# Others read it


@pytest.mark.promtool
def test_prometheus_scrapes_the_compressed_openmetrics_with_its_tail(site, tmp_path, require):
    require("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 400ms}\n"
        f"scrape_configs: [{{job_name: r, static_configs: [{{targets: ['127.0.0.1:{site.server.port}']}}]}}]\n"
    )
    prometheus = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def value(query: str) -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with closing(connection), suppress(OSError, http.client.HTTPException, ValueError):  # while it starts
            connection.request("GET", f"/api/v1/query?query={query}")
            found = json.loads(connection.getresponse().read())["data"]["result"]
            return found[0]["value"][1] if found else None
        return None

    try:
        assert eventually(lambda: value("up") == "1")
        assert value("sum(rocmwatch_gpu_vram_total_bytes)") == str(8 * 192 * views.GIB)
        assert value("rocmwatch_sample_age_seconds%7Bsource='fragmentation'%7D") == "40"
    finally:
        prometheus.terminate()
        prometheus.wait(10)
