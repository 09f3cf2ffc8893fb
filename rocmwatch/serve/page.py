"""The page at `/`: the node's GPUs for a person with a browser, rendered here, without a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import NamedTuple

from rocmwatch.judge.memory import pool_bytes
from rocmwatch.model import GpuReading, GpuSample, GpuState, Partition, Pool, Snapshot, View
from rocmwatch.serve.page_style import STYLE
from rocmwatch.serve.series import SILENT
from rocmwatch.serve.wording import printable, size, span

_REFRESH_SECONDS = 10
_UNKNOWN = '<span class="unknown">–</span>'  # noqa: RUF001 (a dash is what an empty cell shows)
_LINKS = ("/metrics", "/api/v1/snapshot", "/api/v1/status", "/-/healthy")
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='%235f9fe0'%3E"
    "%3Cpath d='M0 10h4v6H0zM6 6h4v10H6zM12 2h4v14h-4z'/%3E%3C/svg%3E"
)
_NOTHING = GpuSample()


def _text(value: str) -> str:
    return escape(printable(value))


def _small(text: str) -> str:
    return f"<small>{text}</small>" if text else ""


def _sample(reading: GpuReading) -> GpuSample:
    return _NOTHING if reading.sample is None or reading.state in SILENT else reading.sample


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"


def _bar(ratio: float) -> str:
    used = 100 * min(1.0, max(0.0, ratio))
    return (
        f'<svg class="bar" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label="{used:.0f} % used">'
        f'<rect class="rest" width="100" height="1"/><rect class="used" width="{used:.1f}" height="1"/></svg>'
    )


def _places(partitions: tuple[Partition, ...]) -> str:
    """A column for each partition, filled as it is used; sizes only, where the driver does not say how much is used."""
    totals = [partition.vram_total_bytes for partition in partitions]
    known = [
        (part.partition, part.vram_used_bytes / part.vram_total_bytes)
        for part in partitions
        if part.vram_total_bytes and part.vram_used_bytes is not None
    ]
    if len(known) < len(partitions):
        same = set(totals)
        each = totals[0] if len(same) == 1 else None
        return _small(f"{len(partitions)} partitions" + (f" of {size(each)}" if each else ""))
    label = "partitions: " + ", ".join(f"{_text(name)} {_percent(ratio)}" for name, ratio in known)
    columns = "".join(
        f'<rect class="rest" x="{10 * at}" width="8" height="20"/>'
        f'<rect class="used" x="{10 * at}" y="{20 - 20 * min(1.0, ratio):.1f}" width="8" '
        f'height="{20 * min(1.0, ratio):.1f}"/>'
        for at, (_, ratio) in enumerate(known)
    )
    width = 10 * len(known) - 2
    return (
        f'<svg class="places" viewBox="0 0 {width} 20" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f"<title>{label}</title>{columns}</svg>{_small(f'{len(known)} partitions')}"
    )


def _name(reading: GpuReading, _now: float) -> str:
    gpu = reading.gpu
    modes = " · ".join(_text(mode) for mode in (gpu.compute_partition, gpu.memory_partition) if mode)
    product = _text(gpu.product) if gpu.product else "unknown product"
    return f"<strong>GPU {_text(gpu.gpu)}</strong><br>{product}{_small(_text(gpu.pci))}{_small(modes)}"


def _state(reading: GpuReading, now: float) -> str:
    faults = len(reading.faults)
    age = "never read" if reading.sampled_at is None else f"read {span(now - reading.sampled_at)} ago"
    count = f"{faults} fault{'' if faults == 1 else 's'}" if faults else ""
    return f'<span class="state {reading.state.value}">{reading.state.value}</span>{_small(age)}{_small(count)}'


def _memory(reading: GpuReading, _now: float) -> str:
    pool = pool_bytes(reading.gpu, _sample(reading))
    which = " GTT" if reading.gpu.pool is Pool.GTT else ""
    if pool.used_bytes is None:
        return _UNKNOWN if pool.total_bytes is None else f"{_UNKNOWN} of {size(pool.total_bytes)}{which}"
    if not pool.total_bytes:
        return f"{size(pool.used_bytes)} used{which}"
    ratio = pool.used_bytes / pool.total_bytes
    places = _places(reading.gpu.partitions) if reading.gpu.partitions else ""
    text = f"{size(pool.used_bytes)} of {size(pool.total_bytes)}{which}"
    return (
        f'<div class="ends"><span>{text}</span><span class="soft">{_percent(ratio)}</span></div>{_bar(ratio)}{places}'
    )


def _temperature(reading: GpuReading, _now: float) -> str:
    sensors = dict(_sample(reading).temperatures_celsius)
    first = next((name for name in ("junction", "edge", "memory") if name in sensors), None)
    if first is None:
        return _UNKNOWN
    value = sensors.pop(first)
    rest = " · ".join(f"{_text(name)} {other:.0f}" for name, other in sensors.items())
    return f"{value:.0f} °C{_small(_text(first))}{_small(rest)}"


def _clock(reading: GpuReading, _now: float) -> str:
    hertz = _sample(reading).clocks_hertz.get("sclk")
    return _UNKNOWN if hertz is None else f"{hertz / 1e6:.0f} MHz"


def _power(reading: GpuReading, _now: float) -> str:
    watts, cap = _sample(reading).power_watts, reading.limits.power_cap_watts
    if watts is None:
        return _UNKNOWN
    return f"{watts:.0f} W{_small('' if cap is None else f'of {cap:.0f} W')}"


def _busy(reading: GpuReading, _now: float) -> str:
    busy = _sample(reading).busy_ratio
    if "gfx" not in busy:
        return _UNKNOWN
    return _percent(busy["gfx"]) + _small(f"memory {_percent(busy['memory'])}" if "memory" in busy else "")


def _fragmentation(reading: GpuReading, _now: float) -> str:
    table = None if reading.state in SILENT else reading.fragmentation
    if table is None:
        return _UNKNOWN
    ratio = _UNKNOWN if table.ratio is None else _percent(table.ratio)
    return f"{ratio}{_small(f'{size(table.allocatable_bytes)} allocatable')}"


class _Column(NamedTuple):
    heading: str
    style: str
    cell: Callable[[GpuReading, float], str]


_COLUMNS = (
    _Column("GPU", "what", _name),
    _Column("State", "how", _state),
    _Column("Memory", "memory", _memory),
    _Column("Temperature", "value", _temperature),
    _Column("Clock", "value", _clock),
    _Column("Power", "value", _power),
    _Column("Busy", "value", _busy),
    _Column("Fragmentation", "value", _fragmentation),
)


def _table(snapshot: Snapshot, now: float) -> Iterator[str]:
    if not snapshot.gpus:
        known = "No AMD GPU is bound to the amdgpu driver on this node."
        yield f'<p class="warn">{known if snapshot.listed else "Which GPUs this node has is not known so far."}</p>'
        return
    # With display: block, browsers forget that a table is one: the roles say it again.
    yield '<table class="sheet" role="table"><thead role="rowgroup"><tr role="row">'
    yield "".join(f'<th scope="col" role="columnheader">{column.heading}</th>' for column in _COLUMNS)
    yield '</tr></thead><tbody role="rowgroup">'
    for reading in snapshot.gpus:
        yield '<tr role="row">'
        for column in _COLUMNS:
            content = column.cell(reading, now)
            style = column.style if content != _UNKNOWN else "none"
            yield f'<td role="cell" class="{style}" data-label="{column.heading}">{content}</td>'
        yield "</tr>"
    yield "</tbody></table>"


def _list(heading: str, items: list[str]) -> Iterator[str]:
    if items:
        yield f'<h2>{heading}</h2><ul class="sheet">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _sources(snapshot: Snapshot, now: float) -> str:
    ages = (
        (name, "never" if source.last_success_at is None else f"{span(now - source.last_success_at)} ago")
        for name, source in snapshot.sources.items()
    )
    return " · ".join(f"{_text(name)} {age}" for name, age in ages)


def _headline(view: View, now: float) -> Iterator[str]:
    gpus = view.snapshot.gpus
    counts = ((state, sum(reading.state is state for reading in gpus)) for state in GpuState)
    states = ", ".join(f"{count} {state.value}" for state, count in counts if count)
    driver = view.snapshot.driver_version
    yield f"<h1>{_text(view.hostname)}</h1><p>{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
    yield f": {states}</p>" if states else "</p>"
    yield f'<p class="soft">rocmwatch {_text(view.version)}, up {span(now - view.started_at)}'
    yield f" · driver {_text(driver)}</p>" if driver else "</p>"
    if not view.config_last_reload_successful:
        yield '<p class="warn">The last reload of the configuration was refused; the one before it is in force.</p>'
    if view.root not in {"", "/"}:
        yield f'<p class="soft">Reads the tree {_text(view.root)}, not this host.</p>'


def _body(view: View, now: float) -> Iterator[str]:
    snapshot = view.snapshot
    yield "<header>"
    yield from _headline(view, now)
    yield "</header><main>"
    yield from _table(snapshot, now)
    yield from _list(
        "Reads that failed",
        [
            f"GPU {_text(reading.gpu.gpu)}: {_text(fault.source)} {_text(fault.errno)}{_small(_text(fault.path))}"
            for reading in snapshot.gpus
            for fault in reading.faults
        ],
    )
    yield from _list("Notes", [_text(note) for note in snapshot.notes])
    if snapshot.sources:
        yield f'<p class="soft ages">Last read: {_sources(snapshot, now)}</p>'
    yield "</main>"


def render_page(view: View | None, now: float) -> str:
    """The page as it is at a moment.

    Args:
        view: What is published; None before the first tick.
        now: Unix seconds: what ages are counted from.
    """
    if view is None:
        title, body = "rocmwatch", "<main><h1>rocmwatch</h1><p>The GPUs have not been read yet.</p></main>"
    else:
        title, body = f"{_text(view.hostname)} - rocmwatch", "".join(_body(view, now))
    links = "".join(f'<a href="{link}">{link}</a>' for link in _LINKS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS}"><title>{title}</title>'
        f'<link rel="icon" href="{_ICON}"><style>{STYLE}</style></head>'
        f"<body>{body}<footer>{links}</footer></body></html>\n"
    )
