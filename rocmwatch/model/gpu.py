"""One GPU: what it is, and what one reading of it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rocmwatch.model.values import empty, frozen


class GpuState(str, Enum):
    """How a GPU can be read at the moment: a closed set, as users script against these words."""

    ACTIVE = "active"
    SUSPENDED = "suspended"  # runtime power management put it to sleep; its memory is read, its sensors are not
    STALLED = "stalled"  # a read did not return within its deadline
    RESETTING = "resetting"  # the driver refuses sensors (EPERM or EBUSY) on an awake GPU
    LOST = "lost"  # it was there in this boot and is gone (ENODEV, or no longer listed)


class Pool(str, Enum):
    """Which memory models live in on this GPU."""

    VRAM = "vram"
    GTT = "gtt"  # unified-memory APUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A read that should have worked and did not; a file that does not exist is absence and no fault.

    Attributes:
        source: The field that went without, e.g. `vram_used_bytes`, `temperature_junction`, `gpu_metrics`.
        errno: The symbolic name. Of the kernel (`EIO`, `EBUSY`), or ours for text that came without an error:
            `ENODATA` empty, `EBADMSG` not in the file's format, `ERANGE` a number that cannot be true.
        path: The file, as seen below the root (`/sys/class/drm/card1/device/mem_info_vram_used`).
    """

    source: str
    errno: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A compute partition (XCP) of a GPU. An unpartitioned GPU has none.

    Attributes:
        partition: Its number within the GPU, in the order of its KFD node ("0" to "7").
        kfd_gpu_id: The number that /sys/class/kfd uses for it in file names (`vram_<gpuid>`).
        render_minor: The M of its /dev/dri/renderDM.
        xcc_count: Compute dies in it.
        vram_total_bytes: What KFD says belongs to it.
        vram_used_bytes: Only where the driver says so (ROCm's DKMS driver does, mainline does not).
    """

    partition: str
    kfd_gpu_id: int | None = None
    render_minor: int | None = None
    xcc_count: int | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What identifies a GPU and does not change from tick to tick.

    Attributes:
        gpu: The ordinal, as text (`"3"`): PCI order at first sight, kept for the boot.
        pci: The PCI address in lower case (`0000:05:00.0`): the identity.
        pool: Which memory to watch: `vram`, or `gtt` on a unified-memory APU.
        fields: Names of what this GPU can report, `True` where its file is there (for `field_supported`).
    """

    gpu: str
    pci: str
    pool: Pool
    product: str | None = None
    device_id: str | None = None
    unique_id: str | None = None
    serial: str | None = None
    vbios: str | None = None
    compute_partition: str | None = None
    memory_partition: str | None = None
    numa_node: int | None = None
    kfd_gpu_id: int | None = None
    partitions: tuple[Partition, ...] = ()
    fields: Mapping[str, bool] = field(default_factory=lambda: frozen({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSample:
    """One reading of one partition, where the driver tells them apart (xcp_metrics, xcp_stats).

    Attributes:
        busy_ratio: The mean of its compute dies, 0 to 1.
        sclk_hertz: The highest graphics clock of its dies.
    """

    busy_ratio: float | None = None
    sclk_hertz: float | None = None


def _no_partitions() -> Mapping[str, PartitionSample]:
    return frozen({})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One reading of one GPU.

    Attributes:
        temperatures_celsius: By sensor: `edge`, `junction`, `memory` (those that the GPU has).
        clocks_hertz: By clock: `sclk` (the highest of its dies), `mclk`.
        xcc_clocks_hertz: The graphics clock of each compute die that reports one, by its number.
        busy_ratio: By engine: `gfx`, `memory`.
        energy_joules: A counter since the driver was loaded.
        throttle_ratio: By reason, the share of the time since the sample before in which the clocks were held down:
            `prochot`, `power`, `socket_thermal`, `vr_thermal`, `hbm_thermal` (cards that accumulate residencies).
        throttled: By reason, 1 while the clocks are held down at this moment, else 0: `power`, `current`, `thermal`,
            `prochot` (cards that say so bit by bit).
        xgmi_read_bytes: Counters by link.
        xgmi_write_bytes: The same of what was written.
        partitions: By partition.
    """

    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    visible_vram_total_bytes: int | None = None
    visible_vram_used_bytes: int | None = None
    gtt_total_bytes: int | None = None
    gtt_used_bytes: int | None = None
    temperatures_celsius: Mapping[str, float] = field(default_factory=empty)
    clocks_hertz: Mapping[str, float] = field(default_factory=empty)
    xcc_clocks_hertz: Mapping[str, float] = field(default_factory=empty)
    busy_ratio: Mapping[str, float] = field(default_factory=empty)
    power_watts: float | None = None
    energy_joules: float | None = None
    throttle_ratio: Mapping[str, float] = field(default_factory=empty)
    throttled: Mapping[str, float] = field(default_factory=empty)
    xgmi_read_bytes: Mapping[str, float] = field(default_factory=empty)
    xgmi_write_bytes: Mapping[str, float] = field(default_factory=empty)
    partitions: Mapping[str, PartitionSample] = field(default_factory=_no_partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """The link between the GPU and the host, read slowly while the GPU is awake.

    Attributes:
        width: Lanes in use; `max_width` what the card could use.
        transfers_per_second: Speed of each lane, and `max_transfers_per_second` what the card could do.
        replays: A counter of packets that had to be sent again.
    """

    width: int | None = None
    max_width: int | None = None
    transfers_per_second: float | None = None
    max_transfers_per_second: float | None = None
    replays: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """What processes were denied of a GPU's memory, over all processes that could be looked at.

    Attributes:
        evicted_bytes: Of buffers that belong into VRAM and lie in host memory now (fdinfo `amd-evicted-vram`); `None`
            where no process says.
        requested_bytes: What was asked to lie in VRAM (fdinfo `amd-requested-vram`).
        evicted_seconds: A counter since the daemon started: for how long queues were stopped because memory had to be
            moved (KFD `evicted_ms`), summed over processes, those that ended included.
        page_faults: A counter, the same way (KFD `faults`).
    """

    evicted_bytes: int | None = None
    requested_bytes: int | None = None
    evicted_seconds: float | None = None
    page_faults: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvents:
    """What happened to a GPU since the daemon started. Counters.

    Attributes:
        states: How often it came into each state.
        wedged: By the recovery method that the kernel announces (uevent `WEDGED=`): `none` after a reset that it did
            by itself, `rebind`, `bus-reset`, `unknown` when somebody has to act.
        partition_changes: How often its partition mode, or the number of its partitions, became another.
    """

    states: Mapping[GpuState, int] = field(default_factory=lambda: frozen({}))
    wedged: Mapping[str, int] = field(default_factory=lambda: frozen({}))
    partition_changes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the card may do at most; read slowly.

    Attributes:
        temperatures_celsius: By (sensor, limit): limit is `critical` or `emergency`.
        clocks_hertz: The highest level, by clock: `sclk`, `mclk`.
    """

    temperatures_celsius: Mapping[tuple[str, str], float] = field(default_factory=lambda: frozen({}))
    clocks_hertz: Mapping[str, float] = field(default_factory=empty)
    power_cap_watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeBlocks:
    """The VRAM allocator's table, as it was read (kernel: amdgpu_vram_mm).

    Attributes:
        format: Which of the kernel's formats it came in (`F0` to `F4`).
        blocks: (order, free blocks of chunk_bytes << order).
    """

    format: str
    chunk_bytes: int
    free_bytes: int
    blocks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """What the VRAM allocator's table means.

    Attributes:
        allocatable_bytes: Free bytes in blocks of 2 MiB and more, which is what large buffers are made of.
        ratio: 1 - allocatable / free; `None` when less than 1 GiB is free, as it then says nothing.
        largest_free_block_bytes: Shown to people; nothing is decided on it.
        free_blocks: Number of free blocks by order (a block has chunk size << order bytes).
    """

    free_bytes: int
    allocatable_bytes: int
    ratio: float | None
    largest_free_block_bytes: int
    free_blocks: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """Everything known about one GPU in one snapshot.

    Attributes:
        sample: `None` when there is nothing current (stalled, lost, or not yet read).
        free_blocks: The table that `fragmentation` is judged from.
        faults: What failed in this reading.
        sampled_at: When its memory was last read, Unix seconds; `None` before the first time.
        sensors_at: The same for its sensors.
        fragmentation_at: The same for its table of free blocks.
        ras_errors: By (block, severity): errors that the hardware counted, `correctable`, `uncorrectable`, `deferred`.
        ras_at: When those were last read.
    """

    gpu: Gpu
    state: GpuState
    sample: GpuSample | None = None
    limits: Limits = field(default_factory=Limits)
    free_blocks: FreeBlocks | None = None
    fragmentation: Fragmentation | None = None
    faults: tuple[Fault, ...] = ()
    sampled_at: float | None = None
    sensors_at: float | None = None
    fragmentation_at: float | None = None
    pcie: PcieLink = field(default_factory=PcieLink)
    ras_errors: Mapping[tuple[str, str], int] = field(default_factory=lambda: frozen({}))
    ras_at: float | None = None
    pressure: Pressure = field(default_factory=Pressure)
    events: GpuEvents = field(default_factory=GpuEvents)
