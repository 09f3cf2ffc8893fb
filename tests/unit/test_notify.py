from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator

import pytest
from e2e.running import Datagrams, eventually

from rocmwatch.serve.notify import PATIENCE_SECONDS, Supervisor


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Datagrams]:
    with tempfile.TemporaryDirectory(prefix="rw-") as folder, Datagrams(f"{folder}/notify") as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.path)
        yield manager


def close(supervisor: Supervisor) -> None:
    """As the end of the process does it."""
    supervisor._notifier.socket.close()


def test_each_message_is_one_datagram(manager: Datagrams) -> None:
    supervisor = Supervisor()
    supervisor.status("starting")
    supervisor.ready("8 GPUs")
    supervisor.alive("8 GPUs")
    supervisor.reloading()
    supervisor.stopping()
    eventually(lambda: len(manager.received) == 5, "five datagrams")
    close(supervisor)

    reloading = manager.texts()[3]
    assert manager.texts()[:3] == ["STATUS=starting", "READY=1\nSTATUS=8 GPUs", "WATCHDOG=1\nSTATUS=8 GPUs"]
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert abs(int(reloading.rpartition("=")[2]) / 1e6 - time.monotonic()) < 5
    assert manager.texts()[4] == "STOPPING=1"


def test_without_a_manager_nothing_is_told() -> None:
    supervisor = Supervisor()
    supervisor.ready("8 GPUs")
    supervisor.stopping()

    assert supervisor.watchdog_seconds is None


def test_a_socket_in_the_abstract_namespace_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"rocmwatch-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        supervisor = Supervisor()
        supervisor.stopping()
        close(supervisor)

        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sdnotify leaves its socket open
def test_a_socket_that_is_not_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    Supervisor().ready("8 GPUs")


def test_a_manager_that_does_not_listen_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="rw-") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(f"{folder}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/notify")
        supervisor = Supervisor()
        slowest = 0.0
        for _ in range(20):
            began = time.monotonic()
            supervisor.status("8 GPUs")
            slowest = max(slowest, time.monotonic() - began)
            if slowest > PATIENCE_SECONDS / 2:
                break
        close(supervisor)

    assert slowest < 4 * PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("microseconds", "pid", "seconds"),
    [
        ("30000000", None, 30.0),
        ("30000000", "mine", 30.0),
        ("30000000", "1", None),
        ("", None, None),
        ("0", None, None),
        ("soon", None, None),
        ("-1", None, None),
        ("\u00b2", None, None),
    ],
)
def test_the_watchdog_is_ours_when_it_has_a_time_and_no_other_pid(
    monkeypatch: pytest.MonkeyPatch, microseconds: str, pid: str | None, seconds: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "mine" else pid)

    assert Supervisor().watchdog_seconds == seconds


def test_nothing_of_it_is_left_for_children(monkeypatch: pytest.MonkeyPatch, manager: Datagrams) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    close(Supervisor())

    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & os.environ.keys()
