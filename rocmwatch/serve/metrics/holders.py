"""Who holds the memory."""

from __future__ import annotations

from rocmwatch.serve import holder_series
from rocmwatch.serve.metrics.metric import GPU, Kind, Metric

METRICS: tuple[Metric, ...] = (
    Metric(
        "gpu_holders",
        Kind.GAUGE,
        "Processes with something of a GPU, by class. owned: of a running service. orphan: it outlived whoever started "
        "it, and is of no use; `rocmwatch gc` ends it. zombie_leader, zombie, stuck: dead or dying, and the memory is "
        "not back. ghost: only the driver still knows it. contained, foreign: others' business. monitor: holds "
        "nothing. `rocmwatch ps` names them.",
        (*GPU, "class"),
        holder_series.holders,
    ),
    Metric(
        "gpu_vram_unowned_bytes",
        Kind.GAUGE,
        "VRAM in use that no process holds, beyond what the driver keeps for itself, for longer than a lazy release "
        "takes (5 min). 0 is fine. The same amount on all GPUs is a leak of the driver, which no clean-up brings back. "
        "Absent when the holders cannot all be looked at.",
        GPU,
        holder_series.balance(lambda one: one.unowned_bytes),
    ),
    Metric(
        "gpu_vram_idle_floor_bytes",
        Kind.GAUGE,
        "VRAM that the driver keeps for itself: the least that was ever left over without holders, in this partition "
        "mode and with this driver. One that rises from month to month is worth a report.",
        GPU,
        holder_series.balance(lambda one: one.idle_floor_bytes),
    ),
    Metric(
        "owner_vram_bytes",
        Kind.GAUGE,
        "VRAM by owner (kind: unit, container, session, none): the 50 largest. An owner that ends takes its series "
        "along.",
        ("kind", "owner", *GPU, "partition"),
        holder_series.owner_bytes,
    ),
    Metric(
        "attribution",
        Kind.STATESET,
        "1 for how far the holders explain the memory in use: complete, partial (one could not be looked at, or they "
        "add up to more than there is), unknown. Only complete lets anything be cleaned up.",
        ("state",),
        holder_series.attribution,
    ),
)
