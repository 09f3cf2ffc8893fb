"""Takes the pictures: owns what reads the node, and has it judged."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version

from rocmwatch.judge.memory import fragmentation
from rocmwatch.judge.trends import Trends
from rocmwatch.model import Holdings, ReaderStatus, Snapshot, Trend, View, frozen
from rocmwatch.observe.amdsmi_crew import AmdsmiCrew
from rocmwatch.observe.backend import AUTO, Backend
from rocmwatch.observe.census import Census, Findings
from rocmwatch.observe.clock import Clock, SystemClock
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.leftovers import LeftOvers, own_service
from rocmwatch.observe.link import LauncherLink
from rocmwatch.observe.ordinals import Ordinals, boot_id
from rocmwatch.observe.privilege import SAMPLING, allow_only, drop_all
from rocmwatch.observe.sampler import Sampler
from rocmwatch.observe.stall import Patience
from rocmwatch.observe.uevents import Uevents
from rocmwatch.picture.roll import Roll

_PROCESSES_PATIENCE = Patience(most_readers=8)  # of the TasksMax of the unit, which the sensors' readers share


def judged(snapshot: Snapshot) -> Snapshot:
    """The snapshot with what can be thought about it."""
    return replace(
        snapshot,
        gpus=tuple(
            replace(reading, fragmentation=fragmentation(reading.free_blocks)) if reading.free_blocks else reading
            for reading in snapshot.gpus
        ),
    )


def counted(snapshot: Snapshot, findings: Findings) -> Snapshot:
    """The snapshot with what the processes have of the GPUs."""
    readers = snapshot.readers
    faults = Counter(readers.fault_counts) + Counter(findings.readers.fault_counts)
    sources = {"processes": findings.source} if findings.source else {}
    return replace(
        snapshot,
        gpus=tuple(
            replace(reading, pressure=findings.pressures[reading.gpu.pci])
            if reading.gpu.pci in findings.pressures
            else reading
            for reading in snapshot.gpus
        ),
        sources=frozen({**snapshot.sources, **sources}),
        readers=ReaderStatus(
            restarts=readers.restarts + findings.readers.restarts,
            abandoned=readers.abandoned + findings.readers.abandoned,
            fault_counts=frozen(faults),
        ),
        notes=(*snapshot.notes, *findings.notes),
        processes=findings.processes,
        cgroups=findings.cgroups,
    )


class Publisher:
    """Where the picture hangs: one writer, any number of readers, no lock."""

    def __init__(self) -> None:
        self._view: View | None = None

    def publish(self, view: View) -> None:
        """Swaps the picture."""
        self._view = view

    def current(self) -> View | None:
        """The last picture; `None` before the first."""
        return self._view


class Studio:
    """Takes pictures of a node: owns the launcher, the readers and the sampler.

    Attributes:
        sampler: Its `pace` may be set at any time.
        backend: So may its `mode`.
        roll: Who holds what; `None` likewise.
        census: So may its `seconds` and its `deadline_seconds`; `None` where nobody asks who has what.
        launcher: Ending it ends every reader, from whatever thread.
        root: Prefix of /sys and /proc.
        clock: What moments are taken from.
    """

    def __init__(
        self,
        root: str,
        *,
        runtime_folder: str | None = None,
        clock: Clock | None = None,
        with_processes: bool = False,
        keep_capabilities: bool = False,
        with_trends: bool = False,
    ) -> None:
        """Starts the launcher and then gives every capability away, so it has to come before any thread.

        Args:
            root: Prefix of /sys and /proc; empty for the real ones.
            runtime_folder: Where the GPUs' numbers are kept for the boot.
            clock: The system's, unless said otherwise.
            with_processes: Whether to look at who has something of the GPUs, and to listen for those that hang.
            keep_capabilities: Whether this process is to act on others itself, as a command of root's may.
            with_trends: Whether to remember the last hour.
        """
        self.clock = clock or SystemClock()
        self.root = root
        self._started_at = self.clock.unix()
        self._version = version("rocmwatch")
        allow_only(SAMPLING)
        self.launcher = LauncherLink(root)
        if not keep_capabilities:
            drop_all()
        files = Crew(self.launcher, LeftOvers(own_service(os.environ), (os.getpid(), self.launcher.pid)))
        self.backend = Backend(files, None if root else AmdsmiCrew(self.launcher), AUTO)
        path = os.path.join(runtime_folder, "gpus.json") if runtime_folder else None
        self.sampler = Sampler(self.backend, self.clock, Ordinals(path, boot_id(root)))
        self._process_crew = Crew(self.launcher, patience=_PROCESSES_PATIENCE, role="processes")
        self.census = Census(self._process_crew, self.clock) if with_processes else None
        self.roll = Roll(root) if with_processes else None
        self._trends = Trends() if with_trends else None
        self._uevents = Uevents() if with_processes and not root else None

    def take(self, *, config_loaded_at: float, config_last_reload_successful: bool = True) -> View:
        """One picture.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        snapshot, holdings = self._snapshot()
        return View(
            snapshot=snapshot,
            version=self._version,
            started_at=self._started_at,
            hostname=platform.node(),
            root=self.root,
            config_loaded_at=config_loaded_at,
            config_last_reload_successful=config_last_reload_successful,
            holdings=holdings,
            trends=self._trends_with(snapshot),
        )

    def _trends_with(self, snapshot: Snapshot) -> Mapping[str, Mapping[str, Trend]]:
        if self._trends is None:
            return frozen({})
        interval = self.sampler.pace.memory
        return self._trends.take(snapshot, self.clock.monotonic(), snapshot.taken_at, interval)

    def _snapshot(self) -> tuple[Snapshot, Holdings | None]:
        for card, method in self._uevents.wedged() if self._uevents else ():
            pci = self.sampler.pci_of_card(card)
            if pci is not None:
                self.sampler.note_wedged(pci, method)
        snapshot = judged(self.sampler.tick())
        if self._uevents is not None and self._uevents.note:
            snapshot = replace(snapshot, notes=(*snapshot.notes, self._uevents.note))
        if self.census is None or self.roll is None:
            return snapshot, None
        findings = self.census.tick([reading.gpu for reading in snapshot.gpus], self.roll.suspects)
        snapshot = counted(snapshot, findings)
        now = self.clock.monotonic()
        return snapshot, self.roll.take(snapshot, now, all_seen=findings.all_seen, refused=findings.notes)

    def close(self) -> None:
        """Ends the readers and the launcher; one that hangs is not waited for."""
        if self._uevents is not None:
            self._uevents.close()
        self._process_crew.close()
        self.backend.close()
        self.launcher.close()
