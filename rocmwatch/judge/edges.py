"""What changed between two snapshots, for the log: edges only, so an hour without news is an hour without lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rocmwatch.model import Fault, GpuReading, GpuState, Snapshot

_REFUSED = frozenset({"EPERM", "EBUSY"})  # what a reset is: one line tells it, not one a sensor
RECOVERED = "none"  # what the kernel announces after a reset that went well
_Faults = Mapping[str, Sequence[Fault]]
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


class Damper:
    """Lets an event of a kind through once in a while: what flaps would fill the log."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._passed: dict[tuple[object, ...], float] = {}

    def passes(self, edge: Edge, now: float) -> bool:
        """Whether this one is to be told.

        Args:
            edge: The event. Only failing reads are damped; by GPU, event and errno.
            now: Monotonic time.
        """
        if "errno" not in edge.facts:
            return True
        kind = (edge.event, edge.facts.get("pci"), edge.facts["errno"])
        if now - self._passed.get(kind, -self._seconds) < self._seconds:
            return False
        self._passed[kind] = now
        return True


def edges(old: Snapshot | None, new: Snapshot) -> Iterator[Edge]:
    """The changes from one snapshot to the next; everything is news when there was none before."""
    before = {reading.gpu.pci: reading for reading in old.gpus} if old else {}
    for reading in new.gpus:
        yield from _gpu_edges(before.get(reading.gpu.pci), reading)
    if _is_empty(new) and not (old and _is_empty(old)):
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
    for method, count in new.events.wedged.items():
        if count != (old.events.wedged.get(method, 0) if old else 0):
            yield Edge("info" if method == RECOVERED else "warning", "gpu.wedged", who | {"recovery": method})
    yield from _fault_edges(who, _by_errno(old), _by_errno(new))


def _fault_edges(who: Mapping[str, object], old: _Faults, new: _Faults) -> Iterator[Edge]:
    """One line for each kind of failure that begins, spreads or ends, however many files it is seen in."""
    for errno, faults in new.items():
        known = {fault.source for fault in old.get(errno, ())}
        fresh = [fault for fault in faults if fault.source not in known]
        if fresh:
            facts = {"errno": errno, "fields": ", ".join(fault.source for fault in fresh), "path": fresh[0].path}
            yield Edge("warning", "fields.read_failed", {**who, **facts})
    for errno in old:
        if errno not in new:
            yield Edge("info", "fields.read_again", {**who, "errno": errno})


def _by_errno(reading: GpuReading | None) -> _Faults:
    found: dict[str, list[Fault]] = {}
    for fault in reading.faults if reading else ():
        if not (reading and reading.state is GpuState.RESETTING and fault.errno in _REFUSED):
            found.setdefault(fault.errno, []).append(fault)
    return found


def _is_empty(snapshot: Snapshot) -> bool:
    return snapshot.listed and not snapshot.gpus


def _mode(reading: GpuReading) -> tuple[str | None, str | None, int]:
    gpu = reading.gpu
    return gpu.compute_partition, gpu.memory_partition, len(gpu.partitions)
