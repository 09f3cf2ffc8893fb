"""The JSON documents that scripts read. `docs/json.md` describes them, `docs/schemas/` has their schemas.

Fields may be added and are never renamed. What is unknown is `null`, never 0 and never left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocmwatch.judge.memory import PoolBytes, pool_bytes
from rocmwatch.model import Fragmentation, GpuReading, GpuSample, Limits, PartitionSample, PcieLink, Snapshot, View
from rocmwatch.serve.series import SILENT
from rocmwatch.serve.wording import printable, rfc3339

Document = dict[str, object]
SAMPLE_SCHEMA = "rocmwatch/sample/1"
STATUS_SCHEMA = "rocmwatch/status/1"

_NOTHING = GpuSample()
_NO_POOL = PoolBytes(None, None, None)
_SENSORS = ("edge", "junction", "memory")
_CLOCKS = ("sclk", "mclk")
_ENGINES = ("gfx", "memory")
_SHARES = ("prochot", "power", "socket_thermal", "vr_thermal", "hbm_thermal")
_REASONS = ("power", "current", "thermal", "prochot")
_LIMITS = ("critical", "emergency")
_SEVERITIES = ("uncorrectable", "correctable", "deferred")
_NO_PARTITION = PartitionSample()
_NO_LINK = PcieLink()
_NO_LIMITS = Limits()


def _text(value: str | None) -> str | None:
    return None if value is None else printable(value)


def _moment(value: float | None) -> str | None:
    return None if value is None else rfc3339(value)


def _age(then: float | None, now: float) -> float | None:
    return None if then is None else max(0.0, round(now - then, 3))


def _each(values: Mapping[str, float], always: tuple[str, ...]) -> Document:
    """Every key that a script may ask for, `null` where there is no value, and whatever else there is."""
    return {**dict.fromkeys(always), **values}


def _pool(reading: GpuReading) -> PoolBytes:
    if reading.sample is None or reading.state in SILENT:
        return _NO_POOL
    return pool_bytes(reading.gpu, reading.sample)


def _fragmentation(table: Fragmentation | None) -> Document | None:
    if table is None:
        return None
    return {
        "ratio": table.ratio,
        "allocatable_bytes": table.allocatable_bytes,
        "largest_free_block_bytes": table.largest_free_block_bytes,
    }


def _limits(limits: Limits) -> Document:
    sensors = dict.fromkeys((*_SENSORS, *(sensor for sensor, _ in limits.temperatures_celsius)))
    return {
        "temperatures_celsius": {
            sensor: {limit: limits.temperatures_celsius.get((sensor, limit)) for limit in _LIMITS} for sensor in sensors
        },
        "clocks_hertz": _each(limits.clocks_hertz, _CLOCKS),
        "power_cap_watts": limits.power_cap_watts,
    }


def _link(link: PcieLink) -> Document:
    return {
        "width": link.width,
        "max_width": link.max_width,
        "transfers_per_second": link.transfers_per_second,
        "max_transfers_per_second": link.max_transfers_per_second,
        "replays": link.replays,
    }


def _xgmi(sample: GpuSample) -> Document | None:
    if not (sample.xgmi_read_bytes or sample.xgmi_write_bytes):
        return None
    return {"read_bytes": dict(sample.xgmi_read_bytes), "write_bytes": dict(sample.xgmi_write_bytes)}


def _errors(reading: GpuReading) -> Document | None:
    blocks = dict.fromkeys(block for block, _ in reading.ras_errors)
    if not blocks:
        return None
    return {
        printable(block): {severity: reading.ras_errors.get((block, severity)) for severity in _SEVERITIES}
        for block in blocks
    }


def _gpu(reading: GpuReading) -> Document:
    gpu, pool = reading.gpu, _pool(reading)
    silent = reading.state in SILENT
    sample = _NOTHING if silent or reading.sample is None else reading.sample
    return {
        "gpu": gpu.gpu,
        "pci": gpu.pci,
        "state": reading.state.value,
        "product": _text(gpu.product),
        "pool": gpu.pool.value,
        "pool_total_bytes": pool.total_bytes,
        "pool_used_bytes": pool.used_bytes,
        "vram_total_bytes": sample.vram_total_bytes,
        "vram_used_bytes": sample.vram_used_bytes,
        "gtt_total_bytes": sample.gtt_total_bytes,
        "gtt_used_bytes": sample.gtt_used_bytes,
        "temperatures_celsius": _each(sample.temperatures_celsius, _SENSORS),
        "clocks_hertz": _each(sample.clocks_hertz, _CLOCKS),
        "xcc_clocks_hertz": dict(sample.xcc_clocks_hertz),
        "power_watts": sample.power_watts,
        "energy_joules": sample.energy_joules,
        "busy_ratio": _each(sample.busy_ratio, _ENGINES),
        "throttle_ratio": _each(sample.throttle_ratio, _SHARES),
        "throttled": _each(sample.throttled, _REASONS),
        "limits": _limits(_NO_LIMITS if silent else reading.limits),
        "pcie": _link(_NO_LINK if silent else reading.pcie),
        "xgmi": _xgmi(sample),
        "ras_errors": None if silent else _errors(reading),
        "fragmentation": None if silent else _fragmentation(reading.fragmentation),
        "partitions": [
            {
                "partition": partition.partition,
                "vram_total_bytes": None if silent else partition.vram_total_bytes,
                "vram_used_bytes": None if silent else partition.vram_used_bytes,
                "busy_ratio": sample.partitions.get(partition.partition, _NO_PARTITION).busy_ratio,
                "sclk_hertz": sample.partitions.get(partition.partition, _NO_PARTITION).sclk_hertz,
            }
            for partition in gpu.partitions
        ],
        "faults": [
            {"source": printable(fault.source), "errno": fault.errno, "path": printable(fault.path)}
            for fault in reading.faults
        ],
        "sampled_at": {
            "memory": _moment(reading.sampled_at),
            "sensors": _moment(reading.sensors_at),
            "fragmentation": _moment(reading.fragmentation_at),
            "ras": _moment(reading.ras_at),
        },
    }


def sample_document(snapshot: Snapshot) -> Document:
    """One reading of every GPU: `rocmwatch/sample/1`."""
    return {
        "schema": SAMPLE_SCHEMA,
        "taken_at": rfc3339(snapshot.taken_at),
        "gpus": [_gpu(reading) for reading in snapshot.gpus],
    }


def _gpu_status(reading: GpuReading, now: float) -> Document:
    pool = _pool(reading)
    return {
        "gpu": reading.gpu.gpu,
        "pci": reading.gpu.pci,
        "state": reading.state.value,
        "product": _text(reading.gpu.product),
        "pool": reading.gpu.pool.value,
        "pool_total_bytes": pool.total_bytes,
        "pool_used_bytes": pool.used_bytes,
        "pool_free_bytes": pool.free_bytes,
        "age_seconds": _age(reading.sampled_at, now),
        "faults": len(reading.faults),
    }


def status_document(view: View, now: float) -> Document:
    """How the daemon and what it watches are doing: `rocmwatch/status/1`.

    Args:
        view: What is published.
        now: Unix seconds: what ages are counted from.
    """
    snapshot = view.snapshot
    return {
        "schema": STATUS_SCHEMA,
        "taken_at": rfc3339(now),
        "version": printable(view.version),
        "hostname": printable(view.hostname),
        "root": printable(view.root),
        "driver_version": _text(snapshot.driver_version),
        "started_at": rfc3339(view.started_at),
        "uptime_seconds": _age(view.started_at, now),
        "config": {
            "loaded_at": rfc3339(view.config_loaded_at),
            "last_reload_successful": view.config_last_reload_successful,
        },
        "snapshot": {
            "sequence": snapshot.sequence,
            "taken_at": rfc3339(snapshot.taken_at),
            "age_seconds": _age(snapshot.taken_at, now),
        },
        "gpus": [_gpu_status(reading, now) for reading in snapshot.gpus],
        "sources": {
            printable(name): {
                "last_success_at": _moment(source.last_success_at),
                "age_seconds": _age(source.last_success_at, now),
                "duration_seconds": source.duration_seconds,
            }
            for name, source in snapshot.sources.items()
        },
        "readers": {
            "restarts": snapshot.readers.restarts,
            "abandoned": snapshot.readers.abandoned,
            "faults": [
                {"source": printable(source), "errno": errno, "count": count}
                for (source, errno), count in snapshot.readers.fault_counts.items()
            ],
        },
        "notes": [printable(note) for note in snapshot.notes],
    }
