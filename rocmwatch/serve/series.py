"""From a view to series: the getters of the metric table, one for each shape of value.

A getter yields (labels, value) pairs. What is unknown yields nothing: there is no series, and never a 0.
Dictionaries of labels are shared between series and are not changed.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter

from rocmwatch.judge.memory import pool_bytes
from rocmwatch.model import GpuReading, GpuState, View
from rocmwatch.serve.wording import printable

Labels = dict[str, str]
Series = tuple[Labels, float]
Getter = Callable[[View, float], Iterator[Series]]
_OfReading = Callable[[GpuReading], float | None]

MOST_CGROUPS = 50  # a node may have thousands; the others hold less than each of these

# Nothing of these is current: what was last read of them is history, and a series of it would look alive.
SILENT = frozenset({GpuState.STALLED, GpuState.LOST})


def _place(reading: GpuReading) -> Labels:
    return {"gpu": reading.gpu.gpu, "pci": reading.gpu.pci}


def _current(view: View) -> Iterator[GpuReading]:
    return (reading for reading in view.snapshot.gpus if reading.state not in SILENT)


def each_gpu(value_of: _OfReading) -> Getter:
    """One series a GPU, of something known about every GPU that can be read."""

    def getter(view: View, _now: float) -> Iterator[Series]:
        for reading in _current(view):
            value = value_of(reading)
            if value is not None:
                yield _place(reading), value

    return getter


def sample(attribute: str) -> Getter:
    """One series a GPU: a single value of its sample."""
    get: Callable[[object], float | None] = attrgetter(attribute)
    return each_gpu(lambda reading: None if reading.sample is None else get(reading.sample))


def fragmentation(attribute: str) -> Getter:
    """One series a GPU: a single value of its table of free blocks."""
    get: Callable[[object], float | None] = attrgetter(attribute)
    return each_gpu(lambda reading: None if reading.fragmentation is None else get(reading.fragmentation))


def pool(part: str) -> Getter:
    """One series a GPU: `total_bytes`, `used_bytes` or `free_bytes` of the memory that models live in."""
    get: Callable[[object], int | None] = attrgetter(part)
    return each_gpu(lambda r: None if r.sample is None else get(pool_bytes(r.gpu, r.sample)))


def vram_free(reading: GpuReading) -> int | None:
    """Total less used, where both are known and agree."""
    sampled = reading.sample
    if sampled is None or sampled.vram_total_bytes is None or sampled.vram_used_bytes is None:
        return None
    free = sampled.vram_total_bytes - sampled.vram_used_bytes
    return free if free >= 0 else None


def each_key(values_of: Callable[[GpuReading], Mapping[str, float] | None], label: str) -> Getter:
    """A series for each entry of a mapping of each GPU."""

    def getter(view: View, _now: float) -> Iterator[Series]:
        for reading in _current(view):
            values = values_of(reading)
            if values:
                place = _place(reading)
                for key, value in values.items():
                    yield {**place, label: key}, value

    return getter


def sample_by(attribute: str, label: str) -> Getter:
    """A series for each entry of a mapping of the sample: a sensor, a clock, an engine."""
    get: Callable[[object], Mapping[str, float]] = attrgetter(attribute)
    return each_key(lambda reading: None if reading.sample is None else get(reading.sample), label)


def temperature_limits(view: View, _now: float) -> Iterator[Series]:
    """A series for each (sensor, limit) that the card declares."""
    for reading in _current(view):
        for (sensor, limit), value in reading.limits.temperatures_celsius.items():
            yield {**_place(reading), "sensor": sensor, "limit": limit}, value


def free_blocks(view: View, _now: float) -> Iterator[Series]:
    """A series for each order in the allocator's table."""
    for reading in _current(view):
        if reading.fragmentation is not None:
            place = _place(reading)
            for order, count in reading.fragmentation.free_blocks.items():
                yield {**place, "order": str(order)}, count


def partitions(attribute: str) -> Getter:
    """A series for each partition of each partitioned GPU."""
    get: Callable[[object], int | None] = attrgetter(attribute)

    def getter(view: View, _now: float) -> Iterator[Series]:
        for reading in _current(view):
            place = _place(reading)
            for partition in reading.gpu.partitions:
                value = get(partition)
                if value is not None:
                    yield {**place, "partition": partition.partition}, value

    return getter


def partition_samples(attribute: str) -> Getter:
    """A series for each partition that is told apart in the sample."""
    get: Callable[[object], float | None] = attrgetter(attribute)

    def getter(view: View, _now: float) -> Iterator[Series]:
        for reading in _current(view):
            if reading.sample is not None:
                place = _place(reading)
                for partition, sampled in reading.sample.partitions.items():
                    value = get(sampled)
                    if value is not None:
                        yield {**place, "partition": partition}, value

    return getter


