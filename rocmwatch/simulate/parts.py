"""What a simulated GPU is made of: the fields in which one model differs from another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel and the driver in it, as far as they decide which files there are and how they look.

    Attributes:
        name: What it is called here.
        release: What /proc/sys/kernel/osrelease says.
        driver_version: What /sys/module/amdgpu/version says: ROCm's own driver has that file, the kernel's has not.
        buddy_format: The text format of debugfs' amdgpu_vram_mm, `F0` to `F4`.
        debugfs_by_address: Whether debugfs names a card's folder by its PCI address; else by its minor number.
        silent_die_power: Whether a second die shows a power of 0; else it has no file for it.
        marks_deep_sleep: Whether every list of clocks has a line of its own for a clock far below the lowest level.
        fdinfo: The kernel that first wrote fdinfo as this one does: `5.15`, `6.1`, `6.5`, `6.8` or `7.3`.
        xcp_metrics: The revision of the partitions' own metrics, for kernels that have them.
        lacks: Names of files that other kernels have: those of hwmon and ras with their folder, a line of a file behind
            a `#`.
    """

    name: str
    release: str
    driver_version: str | None = None
    buddy_format: str
    debugfs_by_address: bool
    silent_die_power: bool
    marks_deep_sleep: bool = False
    fdinfo: str
    xcp_metrics: tuple[int, int] | None = None
    lacks: frozenset[str] = frozenset()

    def has(self, file: str) -> bool:
        """Whether a card that has such a file at all shows it on this kernel."""
        return file not in self.lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine around the GPUs.

    Attributes:
        sockets: CPU nodes, which are also NUMA nodes and KFD's first nodes.
        cores: Cores of each socket.
        memory_bytes: Of all sockets together.
    """

    sockets: int
    cores: int
    memory_bytes: int
    cpu_clock_mhz: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """One temperature of hwmon: `temp<number>_*`.

    Attributes:
        lag_seconds: How long it takes to follow the power.
        above_ambient: Degrees above the ambient at full power.
        limits_celsius: By the end of the file's name: `crit`, `emergency`.
    """

    number: int
    label: str
    lag_seconds: float
    above_ambient: float
    limits_celsius: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """One clock domain.

    Attributes:
        dpm_file: Where its levels are listed.
        hwmon_number: `freq<number>_*`; `None` when hwmon does not show it.
        levels_mhz: The levels, lowest first.
        idle_mhz: What it runs at when there is nothing to do.
        fine_grained: The list shows lowest, current and highest instead of fixed levels.
        deep_sleep_mhz: Below it, the list has a line of its own for the clock on every kernel.
    """

    label: str
    dpm_file: str
    hwmon_number: int | None
    levels_mhz: tuple[int, ...]
    idle_mhz: int
    fine_grained: bool = False
    deep_sleep_mhz: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """A fan that stands still while the card is cool.

    Attributes:
        starts_at_celsius: The junction's temperature from which on it turns.
        full_at_celsius: Where it turns at `max_rpm`.
    """

    max_rpm: int
    starts_at_celsius: float
    full_at_celsius: float

    def rpm(self, celsius: float) -> int:
        """How fast it turns."""
        share = (celsius - self.starts_at_celsius) / (self.full_at_celsius - self.starts_at_celsius)
        return int(self.max_rpm * min(1.0, 0.2 + 0.8 * share)) if share > 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kfd:
    """What the compute driver's topology says of one die (XCC) of the GPU."""

    name: str
    gfx_target_version: int
    simds_per_xcc: int
    arrays_per_xcc: int
    simd_arrays_per_engine: int
    cus_per_array: int
    simds_per_cu: int
    waves_per_simd: int
    wavefront: int
    sdma_engines: int
    memory_width: int
    hive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The partition modes of an Instinct MI300, and the one it is in.

    Attributes:
        compute: `current_compute_partition`.
        memory: `current_memory_partition`.
        count: Partitions of each GPU in this mode: as many KFD nodes.
        extra_drm_devices: Platform devices with DRM nodes that the driver always makes beside the GPU's own.
    """

    compute: str
    memory: str
    count: int
    available_compute: str
    available_memory: str
    extra_drm_devices: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One kind of GPU in one kind of machine.

    Attributes:
        kernel: What drives it.
        revisions: The revision of its `gpu_metrics` by the name of the kernel: these can drive it, others cannot.
        pool: Where its models live: `vram`, or `gtt` on a unified-memory APU.
        vram_floor_bytes: What is in use when nothing runs.
        power_files: The hwmon files that show its power on the newest kernel.
        power_range_watts: What the cap can be set to.
        hbm_sensors: Memory stacks whose temperatures gpu_metrics 1.3 shows one by one.
        counts_millijoules: Its energy in gpu_metrics 1.3 is in this unit and in 32 bits, as Radeons count.
        xgmi_link: Lanes and Gbit/s of each link to another GPU.
        dies_per_package: PCI devices that share a package: the first of them reports the power of all, the others 0.
        attributes: Files of the device that never change and need no rule, name to text.
        forbidden: Files that the driver has and that a monitor must never open.
        pci: The addresses that its GPUs get, in order; as many as a machine can have.
    """

    name: str
    product: str
    host: Host
    kernel: Kernel
    pci: tuple[str, ...]
    pci_class: int
    device_id: int
    subsystem: tuple[int, int]
    revision: int
    vbios: str
    link: tuple[str, int]
    vram_total_bytes: int
    vram_floor_bytes: int
    gtt_total_bytes: int
    pool: str
    revisions: Mapping[str, tuple[int, int]]
    sensors: tuple[Sensor, ...]
    sclk: Clock
    mclk: Clock
    power_files: tuple[str, ...]
    power_idle_watts: float
    power_cap_watts: float
    power_has_cap: bool
    power_range_watts: tuple[int, int] = (0, 0)
    dies_per_package: int = 1
    xcc_count: int
    kfd: Kfd
    hbm_sensors: int = 0
    counts_millijoules: bool = False
    xgmi_link: tuple[int, int] | None = None
    fan: Fan | None = None
    voltages: tuple[tuple[int, str], ...] = ()
    has_unique_id: bool = True
    has_memory_busy: bool = True
    board: str | None = None
    partitioning: Partitioning | None = None
    ras_blocks: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()

    @property
    def partition_count(self) -> int:
        """KFD nodes of each GPU."""
        return self.partitioning.count if self.partitioning else 1

    @property
    def gpu_metrics(self) -> tuple[int, int]:
        """The revision of its `gpu_metrics`."""
        return self.revisions[self.kernel.name]

    def on(self, kernel: Kernel) -> Model:
        """The same with another kernel.

        Raises:
            ValueError: That kernel does not know such a GPU.
        """
        if kernel.name not in self.revisions:
            raise ValueError(
                f"Linux {kernel.name} cannot drive model {self.name}: choose one of {', '.join(self.revisions)}"
            )
        return replace(self, kernel=kernel)

    def is_silent(self, index: int) -> bool:
        """Whether a GPU of the node leaves power and energy to its sister."""
        return index % self.dies_per_package != 0
