"""Which GPUs there are, what they are, and what happened to them."""

from __future__ import annotations

from rocmwatch.serve import series
from rocmwatch.serve.metrics.metric import GPU, Kind, Metric

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
            *GPU,
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
        "gpu_info, field_supported and the counts of events.",
        (*GPU, "state"),
        series.gpu_state,
    ),
    Metric(
        "gpu_state_changes_total",
        Kind.COUNTER,
        "How often a GPU came into a state since the daemon started; a first sight is none. A short reset or stall "
        "that falls between two scrapes shows here and not in gpu_state. It stays while the GPU is stalled or "
        "lost.",
        (*GPU, "state"),
        series.state_changes,
    ),
    Metric(
        "gpu_wedged_events_total",
        Kind.COUNTER,
        "Hanging devices that the kernel announced since the daemon started, by how they come back: none (the "
        "driver did it by itself), rebind, bus-reset, vendor-specific, unknown (somebody has to act). Kernels "
        "before 6.15 or so announce nothing: absent then.",
        (*GPU, "method"),
        series.wedged_events,
    ),
    Metric(
        "gpu_partition_changes_total",
        Kind.COUNTER,
        "How often the partition mode of a GPU became another since the daemon started. The series of its "
        "partitions are others from then on.",
        GPU,
        series.partition_changes,
    ),
)
