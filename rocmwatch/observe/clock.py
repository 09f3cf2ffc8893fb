"""The one clock of the shell. The pure rooms get its values."""

import os
import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def monotonic(self) -> float:
        """Seconds that only ever go forward, for measuring."""

    def unix(self) -> float:
        """Seconds since 1970, for showing."""


class SystemClock:
    """The system's clock."""

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def unix(self) -> float:
        """See `Clock`."""
        return time.time()  # noqa: TID251  # this is the one place


def boot_seconds(root: str = "") -> float | None:
    """Seconds since the boot, by the clock that the start times of processes count by.

    Args:
        root: Of another node, whose clock stands in its /proc/uptime.
    """
    if not root:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        with open(f"{root}/proc/uptime", "rb") as file:
            return float(file.read(64).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def ticks_per_second() -> int:
    """The unit of the start times."""
    return os.sysconf("SC_CLK_TCK")
