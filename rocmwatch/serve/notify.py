"""What systemd is told: ready, reloading, stopping, alive, and a line of status (sd_notify(3))."""

from __future__ import annotations

import os
import time

import sdnotify

PATIENCE_SECONDS = 0.5  # a systemd that does not listen must not hold up whoever tells it something


class Supervisor:
    """The service manager that started us, if one did.

    Attributes:
        watchdog_seconds: How long it waits for a sign of life; `None` when it does not.
    """

    def __init__(self) -> None:
        """Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment: they are for nobody below us."""
        self._notifier = _connected() if os.environ.get("NOTIFY_SOCKET") else None
        mine = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = os.environ.pop("WATCHDOG_USEC", "")
        armed = mine and microseconds.isdecimal() and int(microseconds) > 0
        self.watchdog_seconds = int(microseconds) / 1e6 if armed else None
        os.environ.pop("NOTIFY_SOCKET", None)

    def ready(self, status: str) -> None:
        """The first tick is done, or a reload is over."""
        self._tell(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """A reload has begun."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def alive(self, status: str) -> None:
        """Feeds the watchdog."""
        self._tell(f"WATCHDOG=1\nSTATUS={status}")

    def status(self, status: str) -> None:
        """Says how things are, and does not feed the watchdog."""
        self._tell(f"STATUS={status}")

    def stopping(self) -> None:
        """The end has begun."""
        self._tell("STOPPING=1")

    def _tell(self, text: str) -> None:
        if self._notifier is not None:
            self._notifier.notify(text)


def _connected() -> sdnotify.SystemdNotifier:
    notifier = sdnotify.SystemdNotifier()
    if notifier.socket is not None:
        notifier.socket.settimeout(PATIENCE_SECONDS)
    return notifier
