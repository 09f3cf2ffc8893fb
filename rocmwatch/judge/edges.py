"""What changed between two snapshots, for the log: edges only, so an hour without news is an hour without lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rocmwatch.model import GpuReading, GpuState, Snapshot

_REFUSED = frozenset({"EPERM", "EBUSY"})  # what a reset is: one line tells it, not one a sensor
_QUIET = frozenset({GpuState.ACTIVE, GpuState.SUSPENDED})


class Edge(NamedTuple):
    """One change.

    Attributes:
        level: `info` or `warning`.
        event: What happened, as `noun.verb_past`.
        facts: The rest, as keys.
    """

    level: str
    event: str
    facts: Mapping[str, object]


def edges(old: Snapshot | None, new: Snapshot) -> Iterator[Edge]:
    """The changes from one snapshot to the next; everything is news when there was none before."""
    before = {reading.gpu.pci: reading for reading in old.gpus} if old else {}
    for reading in new.gpus:
        yield from _gpu_edges(before.get(reading.gpu.pci), reading)
    if not new.gpus and (old is None or old.gpus):
        yield Edge("warning", "gpus.none_found", {"hint": "no AMD GPU here so far; one that appears is picked up"})
    seen = old.notes if old else ()
    for note in new.notes:
        if note not in seen:
            yield Edge("warning", "node.limited", {"reason": note})
    for note in seen:
        if note not in new.notes:
            yield Edge("info", "node.limit_lifted", {"reason": note})
    was = old.readers.abandoned if old else 0
    if new.readers.abandoned != was:
        level = "warning" if new.readers.abandoned > was else "info"
        yield Edge(level, "readers.abandoned_changed", {"abandoned": new.readers.abandoned, "before": was})


def _gpu_edges(old: GpuReading | None, new: GpuReading) -> Iterator[Edge]:
    who: dict[str, object] = {"gpu": new.gpu.gpu, "pci": new.gpu.pci}
    level = "info" if new.state in _QUIET else "warning"
    if old is None:
        facts: dict[str, object] = {
            "state": new.state.value,
            "pool": new.gpu.pool.value,
            "partitions": len(new.gpu.partitions),
        }
        yield Edge(level, "gpu.found", who | facts)
    elif old.state is not new.state:
        yield Edge(level, "gpu.state_changed", who | {"state": new.state.value, "before": old.state.value})
    if old is not None and _mode(old) != _mode(new):
        facts = {"compute_partition": new.gpu.compute_partition, "memory_partition": new.gpu.memory_partition}
        yield Edge("info", "gpu.partitions_changed", who | facts | {"partitions": len(new.gpu.partitions)})
    failing = {(fault.source, fault.errno) for fault in old.faults} if old else set()
    for fault in new.faults:
        if (fault.source, fault.errno) not in failing and not (
            new.state is GpuState.RESETTING and fault.errno in _REFUSED
        ):
            facts = {"source": fault.source, "errno": fault.errno, "path": fault.path}
            yield Edge("warning", "field.read_failed", who | facts)


def _mode(reading: GpuReading) -> tuple[str | None, str | None, int]:
    gpu = reading.gpu
    return gpu.compute_partition, gpu.memory_partition, len(gpu.partitions)
