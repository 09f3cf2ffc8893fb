"""For how long each place has been idle: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rocmwatch.model import GpuReading, GpuState, Snapshot, frozen

IDLE_RATIO = 0.02  # below it, nothing is computed: the firmware's own rounding is 1 %

Place = tuple[str, "str | None"]


def idle_since(before: Mapping[Place, float], snapshot: Snapshot, now: float) -> Mapping[Place, float]:
    """Since when each place has been idle; one that is busy, or of which it is not known, is missing.

    Args:
        before: What the snapshot before came to.
        snapshot: What is seen now.
        now: Monotonic time.
    """
    since = {}
    for reading in snapshot.gpus:
        for place, busy in _busy(reading):
            if busy is not None and busy < IDLE_RATIO:
                since[place] = before.get(place, now)
    return frozen(since)


def idle_seconds(since: Mapping[Place, float], now: float) -> Mapping[Place, float]:
    """The same as spans."""
    return frozen({place: now - start for place, start in since.items()})


def _busy(reading: GpuReading) -> Iterator[tuple[Place, float | None]]:
    """How busy each place of a GPU is. A card that sleeps is not; a partition is as busy as its card, in doubt."""
    pci, sample = reading.gpu.pci, reading.sample
    asleep = reading.state is GpuState.SUSPENDED
    whole = 0.0 if asleep else sample.busy_ratio.get("gfx") if sample and reading.state is GpuState.ACTIVE else None
    yield (pci, None), whole
    for part in reading.gpu.partitions:
        own = sample.partitions.get(part.partition) if sample else None
        yield (pci, part.partition), whole if own is None or own.busy_ratio is None else own.busy_ratio
