from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
import structlog
from e2e.running import Datagrams, environment, eventually

from rocmwatch.serve import log

HOSTILE = (
    "two\nlines",
    "\033[31mred\033[0m",
    "a\rb",
    "\udcff\udc00",
    "nul\0",
    "\u2028line",
    "bell\a",
    "\x9b31m",
    "\u202eleft",
)


@pytest.fixture(autouse=True)
def _defaults_afterwards() -> Iterator[None]:
    level = logging.getLogger("apscheduler").level
    yield
    structlog.reset_defaults()
    logging.getLogger("apscheduler").setLevel(level)


def written(form: str, event: str = "gpu.lost", level: str = "warning", **facts: object) -> str:
    """What is written of one event."""
    stream = io.StringIO()
    log.configure("debug", form, stream=stream)
    getattr(log.get_logger(), level)(event, **facts)
    return stream.getvalue()


def failure(text: str) -> ValueError:
    """An error that was raised."""
    try:
        raise ValueError(text)  # noqa: TRY301
    except ValueError as error:
        return error


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(level: str) -> str:
    stream = Terminal()
    log.configure("debug", "console", stream=stream)
    getattr(log.get_logger(), level)("gpu.lost", pci="0000:05:00.0")
    return stream.getvalue()


# For people ------------------------------------------------------------------------------------------------------


def test_a_line_for_people_has_time_level_event_and_facts() -> None:
    line = written("console", gpu="3", pci="0000:05:00.0", reason="it fell off", before=None)

    assert re.fullmatch(r"\d\d:\d\d:\d\d warning gpu\.lost gpu=3 pci=0000:05:00\.0 reason=it fell off\n", line)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("form", ["console", "json"])
def test_texts_of_others_stay_within_their_line_and_do_nothing_to_a_terminal(form: str, text: str) -> None:
    line = written(form, product=text, error=f"x{text}y")

    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert line.encode()


def test_a_traceback_goes_below_its_line_and_cannot_break_out_of_it() -> None:
    stream = io.StringIO()
    log.configure("debug", "console", stream=stream)
    log.get_logger().error("tick.failed", exc_info=failure("bad\033[2J\nname"))
    first, *below = stream.getvalue().splitlines()

    assert first.endswith("error   tick.failed")
    assert all(line.startswith("    ") and line.isprintable() for line in below)
    assert any("ValueError" in line for line in below)


@pytest.mark.parametrize(("level", "color"), [("error", "\033[1;31m"), ("warning", "\033[33m"), ("info", "")])
def test_a_terminal_shows_levels_in_colours(monkeypatch: pytest.MonkeyPatch, level: str, color: str) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = on_a_terminal(level)

    assert line.startswith(color)
    assert ("\033" in line) == bool(color)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "")])
def test_colours_are_left_out_where_nobody_wants_them(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)

    assert "\033" not in on_a_terminal("error")


# For collectors --------------------------------------------------------------------------------------------------


def test_json_is_an_object_a_line_with_every_fact_as_it_was() -> None:
    event = json.loads(written("json", gpu="3", seconds=1.5, before=None, product="two\nlines", odd=object))
    del event["timestamp"]

    assert event == {
        "event": "gpu.lost",
        "level": "warning",
        "gpu": "3",
        "seconds": 1.5,
        "before": None,
        "product": "two\nlines",
        "odd": "<class 'object'>",
    }


# For the journal -------------------------------------------------------------------------------------------------


def fields(datagram: bytes) -> dict[str, bytes]:
    """The fields of a datagram, read as journald reads them."""
    found: dict[str, bytes] = {}
    while datagram:
        line, _, rest = datagram.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack_from("<Q", rest)
            value, end, rest = rest[8 : 8 + length], rest[8 + length : 9 + length], rest[9 + length :]
            assert end == b"\n"
        assert re.fullmatch(rb"[A-Z][A-Z0-9_]{0,63}", name)
        assert name.decode() not in found
        found[name.decode()] = value
        datagram = rest
    return found


@pytest.fixture
def journal() -> Iterator[Datagrams]:
    with tempfile.TemporaryDirectory(prefix="rw-") as folder, Datagrams(f"{folder}/socket") as journal:
        yield journal


def sent(journal: Datagrams, **facts: object) -> dict[str, bytes]:
    stream = io.StringIO()
    log.configure("debug", "journal", stream=stream, journal=journal.path)
    log.get_logger().warning("gpu.lost", **facts)
    eventually(lambda: journal.received, "a datagram")
    assert stream.getvalue() == ""
    return fields(journal.received[-1][1])


