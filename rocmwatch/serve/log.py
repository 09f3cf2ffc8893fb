"""The log: an event's name and its facts as keys; for people as a line, for journald as fields, for others as JSON.

Whatever is logged, a line stays one line: names and texts of others (a product name, a path) may hold anything. And
nothing that happens to the log happens to the daemon: a journal or a terminal that is gone is no reason to end.

Source of the journal's format: systemd's "Native Journal Protocol" (systemd.io/JOURNAL_NATIVE_PROTOCOL).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, TextIO

from rocmwatch.serve.wording import printable


@contextlib.contextmanager
def _without(package: str) -> Iterator[None]:
    before = sys.modules.get(package)
    sys.modules[package] = None  # type: ignore[assignment]  # what the import system looks for
    try:
        yield
    finally:
        del sys.modules[package]
        if before is not None:
            sys.modules[package] = before


with _without("rich"):  # structlog would draw tracebacks with it: 80 modules and 4 MiB for a daemon that draws none
    import structlog

JOURNAL_SOCKET = "/run/systemd/journal/socket"
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3}
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_COLORS = {"debug": "\033[2m", "warning": "\033[33m", "error": "\033[1;31m"}
_PLAIN = "\033[0m"
get_logger = structlog.get_logger
_TRACEBACK = "exception"  # the key under which structlog puts it


def configure(level: str, form: str, *, stream: TextIO | None = None, journal: str = JOURNAL_SOCKET) -> None:
    """Sets up the log of this process; a reload does it again while other threads log.

    Args:
        level: The least severe that is shown: debug, info, warning, error.
        form: auto, console, json or journal. `auto` is the journal when standard error goes there, else the console.
        stream: Where lines go: standard error, unless said otherwise.
        journal: Where journald listens.
    """
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # a tick that is late is told by our own metrics
    sink = _Sink(stream or sys.stderr, journal)
    if form == "auto":
        form = "journal" if _goes_to_the_journal() else "console"
    renderers: dict[str, list[Any]] = {
        "journal": [journal_datagram],
        "json": [structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()],
        "console": [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), ConsoleLine(colors=sink.has_colors())],
    }
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, *renderers[form]],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_: sink,
        cache_logger_on_first_use=False,  # a reload may change the level
    )


class ConsoleLine:
    """The event as a line for people; a traceback goes below it."""

    def __init__(self, *, colors: bool) -> None:
        self._colors = colors

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        """A structlog processor, the last one."""
        level, traceback = event.pop("level"), event.pop(_TRACEBACK, "")
        line = f"{event.pop('timestamp')} {level:<7} {_sentence(event)}"
        if self._colors and level in _COLORS:
            line = f"{_COLORS[level]}{line}{_PLAIN}"
        return "\n".join([line, *(f"    {printable(below)}" for below in traceback.splitlines())])


def journal_datagram(_logger: object, _method: str, event: MutableMapping[str, Any]) -> bytes:
    """The event as a datagram of the journal: MESSAGE for people, each fact as ROCMWATCH_*."""
    level = event.pop("level")
    traceback = event.pop(_TRACEBACK, None)
    fields = {"MESSAGE": _sentence(event), "PRIORITY": _PRIORITIES.get(level, 6), "SYSLOG_IDENTIFIER": "rocmwatch"}
    facts = {**event, "traceback": traceback}
    fields |= {f"ROCMWATCH_{key.upper()}": value for key, value in facts.items() if value is not None}
    return b"".join(_field(key, str(value)) for key, value in fields.items())


class _Sink:
    """Takes what was rendered: lines as text, datagrams as bytes; so a reload swaps the renderer and nothing else."""

    def __init__(self, stream: TextIO | None, journal: str) -> None:
        self._stream = stream
        self._journal = journal
        self._lock = threading.Lock()

    def has_colors(self) -> bool:
        """Whether lines are read on a terminal by somebody who wants colours (no-color.org)."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in {None, "", "dumb"}
        return wanted and self._stream is not None and self._stream.isatty()

    def msg(self, rendered: str | bytes) -> None:
        """Writes one event."""
        if isinstance(rendered, str):
            self._write(rendered)
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as journal:
                journal.sendto(rendered, self._journal)
        except BlockingIOError:  # it stands still: rather an event is lost than a tick waits
            pass
        except OSError:  # none there, or too large a datagram: MESSAGE comes first in it
            self._write(rendered.split(b"\n", 1)[0].decode().removeprefix("MESSAGE="))

    debug = info = warning = error = msg

    def _write(self, text: str) -> None:
        with self._lock, contextlib.suppress(OSError, ValueError):  # ValueError: closed
            if self._stream is not None:
                self._stream.write(text + "\n")
                self._stream.flush()


def _sentence(event: Mapping[str, Any]) -> str:
    facts = (f"{key}={value}" for key, value in event.items() if value is not None and key != "event")
    return printable(" ".join([str(event["event"]), *facts]))


def _field(key: str, value: str) -> bytes:
    data = value.encode("utf-8", "backslashreplace")
    if b"\n" not in data:
        return key.encode() + b"=" + data + b"\n"
    return key.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"


def _goes_to_the_journal() -> bool:
    """Whether standard error is the stream that systemd made of it; children of a service may have redirected theirs.

    Source: systemd.exec(5), $JOURNAL_STREAM: "device:inode" of that stream.
    """
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}" and os.path.exists(JOURNAL_SOCKET)