def pcie(attribute: str) -> Getter:
    """One series a GPU: a single value of its link to the host."""
    get: Callable[[object], float | None] = attrgetter(attribute)
    return each_gpu(lambda reading: get(reading.pcie))


def pressure(attribute: str) -> Getter:
    """One series a GPU: something that its processes were denied."""
    get: Callable[[object], float | None] = attrgetter(attribute)
    return each_gpu(lambda reading: get(reading.pressure))


def ras_errors(view: View, _now: float) -> Iterator[Series]:
    """A series for each block and severity that the card counts."""
    for reading in _current(view):
        place = _place(reading)
        for (block, severity), count in reading.ras_errors.items():
            yield {**place, "block": block, "severity": severity}, count


def cgroups(view: View, _now: float) -> Iterator[Series]:
    """The control groups with the most VRAM, on GPUs that are known; names that read alike count as one."""
    places = {reading.gpu.pci: _place(reading) for reading in view.snapshot.gpus}
    known = [group for group in view.snapshot.cgroups if group.pci in places]
    sums: dict[tuple[str, str], int] = {}
    for group in sorted(known, key=lambda one: -one.bytes)[:MOST_CGROUPS]:
        key = printable(group.cgroup), group.pci
        sums[key] = sums.get(key, 0) + group.bytes
    for (cgroup, pci), held in sums.items():
        yield {"cgroup": cgroup, **places[pci]}, held


def state_changes(view: View, _now: float) -> Iterator[Series]:
    """For each GPU, lost ones included, how often it came into each state."""
    for reading in view.snapshot.gpus:
        place = _place(reading)
        for state, count in reading.events.states.items():
            yield {**place, "state": state.value}, count


def wedged_events(view: View, _now: float) -> Iterator[Series]:
    """For each GPU, lost ones included, how often it was announced to hang."""
    for reading in view.snapshot.gpus:
        place = _place(reading)
        for method, count in reading.events.wedged.items():
            yield {**place, "method": printable(method)}, count


def partition_changes(view: View, _now: float) -> Iterator[Series]:
    """For each GPU that can be partitioned, lost ones included, how often it was divided anew."""
    for reading in view.snapshot.gpus:
        changes = reading.events.partition_changes
        if changes or reading.gpu.partitions or reading.gpu.compute_partition:
            yield _place(reading), changes


def gpu_info(view: View, _now: float) -> Iterator[Series]:
    """What each GPU is, lost ones included; a label is left out where its value is unknown."""
    driver = view.snapshot.driver_version
    for reading in view.snapshot.gpus:
        gpu = reading.gpu
        facts = {
            "product": gpu.product,
            "device_id": gpu.device_id,
            "unique_id": gpu.unique_id,
            "serial": gpu.serial,
            "vbios": gpu.vbios,
            "driver": driver,
            "compute_partition": gpu.compute_partition,
            "memory_partition": gpu.memory_partition,
            "pool": gpu.pool.value,
            "numa_node": None if gpu.numa_node is None else str(gpu.numa_node),
        }
        yield _place(reading) | {name: printable(fact) for name, fact in facts.items() if fact is not None}, 1


def gpu_state(view: View, _now: float) -> Iterator[Series]:
    """For each GPU, lost ones included, a 1 for its state and a 0 for each other state."""
    for reading in view.snapshot.gpus:
        place = _place(reading)
        for state in GpuState:
            yield {**place, "state": state.value}, int(reading.state is state)


def field_supported(view: View, _now: float) -> Iterator[Series]:
    """For each GPU whether it has the file of each field."""
    for reading in view.snapshot.gpus:
        place = _place(reading)
        for field, supported in reading.gpu.fields.items():
            yield {"field": field, **place}, int(supported)


def sample_age(view: View, now: float) -> Iterator[Series]:
    """Seconds since each source last succeeded: the one thing here that moves between two snapshots."""
    for name, source in view.snapshot.sources.items():
        if source.last_success_at is not None:
            yield {"source": printable(name)}, max(0.0, round(now - source.last_success_at, 3))


def sample_duration(view: View, _now: float) -> Iterator[Series]:
    """How long each source's last pass took."""
    for name, source in view.snapshot.sources.items():
        if source.duration_seconds is not None:
            yield {"source": printable(name)}, source.duration_seconds


def read_faults(view: View, _now: float) -> Iterator[Series]:
    """Failed reads by what went without and why."""
    for (source, errno), count in view.snapshot.readers.fault_counts.items():
        yield {"source": printable(source), "errno": printable(errno)}, count


def build_info(view: View, _now: float) -> Iterator[Series]:
    """Which rocmwatch runs on which Python."""
    yield {"version": printable(view.version), "python": platform.python_version()}, 1


def node(value_of: Callable[[View], float | None]) -> Getter:
    """The one series of something that the whole node or the daemon has; none while it is not known."""

    def getter(view: View, _now: float) -> Iterator[Series]:
        value = value_of(view)
        if value is not None:
            yield {}, value

    return getter
