"""Who has something of the GPUs, pass after pass: asks the processes reader, and keeps what outlives a process.

A pass is two requests: which processes have something, and then each of them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import NamedTuple

from rocmwatch.model import CgroupVram, Gpu, GpuProcess, Pressure, ReaderStatus, SourceStatus, Use, frozen
from rocmwatch.observe.clock import Clock
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.link import Frames
from rocmwatch.observe.process_wire import (
    CGROUPS,
    PIDS,
    SUSPECT,
    CgroupsFrame,
    PidsFrame,
    ProcessFrame,
    pid_of,
    subject_of,
)
from rocmwatch.observe.wire import LIST, LOOK, FaultTuple, Order

PROCESSES_SECONDS = 10.0
ALL_SECONDS = 60.0  # of what is seldom of use: control groups
ORDERS_AT_ONCE = 200  # what fits into a request and its answers into the mailbox, with room to spare
_SOURCE = "processes"
_REFUSED = (
    "/proc: no permission to look at all processes (needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH): "
    "what they have of a GPU is known only as far as the compute driver says"
)

_UNREAD = ProcessFrame()
_SAME = sorted({one.name for one in fields(GpuProcess)} & set(ProcessFrame._fields))  # what is told as it was read

Place = tuple[str, "str | None"]  # PCI address, partition


class Findings(NamedTuple):
    """What a pass found; the same until the next one.

    Attributes:
        processes: `None` when it is not known.
        all_seen: Whether every process that may have something could be looked at, just now.
        cgroups: VRAM by control group.
        pressures: By PCI address.
        source: How the passes are doing; `None` before the first.
        readers: How the reading processes are doing.
        notes: What cannot be read, a line each.
    """

    processes: tuple[GpuProcess, ...] | None = None
    all_seen: bool = False
    cgroups: tuple[CgroupVram, ...] = ()
    pressures: Mapping[str, Pressure] = frozen({})
    source: SourceStatus | None = None
    readers: ReaderStatus = ReaderStatus()
    notes: tuple[str, ...] = ()


class Census:
    """Takes the passes.

    Attributes:
        seconds: From pass to pass.
        deadline_seconds: How long one process may take to be read.
    """

    def __init__(self, crew: Crew, clock: Clock) -> None:
        self.seconds = PROCESSES_SECONDS
        self.deadline_seconds = 1.0
        self._crew = crew
        self._clock = clock
        self._passed_at: float | None = None
        self._grouped_at: float | None = None
        self._frames: dict[int, ProcessFrame] = {}  # of the processes that were named last
        self._killed_at: dict[tuple[int, int | None], float] = {}  # (pid, start time) -> monotonic
        self._ledger = _Ledger()
        self._cgroups: tuple[CgroupVram, ...] = ()
        self._fault_counts: Counter[tuple[str, str]] = Counter()
        self._findings = Findings()

    def tick(self, gpus: Iterable[Gpu], suspects: Collection[int] = ()) -> Findings:
        """What is known; a new pass when one is due.

        Args:
            gpus: Where the compute driver's numbers lie.
            suspects: Processes of which to know as well whether anybody of theirs listens: that costs more.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        now = self._clock.monotonic()
        if self._passed_at is not None and 0 <= now - self._passed_at < self.seconds - 0.5:
            return self._findings
        self._passed_at = now
        self._crew.renew(self._order_for, self.deadline_seconds, now)
        pids = self._ask_who(now)
        if pids is not None:
            self._ask_each(pids.pids, suspects, now)
        places = _places(gpus)
        before = self._findings.source.last_success_at if self._findings.source else None
        self._findings = Findings(
            processes=None if pids is None else tuple(self._processes(places, now)),
            all_seen=pids is not None and not pids.refused and not self._crew.stalled,
            cgroups=self._cgroups,
            pressures=self._ledger.pressures(places, self._frames, first=before is None),
            source=SourceStatus(
                last_success_at=before if pids is None else self._clock.unix(),
                duration_seconds=self._clock.monotonic() - now,
            ),
            readers=ReaderStatus(
                restarts=self._crew.restarts,
                abandoned=self._crew.abandoned,
                fault_counts=frozen(self._fault_counts),
            ),
            notes=(_REFUSED,) if pids and pids.refused else (),
        )
        return self._findings

    def _order_for(self, subject: str) -> Order | None:
        if subject in (PIDS, CGROUPS):
            return Order(subject, LIST)
        return Order(subject, LOOK) if pid_of(subject) in self._frames else None

    def _ask_who(self, now: float) -> PidsFrame | None:
        groups_are_due = self._grouped_at is None or now - self._grouped_at >= ALL_SECONDS
        frames = self._read((Order(PIDS, LOOK), *((Order(CGROUPS, LIST),) if groups_are_due else ())), now)
        if PIDS not in frames:
            return None
        if groups_are_due:
            self._grouped_at = now
            if CGROUPS in frames:
                cgroups = CgroupsFrame(*frames[CGROUPS])
                self._count(cgroups.faults)
                self._cgroups = tuple(
                    CgroupVram(cgroup=path, pci=pci, bytes=size) for path, pci, size in cgroups.cgroups or ()
                )
        pids = PidsFrame(*frames[PIDS])
        self._count(pids.faults)
        return pids

    def _ask_each(self, pids: tuple[int, ...], suspects: Collection[int], now: float) -> None:
        """Reads each process anew; one whose read hangs keeps what was read of it last."""
        self._frames = {pid: self._frames.get(pid, _UNREAD) for pid in pids}
        for start in range(0, len(pids), ORDERS_AT_ONCE):
            orders = tuple(
                Order(subject_of(pid), SUSPECT if pid in suspects else LOOK)
                for pid in pids[start : start + ORDERS_AT_ONCE]
            )
            for subject, value in self._read(orders, now).items():
                frame = ProcessFrame(*value)
                self._frames[pid_of(subject)] = frame
                self._count(frame.faults)
        for pid in pids:
            frame = self._frames[pid]
            if frame is _UNREAD or not (frame.exists or frame.has_kfd_entry):
                del self._frames[pid]  # it could not be read so far, or ended meanwhile
        self._note_kills(now)

    def _note_kills(self, now: float) -> None:
        """Since when a SIGKILL waits for a process: the kernel does not say."""
        waiting = {(pid, frame.start_time) for pid, frame in self._frames.items() if frame.kill_pending}
        self._killed_at = {who: self._killed_at.get(who, now) for who in waiting}

    def _read(self, orders: tuple[Order, ...], now: float) -> Frames:
        stalled = self._crew.stalled
        wanted = tuple(order for order in orders if order.subject not in stalled)
        return self._crew.read(wanted, self.deadline_seconds, now)

    def _count(self, faults: Iterable[FaultTuple]) -> None:
        self._fault_counts.update((source, errno) for _, source, errno, _ in faults)

    def _processes(self, places: "_Places", now: float) -> Iterator[GpuProcess]:
        for pid, frame in sorted(self._frames.items()):
            killed_at = self._killed_at.get((pid, frame.start_time))
            yield GpuProcess(
                pid=pid,
                kill_pending_seconds=None if killed_at is None else now - killed_at,
                uses=tuple(_uses(frame, places)),
                **{name: getattr(frame, name) for name in _SAME},
            )


