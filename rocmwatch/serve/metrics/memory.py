"""Memory: how much there is, what is used, and who is denied some."""

from __future__ import annotations

from rocmwatch.serve import series
from rocmwatch.serve.metrics.metric import GPU, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        "gpu_pool_total_bytes",
        Kind.GAUGE,
        "Size of the memory that models live in: VRAM on a card, GTT on an APU with unified memory (label pool of "
        "gpu_info). The pool families are the ones for headroom on a mixed fleet.",
        GPU,
        series.pool("total_bytes"),
    ),
    Metric(
        "gpu_pool_used_bytes",
        Kind.GAUGE,
        "Used part of the memory that models live in, whoever holds it. Compare with gpu_pool_total_bytes: an "
        "inference engine that has reserved its share sits near the top all day, and that is no fault.",
        GPU,
        series.pool("used_bytes"),
    ),
    Metric(
        "gpu_pool_free_bytes",
        Kind.GAUGE,
        "Free part of the memory that models live in. Whether a large buffer fits is told by "
        "gpu_vram_allocatable_bytes, where that can be read.",
        GPU,
        series.pool("free_bytes"),
    ),
    Metric(
        "gpu_vram_total_bytes",
        Kind.GAUGE,
        "VRAM of the whole GPU as the driver counts it. On an APU this is the carve-out and not where models live. "
        "The sizes of partitions have families of their own (gpu_partition_*): a sum over this one counts no byte "
        "twice.",
        GPU,
        series.sample("vram_total_bytes"),
    ),
    Metric(
        "gpu_vram_used_bytes",
        Kind.GAUGE,
        "Used VRAM of the whole GPU, all processes and the driver itself. An idle GPU shows a few hundred MiB; more "
        "than that on a GPU without processes is memory that nobody gave back.",
        GPU,
        series.sample("vram_used_bytes"),
    ),
    Metric(
        "gpu_vram_free_bytes",
        Kind.GAUGE,
        "gpu_vram_total_bytes less gpu_vram_used_bytes; absent when either is.",
        GPU,
        series.each_gpu(series.vram_free),
    ),
    Metric(
        "gpu_visible_vram_total_bytes",
        Kind.GAUGE,
        "VRAM that the CPU can address directly (the PCI BAR). Equal to gpu_vram_total_bytes with a large BAR; 256 MiB "
        "points at a firmware that has resizable BAR off.",
        GPU,
        series.sample("visible_vram_total_bytes"),
    ),
    Metric(
        "gpu_visible_vram_used_bytes",
        Kind.GAUGE,
        "Used part of the VRAM that the CPU can address. With a small BAR it can be full while VRAM is not.",
        GPU,
        series.sample("visible_vram_used_bytes"),
    ),
    Metric(
        "gpu_gtt_total_bytes",
        Kind.GAUGE,
        "Host memory that this GPU may map (GTT). It is a limit, not a reservation. On an APU with unified memory "
        "this is the pool that models live in.",
        GPU,
        series.sample("gtt_total_bytes"),
    ),
    Metric(
        "gpu_gtt_used_bytes",
        Kind.GAUGE,
        "Host memory that is mapped for this GPU. On a card, growth here while VRAM is full means that buffers are "
        "being pushed out to the host, and that is slow.",
        GPU,
        series.sample("gtt_used_bytes"),
    ),
    Metric(
        "gpu_partition_vram_total_bytes",
        Kind.GAUGE,
        "VRAM that the driver assigns to a compute partition: its share, where several use one memory partition. "
        "Absent on a GPU that is not partitioned.",
        (*GPU, "partition"),
        series.partitions("vram_total_bytes"),
    ),
    Metric(
        "gpu_partition_vram_used_bytes",
        Kind.GAUGE,
        "Used VRAM of a compute partition. ROCm's own (DKMS) driver reports it, the mainline driver does not: absent "
        "there.",
        (*GPU, "partition"),
        series.partitions("vram_used_bytes"),
    ),
    Metric(
        "gpu_vram_allocatable_bytes",
        Kind.GAUGE,
        "Free VRAM in blocks of 2 MiB and more, which is what large buffers are made of. Compare with "
        "gpu_vram_free_bytes: what lies between cannot serve one. Absent without access to debugfs; read once a "
        "minute, so its age is sample_age_seconds{source='fragmentation'}.",
        GPU,
        series.fragmentation("allocatable_bytes"),
    ),
    Metric(
        "gpu_vram_fragmentation_ratio",
        Kind.GAUGE,
        "Share of free VRAM that is in blocks too small for a large buffer: 0 is whole, 1 is dust. Absent when less "
        "than 1 GiB is free, as it then says nothing, and without access to debugfs.",
        GPU,
        series.fragmentation("ratio"),
    ),
    Metric(
        "gpu_vram_largest_free_block_bytes",
        Kind.GAUGE,
        "The largest free block of VRAM. For the eye only: a large buffer is composed of many blocks, so a small value "
        "does not make an allocation fail. Alert on gpu_vram_allocatable_bytes.",
        GPU,
        series.fragmentation("largest_free_block_bytes"),
    ),
    Metric(
        "gpu_vram_free_blocks",
        Kind.GAUGE,
        "Free blocks of VRAM by order: a block of order n has 2^n chunks (4 KiB each on today's drivers).",
        (*GPU, "order"),
        series.free_blocks,
    ),
    Metric(
        "gpu_vram_evicted_bytes",
        Kind.GAUGE,
        "Bytes of buffers that belong into VRAM and lie in host memory now, over all processes that could be "
        "looked at. Anything above 0 on a card means that VRAM was asked for beyond what there is, and that work "
        "is slow. Absent where the driver does not say (before Linux 6.5).",
        GPU,
        series.pressure("evicted_bytes"),
    ),
    Metric(
        "gpu_vram_requested_bytes",
        Kind.GAUGE,
        "Bytes that processes asked to lie in VRAM, wherever they lie now. Compare with gpu_vram_total_bytes: "
        "above it, something has to be evicted. Absent where the driver does not say.",
        GPU,
        series.pressure("requested_bytes"),
    ),
    Metric(
        "gpu_evicted_seconds_total",
        Kind.COUNTER,
        "For how long compute queues were stopped because memory had to be moved, summed over processes, since the "
        "daemon started. A rate near 1 is a process that hardly runs.",
        GPU,
        series.pressure("evicted_seconds"),
    ),
    Metric(
        "gpu_page_faults_total",
        Kind.COUNTER,
        "Page faults of compute processes that the driver served, since the daemon started: work on unified memory "
        "that has to be moved first. Absent where the driver does not count them.",
        GPU,
        series.pressure("page_faults"),
    ),
    Metric(
        "cgroup_vram_bytes",
        Kind.GAUGE,
        "VRAM that the kernel charges to a control group (dmem.current), the 50 largest of the node. A group "
        "without processes that still holds some is memory that nobody gives back. Absent where the kernel does "
        "not count it (before 6.14 or so).",
        ("cgroup", *GPU),
        series.cgroups,
    ),
)
