"""Ends one process that holds memory for nobody, and makes sure that the memory comes back.

    look -> pidfd -> look again: the same process, of the same class -> write it down -> SIGTERM -> wait -> look again
    -> SIGKILL -> wait -> wait until the memory is really free -> write it down

The pidfd is opened before the second look: whatever is signalled through it is what was looked at, or nothing. At the
first surprise it stops, and says so.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from rocmwatch.act.ledger import Ledger, Operation
from rocmwatch.act.pidfd import Pidfd
from rocmwatch.model import Action, Holder, frozen

SLICE_SECONDS = 1.0  # of every wait: whoever watches over us sees that we live
STABLE_READS = 3
RELEASED_RATIO = 0.9  # of what it held has to be free again; others may take some meanwhile


class Waits(NamedTuple):
    """How long what is waited for, in seconds."""

    terminate: float = 60.0  # a program in the middle of work for the GPU must come to its end, or leaks it
    kill: float = 30.0
    release: float = 240.0  # the driver gives memory back lazily


class Scene(Protocol):
    """The node, as it is at the moment of asking: every call reads anew."""

    def holder(self, pid: int) -> Holder | None:
        """What a process is now; `None` when it holds nothing any more."""

    def used_bytes(self, pci: str) -> int | None:
        """VRAM in use on a GPU."""


class Grip(Protocol):
    """What `Pidfd` is."""

    def close(self) -> None:
        """Lets go."""

    def send(self, number: signal.Signals) -> None:
        """Signals the process."""

    def has_ended(self, seconds: float) -> bool:
        """Whether it has ended, or does so within the time."""


class Time(Protocol):
    """Where moments come from, and how they pass."""

    def monotonic(self) -> float:
        """Seconds."""

    def unix(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Lets them pass."""


class Outcome(NamedTuple):
    """What came of it.

    Attributes:
        result: `done`, `refused` (nothing was signalled) or `failed`.
        reason: Why, in words.
        needs_reboot: Whether the process survived a SIGKILL.
    """

    result: str
    reason: str
    needs_reboot: bool = False


class Terminator:
    """Ends processes, one at a time."""

    def __init__(
        self,
        scene: Scene,
        ledger: Ledger,
        time: Time,
        waits: Waits | None = None,
        grip: Callable[[int], Grip] = Pidfd,
    ) -> None:
        self._scene = scene
        self._ledger = ledger
        self._time = time
        self._waits = waits or Waits()
        self._grip = grip

    def end(self, victim: Holder, versions: dict[str, str], tell: Callable[[str], None] = lambda _: None) -> Outcome:
        """Ends a process that was classified as one to be ended.

        Args:
            victim: As it was found, and agreed to.
            versions: What is at work, for the ledger.
            tell: Gets a line for each step.

        Raises:
            LedgerUnusable: When it cannot be written down; then nothing was signalled, or nothing further is.
        """
        pid = victim.process.pid
        with contextlib.ExitStack() as stack:
            try:
                grip = self._grip(pid)
            except ProcessLookupError:
                return Outcome("refused", "it ended by itself")
            except OSError as error:
                return Outcome("refused", f"pidfd_open: {error.strerror}")
            stack.callback(grip.close)
            surprise = self._surprise(victim)
            if surprise:
                return Outcome("refused", surprise)
            before = {held.pci: self._scene.used_bytes(held.pci) for held in victim.held}
            operation = self._ledger.reserve(
                Operation(
                    operation="",
                    action="gc",
                    subject=subject_of(victim),
                    phase="stop",
                    reason=victim.reason,
                    versions=frozen(versions),
                    started_at=self._time.unix(),
                )
            )
            outcome = self._stop(operation, victim, grip, tell)
            if outcome is None:
                self._note(operation, "ended", phase="release")
                outcome = self._released(operation, victim, before, tell)
            self._ledger.finish(operation, self._time.unix(), outcome.result, outcome.reason)
            return outcome

    def _surprise(self, victim: Holder) -> str:
        """What is not as it was; empty when all is."""
        found = self._scene.holder(victim.process.pid)
        if found is None:
            return "it holds nothing any more"
        if identity_of(found) != identity_of(victim):
            return "identity_changed: the number belongs to another process by now"
        if (found.holder_class, found.action) != (victim.holder_class, Action.TERMINATE):
            return f"class_changed: {found.holder_class.value}: {found.reason}"
        return ""

    def _stop(self, operation: str, victim: Holder, grip: Grip, tell: Callable[[str], None]) -> Outcome | None:
        """Signals it until it is gone; `None` when it is."""
        for name, seconds in ((signal.SIGTERM, self._waits.terminate), (signal.SIGKILL, self._waits.kill)):
            if name is signal.SIGKILL:
                surprise = self._surprise(victim)
                if surprise:
                    return Outcome("failed", f"after SIGTERM: {surprise}")
            self._note(operation, "signalled", signal=name.name)
            tell(f"{name.name} to {victim.process.pid}, waiting {seconds:.0f} s at most")
            try:
                grip.send(name)
            except ProcessLookupError:
                return None
            except PermissionError:
                return Outcome("failed", f"{name.name} is not permitted: it takes root, or CAP_KILL")
            if any(grip.has_ended(slice_) for slice_ in self._slices(seconds)):
                return None
        return Outcome("failed", "it survived SIGKILL: only a reboot ends it", needs_reboot=True)

    def _released(
        self, operation: str, victim: Holder, before: dict[str, int | None], tell: Callable[[str], None]
    ) -> Outcome:
        """Waits until the memory is really free, on each GPU, and stays so."""
        held: dict[str, int] = {}
        for one in victim.held:
            held[one.pci] = held.get(one.pci, 0) + one.bytes
        tell("waiting for the memory to be given back")
        stable = 0
        for slice_ in self._slices(self._waits.release):
            missing = {pci for pci, size in held.items() if not self._is_free(pci, before[pci], size)}
            stable = 0 if missing else stable + 1
            if stable >= STABLE_READS:
                self._note(operation, "released")
                return Outcome("done", "it ended, and its memory is free")
            self._time.sleep(slice_)
        return Outcome("failed", f"it ended, but its memory was not given back within {self._waits.release:.0f} s")

    def _is_free(self, pci: str, before: int | None, held: int) -> bool:
        now = self._scene.used_bytes(pci)
        return now is not None and before is not None and before - now >= RELEASED_RATIO * held

    def _slices(self, seconds: float) -> Iterator[float]:
        end = self._time.monotonic() + seconds
        while (left := end - self._time.monotonic()) > 0:
            yield min(left, SLICE_SECONDS)

    def _note(self, operation: str, event: str, *, phase: str | None = None, **facts: object) -> None:
        self._ledger.note(operation, self._time.unix(), event, phase=phase, **facts)


def identity_of(holder: Holder) -> tuple[object, ...]:
    """What must not have changed between the look and the act."""
    process = holder.process
    return process.pid, process.start_time, process.uid, process.cgroup, holder.owner


def subject_of(holder: Holder) -> str:
    """A victim, as the ledger names it."""
    places = ", ".join(sorted({held.pci for held in holder.held}))
    return f"pid {holder.process.pid} ({holder.process.comm}) on {places}"