def test_the_journal_gets_a_message_for_people_and_each_fact_as_a_field(journal: Datagrams) -> None:
    assert sent(journal, gpu="3", seconds=1.5, before=None) == {
        "MESSAGE": b"gpu.lost gpu=3 seconds=1.5",
        "PRIORITY": b"4",
        "SYSLOG_IDENTIFIER": b"rocmwatch",
        "ROCMWATCH_EVENT": b"gpu.lost",
        "ROCMWATCH_GPU": b"3",
        "ROCMWATCH_SECONDS": b"1.5",
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_the_journal_gets_texts_of_others_whole_and_a_message_of_one_line(journal: Datagrams, text: str) -> None:
    got = sent(journal, product=text)

    assert got["MESSAGE"].decode().isprintable()
    assert got["ROCMWATCH_PRODUCT"] == text.encode("utf-8", "backslashreplace")


def test_a_fact_that_looks_like_a_field_is_none(journal: Datagrams) -> None:
    got = sent(journal, product="x\nPRIORITY=0\n\x08\0\0\0\0\0\0\0MESSAGE=forged")

    assert got["PRIORITY"] == b"4"
    assert got["MESSAGE"].startswith(b"gpu.lost product=x")


def test_a_traceback_is_a_field_of_many_lines(journal: Datagrams) -> None:
    got = sent(journal, exc_info=failure("bad"))

    assert got["MESSAGE"] == b"gpu.lost"
    assert got["ROCMWATCH_TRACEBACK"].startswith(b"Traceback (most recent call last):\n")
    assert got["ROCMWATCH_TRACEBACK"].endswith(b"\nValueError: bad")


@pytest.mark.parametrize("size", [10, 10_000_000], ids=["no journal", "an event too large for it"])
def test_what_the_journal_does_not_take_is_a_line_on_standard_error(size: int, journal: Datagrams) -> None:
    stream = io.StringIO()
    log.configure("debug", "journal", stream=stream, journal=journal.path if size > 100 else "/nowhere/socket")
    log.get_logger().warning("gpu.lost", text="x" * size)

    assert stream.getvalue() == f"gpu.lost text={'x' * size}\n"


def test_a_journal_that_stands_still_holds_nobody_up() -> None:
    with tempfile.TemporaryDirectory(prefix="rw-") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(f"{folder}/socket")
        log.configure("debug", "journal", stream=io.StringIO(), journal=f"{folder}/socket")
        for _ in range(2000):
            log.get_logger().warning("gpu.lost", text="x" * 1000)

        assert fields(deaf.recv(65536))["MESSAGE"].startswith(b"gpu.lost")


# Which of them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_events_below_the_level_are_left_out(level: str, shown: int) -> None:
    stream = io.StringIO()
    log.configure(level, "console", stream=stream)
    for name in ("debug", "info", "warning", "error"):
        getattr(log.get_logger(), name)("something.happened")

    assert len(stream.getvalue().splitlines()) == shown


def test_a_logger_that_is_older_than_a_reload_follows_it() -> None:
    before = log.get_logger()
    first, second = io.StringIO(), io.StringIO()
    log.configure("error", "console", stream=first)
    before.info("not.shown")
    log.configure("info", "json", stream=second)
    before.info("shown")

    assert first.getvalue() == ""
    assert json.loads(second.getvalue())["event"] == "shown"


AUTO = """
import os, sys
from rocmwatch.serve import log
if sys.argv[1] == "matching":
    status = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
elif sys.argv[1] == "inherited":
    os.environ["JOURNAL_STREAM"] = "8:12345"
log.JOURNAL_SOCKET = sys.argv[2]
log.configure("info", "auto", journal=sys.argv[2])
log.get_logger().info("something.happened")
"""


@pytest.mark.parametrize(("stream", "shown"), [("matching", ""), ("inherited", "info"), ("none", "info")])
def test_auto_is_the_journal_only_when_standard_error_goes_there(journal: Datagrams, stream: str, shown: str) -> None:
    command = [sys.executable, "-c", AUTO, stream, journal.path]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())

    assert shown in ended.stderr
    assert (ended.stderr == "") == (stream == "matching")
    assert bool(journal.received) == (stream == "matching")


# When it cannot be written ---------------------------------------------------------------------------------------


def test_a_stream_that_fails_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    gone = os.fdopen(write, "w")
    log.configure("debug", "console", stream=gone)
    for _ in range(1000):
        log.get_logger().error("something.happened")
    with contextlib.suppress(BrokenPipeError):
        gone.close()
    log.get_logger().error("something.happened")

    assert gone.closed


def test_it_does_not_bring_rich_into_the_daemon() -> None:
    command = [sys.executable, "-c", "import sys, rocmwatch.daemon; print([m for m in sys.modules if m == 'rich'])"]

    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"


def test_rich_can_be_imported_all_the_same() -> None:
    command = [sys.executable, "-c", "import rocmwatch.serve.log, rich.console; print(rich.console.Console)"]

    assert "Console" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
