"""The metric table: every family that rocmwatch exports, declared once.

`docs/metrics.md` is generated from it (`python -m rocmwatch.serve.metrics_doc`). HELP is written for the person on
call: what a value means, when the series is absent, what to hold it against.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from prometheus_client.metrics_core import Metric as Family

from rocmwatch.model import View
from rocmwatch.serve import series
from rocmwatch.serve.series import Getter

_PREFIX = "rocmwatch_"
_UNITS = ("bytes", "celsius", "hertz", "joules", "ratio", "seconds", "watts")
_GPU = ("gpu", "pci")


class Kind(str, Enum):
    """What the values of a family do."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"  # always 1, the labels are what it says
    STATESET = "stateset"  # 1 for the state that holds, 0 for the others, by the label `state`


# OpenMetrics wants a stateset's label to be named like its family; ours is called `state` (docs/adr/0010)
_EXPOSED_AS = {Kind.STATESET: "gauge"}


class Metric(NamedTuple):
    """One family.

    Attributes:
        name: As it is queried, less the prefix; a counter's ends in `_total`, an info's in `_info`.
        labels: Every label that a series of it can carry.
        getter: From a view, and the moment of the scrape, to its series.
        at_scrape: True where values move between two snapshots: these few are rendered for every scrape.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    getter: Getter
    at_scrape: bool = False

    @property
    def full_name(self) -> str:
        """The name as it is queried."""
        return _PREFIX + self.name

    @property
    def family_name(self) -> str:
        """The name that HELP and TYPE carry in OpenMetrics: without the suffix of its kind."""
        name = self.full_name
        if self.kind is Kind.COUNTER:
            return name.removesuffix("_total")
        return name.removesuffix("_info") if self.kind is Kind.INFO else name

    @property
    def unit(self) -> str:
        """The base unit that its name ends in; empty for counts, infos and states."""
        last = self.family_name.rpartition("_")[2]
        return last if last in _UNITS else ""

    def family(self, view: View, now: float) -> Family:
        """Its series as a family of prometheus-client."""
        family = Family(self.family_name, self.help, _EXPOSED_AS.get(self.kind, self.kind.value), self.unit)
        name, add = self.full_name, family.add_sample
        for labels, value in self.getter(view, now):
            add(name, labels, value)
        return family


def families(view: View, now: float, *, at_scrape: bool) -> Iterator[Family]:
    """The families that have series: those that wait for the snapshot only, or those that move between two.

    Args:
        view: What is published.
        now: Unix seconds of the scrape; the families of a snapshot do not look at it.
        at_scrape: Which of the two.
    """
    for metric in METRICS:
        if metric.at_scrape == at_scrape:
            family = metric.family(view, now)
            if family.samples:
                yield family


METRICS: tuple[Metric, ...] = (
    Metric(
        "gpus",
        Kind.GAUGE,
        "GPUs that this node has shown since it booted, lost ones included. Below the number that is built in, one was "
        "missing from the start; one that is lost later does not lower it: gpu_state{state='lost'} tells of it.",
        (),
        series.node(lambda view: len(view.snapshot.gpus) if view.snapshot.listed else None),
    ),
    Metric(
        "gpu_info",
        Kind.INFO,
        "What a GPU is; always 1. Join on (gpu, pci) to bring product or serial to any other series. pool names the "
        "memory that models live in: vram, or gtt on an APU with unified memory. A label is missing where the driver "
        "does not say.",
        (
            *_GPU,
            "product",
            "device_id",
            "unique_id",
            "serial",
            "vbios",
            "driver",
            "compute_partition",
            "memory_partition",
            "pool",
            "numa_node",
        ),
        series.gpu_info,
    ),
    Metric(
        "gpu_state",
        Kind.STATESET,
        "1 for the state that a GPU is in, 0 for the others. active: it is read. suspended: asleep to save power, its "
        "memory is read, its sensors are not. stalled: a read did not return within its deadline. resetting: the "
        "driver refuses its sensors. lost: it was there in this boot and is gone. A stalled or lost GPU has only this, "
        "gpu_info and field_supported.",
        (*_GPU, "state"),
        series.gpu_state,
    ),
    Metric(
        "gpu_pool_total_bytes",
        Kind.GAUGE,
        "Size of the memory that models live in: VRAM on a card, GTT on an APU with unified memory (label pool of "
        "gpu_info). The pool families are the ones for headroom on a mixed fleet.",
        _GPU,
        series.pool("total_bytes"),
    ),
    Metric(
        "gpu_pool_used_bytes",
        Kind.GAUGE,
        "Used part of the memory that models live in, whoever holds it. Compare with gpu_pool_total_bytes: an "
        "inference engine that has reserved its share sits near the top all day, and that is no fault.",
        _GPU,
        series.pool("used_bytes"),
    ),
    Metric(
        "gpu_pool_free_bytes",
        Kind.GAUGE,
        "Free part of the memory that models live in. Whether a large buffer fits is told by "
        "gpu_vram_allocatable_bytes, where that can be read.",
        _GPU,
        series.pool("free_bytes"),
    ),
    Metric(
        "gpu_vram_total_bytes",
        Kind.GAUGE,
        "VRAM of the whole GPU as the driver counts it. On an APU this is the carve-out and not where models live. "
        "The sizes of partitions have families of their own (gpu_partition_*): a sum over this one counts no byte "
        "twice.",
        _GPU,
        series.sample("vram_total_bytes"),
    ),
    Metric(
        "gpu_vram_used_bytes",
        Kind.GAUGE,
        "Used VRAM of the whole GPU, all processes and the driver itself. An idle GPU shows a few hundred MiB; more "
        "than that on a GPU without processes is memory that nobody gave back.",
        _GPU,
        series.sample("vram_used_bytes"),
    ),
    Metric(
        "gpu_vram_free_bytes",
        Kind.GAUGE,
        "gpu_vram_total_bytes less gpu_vram_used_bytes; absent when either is.",
        _GPU,
        series.each_gpu(series.vram_free),
    ),
    Metric(
        "gpu_visible_vram_total_bytes",
        Kind.GAUGE,
        "VRAM that the CPU can address directly (the PCI BAR). Equal to gpu_vram_total_bytes with a large BAR; 256 MiB "
        "points at a firmware that has resizable BAR off.",
        _GPU,
        series.sample("visible_vram_total_bytes"),
    ),
    Metric(
        "gpu_visible_vram_used_bytes",
        Kind.GAUGE,
        "Used part of the VRAM that the CPU can address. With a small BAR it can be full while VRAM is not.",
        _GPU,
        series.sample("visible_vram_used_bytes"),
    ),
    Metric(
        "gpu_gtt_total_bytes",
        Kind.GAUGE,
        "Host memory that this GPU may map (GTT). It is a limit, not a reservation. On an APU with unified memory "
        "this is the pool that models live in.",
        _GPU,
        series.sample("gtt_total_bytes"),
    ),
    Metric(
        "gpu_gtt_used_bytes",
        Kind.GAUGE,
        "Host memory that is mapped for this GPU. On a card, growth here while VRAM is full means that buffers are "
        "being pushed out to the host, and that is slow.",
        _GPU,
        series.sample("gtt_used_bytes"),
    ),
    Metric(
        "gpu_partition_vram_total_bytes",
        Kind.GAUGE,
        "VRAM that the driver assigns to a compute partition: its share, where several use one memory partition. "
        "Absent on a GPU that is not partitioned.",
        (*_GPU, "partition"),
        series.partitions("vram_total_bytes"),
    ),
    Metric(
        "gpu_partition_vram_used_bytes",
        Kind.GAUGE,
        "Used VRAM of a compute partition. ROCm's own (DKMS) driver reports it, the mainline driver does not: absent "
        "there.",
        (*_GPU, "partition"),
        series.partitions("vram_used_bytes"),
    ),
    Metric(
        "gpu_temperature_celsius",
        Kind.GAUGE,
        "Temperature by sensor: edge, junction (the hottest spot), memory. Instinct cards of the MI300 family have no "
        "edge sensor. Absent while the GPU sleeps or refuses. Compare with gpu_temperature_limit_celsius.",
        (*_GPU, "sensor"),
        series.sample_by("temperatures_celsius", "sensor"),
    ),
    Metric(
        "gpu_temperature_limit_celsius",
        Kind.GAUGE,
        "What the card declares for a sensor: above critical it slows itself down, above emergency it switches off.",
        (*_GPU, "sensor", "limit"),
        series.temperature_limits,
    ),
    Metric(
        "gpu_clock_hertz",
        Kind.GAUGE,
        "Clock at the moment: sclk (graphics; the highest of the compute dies) and mclk (memory). A low sclk on a busy "
        "GPU that is far below its power cap is worth a look; on an idle GPU it is normal.",
        (*_GPU, "clock"),
        series.sample_by("clocks_hertz", "clock"),
    ),
    Metric(
        "gpu_xcc_clock_hertz",
        Kind.GAUGE,
        "Graphics clock of each compute die that reports one. One die far below the others under the same load is "
        "throttled or idle; gpu_clock_hertz shows the highest.",
        (*_GPU, "xcc"),
        series.sample_by("xcc_clocks_hertz", "xcc"),
    ),
    Metric(
        "gpu_clock_limit_hertz",
        Kind.GAUGE,
        "The highest level that the driver lists for a clock. Compare with gpu_clock_hertz under load: far below it, "
        "something holds the clock down (power, temperature, or a person).",
        (*_GPU, "clock"),
        series.each_key(lambda reading: reading.limits.clocks_hertz, "clock"),
    ),
    Metric(
        "gpu_power_watts",
        Kind.GAUGE,
        "Power that the card takes (a package of several dies reports it on one of its devices only: absent on the "
        "others). Compare with gpu_power_cap_watts.",
        _GPU,
        series.sample("power_watts"),
    ),
    Metric(
        "gpu_power_cap_watts",
        Kind.GAUGE,
        "The power limit in force. Power that stays at it means that the clock is held down by power.",
        _GPU,
        series.each_gpu(lambda reading: reading.limits.power_cap_watts),
    ),
    Metric(
        "gpu_energy_joules_total",
        Kind.COUNTER,
        "Energy since the driver was loaded. Its rate is the mean power, peaks between two samples included. Absent "
        "where the firmware has no accumulator.",
        _GPU,
        series.sample("energy_joules"),
    ),
    Metric(
        "gpu_busy_ratio",
        Kind.GAUGE,
        "Share of time that an engine worked, 0 to 1, as the firmware averages it: gfx (compute included), memory (the "
        "memory controller). 1 says that something ran all the time, not that the GPU was used well.",
        (*_GPU, "engine"),
        series.sample_by("busy_ratio", "engine"),
    ),
    Metric(
        "gpu_vram_allocatable_bytes",
        Kind.GAUGE,
        "Free VRAM in blocks of 2 MiB and more, which is what large buffers are made of. Compare with "
        "gpu_vram_free_bytes: what lies between cannot serve one. Absent without access to debugfs; read once a "
        "minute, so its age is sample_age_seconds{source='fragmentation'}.",
        _GPU,
        series.fragmentation("allocatable_bytes"),
    ),
    Metric(
        "gpu_vram_fragmentation_ratio",
        Kind.GAUGE,
        "Share of free VRAM that is in blocks too small for a large buffer: 0 is whole, 1 is dust. Absent when less "
        "than 1 GiB is free, as it then says nothing, and without access to debugfs.",
        _GPU,
        series.fragmentation("ratio"),
    ),
    Metric(
        "gpu_vram_largest_free_block_bytes",
        Kind.GAUGE,
        "The largest free block of VRAM. For the eye only: a large buffer is composed of many blocks, so a small value "
        "does not make an allocation fail. Alert on gpu_vram_allocatable_bytes.",
        _GPU,
        series.fragmentation("largest_free_block_bytes"),
    ),
    Metric(
        "gpu_vram_free_blocks",
        Kind.GAUGE,
        "Free blocks of VRAM by order: a block of order n has 2^n chunks (4 KiB each on today's drivers).",
        (*_GPU, "order"),
        series.free_blocks,
    ),
    Metric(
        "sample_age_seconds",
        Kind.GAUGE,
        "Time since a source (memory, sensors, fragmentation, topology) last succeeded for every GPU that it was asked "
        "for. It should stay below three of its intervals (5 s, fragmentation 1 min, unless configured); while it "
        "grows, other values are old. Absent until the first success.",
        ("source",),
        series.sample_age,
        at_scrape=True,
    ),
    Metric(
        "sample_duration_seconds",
        Kind.GAUGE,
        "What the last pass of a source took, wall time. It is milliseconds; close to the deadline, a driver is slow.",
        ("source",),
        series.sample_duration,
    ),
    Metric(
        "read_faults_total",
        Kind.COUNTER,
        "Reads that should have worked and did not. source is the field that got no value, errno the error: the "
        "kernel's (EIO, EBUSY, ...) or ours for bad content (ENODATA empty, EBADMSG not in the format, ERANGE "
        "impossible). A file that does not exist is no fault. Which GPU: /api/v1/snapshot.",
        ("source", "errno"),
        series.read_faults,
    ),
    Metric(
        "readers_abandoned",
        Kind.GAUGE,
        "Reading processes that hang in the kernel and cannot be killed, those of earlier starts of the service "
        "included. Anything above 0 is a driver that hangs: look at gpu_state{state='stalled'} and the kernel log.",
        (),
        series.node(lambda view: view.snapshot.readers.abandoned),
    ),
    Metric(
        "reader_restarts_total",
        Kind.COUNTER,
        "Reading processes that were started in place of one that was late or died. It rises when a GPU stalls.",
        (),
        series.node(lambda view: view.snapshot.readers.restarts),
    ),
    Metric(
        "field_supported",
        Kind.GAUGE,
        "1 where the driver has the file of a field for this GPU, 0 where it has not. It tells a sensor that is not "
        "there (0, no series) from one that fails (1, no series, read_faults_total rises).",
        ("field", *_GPU),
        series.field_supported,
    ),
    Metric(
        "config_last_reload_successful",
        Kind.GAUGE,
        "0 after a reload that was refused: the last good configuration goes on. `rocmwatch check-config` says why.",
        (),
        series.node(lambda view: int(view.config_last_reload_successful)),
    ),
    Metric(
        "config_last_reload_success_timestamp_seconds",
        Kind.GAUGE,
        "When the configuration in force was read, Unix time. A change that was made later is not in force.",
        (),
        series.node(lambda view: view.config_loaded_at),
    ),
    Metric(
        "build_info",
        Kind.INFO,
        "The rocmwatch that runs and its Python; always 1.",
        ("version", "python"),
        series.build_info,
    ),
)
