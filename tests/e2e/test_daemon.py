"""The daemon's life, as a process: it starts, survives what happens to its family, and ends; nobody is left behind."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from e2e import running
from e2e.running import Service, eventually
from faultfs import FaultFS

from rocmwatch.simulate import SimulatedNode

QUICK = "sampling: {interval: 200ms, sensors: 1s, deadline: 200ms}"
PATIENT = "sampling: {interval: 1s, sensors: 1s, deadline: 1s}"  # a mirror is slower than a folder
END_SECONDS = 1.0
GPUS = 2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", GPUS) as node:
        yield node


@pytest.fixture
def mirror(node: SimulatedNode, tmp_path: Path) -> Iterator[FaultFS]:
    """The node behind a file system that fails on request."""
    with FaultFS(node.root, tmp_path / "mirror") as mirror:
        yield mirror


@pytest.fixture
def service(node: SimulatedNode, tmp_path: Path) -> Iterator[Service]:
    """A daemon with quick ticks, ready."""
    with Service(tmp_path, node.root, QUICK) as service:
        yield service


# Starting and ending ---------------------------------------------------------------------------------------------


@pytest.mark.fuse
def test_it_is_healthy_at_once_and_ready_after_the_first_tick(mirror: FaultFS, tmp_path: Path) -> None:
    mirror.set({"*/mem_info_vram_used": "hang"})
    with Service(tmp_path, mirror.root, "sampling: {interval: 5s, deadline: 5s}").start(wait=False) as service:
        eventually(lambda: _answers(service), "a listener")
        before = [service.get(path)[0] for path in ("/-/healthy", "/-/ready", "/metrics", "/api/v1/status", "/")]
        mirror.release()
        eventually(service.is_ready, "a daemon that is ready")

        assert before == [200, 503, 503, 503, 200]
        assert service.ticks() == 1
        assert len(service.document()["gpus"]) == GPUS


def _answers(service: Service) -> bool:
    try:
        return service.get("/-/healthy")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_and_leaves_nobody(service: Service, number: int) -> None:
    began = time.monotonic()
    status = service.end(number)
    took = time.monotonic() - began
    service.is_gone(seconds=1.0)

    assert status == 0
    assert took < END_SECONDS
    assert service.log.count("service.stopped") == 1
    assert "Traceback" not in service.log


@pytest.mark.fuse
@pytest.mark.parametrize("ready", [True, False], ids=["while it serves", "during the first tick"])
def test_it_ends_at_once_while_a_read_hangs(mirror: FaultFS, tmp_path: Path, *, ready: bool) -> None:
    hang = {"*/mem_info_vram_used": "hang"}
    mirror.set({} if ready else hang)
    config = "sampling: {interval: 200ms, deadline: 200ms}" if ready else "sampling: {interval: 10s, deadline: 10s}"
    with Service(tmp_path, mirror.root, config).start(wait=ready) as service:
        mirror.set(hang)
        if ready:
            eventually(lambda: set(service.states().values()) == {"stalled"}, "stalled GPUs")
        else:
            eventually(lambda: _answers(service) and service.readers, "a first tick under way")
        began = time.monotonic()
        status = service.end(signal.SIGTERM)
        took = time.monotonic() - began
        mirror.release()
        service.is_gone()

        assert status == 0
        assert took < END_SECONDS


@pytest.mark.fuse
def test_it_ends_at_once_while_a_reload_waits_for_a_tick_that_hangs(mirror: FaultFS, tmp_path: Path) -> None:
    with Service(tmp_path, mirror.root, "sampling: {interval: 3s, deadline: 3s}").start() as service:
        mirror.set({"*/mem_info_vram_used": "hang"})
        service.send(signal.SIGHUP)
        began = time.monotonic()
        status = service.end(signal.SIGTERM)
        took = time.monotonic() - began
        mirror.release()

        assert status == 0
        assert took < END_SECONDS


def test_a_port_in_use_is_one_line_and_1(node: SimulatedNode, tmp_path: Path) -> None:
    service = Service(tmp_path, node.root, QUICK)
    with socket.create_server(("127.0.0.1", service.port)), service.start(wait=False):
        status = service.wait()
        service.is_gone()

    [line] = service.log.splitlines()
    assert status == 1
    assert f"127.0.0.1:{service.port}" in line
    assert "in use" in line


def test_a_bad_configuration_is_78_and_names_every_problem_with_its_line(node: SimulatedNode, tmp_path: Path) -> None:
    service = Service(tmp_path, node.root)
    service.config.write_text("sampling:\n  intervall: 5s\n  sensors: 1ms\nlog: {level: loud}\n")
    with service.start(wait=False):
        status = service.wait()

    lines = service.log.splitlines()
    assert status == 78
    assert [f"{service.config}:{number}:" in line for number, line in zip((2, 3, 4), lines, strict=True)] == [True] * 3


def test_a_root_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    ended = running.run("run", "--root", str(tmp_path))

    assert ended.status == 2
    assert "no sys folder" in ended.err


@pytest.mark.parametrize("folder", ["/proc", "/dev/null", "/nowhere/at/all"])
def test_a_runtime_folder_that_cannot_be_written_is_done_without(
    node: SimulatedNode, tmp_path: Path, folder: str
) -> None:
    with Service(tmp_path, node.root, QUICK, RUNTIME_DIRECTORY=folder) as service:
        service.next_tick()

        assert [gpu["gpu"] for gpu in service.document()["gpus"]] == ["0", "1"]
        assert "Traceback" not in service.log


def test_without_capabilities_to_give_away_it_runs_as_an_ordinary_user_does(service: Service) -> None:
    status = Path(f"/proc/{service.pid}/status").read_text()
    sets = {line.split(":")[0]: int(line.split()[1], 16) for line in status.splitlines() if line.startswith("Cap")}

    assert sets == dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0)


# Nothing to watch ------------------------------------------------------------------------------------------------


def test_without_a_gpu_it_stays_up_says_so_once_and_finds_one_that_appears(node: SimulatedNode, tmp_path: Path) -> None:
    root = tmp_path / "later"
    (root / "sys").mkdir(parents=True)
    with Service(tmp_path, root, QUICK) as service:
        service.next_tick(10)
        alone = service.metrics(), service.log
        (root / "sys").rename(root / "empty")
        Path(node.root, "sys").rename(root / "sys")
        eventually(lambda: service.metric("gpus") == GPUS, "the GPUs that appeared")

        assert alone[0]["rocmwatch_gpus"] == 0
        assert not any(name.startswith("rocmwatch_gpu_") for name in alone[0])
        assert alone[1].count("gpus.none_found") == 1
        assert service.log.count("gpu.found") == GPUS
        assert service.log.count("gpus.none_found") == 1


@pytest.mark.fuse
def test_without_permission_for_debugfs_one_line_says_what_goes_without(mirror: FaultFS, tmp_path: Path) -> None:
    mirror.set({"/sys/kernel/debug*": "list:EACCES", "*/amdgpu_vram_mm": "open:EACCES"})
    with Service(tmp_path, mirror.root, PATIENT) as service:
        service.next_tick()
        told = [line for line in service.log.splitlines() if "debug" in line and "node.limited" in line]
        metrics = service.metrics()

        assert len(told) == 1
        assert "permission" in told[0]
        assert "fragmentation" in told[0]
        assert not any("fragmentation_ratio" in name for name in metrics)
        assert sum(name.startswith("rocmwatch_gpu_vram_used_bytes") for name in metrics) == GPUS
        assert any("permission" in note for note in service.document()["notes"])


# The family ------------------------------------------------------------------------------------------------------


def test_a_killed_reader_is_replaced_by_the_next_tick_and_counted(service: Service) -> None:
    [reader], launcher = service.readers, service.launcher
    os.kill(reader, signal.SIGKILL)
    eventually(lambda: service.metric("reader_restarts_total") == 1, "a reader that was started anew")
    service.next_tick()

    assert service.readers != [reader]
    assert len(service.readers) == 1
    assert service.launcher == launcher
    assert set(service.states().values()) == {"active"}


def test_readers_that_are_killed_again_and_again_are_replaced_each_time(service: Service) -> None:
    for _ in range(5):
        for reader in service.readers:
            os.kill(reader, signal.SIGKILL)
        service.next_tick()
    service.next_tick()

    assert len(service.readers) == 1
    assert service.metric("reader_restarts_total") >= 3
    assert set(service.states().values()) == {"active"}


def test_a_killed_launcher_ends_it_with_1_and_one_line(service: Service) -> None:
    os.kill(service.launcher, signal.SIGKILL)
    status = service.wait()
    service.is_gone()

    [line] = [line for line in service.log.splitlines() if " error " in line]
    assert status == 1
    assert "service.failed" in line
    assert "launcher" in line
    assert "Traceback" not in service.log


def test_a_killed_main_takes_its_family_with_it(service: Service) -> None:
    service.end(signal.SIGKILL)
    service.is_gone(seconds=2.0)


def test_a_family_that_stands_still_is_gone_with_main_once_it_goes_on(service: Service) -> None:
    with running.stopped(service.launcher):
        status = service.end(signal.SIGTERM)
    service.is_gone(seconds=2.0)

    assert status == 0


# Time ------------------------------------------------------------------------------------------------------------

CLOCK_THAT_STEPS = """
import datetime, os, sys, time
import apscheduler.schedulers.base, apscheduler.triggers.interval, apscheduler.triggers.date
from rocmwatch.daemon import Daemon
from rocmwatch.observe.clock import SystemClock
from rocmwatch.picture import Studio

