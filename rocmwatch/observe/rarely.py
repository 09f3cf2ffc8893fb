"""When a GPU's counts of hardware errors are due: for each GPU by itself, as each may sleep when the others do not."""

LEAST_SECONDS = 60.0  # between two reads, whatever happened: each makes the driver ask the hardware
_MOST_SECONDS = 86_400.0


class Rarely:
    """The pace of one GPU.

    What was not asked for, as the card slept or was being reset, is due at once again. What was refused is due after
    LEAST_SECONDS. After a tick in which the GPU hung while it was asked, the wait doubles each time: what its memory
    holds is worth more than a count of errors.
    """

    __slots__ = ("_asked_at", "_hung", "_ordered_at", "_refused")

    def __init__(self) -> None:
        self._ordered_at: float | None = None
        self._asked_at: float | None = None
        self._refused = False
        self._hung = 0

    def is_due(self, now: float, seconds: float, tolerance: float) -> bool:
        """Whether to ask now; if so, what comes of it has to be told.

        Args:
            now: Monotonic time.
            seconds: From one read to the next.
            tolerance: How much too early is near enough.
        """
        wait = LEAST_SECONDS if self._refused else min(seconds * 2**self._hung, max(seconds, _MOST_SECONDS))
        due = self._asked_at is None or now - self._asked_at >= wait - tolerance
        self._ordered_at = now if due else None
        return due

    def answered(self, *, asked: bool, refused: bool) -> None:
        """The GPU was read.

        Args:
            asked: Whether it was asked for its errors.
            refused: Whether there was no answer to that.
        """
        if asked and self._ordered_at is not None:
            self._asked_at, self._refused, self._hung = self._ordered_at, refused, 0
        self._ordered_at = None

    def missed(self) -> None:
        """The GPU was not read."""
        if self._ordered_at is not None:
            self._asked_at, self._refused, self._hung = self._ordered_at, False, min(self._hung + 1, 16)
            self._ordered_at = None

    def forget(self) -> None:
        """The driver may be another one by now, which counts from 0: ask as soon as that is allowed."""
        self._refused = self._refused or not self._hung
