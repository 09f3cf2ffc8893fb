"""The one clock of the shell. The pure rooms get its values."""

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
