"""What the sampler remembers of one GPU between ticks, and how a frame changes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rocmwatch.kernel.kfd import KfdNode
from rocmwatch.kernel.pool import choose_pool
from rocmwatch.kernel.throttle import ThrottleMeter
from rocmwatch.model import (
    EMPTY,
    Fault,
    FreeBlocks,
    Gpu,
    GpuReading,
    GpuSample,
    GpuState,
    Limits,
    Partition,
    PcieLink,
    Pool,
    frozen,
)
from rocmwatch.observe.counted import COUNTER_NAMES, NOTHING, PARTITION_NAME, Counted, names_in, understood
from rocmwatch.observe.events import EventCounts
from rocmwatch.observe.rarely import Rarely
from rocmwatch.observe.wire import (
    FRAGMENTATION,
    LIMIT_FIELDS,
    MEMORY,
    MEMORY_FIELDS,
    PCIE_FIELDS,
    RAS,
    SENSOR_FIELDS,
    SENSORS,
    SLOW,
    TOTAL_FIELDS,
    Description,
    GpuFrame,
    Order,
    Part,
    Table,
)

_KINDS = (MEMORY, SENSORS, SLOW, FRAGMENTATION, RAS)
_NO_SENSORS: tuple[float | None, ...] = (None,) * len(SENSOR_FIELDS)
_POWER = SENSOR_FIELDS.index("power")
_ENERGY = SENSOR_FIELDS.index("energy")
_CLOCK_LIMITS = "clock_limit_"
_UNKNOWN = Description(*(None,) * 8, memory_names=(), sensor_names=None)
_NO_LINK = PcieLink()
_NO_ERRORS: Mapping[tuple[str, str], int] = frozen({})
# What a GPU may have, by the name that its files go by in a description.
_MEMORY_NAMES = (*TOTAL_FIELDS, *MEMORY_FIELDS)
_SENSOR_NAMES = (*SENSOR_FIELDS, *(name for name in LIMIT_FIELDS if not name.startswith(_CLOCK_LIMITS)), *PCIE_FIELDS)
_RAS_NAME = "ras"
_SEVERITIES = ("uncorrectable", "correctable", "deferred")
_STATES = {
    "active": GpuState.ACTIVE,
    "suspended": GpuState.SUSPENDED,
    "resetting": GpuState.RESETTING,
    "gone": GpuState.LOST,
}


def _places(prefix: str, names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The names that have the prefix, without it, and where they stand."""
    return tuple((name[len(prefix) :], at) for at, name in enumerate(names) if name.startswith(prefix))


_TEMPERATURES = _places("temperature_", SENSOR_FIELDS)
_CLOCKS = _places("clock_", SENSOR_FIELDS)
_BUSY = _places("busy_", SENSOR_FIELDS)


def _there(places: tuple[tuple[str, int], ...], values: tuple[float | None, ...]) -> Mapping[str, float]:
    return frozen({name: value for name, at in places if (value := values[at]) is not None})


