"""What is published: one View, swapped by one assignment.

The daemon's tick and every command that takes a reading of its own come through here.
"""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from importlib.metadata import version

from rocmwatch.judge.memory import fragmentation
from rocmwatch.model import Snapshot, View
from rocmwatch.observe.clock import Clock, SystemClock
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.leftovers import LeftOvers, own_service
from rocmwatch.observe.link import LauncherLink
from rocmwatch.observe.ordinals import Ordinals, boot_id
from rocmwatch.observe.privilege import SAMPLING, allow_only, drop_all
from rocmwatch.observe.sampler import Sampler


def judged(snapshot: Snapshot) -> Snapshot:
    """The snapshot with what can be thought about it."""
    return replace(
        snapshot,
        gpus=tuple(
            replace(reading, fragmentation=fragmentation(reading.free_blocks)) if reading.free_blocks else reading
            for reading in snapshot.gpus
        ),
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
        launcher: Ending it ends every reader, from whatever thread.
        root: Prefix of /sys and /proc.
        clock: What moments are taken from.
    """

    def __init__(self, root: str, *, runtime_folder: str | None = None, clock: Clock | None = None) -> None:
        """Starts the launcher and then gives every capability away, so it has to come before any thread.

        Args:
            root: Prefix of /sys and /proc; empty for the real ones.
            runtime_folder: Where the GPUs' numbers are kept for the boot.
            clock: The system's, unless said otherwise.
        """
        self.clock = clock or SystemClock()
        self.root = root
        self._started_at = self.clock.unix()
        self._version = version("rocmwatch")
        allow_only(SAMPLING)
        self.launcher = LauncherLink(root)
        drop_all()
        self._crew = Crew(self.launcher, LeftOvers(own_service(os.environ), (os.getpid(), self.launcher.pid)))
        path = os.path.join(runtime_folder, "gpus.json") if runtime_folder else None
        self.sampler = Sampler(self._crew, self.clock, Ordinals(path, boot_id(root)))

    def take(self, *, config_loaded_at: float, config_last_reload_successful: bool = True) -> View:
        """One picture.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        return View(
            snapshot=judged(self.sampler.tick()),
            version=self._version,
            started_at=self._started_at,
            hostname=platform.node(),
            root=self.root,
            config_loaded_at=config_loaded_at,
            config_last_reload_successful=config_last_reload_successful,
        )

    def close(self) -> None:
        """Ends the readers and the launcher; one that hangs is not waited for."""
        self._crew.close()
        self.launcher.close()
