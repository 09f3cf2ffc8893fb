"""What systemd hears of the daemon, at a real socket of our own."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from e2e import running
from e2e.running import Datagrams, Service, eventually
from faultfs import FaultFS

from rocmwatch.simulate import SimulatedNode

WATCHDOG_SECONDS = 3.0
WATCHDOG = {"WATCHDOG_USEC": str(round(WATCHDOG_SECONDS * 1e6))}
CONFIG = "sampling: {interval: 1s, sensors: 1s, deadline: 100ms}"
STATUS = re.compile(r"^STATUS=2 GPUs; last tick \d\.\d s ago$", re.MULTILINE)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", 2) as node:
        yield node


@pytest.fixture
def manager() -> Iterator[Datagrams]:
    """The service manager's ear. (A socket's path has to be short.)"""
    with tempfile.TemporaryDirectory(prefix="rw-") as folder, Datagrams(f"{folder}/notify") as manager:
        yield manager


@pytest.fixture
def service(node: SimulatedNode, tmp_path: Path, manager: Datagrams) -> Iterator[Service]:
    with Service(tmp_path, node.root, CONFIG, NOTIFY_SOCKET=manager.path, **WATCHDOG) as service:
        eventually(lambda: "READY=1" in "".join(manager.texts()), "READY=1")
        yield service


@pytest.mark.fuse
def test_ready_is_told_after_the_first_tick_and_once(node: SimulatedNode, tmp_path: Path, manager: Datagrams) -> None:
    with FaultFS(node.root, tmp_path / "mirror", {"*/mem_info_vram_used": "hang"}) as mirror:
        config = "sampling: {interval: 3s, deadline: 3s}"
        service = Service(tmp_path, mirror.root, config, NOTIFY_SOCKET=manager.path).start(wait=False)
        with service:
            eventually(lambda: service.readers and manager.texts(), "a first tick under way")
            service.send(signal.SIGHUP)  # a reload before that must not say it either
            eventually(lambda: "config.reloaded" in service.log, "a reload")
            before, was_ready = manager.texts(), service.is_ready()
            mirror.release()
            eventually(lambda: "READY=1" in "".join(manager.texts()), "READY=1")
            is_ready = service.is_ready()

    assert not was_ready
    assert is_ready
    assert "READY" not in "".join(before)
    assert "RELOADING" not in "".join(before)
    assert "STATUS=the first tick is under way" in "".join(before)
    assert "".join(manager.texts()).count("READY=1") == 1


def test_signs_of_life_come_in_time_and_tell_the_gpus_and_the_age_of_the_last_tick(
    service: Service, manager: Datagrams
) -> None:
    time.sleep(1.2 * WATCHDOG_SECONDS)
    moments = [moment for moment, text in manager.received if b"WATCHDOG=1" in text]
    told = [text for text in manager.texts() if "READY=1" in text or "WATCHDOG=1" in text]

    assert all(STATUS.search(text) for text in told[1:])  # the first one is earlier than the first tick
    assert len(moments) >= 3
    assert max(after - before for before, after in pairwise(moments)) <= WATCHDOG_SECONDS / 2


def test_no_sign_of_life_is_given_while_ticks_are_stuck(service: Service, manager: Datagrams) -> None:
    """A launcher that stands still cannot fork, and the next tick needs a reader."""
    with running.stopped(service.launcher):
        os.kill(service.readers[0], signal.SIGKILL)
        began = time.monotonic()
        patience = WATCHDOG_SECONDS + 2.0  # a tick may have been fresh just then, and the beat is a second
        eventually(lambda: time.monotonic() > began + patience, "that long")
        status = service.wait()
        ended = time.monotonic()
    late = manager.texts(since=began + patience)

    assert ended - began > patience + 1
    assert "WATCHDOG=1" not in "".join(late)
    assert any(re.search(r"^STATUS=2 GPUs; last tick \d+\.\d s ago$", text) for text in late)
    assert status == 1
    assert "the launcher does not answer" in service.log


@pytest.mark.fuse
def test_gpus_that_hang_do_not_keep_it_from_giving_signs_of_life(
    node: SimulatedNode, tmp_path: Path, manager: Datagrams
) -> None:
    with FaultFS(node.root, tmp_path / "mirror") as mirror:
        config = "sampling: {interval: 1s, deadline: 1s}"
        with Service(tmp_path, mirror.root, config, NOTIFY_SOCKET=manager.path, **WATCHDOG) as service:
            mirror.set({"*/mem_info_vram_used": "hang"})
            eventually(lambda: set(service.states().values()) == {"stalled"}, "stalled GPUs")
            time.sleep(WATCHDOG_SECONDS / 2)
            mirror.release()
            moments = [moment for moment, text in manager.received if b"WATCHDOG=1" in text]

            assert max(after - before for before, after in pairwise(moments)) <= WATCHDOG_SECONDS / 2
            assert "STATUS=2 GPUs (2 stalled);" in "".join(manager.texts())


def test_a_daemon_that_was_stopped_for_a_while_goes_on(service: Service) -> None:
    """As by Ctrl-Z and fg, a frozen cgroup or a debugger: Python then makes a signal up that nobody sent."""
    for _ in range(3):
        service.send(signal.SIGSTOP)
        time.sleep(WATCHDOG_SECONDS / 3)  # longer than it waits for a signal
        service.send(signal.SIGCONT)
        eventually(lambda: service.document()["snapshot"]["age_seconds"] < 1.0, "a fresh tick")

    assert service.end() == 0


def test_a_reload_is_announced_and_ended_even_when_it_is_refused(service: Service, manager: Datagrams) -> None:
    for text in (CONFIG, "sampling: {interval: never}"):
        began = time.monotonic()
        service.configure(text)
        service.send(signal.SIGHUP)
        eventually(lambda: "READY=1" in "".join(manager.texts(began)), "an end of the reload")  # noqa: B023
        told = [text for text in manager.texts(began) if "RELOADING" in text or "READY" in text]

        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", told[0])
        assert began * 1e6 <= int(told[0].rpartition("=")[2]) <= time.monotonic() * 1e6
        assert told[1].startswith("READY=1\n")


def test_the_end_is_announced(service: Service, manager: Datagrams) -> None:
    status = service.end(signal.SIGTERM)

    assert status == 0
    assert manager.texts()[-1] == "STOPPING=1"


def test_no_child_inherits_the_socket_or_the_watchdog(service: Service) -> None:
    children = [process.pid for process in service.family() if process.pid != service.pid]
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in children]

    assert len(environments) == 3  # the launcher, and the readers of sensors and of processes
    assert not any(b"NOTIFY_SOCKET" in text or b"WATCHDOG" in text for text in environments)


def test_an_interval_above_a_third_of_the_watchdog_is_a_bad_configuration(
    node: SimulatedNode, tmp_path: Path, manager: Datagrams
) -> None:
    service = Service(tmp_path, node.root, "sampling: {interval: 1001ms}", NOTIFY_SOCKET=manager.path, **WATCHDOG)
    with service.start(wait=False):
        status = service.wait()

    [line] = service.log.splitlines()
    assert status == 78
    assert f"{service.config}: sampling.interval" in line
    assert "WatchdogSec" in line
    assert "READY=1" not in "".join(manager.texts())


def test_a_watchdog_for_another_process_is_none_of_ours(
    node: SimulatedNode, tmp_path: Path, manager: Datagrams
) -> None:
    config = "sampling: {interval: 5s}"
    with Service(tmp_path, node.root, config, NOTIFY_SOCKET=manager.path, WATCHDOG_PID="1", **WATCHDOG) as service:
        assert service.is_ready()


def test_a_manager_that_does_not_listen_holds_nothing_up(node: SimulatedNode, tmp_path: Path) -> None:
    import socket

    with tempfile.TemporaryDirectory(prefix="rw-") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(f"{folder}/notify")
        config = "sampling: {interval: 100ms, deadline: 100ms}"
        with Service(tmp_path, node.root, config, NOTIFY_SOCKET=f"{folder}/notify", WATCHDOG_USEC="300000") as service:
            service.next_tick(15)  # the kernel keeps ten or so datagrams; then a sender waits
            began = time.monotonic()
            status = service.end(signal.SIGTERM)
            took = time.monotonic() - began

    assert status == 0
    assert took < 2.0
