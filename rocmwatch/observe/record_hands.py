"""Main's side of the record reader: one question at a time, and a reader that does not answer is given up.

A reader that hangs in the driver cannot be killed, so its end is never waited for. After a few of them no further one
is started: what is wrong with this node is known by then.
"""

from typing import Any, NamedTuple

from rocmwatch.errors import RocmwatchError
from rocmwatch.observe.link import LauncherLink, ReaderFailed, ReaderLink
from rocmwatch.observe.process_wire import PIDS
from rocmwatch.observe.record_reader import BETWEEN
from rocmwatch.observe.wire import LIST, Order

DEADLINE_SECONDS = 3.0  # a firmware that does not answer makes the driver wait two seconds
PIDS_SECONDS = 60.0  # all that all processes have open: nothing of a GPU's, and it may be a lot
MOST_GIVEN_UP = 8
_SLOW_STARTS = 10

HANGS = "no answer"
NOBODY = "too many reads hang"
DIED = "the reader ended"


class NoReader(RocmwatchError):
    """There can be no process to read with."""


class Given(NamedTuple):
    """An answer.

    Attributes:
        why: Why there is nothing; empty when all went well.
        value: The bytes of a file, or the entries of a folder.
    """

    why: str
    value: Any = None


class Hands:
    """Asks.

    Attributes:
        given_up: How many readers hang.
    """

    def __init__(self, root: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self.given_up = 0
        self._launcher = LauncherLink(root)
        self._deadline_seconds = deadline_seconds
        self._reader: ReaderLink | None = None

    def close(self) -> None:
        """Ends the reader and the launcher; one that hangs is not waited for."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._launcher.close()

    def ask(self, what: int, path: str, guards: tuple[str, ...] = ()) -> Given:
        """What the reader says of one path.

        Raises:
            NoReader: When there can be none.
            LauncherLost: When the launcher is gone.
        """
        frame = self._frame(Order("path", what, BETWEEN.join((path, *guards))), self._deadline_seconds)
        return frame if isinstance(frame, Given) else Given(*frame)

    def pids(self) -> tuple[tuple[int, ...], str]:
        """The processes that have something of a GPU, and what has to be said about that."""
        frame = self._frame(Order(PIDS, LIST), PIDS_SECONDS)
        if isinstance(frame, Given):
            return (), frame.why
        pids, refused = frame
        return pids, "EACCES" if refused else ""

    def _frame(self, order: Order, seconds: float) -> "tuple[Any, ...] | Given":
        reader = self._reader = self._reader or self._start()
        if reader is None:
            return Given(NOBODY)
        reader.ask((order,))
        answer = reader.wait(seconds)
        for _ in range(_SLOW_STARTS):
            if answer.complete or answer.died or answer.stuck_in:
                break
            answer = reader.wait(seconds)  # it did not even begin: the machine is busy
        if answer.complete:
            return answer.frames[order.subject]
        reader.close()
        self._reader = None
        if not answer.died:
            self.given_up += 1
        self._launcher.kill(reader.pid, awaited=False)
        return Given(DIED if answer.died else HANGS)

    def _start(self) -> ReaderLink | None:
        if self.given_up >= MOST_GIVEN_UP:
            return None
        try:
            return self._launcher.fork("record")
        except ReaderFailed as error:
            raise NoReader(str(error)) from error
