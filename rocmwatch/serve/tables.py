"""The JSON documents as tables for a terminal; documents, as they come from a daemon as well as from this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

from rocmwatch.serve.wording import size, span

Document = Mapping[str, Any]
NOTHING = "-"
_BAR_CELLS = 10


def _number(value: float | None, form: str, factor: float = 1) -> str:
    return NOTHING if value is None else form.format(value * factor)


def _bar(used: float | None, total: float | None) -> str:
    if used is None or not total:
        return NOTHING
    share = min(1.0, used / total)
    full = round(share * _BAR_CELLS)
    return f"{'█' * full}{'░' * (_BAR_CELLS - full)} {share:4.0%}"


def _sizes(gpu: Document) -> str:
    used, total = gpu["pool_used_bytes"], gpu["pool_total_bytes"]
    if total is None:
        return NOTHING
    return f"{NOTHING if used is None else size(used)} / {size(total)}"


def _temperature(gpu: Document) -> str:
    values = gpu["temperatures_celsius"]
    hottest = values.get("junction") if values.get("junction") is not None else values.get("edge")
    return _number(hottest, "{:.0f} °C")


def _fragmentation(gpu: Document) -> str:
    return _number((gpu["fragmentation"] or {}).get("ratio"), "{:.1%}")


_SAMPLE_COLUMNS: tuple[tuple[str, str, Callable[[Document], str]], ...] = (
    ("GPU", "right", lambda gpu: str(gpu["gpu"])),
    ("PCI", "left", lambda gpu: str(gpu["pci"])),
    ("state", "left", lambda gpu: str(gpu["state"])),
    ("pool", "left", lambda gpu: str(gpu["pool"])),
    ("", "left", lambda gpu: _bar(gpu["pool_used_bytes"], gpu["pool_total_bytes"])),
    ("used", "right", _sizes),
    ("temp", "right", _temperature),
    ("sclk", "right", lambda gpu: _number(gpu["clocks_hertz"].get("sclk"), "{:.0f} MHz", 1e-6)),
    ("power", "right", lambda gpu: _number(gpu["power_watts"], "{:.0f} W")),
    ("busy", "right", lambda gpu: _number(gpu["busy_ratio"].get("gfx"), "{:.0%}")),
    ("frag", "right", _fragmentation),
    ("faults", "right", lambda gpu: str(len(gpu["faults"])) if gpu["faults"] else ""),
)


def sample_table(document: Document) -> Table:
    """`rocmwatch/sample/1`, a row a GPU."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify, _ in _SAMPLE_COLUMNS:
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for gpu in document["gpus"]:
        style = None if gpu["state"] in ("active", "suspended") else "bold red"
        table.add_row(*(text(gpu) for _, _, text in _SAMPLE_COLUMNS), style=style)
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
