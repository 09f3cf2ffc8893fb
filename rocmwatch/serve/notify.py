"""What systemd is told: ready, reloading, stopping, alive, and a line of status (sd_notify(3))."""

from __future__ import annotations

import os
import time

import sdnotify


class Supervisor:
    """The service manager that started us, if one did."""

    def __init__(self) -> None:
        """Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID."""
        self._notifier = sdnotify.SystemdNotifier() if os.environ.get("NOTIFY_SOCKET") else None
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = os.environ.get("WATCHDOG_USEC", "") if mine else ""
        self.watchdog_seconds = int(microseconds) / 1e6 if microseconds.isdigit() else None

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