def offset():
    return float(open(sys.argv[3]).read())

class Now(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=offset())

for module in (apscheduler.schedulers.base, apscheduler.triggers.interval, apscheduler.triggers.date):
    module.datetime = Now

class Clock(SystemClock):
    def unix(self):
        return super().unix() + offset()

os._exit(Daemon(sys.argv[1], Studio(sys.argv[2], clock=Clock())).run())
"""


def test_ticks_go_on_after_the_clock_steps_back_or_forth(node: SimulatedNode, tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    offset.write_text("0")
    service = Service(tmp_path, node.root, QUICK, WATCHDOG_USEC="3000000")  # so it looks at the clock more often
    service.program = [sys.executable, "-c", CLOCK_THAT_STEPS, str(service.config), node.root, str(offset)]
    with service.start():
        for steps, seconds in enumerate((-3600, 7200), 1):
            service.next_tick(3)
            new = offset.with_suffix(".new")
            new.write_text(str(seconds))
            new.replace(offset)
            eventually(lambda: service.log.count("clock.stepped") == steps, "a step that was seen")  # noqa: B023
        service.next_tick(3)

        assert "Traceback" not in service.log
        assert 0 <= service.document()["snapshot"]["age_seconds"] < 5


# What stays flat -------------------------------------------------------------------------------------------------


def test_threads_descriptors_and_the_log_stay_as_they_are_over_scrapes_and_ticks(
    node: SimulatedNode, tmp_path: Path
) -> None:
    with Service(tmp_path, node.root, "sampling: {interval: 150ms, sensors: 1s, deadline: 150ms}") as service:
        for _ in range(20):  # every worker has had its turn
            service.get("/metrics", Accept_Encoding="gzip")
            service.get("/")
        family = sorted(process.pid for process in service.family())
        before, log = _sizes(family), service.log
        for _ in range(200):
            service.get("/metrics", Accept_Encoding="gzip")
        service.next_tick(50)
        eventually(lambda: _sizes(family) == before, "as before")

        assert sorted(process.pid for process in service.family()) == family
        assert before[0].threads <= 16
        assert service.log == log
        assert log.count("service.started") == 1
        assert log.count("gpu.found") == GPUS


class Sizes(NamedTuple):
    """What a process has."""

    threads: int
    descriptors: int


def _sizes(family: list[int]) -> list[Sizes]:
    return [Sizes(running.threads(pid), running.descriptors(pid)) for pid in family]
