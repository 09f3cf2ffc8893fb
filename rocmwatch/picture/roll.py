"""Who holds what, kept from picture to picture: the processes and the units seen, and what is thought of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rocmwatch.judge.attribution import (
    FloorKey,
    Floors,
    balance,
    floor_key,
    looks_like_a_driver_leak,
    node_attribution,
    rest_of,
)
from rocmwatch.judge.holders import World, holders, suspects
from rocmwatch.judge.idle import idle_seconds, idle_since
from rocmwatch.judge.owners import owner_of
from rocmwatch.model import Balance, GpuProcess, Holdings, OwnerKind, Snapshot, frozen
from rocmwatch.observe.clock import boot_seconds, ticks_per_second
from rocmwatch.observe.units import Units

Place = tuple[str, "str | None"]
_NO_UPTIME = "/proc/uptime cannot be read: how old a process is, is not known"


class Roll:
    """The roll of holders.

    Attributes:
        floors: What is remembered of the idle floors; may be set from what was kept.
        known_idle: For how long places were idle by another's account (the daemon's, for a command), seconds.
    """

    def __init__(self, root: str, units: Units | None = None) -> None:
        self.floors = Floors()
        self.known_idle: Mapping[Place, float] = frozen({})
        self._root = root
        self._units = units or Units(root)
        self._idle: Mapping[Place, float] = frozen({})
        self._ticks = ticks_per_second()
        self._suspects: frozenset[int] = frozenset()

    @property
    def suspects(self) -> frozenset[int]:
        """Processes of which the next scan should find out whether they listen."""
        return self._suspects

    def take(self, snapshot: Snapshot, now: float, *, all_seen: bool, refused: Collection[str] = ()) -> Holdings:
        """The holdings in a picture.

        Args:
            snapshot: With its processes.
            now: Monotonic time.
            all_seen: Whether every process that may hold something could be looked at.
            refused: Notes on what could not.
        """
        self._idle = idle_since(self._idle, snapshot, now)
        processes = snapshot.processes
        world = self.world(processes or (), now)
        found = None if processes is None else holders(processes, world)
        self._suspects = suspects(processes or (), world)
        rests = {reading.gpu.pci: rest_of(reading, found, all_seen=all_seen) for reading in snapshot.gpus}
        keyed: dict[FloorKey, tuple[object, int]] = {}
        for reading in snapshot.gpus:
            total = reading.sample.vram_total_bytes if reading.sample else None
            if total:
                keyed[floor_key(reading, snapshot.driver_version)] = (rests[reading.gpu.pci], total)
        self.floors, balances = balance(self.floors, keyed, now)  # type: ignore[arg-type]
        notes = list(refused)
        if self._units.trouble:
            notes.append(self._units.trouble)
        if processes and boot_seconds(self._root) is None:
            notes.append(_NO_UPTIME)
        return Holdings(
            attribution=node_attribution(rests.values()),
            holders=found or (),
            balances=tuple(
                Balance(
                    pci=pci,
                    attribution=rest.attribution,
                    held_bytes=rest.held_bytes,
                    idle_floor_bytes=balances[pci].floor_bytes if pci in balances else None,
                    unowned_bytes=balances[pci].unowned_bytes if pci in balances else None,
                    idle_seconds=world.idle_seconds.get((pci, None)),
                )
                for pci, rest in rests.items()
            ),
            driver_leak=looks_like_a_driver_leak(balances),
            notes=tuple(notes),
        )

    def world(self, processes: Collection[GpuProcess], now: float) -> World:
        """What is known beside the processes, read at this moment."""
        owners = (owner_of(process.cgroup, process.namespaces) for process in processes)
        names = {owner.name for owner in owners if owner.kind is OwnerKind.UNIT and owner.name}
        own = idle_seconds(self._idle, now)
        longest = {place: max(span, self.known_idle.get(place, 0.0)) for place, span in own.items()}
        return World(
            now_seconds=boot_seconds(self._root) or 0.0,
            ticks_per_second=self._ticks,
            units=self._units.look(names, now),
            idle_seconds=frozen(longest),
        )
