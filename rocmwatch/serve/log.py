"""The log: an event's name and its facts as keys, for journald as fields, for people as a line.

Source of the journal's format: systemd's "Native Journal Protocol" (systemd.io/JOURNAL_NATIVE_PROTOCOL).
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
from collections.abc import Mapping
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

JOURNAL_SOCKET = "/run/systemd/journal/socket"
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3}
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(level: str, form: str) -> None:
    """Sets up the log of this process.

    Args:
        level: The least severe that is shown: debug, info, warning, error.
        form: auto, console, json or journal. `auto` is the journal when standard error goes there, else the console.
    """
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # a tick that is late is told by our own metrics
    form = _form(form)
    processors: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level]
    factory: Any = structlog.PrintLoggerFactory(sys.stderr)
    if form == "journal":
        processors.append(journal_fields)
        factory = JournalLogger
    elif form == "json":
        processors += [structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()]
    else:
        processors += [
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=28, sort_keys=False),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=False,  # a reload may change the level
    )


def journal_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> tuple[tuple[bytes], Mapping[str, Any]]:
    """The event as a datagram of the journal: MESSAGE for people, each fact as ROCMWATCH_*."""
    name = str(event.pop("event"))
    level = str(event.pop("level"))
    facts = {key: value for key, value in event.items() if value is not None}
    message = " ".join([name, *(f"{key}={value}" for key, value in facts.items())])
    fields = {"MESSAGE": message, "PRIORITY": _PRIORITIES.get(level, 6), "SYSLOG_IDENTIFIER": "rocmwatch"}
    fields["ROCMWATCH_EVENT"] = name
    fields |= {f"ROCMWATCH_{key.upper()}": value for key, value in facts.items()}
    return (b"".join(_field(key, str(value)) for key, value in fields.items()),), {}


class JournalLogger:
    """Sends datagrams to the journal; a line to standard error when it cannot."""

    def __init__(self, *_: object) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)

    def msg(self, datagram: bytes) -> None:
        """Sends one event."""
        try:
            self._socket.sendto(datagram, JOURNAL_SOCKET)
        except OSError:
            sys.stderr.write(datagram.split(b"\n", 1)[0].decode("utf-8", "replace").removeprefix("MESSAGE=") + "\n")

    debug = info = warning = error = msg


def _field(key: str, value: str) -> bytes:
    data = value.encode("utf-8", "backslashreplace")
    if b"\n" not in data:
        return key.encode() + b"=" + data + b"\n"
    return key.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"


def _form(form: str) -> str:
    if form != "auto":
        return form
    return "journal" if os.environ.get("JOURNAL_STREAM") and os.path.exists(JOURNAL_SOCKET) else "console"
