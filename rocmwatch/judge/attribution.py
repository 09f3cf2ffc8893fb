"""Whether the holders explain the memory in use, and what is left over: pure.

    used = what the holders have + what the driver keeps for itself (the idle floor) + what nobody owns

The idle floor of a GPU is the least that was ever left over, in this mode and with this driver; what is above it for
longer than a lazy release takes is memory that nobody can give back. Where the holders cannot be trusted, because one
could not be looked at or they add up to more than there is, nothing is said of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rocmwatch.model import Attribution, GpuReading, Holder, frozen

GIB = 1 << 30
EXCESS_RATIO = 0.01  # by which the holders may exceed what is used: the two are not read at the same moment
FLOOR_LEAST_BYTES, FLOOR_RATIO = GIB, 0.005  # an idle floor is at most the larger of the two
UNOWNED_LEAST_BYTES, UNOWNED_RATIO = GIB, 0.01  # what is left over counts above the larger of the two
RELEASE_SECONDS = 300.0  # the driver gives memory back lazily
_SAME_RATIO = 0.02


class FloorKey(NamedTuple):
    """What an idle floor is of: another mode, or another driver, keeps another amount."""

    pci: str
    mode: str
    driver: str


class Rest(NamedTuple):
    """What is left of one GPU's memory in use when the holders' is taken off.

    Attributes:
        used_bytes: In use, as far as it is known.
        held_bytes: By holders.
        attribution: Whether those explain it.
    """

    used_bytes: int | None
    held_bytes: int
    attribution: Attribution

    @property
    def left_bytes(self) -> int | None:
        """`None` when the holders cannot be trusted."""
        if self.used_bytes is None or self.attribution is not Attribution.COMPLETE:
            return None
        return max(0, self.used_bytes - self.held_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What is remembered from scan to scan.

    Attributes:
        least: The least that was left over so far; kept for ever.
        above_since: Since when more than the floor and the threshold is left over, by PCI address; monotonic.
    """

    least: Mapping[FloorKey, int] = field(default_factory=lambda: frozen({}))
    above_since: Mapping[str, float] = field(default_factory=lambda: frozen({}))


class Balance(NamedTuple):
    """What it comes to, of one GPU.

    Attributes:
        floor_bytes: Its idle floor; `None` before the holders could once be trusted.
        unowned_bytes: What nobody owns, 0 when all is explained; `None` when it cannot be told.
    """

    floor_bytes: int | None
    unowned_bytes: int | None


def rest_of(reading: GpuReading, holders: Iterable[Holder] | None, *, all_seen: bool) -> Rest:
    """How far the holders explain one GPU's memory in use.

    Args:
        reading: The GPU.
        holders: Of the whole node; `None` when nobody looked.
        all_seen: Whether every process that may hold something could be looked at.
    """
    used = reading.sample.vram_used_bytes if reading.sample else None
    if holders is None or used is None:
        return Rest(used, 0, Attribution.UNKNOWN)
    pci = reading.gpu.pci
    here = [holder for holder in holders if any(use.pci == pci for use in holder.process.uses)]
    held = sum(one.bytes for holder in here for one in holder.held if one.pci == pci)
    if any(holder.process.has_queues and not holder.held for holder in here):
        return Rest(used, held, Attribution.UNKNOWN)  # it works there, so it has memory there: the count is wrong
    hidden = any(not holder.process.may_look for holder in here)
    if not all_seen or hidden or held > used * (1 + EXCESS_RATIO):
        return Rest(used, held, Attribution.PARTIAL)
    return Rest(used, held, Attribution.COMPLETE)


def node_attribution(rests: Iterable[Rest]) -> Attribution:
    """The worst of the GPUs'; complete without a GPU."""
    order = (Attribution.COMPLETE, Attribution.PARTIAL, Attribution.UNKNOWN)
    return max((rest.attribution for rest in rests), key=order.index, default=Attribution.COMPLETE)


def floor_key(reading: GpuReading, driver: str | None) -> FloorKey:
    """What a GPU's idle floor goes by."""
    mode = "/".join((reading.gpu.compute_partition or "-", reading.gpu.memory_partition or "-"))
    return FloorKey(reading.gpu.pci, mode, driver or "-")


def balance(
    floors: Floors, gpus: Mapping[FloorKey, tuple[Rest, int]], now: float
) -> tuple[Floors, Mapping[str, Balance]]:
    """Takes in one scan.

    Args:
        floors: What was remembered.
        gpus: What is left over on each GPU, and the size of its VRAM, bytes.
        now: Monotonic time.

    Returns:
        What to remember, and the balance of each GPU, by PCI address.
    """
    least, above = dict(floors.least), {}
    balances = {}
    for key, (rest, total) in gpus.items():
        left = rest.left_bytes
        if left is not None:
            cap = max(FLOOR_LEAST_BYTES, int(FLOOR_RATIO * total))
            least[key] = min(least.get(key, cap), left, cap)
        floor = least.get(key)
        unowned = None
        if left is not None and floor is not None:
            unowned = 0
            if left - floor > max(UNOWNED_LEAST_BYTES, int(UNOWNED_RATIO * total)):
                above[key.pci] = floors.above_since.get(key.pci, now)
                if now - above[key.pci] >= RELEASE_SECONDS:
                    unowned = left - floor
        elif key.pci in floors.above_since:
            above[key.pci] = floors.above_since[key.pci]  # it cannot be told at the moment: the time goes on
        balances[key.pci] = Balance(floor, unowned)
    return replace(floors, least=frozen(least), above_since=frozen(above)), frozen(balances)


def looks_like_a_driver_leak(balances: Mapping[str, Balance]) -> bool:
    """Whether all GPUs, two at least, have about the same left over: processes do not die so evenly."""
    amounts = [balance.unowned_bytes or 0 for balance in balances.values()]
    if len(amounts) < 2 or min(amounts) == 0:
        return False
    return max(amounts) - min(amounts) <= _SAME_RATIO * max(amounts)
