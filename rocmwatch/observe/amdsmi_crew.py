"""Main's side of amdsmi: one reader, asked about all GPUs at once, and given up as a whole.

Unlike a file that hangs, a library that hangs, dies or lies says nothing about one GPU: it goes with its process, and
another one is started after a while (30 s, doubled up to 10 min), never while one that was killed still lives. Nobody
waits for it longer than for two GPUs that hang: the files were read already.
"""

from rocmwatch.observe.amdsmi_frame import LIBRARY, AmdsmiFrame, StartFrame
from rocmwatch.observe.link import SLICES, Answer, LauncherLink, ReaderFailed, ReaderLink, ready
from rocmwatch.observe.stall import PATIENCE, Patience
from rocmwatch.observe.wire import LIST, Order

START_SECONDS = 10.0  # loading it and starting it takes a tenth of a second; on a slow machine a few
PASS_DEADLINES = 2.0  # what a pass over all GPUs may take, in deadlines of one


class AmdsmiCrew:
    """Asks amdsmi by whatever reader it takes.

    Attributes:
        trouble: Why it is not used at the moment; empty when it is, or was not wanted so far.
        is_absent: Whether that is because there is none on this machine.
    """

    def __init__(self, launcher: LauncherLink, patience: Patience = PATIENCE) -> None:
        """Starts nothing yet.

        Args:
            launcher: Forks the reader; other crews may use it as well.
            patience: How long what is waited for.
        """
        self.trouble = ""
        self.is_absent = False
        self._launcher = launcher
        self._patience = patience
        self._reader: ReaderLink | None = None
        self._asked_at = 0.0  # to start
        self._well_since: float | None = None
        self._wait_seconds = 0.0
        self._retry_at = float("-inf")
        self._given_up: set[int] = set()
        self._survivors = 0
        self._started = 0

    @property
    def restarts(self) -> int:
        """Readers started after the first one."""
        return max(0, self._started - 1)

    @property
    def abandoned(self) -> int:
        """Readers that hang and cannot be killed."""
        return self._survivors

    @property
    def is_running(self) -> bool:
        """Whether it has a reader, which may be starting."""
        return self._reader is not None

    def renew(self) -> None:
        """Begins a tick: strikes out what is gone.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        if self._given_up:
            self._given_up -= self._launcher.dead(self._given_up)
        self._survivors = len(self._given_up)

    def is_ready(self, deadline_seconds: float, now: float) -> bool:
        """Whether it can be asked; starts it when it is time to.

        Args:
            deadline_seconds: How long one GPU may take.
            now: Monotonic time.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        patience_seconds = self._patience.trial_seconds
        if self._reader is None:
            if self._given_up or now < self._retry_at or not self._start(now):
                return False
            if self._started == 1:  # so that the first picture is whole
                patience_seconds = PASS_DEADLINES * deadline_seconds
        if self._well_since is None and self._reader is not None:
            self._look_at_start(self._reader, patience_seconds, now)
        return self._well_since is not None

    def read(self, orders: tuple[Order, ...], deadline_seconds: float, now: float) -> dict[str, AmdsmiFrame]:
        """What it says of these GPUs; nothing when it failed.

        Args:
            orders: Of GPUs that are awake.
            deadline_seconds: How long one of them may take.
            now: Monotonic time.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        reader = self._reader
        if reader is None:
            return {}
        reader.ask(orders)
        answer = _wait(reader, PASS_DEADLINES * deadline_seconds)
        if answer.complete:
            return {subject: AmdsmiFrame(*value) for subject, value in answer.frames.items()}
        self._part_with(reader, died=answer.died)
        self._fail("its reader died" if answer.died else "it did not answer in time", now)
        return {}

    def distrust(self, reason: str, now: float) -> None:
        """Gives it up for what it said."""
        self._rest()
        self._fail(reason, now)

    def rest(self) -> None:
        """It is not wanted (any more)."""
        self._rest()
        self.trouble, self.is_absent = "", False

    def close(self) -> None:
        """Ends the reader; one that hangs is not waited for."""
        self._rest()

    def _start(self, now: float) -> bool:
        try:
            self._reader = self._launcher.fork("amdsmi")
        except ReaderFailed as error:
            self._fail(str(error), now)
            return False
        self._started += 1
        self._asked_at = now
        self._reader.ask((Order(LIBRARY, LIST),))
        return True

    def _look_at_start(self, reader: ReaderLink, patience_seconds: float, now: float) -> None:
        answer = _wait(reader, patience_seconds)
        if answer.complete:
            start = StartFrame(*answer.frames[LIBRARY])
            if start.reason:
                reader.close()
                self._reader = None
                self._fail(start.reason, now, is_absent=start.is_absent)
            else:
                self._well_since, self.trouble, self.is_absent = now, "", False
        elif answer.died or now - self._asked_at >= START_SECONDS:
            self._part_with(reader, died=answer.died)
            self._fail("its reader died at the start" if answer.died else "its start does not come to an end", now)
        elif not self.trouble:
            self.trouble = "it has not started so far"

    def _fail(self, reason: str, now: float, *, is_absent: bool = False) -> None:
        """Backs off: twice the time, unless it was well for longer than that."""
        well_seconds = 0.0 if self._well_since is None else now - self._well_since
        if self._wait_seconds and well_seconds <= self._wait_seconds:
            self._wait_seconds = min(2 * self._wait_seconds, self._patience.last_retry_seconds)
        else:
            self._wait_seconds = self._patience.first_retry_seconds
        self._retry_at = now + self._wait_seconds
        self._well_since = None
        self.trouble, self.is_absent = reason, is_absent

    def _rest(self) -> None:
        """A reader that waits for orders ends with its pipes; one that is busy may hang."""
        reader = self._reader
        if reader is None:
            return
        if self._well_since is None and not reader.answer().complete:
            self._part_with(reader, died=False)
        else:
            reader.close()
            self._reader = None

    def _part_with(self, reader: ReaderLink, *, died: bool) -> None:
        reader.close()
        self._reader = None
        self._launcher.kill(reader.pid, awaited=not died)  # a dead one is only reaped by this
        if not died:
            self._given_up.add(reader.pid)


def _wait(reader: ReaderLink, seconds: float) -> Answer:
    for _ in range(SLICES):  # counted: a machine may stand still
        if ready((reader,), seconds / SLICES):
            break
    return reader.answer()
