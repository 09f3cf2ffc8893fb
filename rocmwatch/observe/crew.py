"""The readers: one for everything, one for each stalled subject that is tried again, and those that were given up.

What `read` returns is frames; whatever it takes to get them (a reader that died, one that hangs and is replaced)
happens in here, within the same call, so that the GPUs behind a hanging one are read in the same tick.
"""

from collections.abc import Iterable, Mapping

from rocmwatch.observe.leftovers import is_stuck_reader
from rocmwatch.observe.link import Answer, LauncherLink, ReaderFailed, ReaderLink
from rocmwatch.observe.stall import FIRST_RETRY_SECONDS, Stall
from rocmwatch.observe.wire import SKIP, TOPOLOGY

ROLE = "sensors"
MOST_GIVEN_UP = 32  # readers that hang for ever; past that nothing new is started (TasksMax=64 in the unit)
TRIAL_SECONDS = 0.1  # a try is waited for this long at once; later ticks look again

Work = tuple[tuple[str, str, int], ...]  # of each GPU: PCI address, cardN, what to read
Frames = dict[str, tuple[object, ...]]


class Crew:
    """Reads subjects by whatever readers it takes."""

    def __init__(self, launcher: LauncherLink, left_over: Iterable[int] = ()) -> None:
        self._launcher = launcher
        self._reader: ReaderLink | None = None
        self._started = 0
        self._given_up: dict[int, str] = {}  # pid -> subject
        self._left_over = set(left_over)
        self.stalls: dict[str, Stall] = {}

    @property
    def restarts(self) -> int:
        """Readers started after the first one."""
        return max(0, self._started - 1)

    @property
    def abandoned(self) -> int:
        """Readers that hang and cannot be killed."""
        return len(self._given_up) + len(self._left_over)

    def read(self, topology: int, work: Work, deadline_seconds: float, now: float) -> Frames:
        """The frames of all subjects that can be read; those that hang are in `stalls` afterwards.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        self.bury()
        frames: Frames = {}
        suspects: set[str] = set()
        while topology != SKIP or work:
            reader = self._ready_reader()
            if reader is None:
                break
            reader.ask(topology, work)
            answer = reader.wait(deadline_seconds)
            frames.update(answer.frames)
            if answer.complete:
                break
            culprit = answer.stuck_in
            self._part_with(reader, answer)
            self._reader = None
            if culprit in suspects and not culprit:
                break  # two readers failed and nobody knows in what: the next tick tries again
            if culprit and (culprit in suspects or not answer.died):  # a death may be an accident, the second is none
                self.stalls[culprit] = Stall(now + FIRST_RETRY_SECONDS)
            suspects.add(culprit)
            if culprit not in ("", TOPOLOGY) or TOPOLOGY in self.stalls:
                topology = SKIP  # it comes first, so it was read
            work = tuple(item for item in work if item[0] not in frames and item[0] not in self.stalls)
        return frames

    def retry(self, work: Mapping[str, tuple[int, Work]], deadline_seconds: float, now: float) -> Frames:
        """Tries the stalled subjects whose time has come.

        Args:
            work: What to ask for each stalled subject. One that is missing here is of no interest any more.
            deadline_seconds: How long its read may take.
            now: Monotonic time.

        Returns:
            The frames of those that can be read again; they are no longer in `stalls`.
        """
        frames: Frames = {}
        for subject, stall in list(self.stalls.items()):
            if subject not in work:
                self._stop_trial(stall, subject)
                del self.stalls[subject]
                continue
            if stall.trial is None and now >= stall.retry_at and subject not in self._given_up.values():
                stall.trial, stall.asked_at = self._start_reader(), now
                if stall.trial is not None:
                    stall.trial.ask(*work[subject])
            if stall.trial is None:
                continue
            answer = stall.trial.wait(min(TRIAL_SECONDS, deadline_seconds))
            if answer.complete:
                stall.trial.close()
                del self.stalls[subject]
                frames.update(answer.frames)
            elif answer.died or now - stall.asked_at >= deadline_seconds:
                self._stop_trial(stall, subject)
                stall.failed_again(now)
        return frames

    def bury(self) -> None:
        """Strikes out the readers that are gone at last."""
        for pid in self._launcher.dead():
            self._given_up.pop(pid, None)
        self._left_over = {pid for pid in self._left_over if is_stuck_reader(pid)}

    def close(self) -> None:
        """Ends the readers that are well; the others get a kill that nobody waits for."""
        for subject, stall in self.stalls.items():
            self._stop_trial(stall, subject)
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._launcher.close()

    def _ready_reader(self) -> ReaderLink | None:
        if self._reader is None:
            self._reader = self._start_reader()
        return self._reader

    def _start_reader(self) -> ReaderLink | None:
        if self.abandoned >= MOST_GIVEN_UP:
            return None
        try:
            reader = self._launcher.fork(ROLE)
        except ReaderFailed:
            return None
        self._started += 1
        return reader

    def _stop_trial(self, stall: Stall, subject: str) -> None:
        if stall.trial is not None:
            self._part_with(stall.trial, Answer({}, complete=False, stuck_in=subject))
            stall.trial = None

    def _part_with(self, reader: ReaderLink, answer: Answer) -> None:
        reader.close()
        self._launcher.kill(reader.pid)  # a dead one is only reaped by this
        if not answer.died:
            self._given_up[reader.pid] = answer.stuck_in
