"""From what is due to a Snapshot: asks the crew, keeps the tracks, counts the faults.

One writer: `tick` is called by one thread at a time, and what it returns is never changed again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rocmwatch.kernel.kfd import KfdNode, by_gpu
from rocmwatch.model import GpuReading, GpuState, ReaderStatus, Snapshot, SourceStatus, frozen
from rocmwatch.observe.clock import Clock
from rocmwatch.observe.crew import Crew, Frames, Work
from rocmwatch.observe.ordinals import Ordinals
from rocmwatch.observe.track import Track
from rocmwatch.observe.wire import (
    FRAGMENTATION,
    LOOK,
    MEMORY,
    RELIST,
    SENSORS,
    SKIP,
    SLOW,
    TOPOLOGY,
    GpuFrame,
    TopologyFrame,
)

SLOW_SECONDS = 60.0  # limits, descriptions, files that were not there
RELIST_SECONDS = 30.0  # names of the cards
OLD_TABLE_SECONDS = 60.0  # formats F0-F3 are printed by walking every free block under the allocator's lock
CHEAP_TABLE = "F4"
EVERYTHING = MEMORY | SENSORS | SLOW | FRAGMENTATION
_SOURCES = {MEMORY: "memory", SENSORS: "sensors", FRAGMENTATION: "fragmentation"}


class Pace(NamedTuple):
    """How often what is read, in seconds."""

    memory: float = 5.0
    sensors: float = 5.0
    fragmentation: float = 60.0
    deadline: float = 1.0


class Sampler:
    """Takes snapshots of the node."""

    def __init__(self, crew: Crew, clock: Clock, ordinals: Ordinals, pace: Pace) -> None:
        self.pace = pace
        self._crew = crew
        self._clock = clock
        self._ordinals = ordinals
        self._tracks: dict[str, Track] = {}
        self._done_at: dict[int, float] = {}  # kind of work -> monotonic
        self._relisted_at: float | None = None
        self._sources: dict[str, SourceStatus] = {}
        self._fault_counts: Counter[tuple[str, str]] = Counter()
        self._sequence = 0
        self._driver_version: str | None = None
        self._notes: tuple[str, ...] = ()

    def tick(self) -> Snapshot:
        """Reads what is due and says what is known now.

        Raises:
            LauncherLost: When the launcher is gone: this process cannot sample any more.
        """
        started = self._clock.monotonic()
        due = self._due(started)
        frames = self._crew.read(self._topology_work(started), self._work(due), self.pace.deadline, started)
        fresh = self._apply_topology(frames)
        self._apply(frames)
        if fresh:  # first seen in this tick, or back again: it is in the picture at once
            self._apply(self._crew.read(SKIP, self._work(EVERYTHING, fresh), self.pace.deadline, started))
        retried = self._crew.retry(self._retry_work(), self.pace.deadline, started)
        self._apply_topology(retried)
        self._apply(retried)
        self._mark_stalled()
        self._note_sources(due, started)
        return self._snapshot()

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

    def _topology_work(self, now: float) -> int:
        if TOPOLOGY in self._crew.stalls:
            return SKIP
        if self._relisted_at is None or now - self._relisted_at >= RELIST_SECONDS:
            self._relisted_at = now
            return RELIST
        return LOOK

    def _work(self, what: int, only: Iterable[str] | None = None) -> Work:
        chosen = self._tracks if only is None else only
        return tuple(
            (pci, self._tracks[pci].card, what)
            for pci in sorted(chosen)
            if pci not in self._crew.stalls and self._tracks[pci].state is not GpuState.LOST
        )

    def _retry_work(self) -> Mapping[str, tuple[int, Work]]:
        work: dict[str, tuple[int, Work]] = {TOPOLOGY: (RELIST, ())}
        for pci, track in self._tracks.items():
            if track.state is not GpuState.LOST:
                work[pci] = (SKIP, ((pci, track.card, EVERYTHING),))
        return work

    # What came back

    def _apply_topology(self, frames: Frames) -> set[str]:
        value = frames.get(TOPOLOGY)
        if value is None:
            return set()
        frame = TopologyFrame(*value)  # type: ignore[arg-type]  # the reader packed one
        self._driver_version, self._notes = frame.driver_version, frame.notes
        self._fault_counts.update((source, errno) for source, errno, _ in frame.faults)
        nodes = by_gpu(KfdNode(*node) for node in frame.nodes)  # type: ignore[arg-type]
        cards = dict(frame.cards)
        self._ordinals.add(cards)
        fresh = set()
        for pci, card in cards.items():
            track = self._tracks.get(pci)
            if track is None or track.state is GpuState.LOST or track.card != card:
                track = self._tracks[pci] = Track(pci=pci, ordinal=self._ordinals[pci], card=card)
            track.place(card, nodes.get(pci, ()))
            fresh.add(pci)  # a new topology may have changed what every GPU can say
        for pci, track in self._tracks.items():
            if pci not in cards:
                track.state = GpuState.LOST
        return fresh - self._crew.stalls.keys()

    def _apply(self, frames: Frames) -> None:
        unix = self._clock.unix()
        for pci, value in frames.items():
            track = self._tracks.get(pci)
            if track is None:
                continue
            frame = GpuFrame(*value)  # type: ignore[arg-type]
            track.apply(frame, unix)
            self._fault_counts.update((source, errno) for source, errno, _ in frame.faults)
            if track.state is GpuState.LOST:
                self._relisted_at = None  # look at once whether it came back under another name

    def _mark_stalled(self) -> None:
        for pci in self._crew.stalls:
            if pci in self._tracks and self._tracks[pci].state is not GpuState.LOST:
                self._tracks[pci].state = GpuState.STALLED

    def _note_sources(self, due: int, started: float) -> None:
        took = self._clock.monotonic() - started
        unix = self._clock.unix()
        names = [name for kind, name in _SOURCES.items() if due & kind]
        names += [TOPOLOGY] if TOPOLOGY not in self._crew.stalls else []
        for name in names:
            self._sources[name] = SourceStatus(last_success_at=unix, duration_seconds=took)

    def _snapshot(self) -> Snapshot:
        self._crew.bury()
        self._sequence += 1
        readings: list[GpuReading] = [track.reading() for track in self._tracks.values()]
        return Snapshot(
            sequence=self._sequence,
            taken_at=self._clock.unix(),
            gpus=tuple(sorted(readings, key=lambda reading: int(reading.gpu.gpu))),
            sources=frozen(self._sources),
            readers=ReaderStatus(
                restarts=self._crew.restarts,
                abandoned=self._crew.abandoned,
                fault_counts=frozen(self._fault_counts),
            ),
            driver_version=self._driver_version,
            notes=self._notes,
        )
