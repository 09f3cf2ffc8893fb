"""The programs of the project as real processes: started, watched from outside, and seen to be gone afterwards."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import pytest

COMMAND = (sys.executable, "-m", "rocmwatch")
PATIENCE_SECONDS = 20.0  # for what takes a moment on a quiet machine
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM", "RUNTIME_DIRECTORY", "ROCMWATCH_ROOT")
_SAMPLE = re.compile(r"^(rocmwatch_[a-z_]+(?:\{.*\})?) (\S+)$", re.MULTILINE)
Thing = TypeVar("Thing")


def eventually(look: Callable[[], Thing], what: str, seconds: float = PATIENCE_SECONDS) -> Thing:
    """What `look` returns, once it is true."""
    end = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > end:
            pytest.fail(f"after {seconds:g} s there is still not: {what}")
        time.sleep(0.02)
    return seen


def environment(**more: str) -> dict[str, str]:
    """This process's environment, without what a service manager or a user may have put there."""
    return {name: value for name, value in os.environ.items() if name not in _OURS} | more


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


# Processes -------------------------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A line of ps."""

    pid: int
    name: str
    state: str
    parent: int
    session: int


def processes() -> Iterator[Process]:
    """Every process there is."""
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                stat = Path("/proc", entry, "stat").read_text(errors="replace")
            except OSError:
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            state, parent, _group, session, *_ = rest.split()
            yield Process(int(entry), name, state, int(parent), int(session))


def alive(pid: int) -> bool:
    return any(process.pid == pid and process.state not in "ZX" for process in processes())


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


# Starts a program and writes down how it ended, and its peak. A program that is started from here would be told to have
# had as much memory as this process: the kernel counts what a process was before it became another program.
_MEASURES = """
import os, sys
report, *command = sys.argv[1:]
os.set_inheritable(int(report), False)
_, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ), 0)
os.write(int(report), b"%d %d" % (status, usage.ru_maxrss))
"""


class Finished(NamedTuple):
    """How a command ended.

    Attributes:
        peak_bytes: The most memory that it had (of its own process).
    """

    status: int
    out: str
    err: str
    peak_bytes: int


def run(*arguments: str, seconds: float = 30.0, **options: Any) -> Finished:
    """`rocmwatch ARGUMENTS`, to its end."""
    options = {"stdin": subprocess.DEVNULL, "env": environment(), "start_new_session": True, **options}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as report:
        command = [sys.executable, "-I", "-S", "-c", _MEASURES, str(report.fileno()), *COMMAND, *arguments]
        streams = {"stdout": out, "stderr": err, "pass_fds": (report.fileno(),)}
        process = subprocess.Popen(command, **{**streams, **options})
        timer = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        process.wait()
        timer.cancel()
        report.seek(0)
        status, peak_kib = map(int, report.read().split() or (signal.SIGKILL, 0))
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Finished(os.waitstatus_to_exitcode(status), *texts, peak_kib * 1024)


# The daemon ------------------------------------------------------------------------------------------------------


class Service:
    """A running daemon, with a family of its own: main, launcher, readers.

    Attributes:
        port: Where it listens.
        config: Its configuration file; write to it with `configure`.
        program: What is started.
    """

    def __init__(self, folder: Path, root: str | Path | None = None, config: str = "", **env: str) -> None:
        self.port = free_port()
        self.config = folder / f"rocmwatch-{self.port}" / "rocmwatch.yaml"
        self.config.parent.mkdir()
        self.program = [*COMMAND, "run", "--config", str(self.config), *(("--root", str(root)) if root else ())]
        self._env = env
        self._log = self.config.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: set[int] = set()
        self.configure(config)

    def configure(self, text: str = "", exporter: str = "") -> None:
        """Writes the configuration: `text`, and where it listens."""
        self.config.write_text(f'{text}\nexporter: {{listen: "127.0.0.1:{self.port}"{exporter}}}\n')

    def start(self, *, wait: bool = True, **options: Any) -> Service:
        """Starts it, and waits until it is ready."""
        with self._log.open("ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": log}
            options = {**streams, "env": environment(**self._env), **options}
            self._process = subprocess.Popen(self.program, start_new_session=True, **options)
        self._sessions.add(self._process.pid)
        if wait:
            try:
                eventually(self._is_ready_or_gone, "a daemon that is ready")
                assert self._process.poll() is None, self.log
            except BaseException:
                self._stop()
                raise
            self._note_family()
        return self

    def __enter__(self) -> Service:
        return self if self._process else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        if error is None:
            self.is_gone()
        for process in self.family():
            os.kill(process.pid, signal.SIGKILL)

    def _stop(self) -> None:
        self._note_family()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def launcher(self) -> int:
        return next(process.pid for process in self.family() if process.name == "rw-launcher")

    @property
    def readers(self) -> list[int]:
        return sorted(process.pid for process in self.family() if process.name == "rw-sensors")

    @property
    def log(self) -> str:
        """What it wrote to standard error."""
        return self._log.read_text(errors="replace")

    def family(self) -> list[Process]:
        """Its living processes: they have sessions of their own, so a dead parent hides nobody."""
        self._note_family()
        return [process for process in processes() if process.session in self._sessions and process.state not in "ZX"]

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_SECONDS) -> int:
        """Sends a signal and returns the exit status."""
        self._note_family()
        self.send(number)
        return self.wait(seconds)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def is_gone(self, seconds: float = 3.0) -> None:
        """Fails when a process of it is left."""
        try:
            eventually(lambda: not self.family(), f"an end of {self.family()}", seconds)
        finally:
            for process in self.family():
                os.kill(process.pid, signal.SIGKILL)

    def _note_family(self) -> None:
        known = 0
        while known < len(self._sessions):
            known = len(self._sessions)
            self._sessions |= {process.session for process in processes() if process.parent in self._sessions}

    def _is_ready_or_gone(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None or self.is_ready()

    # Over HTTP

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, body and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def is_ready(self) -> bool:
        try:
            return self.get("/-/ready")[0] == 200
        except OSError:
            return False

    def document(self, name: str = "status") -> dict[str, Any]:
        document = json.loads(self.get(f"/api/v1/{name}")[1])
        assert isinstance(document, dict)
        return document

    def metrics(self) -> dict[str, float]:
        """Series -> value."""
        return {name: float(value) for name, value in _SAMPLE.findall(self.get("/metrics")[1].decode())}

    def metric(self, name: str) -> float:
        """The value of a series without labels."""
        return self.metrics()[f"rocmwatch_{name}"]

    def ticks(self) -> int:
        """How many snapshots there have been."""
        sequence = self.document()["snapshot"]["sequence"]
        assert isinstance(sequence, int)
        return sequence

    def next_tick(self, count: int = 1) -> None:
        """Waits for a snapshot that was begun after now."""
        last = self.ticks() + count
        eventually(lambda: self.ticks() > last, "another tick")

    def states(self) -> dict[str, str]:
        """PCI address -> state."""
        return {gpu["pci"]: gpu["state"] for gpu in self.document()["gpus"]}


# What listens at a socket of systemd's ------------------------------------------------------------------------------


class Datagrams:
    """A datagram socket in the file system, and when what came in."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.received: list[tuple[float, bytes]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._thread = threading.Thread(target=self._listen)

    def texts(self, since: float = 0.0) -> list[str]:
        return [data.decode() for moment, data in list(self.received) if moment >= since]

    def __enter__(self) -> Datagrams:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.path)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while data := self._socket.recv(1 << 20):
            self.received.append((time.monotonic(), data))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that stands still meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)
