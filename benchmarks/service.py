"""The daemon as its users run it: a process on a tree, with a configuration, measured from outside."""

from __future__ import annotations

import gzip
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from measure import Bench, cpu_nanoseconds, descendants, pss_bytes

READY_SECONDS = 20.0


class Settings(NamedTuple):
    """What is sampled how often, in seconds."""

    interval: float
    sensors: float
    fragmentation: float = 60.0


class Response(NamedTuple):
    """An answer of the daemon."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def text(self) -> str:
        gzipped = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if gzipped else self.body).decode()


class Client:
    """Whoever asks the daemon."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, **headers: str) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return Response(answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()})
        finally:
            connection.close()

    def scrape(self) -> Response:
        """As Prometheus does it."""
        accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        return self.get("/metrics", **{"Accept": accept, "Accept-Encoding": "gzip"})


class Service(Client):
    """A running daemon."""

    def __init__(self, bench: Bench, root: str, settings: Settings) -> None:
        super().__init__(free_port())
        config = bench.folder / f"config-{self.port}.yaml"
        config.write_text(
            f"sampling: {{interval: {settings.interval}s, sensors: {settings.sensors}s, "
            f"fragmentation: {settings.fragmentation}s}}\n"
            f"exporter: {{listen: '127.0.0.1:{self.port}'}}\n"
            "log: {level: warning}\n",
            encoding="utf-8",
        )
        self._log = open(bench.folder / f"log-{self.port}", "w+b")  # noqa: SIM115  # as long as the daemon lives
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rocmwatch", "run", "--config", str(config), "--root", root],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={name: value for name, value in os.environ.items() if name not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")},
        )

    def __enter__(self) -> Service:
        try:
            self.ready_seconds = self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """Main, launcher, readers."""
        return descendants(self._process.pid)

    @property
    def reader(self) -> int:
        """The process that reads the sensors."""
        for pid in self.pids:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "rw-sensors":
                return pid
        raise RuntimeError("the daemon has no process named rw-sensors")

    def cpu_nanoseconds(self) -> int:
        return cpu_nanoseconds(self.pids)

    def pss_bytes(self) -> int:
        return pss_bytes(self.pids)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _wait_until_ready(self) -> float:
        """Seconds from the start to the first answer that says it has a picture."""
        while time.monotonic() - self.started < READY_SECONDS:
            try:
                if self.get("/-/ready").status == 200:
                    return time.monotonic() - self.started
            except OSError:
                pass
            if self._process.poll() is not None:
                self._log.seek(0)
                raise RuntimeError(f"the daemon ended: {self._log.read().decode(errors='replace').strip()[-2000:]}")
            time.sleep(0.005)
        raise RuntimeError(f"the daemon was not ready after {READY_SECONDS:.0f} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def series(text: str) -> int:
    """The number of samples in an exposition."""
    return sum(1 for line in text.splitlines() if line and not line.startswith("#"))
