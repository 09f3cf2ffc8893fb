"""A subject whose read does not return: when to try it again, and with what.

It is tried by a reader of its own, so that nobody else waits for it, first after 30 s and at last each 10 minutes;
never while a reader that was given up on it still lives, as that one would only be joined by another.
"""

from dataclasses import dataclass
from typing import NamedTuple

from rocmwatch.observe.link import ReaderLink


class Patience(NamedTuple):
    """How long what is waited for.

    Attributes:
        first_retry_seconds: From a stall to the first try.
        last_retry_seconds: What the time between two tries grows to.
        trial_seconds: How long a tick waits for a try; later ticks look again.
        most_readers: That may be given up or under trial at once. Past that nothing new is started (TasksMax=64 in the
            unit, which the web server's threads share).
    """

    first_retry_seconds: float = 30.0
    last_retry_seconds: float = 600.0
    trial_seconds: float = 0.1
    most_readers: int = 32


PATIENCE = Patience()


@dataclass(slots=True)
class Stall:
    """One subject that stalls, or did not long ago.

    Attributes:
        wait_seconds: From the last failure to the next try.
        retry_at: Monotonic time of that.
        trial: The reader that is trying it now.
        asked_at: Since when, monotonic.
        over_at: When it could be read again, monotonic; `None` while it cannot.
    """

    wait_seconds: float
    retry_at: float
    trial: ReaderLink | None = None
    asked_at: float = 0.0
    over_at: float | None = None

    def failed_again(self, now: float, patience: Patience) -> None:
        """Backs off: twice the time, up to the last."""
        self.trial, self.over_at = None, None
        self.wait_seconds = min(self.wait_seconds * 2, patience.last_retry_seconds)
        self.retry_at = now + self.wait_seconds

    def is_forgotten(self, now: float) -> bool:
        """Whether it was well for so long that a new stall is a first one."""
        return self.over_at is not None and now - self.over_at > self.wait_seconds
