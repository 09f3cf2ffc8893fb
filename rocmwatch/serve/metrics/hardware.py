"""The hardware: temperatures, clocks, power, load, links, errors."""

from __future__ import annotations

from rocmwatch.serve import series
from rocmwatch.serve.metrics.metric import GPU, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        "gpu_temperature_celsius",
        Kind.GAUGE,
        "Temperature by sensor: edge, junction (the hottest spot), memory. Instinct cards of the MI300 family have no "
        "edge sensor. Absent while the GPU sleeps or refuses. Compare with gpu_temperature_limit_celsius.",
        (*GPU, "sensor"),
        series.sample_by("temperatures_celsius", "sensor"),
    ),
    Metric(
        "gpu_temperature_limit_celsius",
        Kind.GAUGE,
        "What the card declares for a sensor: above critical it slows itself down, above emergency it switches off.",
        (*GPU, "sensor", "limit"),
        series.temperature_limits,
    ),
    Metric(
        "gpu_clock_hertz",
        Kind.GAUGE,
        "Clock at the moment: sclk (graphics; the highest of the compute dies) and mclk (memory). A low sclk on a busy "
        "GPU that is far below its power cap is worth a look; on an idle GPU it is normal.",
        (*GPU, "clock"),
        series.sample_by("clocks_hertz", "clock"),
    ),
    Metric(
        "gpu_xcc_clock_hertz",
        Kind.GAUGE,
        "Graphics clock of each compute die that reports one. One die far below the others under the same load is "
        "throttled or idle; gpu_clock_hertz shows the highest.",
        (*GPU, "xcc"),
        series.sample_by("xcc_clocks_hertz", "xcc"),
    ),
    Metric(
        "gpu_partition_clock_hertz",
        Kind.GAUGE,
        "Graphics clock of a compute partition, the highest of its compute dies. Partitions of one GPU have clocks "
        "of their own: an idle one does not slow its neighbours.",
        (*GPU, "partition"),
        series.partition_samples("sclk_hertz"),
    ),
    Metric(
        "gpu_clock_limit_hertz",
        Kind.GAUGE,
        "The highest level that the driver lists for a clock. Compare with gpu_clock_hertz under load: far below it, "
        "something holds the clock down (power, temperature, or a person).",
        (*GPU, "clock"),
        series.each_key(lambda reading: reading.limits.clocks_hertz, "clock"),
    ),
    Metric(
        "gpu_power_watts",
        Kind.GAUGE,
        "Power that the card takes (a package of several dies reports it on one of its devices only: absent on the "
        "others). Compare with gpu_power_cap_watts.",
        GPU,
        series.sample("power_watts"),
    ),
    Metric(
        "gpu_power_cap_watts",
        Kind.GAUGE,
        "The power limit in force. Power that stays at it means that the clock is held down by power.",
        GPU,
        series.each_gpu(lambda reading: reading.limits.power_cap_watts),
    ),
    Metric(
        "gpu_energy_joules_total",
        Kind.COUNTER,
        "Energy since the driver was loaded. Its rate is the mean power, peaks between two samples included. Absent "
        "where the firmware has no accumulator.",
        GPU,
        series.sample("energy_joules"),
    ),
    Metric(
        "gpu_busy_ratio",
        Kind.GAUGE,
        "Share of time that an engine worked, 0 to 1, as the firmware averages it: gfx (compute included), memory (the "
        "memory controller). 1 says that something ran all the time, not that the GPU was used well.",
        (*GPU, "engine"),
        series.sample_by("busy_ratio", "engine"),
    ),
    Metric(
        "gpu_partition_busy_ratio",
        Kind.GAUGE,
        "Share of time that a compute partition worked, 0 to 1, the mean of its compute dies. Absent where the "
        "firmware tells it for the whole GPU only, and on a GPU that is not partitioned.",
        (*GPU, "partition"),
        series.partition_samples("busy_ratio"),
    ),
    Metric(
        "gpu_throttle_ratio",
        Kind.GAUGE,
        "Share of the time between the last two readings in which the clocks were held down, by reason: power, "
        "socket_thermal, vr_thermal, hbm_thermal, prochot (something else in the machine asked for it). Power near "
        "1 under load is a card at its cap; the thermal ones are for whoever looks after the cooling. MI300 and "
        "later.",
        (*GPU, "reason"),
        series.sample_by("throttle_ratio", "reason"),
    ),
    Metric(
        "gpu_throttled",
        Kind.GAUGE,
        "1 while the clocks are held down at the moment of the reading, else 0, by reason: power, current, "
        "thermal, prochot. For cards that do not accumulate it (before MI300, and Radeon): what happens between "
        "two readings is not seen. Absent on the others.",
        (*GPU, "reason"),
        series.sample_by("throttled", "reason"),
    ),
    Metric(
        "gpu_pcie_link_width",
        Kind.GAUGE,
        "Lanes in use between the GPU and what it is plugged into. Below gpu_pcie_link_width_limit all day, a card "
        "sits badly or in a small slot. Absent while the GPU sleeps; read once a minute.",
        GPU,
        series.pcie("width"),
    ),
    Metric(
        "gpu_pcie_link_width_limit",
        Kind.GAUGE,
        "Lanes that the GPU could use. A card with a switch of its own reports the link behind that switch.",
        GPU,
        series.pcie("max_width"),
    ),
    Metric(
        "gpu_pcie_link_transfers_per_second",
        Kind.GAUGE,
        "Speed of each lane: 16e9 is PCIe 4, 32e9 is PCIe 5. An idle GPU may lower it to save power, so compare it "
        "with gpu_pcie_link_transfers_limit_per_second under load.",
        GPU,
        series.pcie("transfers_per_second"),
    ),
    Metric(
        "gpu_pcie_link_transfers_limit_per_second",
        Kind.GAUGE,
        "Speed of each lane that the GPU could do.",
        GPU,
        series.pcie("max_transfers_per_second"),
    ),
    Metric(
        "gpu_pcie_replays_total",
        Kind.COUNTER,
        "Packets that had to be sent again between GPU and host, since the driver was loaded. Some are normal; a "
        "steady rate is a bad slot, riser or cable. Absent on cards that do not count them.",
        GPU,
        series.pcie("replays"),
    ),
    Metric(
        "gpu_ras_errors_total",
        Kind.COUNTER,
        "Errors that the hardware counted since the driver was loaded, by block and severity: correctable (ECC "
        "repaired it; a rate that grows is a memory that ages), uncorrectable (data was lost), deferred (bad data "
        "that nobody has used so far). Read every 5 min; their age is sample_age_seconds{source='ras'}.",
        (*GPU, "block", "severity"),
        series.ras_errors,
    ),
    Metric(
        "gpu_xgmi_read_bytes_total",
        Kind.COUNTER,
        "Bytes that came in over each link to another GPU (XGMI), since the firmware started. The firmware counts "
        "in KB, taken as 1024 bytes. Absent before MI300 and without such links.",
        (*GPU, "link"),
        series.sample_by("xgmi_read_bytes", "link"),
    ),
    Metric(
        "gpu_xgmi_write_bytes_total",
        Kind.COUNTER,
        "Bytes that went out over each link to another GPU (XGMI); see gpu_xgmi_read_bytes_total. One link far "
        "below the others under a collective operation is worth a look.",
        (*GPU, "link"),
        series.sample_by("xgmi_write_bytes", "link"),
    ),
)