class _Places(NamedTuple):
    """Where the compute driver's numbers and the render nodes lie."""

    by_gpu_id: dict[int, Place]
    by_minor: dict[int, Place]


def _places(gpus: Iterable[Gpu]) -> _Places:
    by_gpu_id: dict[int, Place] = {}
    by_minor: dict[int, Place] = {}
    for gpu in gpus:
        if gpu.kfd_gpu_id is not None:
            by_gpu_id[gpu.kfd_gpu_id] = (gpu.pci, None)
        for part in gpu.partitions:
            if part.kfd_gpu_id is not None:
                by_gpu_id[part.kfd_gpu_id] = (gpu.pci, part.partition)
            if part.render_minor is not None:
                by_minor[part.render_minor] = (gpu.pci, part.partition)
    return _Places(by_gpu_id, by_minor)


def _uses(frame: ProcessFrame, places: _Places) -> Iterator[Use]:
    """What a process has, place by place."""
    facts: dict[Place, dict[str, float | None]] = {}
    for gpu_id, vram_bytes, evicted_ms, page_faults in frame.kfd:
        place = places.by_gpu_id.get(gpu_id)
        if place is not None:
            seconds = None if evicted_ms is None else evicted_ms / 1000
            facts[place] = {"kfd_bytes": vram_bytes, "evicted_seconds": seconds, "page_faults": page_faults}
    for pci, minor, *sizes in frame.clients:
        found = places.by_minor.get(-1 if minor is None else minor)
        fact = facts.setdefault(found if found and found[0] == pci else (pci, None), {})
        for name, size in zip(("fdinfo_bytes", "gtt_bytes", "evicted_bytes", "requested_bytes"), sizes, strict=True):
            if size is not None:
                fact[name] = (fact.get(name) or 0) + size
    for (pci, partition), fact in sorted(facts.items(), key=str):
        yield Use(pci=pci, partition=partition, **fact)  # type: ignore[arg-type]


class _Ledger:
    """Counters of processes, added up so that they go on when a process ends."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int | None, int, int], int] = {}  # (pid, start, node, which counter) -> its value
        self._totals: dict[tuple[str, int], int] = {}  # (PCI address, which counter) -> since the daemon started

    def pressures(self, places: _Places, frames: Mapping[int, ProcessFrame], *, first: bool) -> Mapping[str, Pressure]:
        """Adds what came since the pass before.

        Args:
            places: Where the compute driver's numbers lie.
            frames: By pid.
            first: Whether there was no pass before: what a counter says then happened before our time.
        """
        last, self._last = self._last, {}
        sizes: dict[tuple[str, int], int] = {}
        for pid, frame in frames.items():
            for gpu_id, _, *counters in frame.kfd:
                place = places.by_gpu_id.get(gpu_id)
                for which, value in enumerate(counters):
                    if value is not None and place is not None:
                        key = (pid, frame.start_time, gpu_id, which)
                        before = last.get(key, value if first else 0)
                        total = self._totals.setdefault((place[0], which), 0)
                        self._totals[place[0], which] = total + max(0, value - before)
                        self._last[key] = value
            for pci, _, _, _, *mapped in frame.clients:
                for which, size in enumerate(mapped):
                    if size is not None:
                        sizes[pci, which] = sizes.get((pci, which), 0) + size
        gpus = {pci for pci, _ in (*sizes, *self._totals)}
        return frozen({pci: self._pressure(pci, sizes) for pci in sorted(gpus)})

    def _pressure(self, pci: str, sizes: Mapping[tuple[str, int], int]) -> Pressure:
        evicted_ms = self._totals.get((pci, 0))
        return Pressure(
            evicted_bytes=sizes.get((pci, 0)),
            requested_bytes=sizes.get((pci, 1)),
            evicted_seconds=None if evicted_ms is None else evicted_ms / 1000,
            page_faults=self._totals.get((pci, 1)),
        )
