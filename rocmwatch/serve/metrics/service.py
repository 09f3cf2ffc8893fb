"""How rocmwatch itself is doing."""

from __future__ import annotations

from rocmwatch.serve import series
from rocmwatch.serve.metrics.metric import GPU, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        "sample_age_seconds",
        Kind.GAUGE,
        "Time since a source (memory, sensors, fragmentation, ras, topology, processes) last succeeded for every GPU "
        "that it was asked for. It should stay below three of its intervals (5 s, processes 10 s, fragmentation 1 min, "
        "ras 5 min, unless configured); while it grows, other values are old. Absent until the first success.",
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
        ("field", *GPU),
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
