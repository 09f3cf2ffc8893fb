"""Where a GPU's numbers come from: the driver's files, amdsmi, or both.

The files are always read, by a crew of readers: they tell the state of a card, who it is, what it is made of, and all
that amdsmi cannot say, and they are there when it fails. amdsmi, where it is wanted, is asked afterwards, about cards
that were just seen awake, and what it says is laid over.

| backend | amdsmi is asked | its values |
|---|---|---|
| sysfs | never | |
| amdsmi | about each card that is awake | win over those of the files |
| auto | about a card whose files lack what is needed | fill the gaps |
"""

from collections.abc import Callable

from rocmwatch.observe.amdsmi_crew import AmdsmiCrew
from rocmwatch.observe.amdsmi_frame import ASKED, AmdsmiFrame
from rocmwatch.observe.amdsmi_overlay import contradiction, lacks_something, laid_over
from rocmwatch.observe.crew import Crew, Orders
from rocmwatch.observe.link import Frames
from rocmwatch.observe.wire import CARDS, NODES, SLOW, TOTAL_FIELDS, GpuFrame, Order

SYSFS, AMDSMI, AUTO = "sysfs", "amdsmi", "auto"
HOPELESS_SECONDS = 600.0  # a card that amdsmi knows no more of than the files: when to ask it again
_NOT_USED = "amdsmi is not used, the driver's files are read instead: "
_UNDER_ROOT = "it knows the machine's own GPUs only, not those under a root"
_ASLEEP = "its start would wake every GPU, and one is not awake or cannot be read"
_VRAM_TOTAL = TOTAL_FIELDS.index("vram_total_bytes")


