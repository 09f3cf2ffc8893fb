"""A subject whose read does not return: when to try it again, and with what.

It is tried by a reader of its own, so that nobody else waits for it, first after 30 s and at last each 10 minutes;
never while a reader that was given up on it still lives, as that one would only be joined by another.
"""

from dataclasses import dataclass

from rocmwatch.observe.link import ReaderLink

FIRST_RETRY_SECONDS = 30.0
LAST_RETRY_SECONDS = 600.0


@dataclass(slots=True)
class Stall:
    """One stalled subject.

    Attributes:
        retry_at: Monotonic time of the next try.
        wait_seconds: How long it is waited for before that.
        trial: The reader that is trying it now.
        asked_at: Since when, monotonic.
    """

    retry_at: float
    wait_seconds: float = FIRST_RETRY_SECONDS
    trial: ReaderLink | None = None
    asked_at: float = 0.0

    def failed_again(self, now: float) -> None:
        """Backs off: twice the time, up to the last."""
        self.trial = None
        self.wait_seconds = min(self.wait_seconds * 2, LAST_RETRY_SECONDS)
        self.retry_at = now + self.wait_seconds
