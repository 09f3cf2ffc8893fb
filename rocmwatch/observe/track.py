"""What the sampler remembers of one GPU between ticks, and how a frame changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from rocmwatch.kernel.kfd import KfdNode
from rocmwatch.kernel.pool import choose_pool
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
    Pool,
    frozen,
)
from rocmwatch.observe.wire import LIMIT_FIELDS, MEMORY_FIELDS, SENSOR_FIELDS, TOTAL_FIELDS, GpuFrame

# What a GPU may have, by the name that its files go by in a description.
FIELDS = tuple(
    name
    for name in (*TOTAL_FIELDS, *MEMORY_FIELDS, *SENSOR_FIELDS, *LIMIT_FIELDS)
    if not name.startswith("clock_limit")
)
_STATES = {
    "active": GpuState.ACTIVE,
    "suspended": GpuState.SUSPENDED,
    "resetting": GpuState.RESETTING,
    "gone": GpuState.LOST,
}


def _named(prefix: str, names: tuple[str, ...], values: tuple[float | None, ...]) -> Mapping[str, float]:
    """The values whose name has the prefix, without it, and without those that are not there."""
    return frozen(
        {
            name[len(prefix) :]: value
            for name, value in zip(names, values, strict=True)
            if value is not None and name.startswith(prefix)
        }
    )


@dataclass(slots=True, kw_only=True)
class Track:
    """One GPU's last words."""

    pci: str
    ordinal: int
    card: str
    nodes: tuple[KfdNode, ...] = ()
    state: GpuState = GpuState.ACTIVE
    faults: tuple[Fault, ...] = ()
    memory: tuple[int | None, ...] | None = None
    totals: tuple[int | None, ...] = (None,) * len(TOTAL_FIELDS)
    sensors: tuple[float | None, ...] | None = None
    xcc_clocks: tuple[float | None, ...] = ()
    limits: tuple[float | None, ...] = (None,) * len(LIMIT_FIELDS)
    metrics_format: int | None = None
    description: tuple[object, ...] | None = None
    free_blocks: FreeBlocks | None = None
    sampled_at: float | None = None
    sensors_at: float | None = None
    fragmentation_at: float | None = None
    _gpu: Gpu | None = field(default=None)
    _limits: Limits = field(default_factory=Limits)

    def apply(self, frame: GpuFrame, unix: float) -> None:
        """Takes in what a reader read."""
        self.state = _STATES.get(frame.state, GpuState.STALLED)
        self.faults = tuple(Fault(source=source, errno=errno, path=path) for source, errno, path in frame.faults)
        if self.state is GpuState.LOST:
            return
        if frame.memory is not None:
            self.memory, self.sampled_at = frame.memory, unix
        if frame.sensors is not None:
            self.sensors, self.xcc_clocks, self.sensors_at = frame.sensors, frame.xcc_clocks, unix
            if frame.metrics_format not in (None, self.metrics_format):
                self.metrics_format, self._gpu = frame.metrics_format, None
        elif self.state is GpuState.SUSPENDED:
            self.sensors, self.xcc_clocks = None, ()
        if frame.totals is not None:
            self.totals, self._gpu = frame.totals, None
        if frame.limits is not None:
            self.limits, self._limits = frame.limits, _limits(frame.limits)
        if frame.description is not None:
            self.description, self._gpu = frame.description, None
        if frame.buddy is not None:
            self._apply_table(frame.buddy, unix)

    def _apply_table(self, buddy: tuple[str, int, int, tuple[tuple[int, int], ...]] | str, unix: float) -> None:
        if isinstance(buddy, str):  # why there is none
            self.free_blocks = None
            return
        name, chunk, free, blocks = buddy
        self.free_blocks = FreeBlocks(format=name, chunk_bytes=chunk, free_bytes=free, blocks=blocks)
        self.fragmentation_at = unix

    def place(self, card: str, nodes: tuple[KfdNode, ...]) -> None:
        """Takes in what the topology says."""
        self.card, self.nodes, self._gpu = card, nodes, None

    def reading(self) -> GpuReading:
        """The GPU as it is published. One that cannot be read has no values: old ones are not passed off as new."""
        if self._gpu is None:
            self._gpu = self._make_gpu()
        blind = self.state in (GpuState.STALLED, GpuState.LOST) or self.memory is None
        return GpuReading(
            gpu=self._gpu,
            state=self.state,
            sample=None if blind else self._sample(),
            limits=self._limits,
            free_blocks=None if blind else self.free_blocks,
            faults=self.faults,
            sampled_at=self.sampled_at,
            sensors_at=self.sensors_at,
            fragmentation_at=self.fragmentation_at,
        )

    def _sample(self) -> GpuSample:
        sensors = self.sensors or (None,) * len(SENSOR_FIELDS)
        by_name = dict(zip(SENSOR_FIELDS, sensors, strict=True))
        memory = dict(zip((*MEMORY_FIELDS, *TOTAL_FIELDS), (*(self.memory or ()), *self.totals), strict=True))
        clocks = {str(die): hertz for die, hertz in enumerate(self.xcc_clocks) if hertz is not None}
        return GpuSample(
            **memory,
            temperatures_celsius=_named("temperature_", SENSOR_FIELDS, sensors),
            clocks_hertz=_named("clock_", SENSOR_FIELDS, sensors),
            busy_ratio=_named("busy_", SENSOR_FIELDS, sensors),
            xcc_clocks_hertz=frozen(clocks) if clocks else EMPTY,
            power_watts=by_name["power"],
            energy_joules=by_name["energy"],
        )

    def _make_gpu(self) -> Gpu:
        product, device, unique_id, serial, vbios, numa, compute, memory, names = self.description or (*(None,) * 8, ())
        there = frozenset(cast("tuple[str, ...]", names))
        vram_total, _, gtt_total = self.totals
        pool = choose_pool(
            vram_total_bytes=vram_total,
            gtt_total_bytes=gtt_total,
            bank_bytes=[node.vram_total_bytes or 0 for node in self.nodes],
            metrics_format=self.metrics_format,
        )
        partitions = self.nodes if len(self.nodes) > 1 else ()
        numa_text = cast("str | None", numa)
        return Gpu(
            gpu=str(self.ordinal),
            pci=self.pci,
            pool=Pool(pool),
            product=cast("str | None", product),
            device_id=cast("str | None", device),
            unique_id=cast("str | None", unique_id),
            serial=cast("str | None", serial),
            vbios=cast("str | None", vbios),
            compute_partition=cast("str | None", compute),
            memory_partition=cast("str | None", memory),
            numa_node=int(numa_text) if numa_text and numa_text.isdigit() else None,  # -1: none
            kfd_gpu_id=self.nodes[0].gpu_id if len(self.nodes) == 1 else None,
            partitions=tuple(
                Partition(
                    partition=str(number),
                    kfd_gpu_id=node.gpu_id,
                    render_minor=node.render_minor,
                    xcc_count=node.num_xcc,
                    vram_total_bytes=node.vram_total_bytes,
                    vram_used_bytes=node.vram_used_bytes,
                )
                for number, node in enumerate(partitions)
            ),
            fields=frozen({name: name in there or self._has_value(name) for name in FIELDS}),
        )

    def _has_value(self, name: str) -> bool:
        """Whether gpu_metrics stands in for a file that is not there."""
        values = dict(zip(SENSOR_FIELDS, self.sensors or (), strict=False))
        return values.get(name) is not None


def _limits(values: tuple[float | None, ...]) -> Limits:
    by_name = dict(zip(LIMIT_FIELDS, values, strict=True))
    temperatures = {
        (sensor, limit): celsius
        for limit in ("critical", "emergency")
        for sensor in ("edge", "junction", "memory")
        if (celsius := by_name[f"limit_{limit}_{sensor}"]) is not None
    }
    return Limits(
        temperatures_celsius=frozen(temperatures),
        clocks_hertz=_named("clock_limit_", LIMIT_FIELDS, values),
        power_cap_watts=by_name["power_cap"],
    )
