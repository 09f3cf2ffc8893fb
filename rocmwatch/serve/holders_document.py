"""Who holds the memory as a JSON document: `rocmwatch/holders/1`."""

from __future__ import annotations

from rocmwatch.judge.memory import pool_bytes
from rocmwatch.model import Attribution, Balance, GpuReading, Holder, Holdings, View
from rocmwatch.serve.series import SILENT
from rocmwatch.serve.wording import printable, rfc3339

Document = dict[str, object]
HOLDERS_SCHEMA = "rocmwatch/holders/1"
_UNKNOWN = Holdings(attribution=Attribution.UNKNOWN)


def holders_document(view: View) -> Document:
    """The holders of every GPU's memory, and what nobody holds."""
    holdings = view.holdings or _UNKNOWN
    balances = {balance.pci: balance for balance in holdings.balances}
    return {
        "schema": HOLDERS_SCHEMA,
        "taken_at": rfc3339(view.snapshot.taken_at),
        "attribution": holdings.attribution.value,
        "holders": [_holder(holder) for holder in holdings.holders],
        "unowned": [
            {"pci": balance.pci, "bytes": balance.unowned_bytes}
            for balance in holdings.balances
            if balance.unowned_bytes
        ],
        "driver_leak": holdings.driver_leak,
        "driver_version": _text(view.snapshot.driver_version),
        "gpus": [_gpu(reading, balances.get(reading.gpu.pci)) for reading in view.snapshot.gpus],
        "notes": [printable(note) for note in holdings.notes],
    }


def _holder(holder: Holder) -> Document:
    process = holder.process
    return {
        "pid": process.pid,
        "start_time": process.start_time,
        "comm": _text(process.comm),
        "state": process.state,
        "parent": process.parent,
        "uid": process.uid,
        "class": holder.holder_class.value,
        "owner": {"kind": holder.owner.kind.value, "name": _text(holder.owner.name)},
        "vram": [{"pci": one.pci, "partition": one.partition, "bytes": one.bytes} for one in holder.held],
        "age_seconds": holder.age_seconds,
        "reason": printable(holder.reason),
        "action": holder.action.value,
    }


def _gpu(reading: GpuReading, balance: Balance | None) -> Document:
    sample = None if reading.state in SILENT else reading.sample
    pool = pool_bytes(reading.gpu, sample) if sample else None
    return {
        "gpu": reading.gpu.gpu,
        "pci": reading.gpu.pci,
        "state": reading.state.value,
        "pool": reading.gpu.pool.value,
        "pool_total_bytes": pool.total_bytes if pool else None,
        "pool_used_bytes": pool.used_bytes if pool else None,
        "attribution": balance.attribution.value if balance else Attribution.UNKNOWN.value,
        "held_bytes": balance.held_bytes if balance else None,
        "idle_floor_bytes": balance.idle_floor_bytes if balance else None,
        "unowned_bytes": balance.unowned_bytes if balance else None,
        "idle_seconds": balance.idle_seconds if balance else None,
    }


def _text(value: str | None) -> str | None:
    return None if value is None else printable(value)
