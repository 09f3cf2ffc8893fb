"""The JSON documents as tables for a terminal; documents, as they come from a daemon as well as from this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from rich.table import Table

from rocmwatch.serve.wording import size, span

Document = Mapping[str, Any]
NOTHING = "-"
NARROW = 100  # a terminal of fewer columns gets fewer columns of ours
_BAR_CELLS = 10


def _number(value: float | None, form: str, factor: float = 1) -> str:
    return NOTHING if value is None else form.format(value * factor)


def _share(gpu: Document) -> float | None:
    used, total = gpu["pool_used_bytes"], gpu["pool_total_bytes"]
    return None if used is None or not total else min(1.0, used / total)


def _bar(gpu: Document) -> str:
    share = _share(gpu)
    if share is None:
        return NOTHING
    full = round(share * _BAR_CELLS)
    return "█" * full + "░" * (_BAR_CELLS - full)


def _sizes(gpu: Document) -> str:
    used, total = gpu["pool_used_bytes"], gpu["pool_total_bytes"]
    if total is None:
        return NOTHING
    told, unit = size(total).split()
    return f"{NOTHING if used is None else size(used, unit)}/{told} {unit}"


def _temperature(gpu: Document) -> str:
    values = gpu["temperatures_celsius"]
    hottest = values.get("junction") if values.get("junction") is not None else values.get("edge")
    return _number(hottest, "{:.0f}")


def _fragmentation(gpu: Document) -> str:
    return _number((gpu["fragmentation"] or {}).get("ratio"), "{:.1%}")


class Column(NamedTuple):
    """A column of a table."""

    title: str
    justify: Literal["left", "right"]
    text: Callable[[Document], str]
    wide: bool = False


_SAMPLE_COLUMNS = (
    Column("GPU", "right", lambda gpu: str(gpu["gpu"])),
    Column("PCI", "left", lambda gpu: str(gpu["pci"])),
    Column("state", "left", lambda gpu: str(gpu["state"])),
    Column("pool", "left", lambda gpu: str(gpu["pool"]), wide=True),
    Column("", "left", _bar, wide=True),
    Column("", "right", lambda gpu: _number(_share(gpu), "{:.0%}")),
    Column("used", "right", _sizes),
    Column("°C", "right", _temperature),
    Column("MHz", "right", lambda gpu: _number(gpu["clocks_hertz"].get("sclk"), "{:.0f}", 1e-6)),
    Column("W", "right", lambda gpu: _number(gpu["power_watts"], "{:.0f}")),
    Column("busy", "right", lambda gpu: _number(gpu["busy_ratio"].get("gfx"), "{:.0%}")),
    Column("frag", "right", _fragmentation),
    Column("!", "right", lambda gpu: str(len(gpu["faults"]) or "")),
)


def sample_table(document: Document, width: int) -> Table:
    """`rocmwatch/sample/1`, a row a GPU; `!` counts the reads that failed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [column for column in _SAMPLE_COLUMNS if width >= NARROW or not column.wide]
    for column in columns:
        table.add_column(column.title, justify=column.justify, no_wrap=True)
    for gpu in document["gpus"]:
        style = None if gpu["state"] in ("active", "suspended") else "bold red"
        table.add_row(*(column.text(gpu) for column in columns), style=style)
    return table


def status_lines(document: Document) -> list[str]:
    """`rocmwatch/status/1` in lines."""
    states: dict[str, int] = {}
    for gpu in document["gpus"]:
        states[gpu["state"]] = states.get(gpu["state"], 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in states.items())
    readers = document["readers"]
    lines = [
        f"rocmwatch {document['version']} on {document['hostname']}, up {span(document['uptime_seconds'])}",
        f"GPUs     {len(document['gpus'])}" + (f" ({told})" if told else ""),
    ]
    for name, source in sorted(document["sources"].items()):
        age, took = source["age_seconds"], source["duration_seconds"]
        lines.append(
            f"{name:<13} read {NOTHING if age is None else span(age)} ago"
            + (f", took {took * 1000:.1f} ms" if took is not None else "")
        )
    lines.append(f"readers  {readers['restarts']} restarted, {readers['abandoned']} abandoned")
    if not document["config"]["last_reload_successful"]:
        lines.append("config   the last reload was refused; the configuration before it is in force")
    lines += [f"note     {note}" for note in document["notes"]]
    return lines
