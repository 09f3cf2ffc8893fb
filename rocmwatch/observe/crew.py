"""The readers: one for everything, one for each stalled subject that is tried again, and those that were given up.

What `read` returns is frames; whatever it takes to get them happens in here, within the same call. When the common
reader hangs, it is given up and all that it had not read yet is read by readers of their own, at the same time: however
many subjects hang in one tick, the others wait for two deadlines and a little.
"""

import contextlib
from collections.abc import Callable

from rocmwatch.errors import LauncherLost
from rocmwatch.observe.leftovers import LeftOvers
from rocmwatch.observe.link import NO_ANSWER, Frames, LauncherLink, ReaderFailed, ReaderLink, wait_for_all
from rocmwatch.observe.stall import PATIENCE, Patience, Stall
from rocmwatch.observe.wire import Order

Orders = tuple[Order, ...]


class Crew:
    """Reads subjects by whatever readers it takes.

    Attributes:
        trouble: Why a reader could not be started in this tick; empty when all could.
        notes: What else there is to say to people.
    """

    notes: tuple[str, ...] = ()

    def __init__(
        self,
        launcher: LauncherLink,
        left_overs: LeftOvers | None = None,
        patience: Patience = PATIENCE,
        role: str = "sensors",
    ) -> None:
        """A crew without a reader; the first request starts one.

        Args:
            launcher: Forks the readers; other crews may use it as well.
            left_overs: Hanging readers of earlier starts, which count as ours.
            patience: How long what is waited for.
            role: What its readers can do, a name of `reader.ROLES`.
        """
        self._launcher = launcher
        self._role = role
        self._patience = patience
        self._reader: ReaderLink | None = None
        self.trouble = ""
        self._started = 0
        self._given_up: dict[int, str] = {}  # pid -> subject; killed, and not gone so far
        self._survivors = 0
        self._helpers: set[int] = set()  # pids of the readers of one subject
        self._left_overs = left_overs or LeftOvers(None)
        self._stalls: dict[str, Stall] = {}

    @property
    def restarts(self) -> int:
        """Readers started after the first one."""
        return max(0, self._started - 1)

    @property
    def abandoned(self) -> int:
        """Readers that hang and cannot be killed."""
        return self._survivors + len(self._left_overs)

    @property
    def stalled(self) -> frozenset[str]:
        """The subjects that cannot be read at the moment."""
        return frozenset(subject for subject, stall in self._stalls.items() if stall.over_at is None)

    @property
    def is_full(self) -> bool:
        """Whether so many readers hang that no more are started."""
        return len(self._given_up) + len(self._left_overs) + len(self._helpers) >= self._patience.most_readers

    def renew(self, order_for: Callable[[str], Order | None], deadline_seconds: float, now: float) -> None:
        """Begins a tick: strikes out what is gone, tries the stalled subjects whose time has come.

        Args:
            order_for: What to ask for a stalled subject; `None` when it is of no interest any more.
            deadline_seconds: How long its read may take.
            now: Monotonic time.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        self.trouble = ""
        self._bury()
        trials: dict[str, ReaderLink] = {}
        for subject, stall in list(self._stalls.items()):
            order = order_for(subject)
            if order is None:
                self._end_trial(subject, stall)
                del self._stalls[subject]
            elif stall.over_at is None:
                if stall.trial is None and now >= stall.retry_at and subject not in self._given_up.values():
                    stall.trial, stall.asked_at = self._ask_fresh_reader(order), now
                if stall.trial is not None:
                    trials[subject] = stall.trial
        for subject, answer in wait_for_all(trials, min(self._patience.trial_seconds, deadline_seconds)).items():
            stall = self._stalls[subject]
            if answer.complete:
                self._let_go(trials[subject])
                stall.trial, stall.over_at = None, now
            elif answer.died or now - stall.asked_at >= deadline_seconds:
                self._end_trial(subject, stall)
                stall.failed_again(now, self._patience)

    def read(self, orders: Orders, deadline_seconds: float, now: float) -> Frames:
        """The frames of all subjects that can be read; those that hang are in `stalled` afterwards.

        Args:
            orders: None of a subject that stalls.
            deadline_seconds: How long one subject may take.
            now: Monotonic time.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        frames: Frames = {}
        answer = NO_ANSWER
        for _ in range(2):  # one that was killed between two ticks is no sign of anything
            reader = self._reader = self._reader or self._start_reader()
            if reader is None:
                return frames
            reader.ask(orders)
            answer = reader.wait(deadline_seconds)
            frames.update(answer.frames)
            if answer.complete:
                return frames
            self._reader = None
            self._part_with(reader, answer.stuck_in, died=answer.died)
            orders = tuple(order for order in orders if order.subject not in frames)
            if answer.stuck_in:
                break
        if not (answer.died or answer.stuck_in):
            return frames  # it did not even begin, twice: this machine has other worries, and the next tick will see
        if not answer.died:
            self._stall(answer.stuck_in, now)
            orders = tuple(order for order in orders if order.subject != answer.stuck_in)
        return frames | self._read_apart(orders, deadline_seconds, now)

    def _read_apart(self, orders: Orders, deadline_seconds: float, now: float) -> Frames:
        """Each subject by a reader of its own, all at the same time."""
        frames: Frames = {}
        readers: dict[str, ReaderLink] = {}
        for order in orders:
            reader = self._ask_fresh_reader(order)
            if reader is not None:
                readers[order.subject] = reader
        for subject, answer in wait_for_all(readers, deadline_seconds).items():
            frames.update(answer.frames)
            if answer.complete:
                self._let_go(readers[subject])
            else:
                self._part_with(readers[subject], subject, died=answer.died)
                self._stall(subject, now)
        return frames

    def close(self) -> None:
        """Ends the readers that are well; the others get a kill that nobody waits for."""
        with contextlib.suppress(LauncherLost):
            for subject, stall in self._stalls.items():
                self._end_trial(subject, stall)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _bury(self) -> None:
        for pid in self._launcher.dead(self._given_up):
            del self._given_up[pid]
        self._survivors = len(self._given_up)
        self._left_overs.look_again()

    def _ask_fresh_reader(self, order: Order) -> ReaderLink | None:
        reader = self._start_reader()
        if reader is not None:
            self._helpers.add(reader.pid)
            reader.ask((order,))
        return reader

    def _let_go(self, reader: ReaderLink) -> None:
        self._helpers.discard(reader.pid)
        reader.close()

    def _start_reader(self) -> ReaderLink | None:
        if self.is_full:
            return None
        try:
            reader = self._launcher.fork(self._role)
        except ReaderFailed as error:
            self.trouble = str(error)
            return None
        self._started += 1
        return reader

    def _stall(self, subject: str, now: float) -> None:
        stall = self._stalls.get(subject)
        if stall is None or stall.is_forgotten(now):
            first = self._patience.first_retry_seconds
            self._stalls[subject] = Stall(wait_seconds=first, retry_at=now + first)
        else:
            stall.failed_again(now, self._patience)

    def _end_trial(self, subject: str, stall: Stall) -> None:
        if stall.trial is not None:
            self._part_with(stall.trial, subject, died=False)
            stall.trial = None

    def _part_with(self, reader: ReaderLink, subject: str, *, died: bool) -> None:
        self._let_go(reader)
        self._launcher.kill(reader.pid, awaited=not died)  # a dead one is only reaped by this
        if not died:
            self._given_up[reader.pid] = subject