@dataclass(slots=True, kw_only=True)
class Track:
    """One GPU's last words.

    Attributes:
        memory: `None` when there is nothing current.
        sensors: The same; they are read less often than memory and hold until they are read again.
        events: What happened to it.
        rarely: When its counts of hardware errors are due.
    """

    pci: str
    ordinal: int
    card: str = ""
    nodes: tuple[KfdNode, ...] = ()
    state: GpuState = GpuState.ACTIVE
    memory: tuple[int | None, ...] | None = None
    totals: tuple[int | None, ...] = (None,) * len(TOTAL_FIELDS)
    sensors: tuple[float | None, ...] = _NO_SENSORS
    xcc_clocks: tuple[float | None, ...] = ()
    free_blocks: FreeBlocks | None = None
    sampled_at: float | None = None
    sensors_at: float | None = None
    fragmentation_at: float | None = None
    events: EventCounts = field(default_factory=EventCounts)
    rarely: Rarely = field(default_factory=Rarely)
    _faults: dict[int, tuple[Fault, ...]] = field(default_factory=dict)  # by what was read
    _limits: Limits = field(default_factory=Limits)
    _description: Description = _UNKNOWN
    _metrics_format: int | None = None
    _pool: Pool = Pool.VRAM
    _seen: frozenset[str] = frozenset()  # sensors that had a value
    _used: tuple[int | None, ...] = ()  # of each partition
    _parts: tuple[Part, ...] = ()
    _meter: ThrottleMeter = field(default_factory=ThrottleMeter)
    _counted: Counted = NOTHING
    _pcie: PcieLink = _NO_LINK
    _ras: Mapping[tuple[str, str], int] = field(default_factory=lambda: _NO_ERRORS)
    _ras_at: float | None = None
    _counts_errors: bool | None = None  # whether it has files for them
    _gpu: Gpu | None = None

    def order(self, what: int) -> Order:
        """What to ask for, to read so much of it."""
        counted = len(self.nodes) > 1 and any(node.vram_used_bytes is not None for node in self.nodes)
        nodes = tuple(node.node for node in self.nodes) if counted else ()
        return Order(self.pci, what, self.card, nodes, self._parts)

    def place(self, card: str, nodes: tuple[KfdNode, ...]) -> bool:
        """Takes in what the topology says. Returns whether that is news."""
        if card == self.card and list(map(_identity, nodes)) == list(map(_identity, self.nodes)):
            return False
        self.card, self.nodes, self._used, self._gpu = card, nodes, (), None
        self._parts = tuple(
            (number, node.render_minor or 0, node.num_xcc or 0)
            for number, node in zip(self._partition_numbers(), nodes, strict=False)
        )
        self._counted = replace(self._counted, partitions=NOTHING.partitions)
        return True

    def apply(self, frame: GpuFrame, unix: float) -> None:
        """Takes in what a reader read."""
        state = _STATES[frame.state]
        if state is GpuState.LOST:
            self.miss(state)
            return
        if not (state is GpuState.ACTIVE and self.state is GpuState.RESETTING and not frame.done & SENSORS):
            self._enter(state)  # else only the sensors can tell that the reset is over
        for kind in _KINDS:
            if frame.done & kind:
                faults = (fault[1:] for fault in frame.faults if fault[0] == kind)
                self._faults[kind] = tuple(Fault(source=name, errno=errno, path=path) for name, errno, path in faults)
        self.memory, self.sampled_at = frame.memory, unix
        if frame.partitions != self._used:
            self._used, self._gpu = frame.partitions, None
        if frame.sensors is not None:
            self._apply_sensors(frame, frame.sensors, unix)
        elif state is GpuState.SUSPENDED:
            self._forget_sensors()
        if frame.done & SLOW:
            self._apply_slow(frame)
        if frame.table is not None:
            self._apply_table(frame.table, unix)
        self._apply_errors(frame, unix)
        self.rarely.answered(asked=bool(frame.done & RAS), refused=frame.ras is None)
        what = self._description
        self.events.partitioned(what.compute_partition, what.memory_partition, len(self.nodes))

    def miss(self, state: GpuState) -> None:
        """Nothing is known of now: what was read before is not passed off as new.

        Limits stay, and so do counts of hardware errors, which are told with their age (`ras_at`): they are read so
        seldom that a GPU which comes back would be without them for minutes.
        """
        self._enter(state)
        self.memory, self.free_blocks = None, None
        self._forget_sensors()
        self._faults.clear()
        self.rarely.missed()
        self.rarely.forget()

    def reading(self) -> GpuReading:
        """The GPU as it is published."""
        if self._gpu is None:
            self._gpu = self._make_gpu()
        return GpuReading(
            gpu=self._gpu,
            state=self.state,
            sample=None if self.memory is None else self._sample(self.memory),
            limits=self._limits,
            free_blocks=self.free_blocks,
            faults=tuple(fault for faults in self._faults.values() for fault in faults),
            sampled_at=self.sampled_at,
            sensors_at=self.sensors_at,
            fragmentation_at=self.fragmentation_at,
            pcie=self._pcie,
            ras_errors=self._ras,
            ras_at=self._ras_at,
            events=self.events.published(),
        )

    def _enter(self, state: GpuState) -> None:
        self.state = state
        self.events.entered(state)

    def _forget_sensors(self) -> None:
        self.sensors, self.xcc_clocks, self._counted, self._pcie = _NO_SENSORS, (), NOTHING, _NO_LINK
        self._meter.forget()

    def _apply_sensors(self, frame: GpuFrame, sensors: tuple[float | None, ...], unix: float) -> None:
        self.sensors, self.xcc_clocks = sensors, frame.xcc_clocks
        if any(value is not None for value in sensors):
            self.sensors_at = unix
        if frame.metrics_format not in (None, self._metrics_format):
            self._metrics_format, self._gpu = frame.metrics_format, None
        self._counted = understood(frame, self._parts, self._meter)
        self._see(names_in(frame, self._counted))

    def _apply_slow(self, frame: GpuFrame) -> None:
        if frame.totals is not None:
            self.totals, self._gpu = frame.totals, None
        if frame.limits is not None:
            self._limits = _limits(frame.limits)
        if frame.description is not None:
            described = Description(*frame.description)
            if described.sensor_names is None:  # asleep: it still has what it had
                described = described._replace(sensor_names=self._description.sensor_names)
            self._description, self._gpu = described, None
        if frame.pcie is not None:
            width, max_width, speed, max_speed, replays = frame.pcie
            self._pcie = PcieLink(
                width=width,
                max_width=max_width,
                transfers_per_second=speed,
                max_transfers_per_second=max_speed,
                replays=replays,
            )
        values = zip(SENSOR_FIELDS, self.sensors, strict=True)
        self._seen |= {name for name, value in values if value is not None}

    def _apply_table(self, table: Table | str, unix: float) -> None:
        if isinstance(table, str):  # why there is none
            self.free_blocks = None
            return
        name, chunk, free, blocks = table
        self.free_blocks = FreeBlocks(format=name, chunk_bytes=chunk, free_bytes=free, blocks=blocks)
        self.fragmentation_at = unix

    def _apply_errors(self, frame: GpuFrame, unix: float) -> None:
        if not frame.done & RAS:
            return
        errors = frame.ras
        if errors is None:  # they cannot be asked for, and what was before is not what is
            self._ras = _NO_ERRORS
            return
        self._ras_at = unix if errors else self._ras_at
        self._ras = frozen(
            {
                (block, severity): count
                for block, *counts in errors
                for severity, count in zip(_SEVERITIES, counts, strict=True)
                if count is not None
            }
        )
        if self._counts_errors is not bool(errors):
            self._counts_errors, self._gpu = bool(errors), None

    def _see(self, names: frozenset[str]) -> None:
        if not names <= self._seen:
            self._seen, self._gpu = self._seen | names, None

    def _sample(self, memory: tuple[int | None, ...]) -> GpuSample:
        sensors, counted = self.sensors, self._counted
        clocks = {str(die): hertz for die, hertz in enumerate(self.xcc_clocks) if hertz is not None}
        return GpuSample(
            **dict(zip(_MEMORY_NAMES, (*self.totals, *memory), strict=True)),
            temperatures_celsius=_there(_TEMPERATURES, sensors),
            clocks_hertz=_there(_CLOCKS, sensors),
            busy_ratio=_there(_BUSY, sensors),
            xcc_clocks_hertz=frozen(clocks) if clocks else EMPTY,
            power_watts=sensors[_POWER],
            energy_joules=sensors[_ENERGY],
            throttle_ratio=counted.throttle_ratio,
            throttled=counted.throttled,
            xgmi_read_bytes=counted.xgmi_read_bytes,
            xgmi_write_bytes=counted.xgmi_write_bytes,
            partitions=counted.partitions,
        )

    def _make_gpu(self) -> Gpu:
        what = self._description
        return Gpu(
            gpu=str(self.ordinal),
            pci=self.pci,
            pool=self._choose_pool(),
            product=what.product,
            device_id=what.device_id,
            unique_id=what.unique_id,
            serial=what.serial,
            vbios=what.vbios,
            compute_partition=what.compute_partition,
            memory_partition=what.memory_partition,
            numa_node=None if what.numa_node == -1 else what.numa_node,
            kfd_gpu_id=self.nodes[0].gpu_id if len(self.nodes) == 1 else None,
            partitions=self._partitions(),
            fields=frozen(dict(self._fields())),
        )

    def _choose_pool(self) -> Pool:
        """The pool, as long as its sizes can be read: a read that fails must not turn VRAM into GTT."""
        if not any(fault.source in TOTAL_FIELDS for fault in self._faults.get(SLOW, ())):
            vram, _, gtt = self.totals
            banks = [node.vram_total_bytes or 0 for node in self.nodes]
            self._pool = Pool(
                choose_pool(
                    vram_total_bytes=vram,
                    gtt_total_bytes=gtt,
                    bank_bytes=banks,
                    metrics_format=self._metrics_format,
                )
            )
        return self._pool

    def _partitions(self) -> tuple[Partition, ...]:
        used = self._used or (None,) * len(self.nodes)
        return tuple(
            Partition(
                partition=str(number),
                kfd_gpu_id=node.gpu_id,
                render_minor=node.render_minor,
                xcc_count=node.num_xcc,
                vram_total_bytes=node.vram_total_bytes,
                vram_used_bytes=used_bytes,
            )
            for number, node, used_bytes in zip(self._partition_numbers(), self.nodes, used, strict=False)
        )

    def _partition_numbers(self) -> list[int]:
        """The number of each node's partition; none for a GPU that has no partitions."""
        numbers = [node.partition for node in self.nodes]
        if len(numbers) < 2:
            return []
        return numbers if len(set(numbers)) == len(numbers) else list(range(len(numbers)))  # some drivers number none

    def _fields(self) -> Iterator[tuple[str, bool]]:
        """What there is a file for, or a value in gpu_metrics; nothing of what was not looked for yet."""
        if self._description is not _UNKNOWN:
            for name in _MEMORY_NAMES:
                yield name, name in self._description.memory_names
        names = self._description.sensor_names
        if names is not None:
            for name in (*_SENSOR_NAMES, *COUNTER_NAMES, *((PARTITION_NAME,) if self._parts else ())):
                yield name, name in names or name in self._seen
        if self._counts_errors is not None:
            yield _RAS_NAME, self._counts_errors


def _identity(node: KfdNode) -> KfdNode:
    """A node without what changes from moment to moment; whether that is counted at all is kept."""
    return node if node.vram_used_bytes is None else node._replace(vram_used_bytes=0)


def _limits(values: tuple[float | None, ...]) -> Limits:
    by_name = dict(zip(LIMIT_FIELDS, values, strict=True))
    temperatures = {
        (sensor, limit): celsius
        for limit in ("critical", "emergency")
        for sensor, _ in _TEMPERATURES
        if (celsius := by_name[f"limit_{limit}_{sensor}"]) is not None
    }
    clocks = {name: hertz for name in ("sclk", "mclk") if (hertz := by_name[_CLOCK_LIMITS + name]) is not None}
    return Limits(
        temperatures_celsius=frozen(temperatures),
        clocks_hertz=frozen(clocks),
        power_cap_watts=by_name["power_cap"],
    )
