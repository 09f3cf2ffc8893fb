"""The daemon's log: news only, and nothing that happens to it happens to the daemon."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.running import Service, eventually

from rocmwatch.simulate import SimulatedNode

QUICK = "sampling: {interval: 200ms, sensors: 1s, deadline: 200ms}"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(str(tmp_path / "node"), "mi300x", 2) as node:
        yield node


def test_a_read_that_fails_for_a_while_is_one_line(node: SimulatedNode, tmp_path: Path) -> None:
    used = next(Path(node.root, "sys/devices").rglob("mem_info_vram_used"))
    whole = used.read_bytes()
    with Service(tmp_path, node.root, QUICK) as service:
        for content in (b"x" * len(whole), whole):
            with used.open("r+b", buffering=0) as file:  # in place: an empty file between two would be news as well
                file.write(content)
            service.next_tick(3)

        assert service.log.count("fields.read_failed") == 1


TICKS_THAT_FAIL = """
import itertools, os, sys
from rocmwatch.daemon import Daemon
from rocmwatch.picture import Studio

take, count = Studio.take, itertools.count()

def failing(self, **options):
    if 3 <= next(count) < 9:
        raise ValueError("a bug")
    return take(self, **options)

Studio.take = failing
os._exit(Daemon(sys.argv[1], Studio(sys.argv[2])).run())
"""


def test_a_bug_in_a_tick_is_told_once_and_the_next_one_is_tried(node: SimulatedNode, tmp_path: Path) -> None:
    service = Service(tmp_path, node.root, QUICK)
    service.program = [sys.executable, "-c", TICKS_THAT_FAIL, str(service.config), node.root]
    with service.start():
        eventually(lambda: "tick.recovered" in service.log, "an end of the failures")
        service.next_tick(3)

        assert service.log.count("tick.failed error=ValueError('a bug')") == 1
        assert service.log.count("    ValueError: a bug") == 1
        assert service.log.count("tick.recovered") == 1
        assert set(service.states().values()) == {"active"}


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_log_whose_reader_is_gone_does_not_end_it(node: SimulatedNode, tmp_path: Path, form: str) -> None:
    read, write = os.pipe()
    service = Service(tmp_path, node.root, f"{QUICK}\nlog: {{format: {form}}}")
    try:
        service.start(wait=False, stderr=write)
    finally:
        os.close(write)
        os.close(read)
    with service:
        eventually(service.is_ready, "a daemon that is ready")
        os.kill(service.readers[0], signal.SIGKILL)
        service.send(signal.SIGHUP)
        service.next_tick(3)

        assert service.metric("reader_restarts_total") == 1
        assert service.end() == 0


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_not_end_it(node: SimulatedNode, tmp_path: Path, closed: str) -> None:
    service = Service(tmp_path, node.root, QUICK)
    service.program = ["sh", "-c", f'exec "$@" {closed}', "sh", *service.program]
    with service.start():
        service.next_tick(3)
        streams = [os.readlink(f"/proc/{service.launcher}/fd/{number}") for number in range(3)]

        assert set(service.states().values()) == {"active"}
        assert not any("socket" in stream or "memfd" in stream for stream in streams)
        assert service.end() == 0


def test_a_log_for_collectors_is_an_object_a_line(node: SimulatedNode, tmp_path: Path) -> None:
    with Service(tmp_path, node.root, f"{QUICK}\nlog: {{format: json}}") as service:
        service.next_tick()
        service.end()
    events = [json.loads(line) for line in service.log.splitlines()]

    assert [event["event"] for event in events][-2:] == ["service.started", "service.stopped"]
    assert all(event["level"] in {"info", "warning"} and event["timestamp"].endswith("Z") for event in events)


def test_on_a_terminal_the_log_has_colours_unless_they_are_not_wanted(node: SimulatedNode, tmp_path: Path) -> None:
    def first_lines(**env: str) -> str:
        ours, theirs = os.openpty()
        with Service(tmp_path, node.root, QUICK, **env).start(wait=False, stderr=theirs) as service:
            os.close(theirs)
            eventually(service.is_ready, "a daemon that is ready")
            os.kill(service.launcher, signal.SIGKILL)
            service.wait()
        with open(ours, "rb", buffering=0) as terminal:
            return _all_of(terminal.fileno()).decode()

    assert "\033[1;31m" in first_lines(TERM="xterm")
    assert "\033" not in first_lines(TERM="xterm", NO_COLOR="1")


def _all_of(terminal: int) -> bytes:
    text = b""
    try:
        while data := os.read(terminal, 4096):
            text += data
    except OSError:  # the other side is closed
        pass
    return text