class Backend:
    """Reads subjects as `Crew` does, with amdsmi's help.

    Attributes:
        mode: `sysfs`, `amdsmi` or `auto`; may be set at any time, by whatever thread.
    """

    def __init__(self, files: Crew, amdsmi: AmdsmiCrew | None, mode: str = AUTO) -> None:
        """Asks nobody yet.

        Args:
            files: Reads the driver's files.
            amdsmi: Asks amdsmi; `None` where that has nothing to say of these GPUs.
            mode: See above.
        """
        self.mode = mode
        self._files = files
        self._amdsmi = amdsmi
        self._wanted_for: frozenset[str] = frozenset()
        self._states: dict[str, str] = {}
        self._totals: dict[str, int | None] = {}  # VRAM, by the files
        self._hopeless: dict[str, float] = {}  # PCI address -> when to ask again
        self._checked: set[str] = set()  # of those GPUs amdsmi has told the VRAM that they have
        self._trouble = ""

    @property
    def restarts(self) -> int:
        """Readers started after the first one of each kind."""
        return self._files.restarts + (self._amdsmi.restarts if self._amdsmi else 0)

    @property
    def abandoned(self) -> int:
        """Readers that hang and cannot be killed."""
        return self._files.abandoned + (self._amdsmi.abandoned if self._amdsmi else 0)

    @property
    def stalled(self) -> frozenset[str]:
        """The subjects whose files cannot be read at the moment."""
        return self._files.stalled

    @property
    def is_full(self) -> bool:
        """Whether so many readers hang that no more are started."""
        return self._files.is_full

    @property
    def trouble(self) -> str:
        """Why a reader of the files could not be started in this tick."""
        return self._files.trouble

    @property
    def notes(self) -> tuple[str, ...]:
        """Why amdsmi is not used, although it is wanted."""
        return (_NOT_USED + self._trouble,) if self._trouble else ()

    def renew(self, order_for: Callable[[str], Order | None], deadline_seconds: float, now: float) -> None:
        """Begins a tick, as `Crew.renew`."""
        self._files.renew(order_for, deadline_seconds, now)
        if self._amdsmi is not None:
            self._amdsmi.renew()
            if self.mode == SYSFS or (self.mode == AUTO and not self._wanted_for):
                self._amdsmi.rest()
                self._checked.clear()
                self._trouble = ""
        elif self.mode != AMDSMI:
            self._trouble = ""

    def read(self, orders: Orders, deadline_seconds: float, now: float) -> Frames:
        """The frames of all subjects that can be read, as `Crew.read`."""
        frames = self._files.read(orders, deadline_seconds, now)
        mode = self.mode
        gpus = {
            order.subject: GpuFrame(*frames[order.subject])
            for order in orders
            if order.subject in frames and order.subject not in (CARDS, NODES)
        }
        self._note(gpus)
        if mode == SYSFS:
            return frames
        wanted = {
            pci: frame
            for pci, frame in gpus.items()
            if frame.state == "active" and (mode == AMDSMI or self._is_lacking(pci, frame, now))
        }
        if mode == AUTO:
            self._wanted_for = (self._wanted_for - gpus.keys()) | wanted.keys()
        if not wanted:
            return frames
        if self._amdsmi is None:
            self._trouble = _UNDER_ROOT if mode == AMDSMI else ""
            return frames
        answers = self._ask(self._amdsmi, wanted, deadline_seconds, now)
        self._trouble = "" if mode == AUTO and self._amdsmi.is_absent else self._trouble
        for pci, answer in answers.items():
            frame = laid_over(wanted[pci], answer, gaps_only=mode == AUTO)
            frames[pci] = tuple(frame)
            if mode == AUTO and lacks_something(frame):
                self._hopeless[pci] = now + HOPELESS_SECONDS
        return frames

    def close(self) -> None:
        """Ends the readers that are well; the others get a kill that nobody waits for."""
        if self._amdsmi is not None:
            self._amdsmi.close()
        self._files.close()

    def _note(self, gpus: dict[str, GpuFrame]) -> None:
        for pci, frame in gpus.items():
            if frame.state == "gone":
                self._states.pop(pci, None)
            else:
                self._states[pci] = frame.state
            if frame.totals is not None:
                self._totals[pci] = frame.totals[_VRAM_TOTAL]

    def _is_lacking(self, pci: str, frame: GpuFrame, now: float) -> bool:
        """What a pass did not read, it does not tell of: then it is as it was."""
        if now < self._hopeless.get(pci, now):
            return False
        if frame.totals is None or frame.sensors is None:
            return pci in self._wanted_for
        return lacks_something(frame)

    def _ask(
        self, amdsmi: AmdsmiCrew, wanted: dict[str, GpuFrame], deadline_seconds: float, now: float
    ) -> dict[str, AmdsmiFrame]:
        """The answers, all or none: one that cannot be true speaks against all of them."""
        awake = not self._files.stalled and set(self._states.values()) == {"active"}
        if not amdsmi.is_running and not awake:
            self._trouble = amdsmi.trouble or _ASLEEP
            return {}
        if not amdsmi.is_ready(deadline_seconds, now):
            self._checked.clear()
            self._trouble = amdsmi.trouble
            return {}
        orders = tuple(
            Order(pci, frame.done & ASKED | (0 if pci in self._checked else SLOW)) for pci, frame in wanted.items()
        )
        answers = amdsmi.read(orders, deadline_seconds, now)
        for pci, answer in answers.items():
            against = contradiction(answer, self._totals.get(pci))
            if against:
                amdsmi.distrust(f"it is wrong about GPU {pci}: {against}", now)
                self._trouble = amdsmi.trouble
                return {}
        if answers and not any(answer.values for answer in answers.values()):
            amdsmi.distrust(_silence(answers), now)
            answers = {}
        self._checked |= answers.keys()
        self._trouble = amdsmi.trouble
        return answers


def _silence(answers: dict[str, AmdsmiFrame]) -> str:
    words = sorted({word for answer in answers.values() for _, word, _ in answer.errors})
    return "it answers nothing" + (f": {', '.join(words)}" if words else " about these GPUs")
