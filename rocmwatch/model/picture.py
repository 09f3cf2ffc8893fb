"""One picture of the node, and what is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rocmwatch.model.gpu import GpuReading
from rocmwatch.model.holders import CgroupVram, GpuProcess, Holdings
from rocmwatch.model.values import frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStatus:
    """How one kind of sampling is doing: `memory`, `sensors`, `fragmentation`, `ras`, `topology`, `processes`.

    Attributes:
        last_success_at: When it last succeeded for every GPU that it was asked for, Unix seconds.
        duration_seconds: What its last pass took, wall time.
    """

    last_success_at: float | None
    duration_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus:
    """How the reading processes are doing.

    Attributes:
        restarts: Readers started after the first one, since the daemon started.
        abandoned: Readers that hang in the kernel and cannot be killed, right now, earlier starts of the service
        included. fault_counts: (source, errno) -> failed reads since the daemon started.
    """

    restarts: int = 0
    abandoned: int = 0
    fault_counts: Mapping[tuple[str, str], int] = field(default_factory=lambda: frozen({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One picture of the node's GPUs.

    Attributes:
        sequence: Counts up with every snapshot.
        taken_at: Unix seconds.
        gpus: In the order of their ordinals; lost ones stay.
        listed: Whether it is known which GPUs there are: if not, that there is none in `gpus` says nothing.
        sources: By the name of the source.
        notes: One line each about what cannot be read and which metrics go without (no debugfs, say).
        processes: Who has something of the GPUs; `None` when that is not known.
        cgroups: VRAM by control group; empty where the kernel does not count it.
    """

    sequence: int
    taken_at: float
    gpus: tuple[GpuReading, ...] = ()
    listed: bool = True
    sources: Mapping[str, SourceStatus] = field(default_factory=lambda: frozen({}))
    readers: ReaderStatus = field(default_factory=ReaderStatus)
    driver_version: str | None = None
    notes: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    cgroups: tuple[CgroupVram, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One value of one GPU over the last hour.

    Attributes:
        step_seconds: From point to point.
        ended_at: When the last point was taken, Unix seconds.
        points: Oldest first; `None` where there was no value.
    """

    step_seconds: float
    ended_at: float
    points: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is published: the picture, and what the daemon says of itself.

    Attributes:
        config_loaded_at: When the configuration in force was read, Unix seconds.
        config_last_reload_successful: False after a reload that was refused; the last good configuration goes on.
        holdings: Who holds the memory; `None` when nobody looked.
        trends: By PCI address and name (`judge/trends.py` has the names).
    """

    snapshot: Snapshot
    version: str
    started_at: float
    hostname: str
    root: str
    config_loaded_at: float
    config_last_reload_successful: bool = True
    holdings: Holdings | None = None
    trends: Mapping[str, Mapping[str, Trend]] = field(default_factory=lambda: frozen({}))
