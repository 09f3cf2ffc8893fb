"""From what is due to a Snapshot: asks the crew, keeps the tracks, counts the faults.

One writer: `tick` is called by one thread at a time, and what it returns is never changed again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rocmwatch.kernel.kfd import KfdNode, by_gpu
from rocmwatch.model import GpuState, ReaderStatus, Snapshot, frozen
from rocmwatch.observe.backend import Backend
from rocmwatch.observe.clock import Clock
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.link import Frames
from rocmwatch.observe.ordinals import Ordinals
from rocmwatch.observe.sources import Result, Sources
from rocmwatch.observe.track import Track
from rocmwatch.observe.wire import (
    CARDS,
    FRAGMENTATION,
    LIST,
    LOOK,
    MEMORY,
    NODES,
    RAS,
    SENSORS,
    SLOW,
    CardsFrame,
    FaultTuple,
    GpuFrame,
    NodesFrame,
    Order,
)

SLOW_SECONDS = 60.0  # limits, descriptions, files that were not there
LIST_SECONDS = 30.0  # which cards there are
OLD_TABLE_SECONDS = 60.0  # formats F0-F3 are printed by walking every free block under the allocator's lock
CHEAP_TABLE = "F4"
EVERYTHING = MEMORY | SENSORS | SLOW | FRAGMENTATION
_UNLISTED = "/sys/class/drm could not be listed so far: which GPUs there are is not known"
_FULL = "too many readers hang in the driver: no further one is started until one of them goes, or the node reboots"


class Pace(NamedTuple):
    """How often what is read, in seconds."""

    memory: float = 5.0
    sensors: float = 5.0
    fragmentation: float = 60.0
    deadline: float = 1.0
    ras: float = 300.0


class Sampler:
    """Takes snapshots of the node."""

    def __init__(self, crew: Crew | Backend, clock: Clock, ordinals: Ordinals, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self._crew = crew
        self._clock = clock
        self._ordinals = ordinals
        self._tracks: dict[str, Track] = {}
        self._done_at: dict[int, float] = {}  # kind of work -> monotonic
        self._listed_at: float | None = None
        self._cards: dict[str, str] = {}  # PCI address -> cardN, as listed last
        self._listed = False
        self._nodes: tuple[KfdNode, ...] = ()
        self._sources = Sources()
        self._fault_counts: Counter[tuple[str, str]] = Counter()
        self._sequence = 0
        self._driver_version: str | None = None
        self._notes: dict[str, tuple[str, ...]] = {}

    def tick(self) -> Snapshot:
        """Reads what is due and says what is known now.

        Raises:
            LauncherLost: When the launcher is gone: this process cannot sample any more.
        """
        started = self._clock.monotonic()
        self._crew.renew(self._order_for, self.pace.deadline, started)
        about_topology = self._topology_orders(started)
        stalled = self._crew.stalled
        orders = tuple(
            order
            for order in (*about_topology, *self._gpu_orders(self._due(started), started))
            if order.subject not in stalled
        )
        frames = self._crew.read(orders, self.pace.deadline, started)
        results = self._apply(orders, frames)
        news = self._apply_topology(orders, frames, started)
        if news:  # seen for the first time, or changed: it is in the picture at once
            orders += news
            results += self._apply(news, self._crew.read(news, self.pace.deadline, started))
        unix, took = self._clock.unix(), self._clock.monotonic() - started
        self._sources.note_gpus(results, unix, took, listed=self._listed)
        self._sources.note_topology([order.subject for order in about_topology], frames, unix, took)
        return self._snapshot()

    def pci_of_card(self, name: str) -> str | None:
        """The PCI address of a cardN, as the cards were listed last; `None` for any other name."""
        return next((pci for pci, card in self._cards.items() if card == name), None)

    def note_wedged(self, pci: str, method: str) -> None:
        """Counts that the kernel announced a hanging device.

        Args:
            pci: Which; one that is not known is left out.
            method: How it comes back, in the kernel's word.
        """
        track = self._tracks.get(pci)
        if track is not None:
            track.events.wedged(method)

    # What to read

    def _due(self, now: float) -> int:
        table_seconds = self.pace.fragmentation
        if any(track.free_blocks and track.free_blocks.format != CHEAP_TABLE for track in self._tracks.values()):
            table_seconds = max(table_seconds, OLD_TABLE_SECONDS)
        due = MEMORY
        for kind, seconds in ((SENSORS, self.pace.sensors), (FRAGMENTATION, table_seconds), (SLOW, SLOW_SECONDS)):
            done = self._done_at.get(kind)
            if done is None or now - done >= seconds - self.pace.memory / 2:  # the nearest tick
                self._done_at[kind] = now
                due |= kind
        return due

    def _topology_orders(self, now: float) -> tuple[Order, ...]:
        if not self._listed or self._listed_at is None or now - self._listed_at >= LIST_SECONDS:
            self._listed_at = now
            return Order(CARDS, LIST), Order(NODES, LIST)
        return (Order(NODES, LOOK),)

    def _gpu_orders(self, due: int, now: float) -> Iterator[Order]:
        for pci, track in sorted(self._tracks.items()):
            if track.state is not GpuState.LOST and pci not in self._crew.stalled:
                yield track.order((due if track.memory is not None else EVERYTHING) | self._due_errors(track, now))

    def _due_errors(self, track: Track, now: float) -> int:
        """RAS when the GPU's counts of errors are due; not of one that is being reset."""
        if track.state is GpuState.RESETTING or not track.rarely.is_due(now, self.pace.ras, self.pace.memory / 2):
            return 0
        return RAS

    def _order_for(self, subject: str) -> Order | None:
        if subject in (CARDS, NODES):
            return Order(subject, LIST)
        track = self._tracks.get(subject)
        return track.order(EVERYTHING) if track and track.state is not GpuState.LOST else None

    # What came back

    def _apply(self, orders: Iterable[Order], frames: Frames) -> list[Result]:
        unix = self._clock.unix()
        results: list[Result] = []
        for order in orders:
            track = self._tracks.get(order.subject)
            if track is None:
                continue
            value = frames.get(order.subject)
            frame = None if value is None else GpuFrame(*value)
            was = track.state
            if frame is None:
                track.miss(GpuState.STALLED if order.subject in self._crew.stalled else track.state)
            else:
                track.apply(frame, unix)
                self._count(frame.faults)
            if track.state is GpuState.LOST is not was:
                self._listed_at = None  # look at once whether it came back under another name
            results.append((order, frame))
        return results

    def _apply_topology(self, orders: Iterable[Order], frames: Frames, now: float) -> tuple[Order, ...]:
        """Returns what has to be read because of it."""
        listed = any(order.subject == CARDS for order in orders) and CARDS in frames
        if frames.get(NODES):
            nodes = NodesFrame(*frames[NODES])
            self._count(nodes.faults)
            self._notes[NODES] = nodes.notes
            if nodes.nodes is not None:
                self._nodes = tuple(KfdNode(*node) for node in nodes.nodes)  # type: ignore[arg-type]
            if not listed:
                self._listed_at = None  # the cards are others, too
        if frames.get(CARDS):
            cards = CardsFrame(*frames[CARDS])
            self._count(cards.faults)
            self._notes[CARDS], self._driver_version = cards.notes, cards.driver_version
            if cards.cards is not None:
                self._listed = True
                known = {card: pci for pci, card in self._cards.items()}
                named = ((pci or known.get(card), card) for pci, card in cards.cards)
                self._cards = {pci: card for pci, card in named if pci}
        return tuple(self._place(now, listed=listed)) if listed or frames.get(NODES) else ()

    def _place(self, now: float, *, listed: bool) -> Iterator[Order]:
        self._ordinals.add(self._cards)
        for pci, track in self._tracks.items():
            if pci not in self._cards and track.state is not GpuState.LOST:
                track.miss(GpuState.LOST)
        nodes = by_gpu(self._nodes, self._cards)
        for pci, card in self._cards.items():
            if pci not in self._tracks:
                self._tracks[pci] = Track(pci=pci, ordinal=self._ordinals[pci])
            track = self._tracks[pci]
            is_news = track.place(card, nodes.get(pci, ())) or (listed and track.state is GpuState.LOST)
            if is_news and pci not in self._crew.stalled:
                what = EVERYTHING if track.memory is None else MEMORY | SENSORS | SLOW
                yield track.order(what | self._due_errors(track, now))

    def _count(self, faults: Iterable[FaultTuple]) -> None:
        self._fault_counts.update((source, errno) for _, source, errno, _ in faults)

    # What to say

    def _snapshot(self) -> Snapshot:
        self._sequence += 1
        notes = [note for notes in self._notes.values() for note in notes]
        if not self._listed:
            notes.append(_UNLISTED)
        if self._crew.is_full:
            notes.append(_FULL)
        elif self._crew.trouble:
            notes.append(self._crew.trouble)
        notes.extend(self._crew.notes)
        tracks = sorted(self._tracks.values(), key=lambda track: track.ordinal)
        return Snapshot(
            sequence=self._sequence,
            taken_at=self._clock.unix(),
            gpus=tuple([track.reading() for track in tracks]),
            listed=self._listed,
            sources=self._sources.current(),
            readers=ReaderStatus(
                restarts=self._crew.restarts,
                abandoned=self._crew.abandoned,
                fault_counts=frozen(self._fault_counts),
            ),
            driver_version=self._driver_version,
            notes=tuple(notes),
        )
