"""What the page says of one GPU, cell by cell: text, bars, marks and the last hour, as HTML and SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import NamedTuple

from rocmwatch.judge.memory import pool_bytes
from rocmwatch.model import GpuReading, GpuSample, Pool, Trend
from rocmwatch.serve.series import SILENT
from rocmwatch.serve.sparkline import span_of, sparkline
from rocmwatch.serve.wording import printable, size, span

UNKNOWN = '<span class="unknown">–</span>'  # noqa: RUF001  # a dash is what an empty cell shows
OLD_SECONDS = 30.0  # three of the longest interval that the unit's watchdog lets through: while no other is known
_OLD_STEPS = 3
NEAR_CELSIUS = 5.0
_COOL_CELSIUS = 20.0  # the left end of a thermometer
_HELD_DOWN_RATIO = 0.01
_NOTHING = GpuSample()


class Scene(NamedTuple):
    """A GPU, and what is drawn beside it.

    Attributes:
        now: Unix seconds.
        trends: Of this GPU, by name.
        is_open: Whether its partitions are unfolded; `fold` is where the link to change that leads.
    """

    reading: GpuReading
    now: float
    trends: Mapping[str, Trend]
    is_open: bool
    fold: str

    @property
    def sample(self) -> GpuSample:
        """What is current of it."""
        reading = self.reading
        return _NOTHING if reading.sample is None or reading.state in SILENT else reading.sample


def text(value: str) -> str:
    """A text that a page can show, whatever is in it."""
    return escape(printable(value))


def small(html: str) -> str:
    """A second line."""
    return f"<small>{html}</small>" if html else ""


def percent(ratio: float) -> str:
    """A ratio for people."""
    return f"{100 * ratio:.0f} %"


def bar(ratio: float, label: str, mark: float | None = None, *, is_hot: bool = False) -> str:
    """A bar that is filled so far, with a mark where a limit is."""
    used = 100 * min(1.0, max(0.0, ratio))
    line = "" if mark is None else f'<rect class="mark" x="{100 * mark:.0f}" width="1" height="1"/>'
    return (
        f'<svg class="bar{" hot" if is_hot else ""}" viewBox="0 0 100 1" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">'
        f'<rect class="rest" width="100" height="1"/><rect class="used" width="{used:.1f}" height="1"/>{line}</svg>'
    )


def _name(scene: Scene) -> str:
    gpu = scene.reading.gpu
    modes = " · ".join(text(mode) for mode in (gpu.compute_partition, gpu.memory_partition) if mode)
    product = text(gpu.product) if gpu.product else "unknown product"
    return f"<strong>GPU {text(gpu.gpu)}</strong><br>{product}{small(text(gpu.pci))}{small(modes)}{_fold(scene)}"


def _fold(scene: Scene) -> str:
    parts = len(scene.reading.gpu.partitions)
    if not parts:
        return ""
    word = "hide" if scene.is_open else "show"
    state = "true" if scene.is_open else "false"
    gpu = text(scene.reading.gpu.gpu)
    return (
        f'<small><a class="fold" id="gpu-{gpu}" href="{scene.fold}#gpu-{gpu}" aria-expanded="{state}">'
        f"{word} {parts} partitions</a></small>"
    )


def _state(scene: Scene) -> str:
    reading = scene.reading
    faults = len(reading.faults)
    count = f"{faults} failed read{'' if faults == 1 else 's'}" if faults else ""
    return f'<span class="state {reading.state.value}">{reading.state.value}</span>{_age(scene)}{small(count)}'


def _age(scene: Scene) -> str:
    at = scene.reading.sampled_at
    if at is None:
        return small("never read")
    age = scene.now - at
    told = f"read {span(age)} ago"
    return small(f'<span class="old">old: {told}</span>' if age > _old_after(scene) else told)


def _old_after(scene: Scene) -> float:
    """Three steps of what is remembered; a step is never shorter than the time between two samples."""
    return max((_OLD_STEPS * trend.step_seconds for trend in scene.trends.values()), default=OLD_SECONDS)


def troubles(scene: Scene) -> Iterator[str]:
    """What should not be so, in words; nothing of a GPU that is well."""
    reading, sample = scene.reading, scene.sample
    held = {reason: ratio for reason, ratio in sample.throttle_ratio.items() if ratio >= _HELD_DOWN_RATIO}
    shares = [f"{_words(reason)} {percent(ratio)}" for reason, ratio in sorted(held.items(), key=lambda one: -one[1])]
    if shares:
        yield f"clocks held down by {', '.join(shares)} of the time"
    now = [_words(reason) for reason, is_held in sample.throttled.items() if is_held]
    if now:
        yield f"clocks held down by {', '.join(now)}"
    errors = [
        (block, count) for (block, kind), count in reading.ras_errors.items() if kind == "uncorrectable" and count
    ]
    if errors:
        yield "uncorrectable errors: " + ", ".join(f"{text(block)} {count}" for block, count in errors)
    pcie = reading.pcie
    if pcie.width and pcie.max_width and pcie.width < pcie.max_width:
        yield f"PCIe uses {pcie.width} of {pcie.max_width} lanes"
    if reading.pressure.evicted_bytes:
        yield f"{size(reading.pressure.evicted_bytes)} of its buffers lie in host memory"


def _words(reason: str) -> str:
    return text(reason.replace("_", " "))


def _memory(scene: Scene) -> str:
    reading = scene.reading
    pool = pool_bytes(reading.gpu, scene.sample)
    which = " GTT" if reading.gpu.pool is Pool.GTT else ""
    if pool.used_bytes is None:
        return UNKNOWN if pool.total_bytes is None else f"{UNKNOWN} of {size(pool.total_bytes)}{which}"
    if not pool.total_bytes:
        return f"{size(pool.used_bytes)} used{which}"
    ratio = pool.used_bytes / pool.total_bytes
    told = f"{size(pool.used_bytes)} of {size(pool.total_bytes)}{which}"
    hour = _hour(scene, "pool_used_bytes", (0.0, float(pool.total_bytes)), size)
    return (
        f'<div class="ends"><span>{told}</span><span class="soft">{percent(ratio)}</span></div>'
        f"{bar(ratio, f'{percent(ratio)} used')}{hour}"
    )


def _temperature(scene: Scene) -> str:
    sensors = dict(scene.sample.temperatures_celsius)
    first = next((name for name in ("junction", "edge", "memory") if name in sensors), None)
    if first is None:
        return UNKNOWN
    limits = scene.reading.limits.temperatures_celsius
    near = [name for name, celsius in sensors.items() if celsius >= limits.get((name, "critical"), 1e9) - NEAR_CELSIUS]
    value = sensors.pop(first)
    critical = limits.get((first, "critical"))
    emergency = limits.get((first, "emergency"), critical)
    thermometer = ""
    if critical is not None and emergency is not None and emergency > _COOL_CELSIUS:
        room = emergency - _COOL_CELSIUS
        label = f"{value:.0f} of {critical:.0f} degrees"
        mark = (critical - _COOL_CELSIUS) / room
        thermometer = bar((value - _COOL_CELSIUS) / room, label, mark, is_hot=first in near)
    rest = " · ".join(f"{text(name)}&nbsp;{celsius:.0f}{_of(limits, name)}" for name, celsius in sensors.items())
    warning = f'<span class="old">near the limit: {", ".join(map(text, near))}</span>' if near else ""
    hour = _hour(scene, f"temperature_{first}", (_COOL_CELSIUS, emergency or 100.0), "{:.0f} °C".format)
    named = small(text(first) + _of(limits, first))
    return f"{value:.0f} °C{thermometer}{hour}{small(warning)}{named}{small(rest)}"


def _of(limits: Mapping[tuple[str, str], float], sensor: str) -> str:
    critical = limits.get((sensor, "critical"))
    return "" if critical is None else f", limit {critical:.0f}"


def _clock(scene: Scene) -> str:
    clocks = scene.sample.clocks_hertz
    hertz = clocks.get("sclk")
    if hertz is None:
        return UNKNOWN
    limit = scene.reading.limits.clocks_hertz.get("sclk")
    dies = scene.sample.xcc_clocks_hertz.values()
    spread = f"dies {min(dies) / 1e6:.0f}&ndash;{max(dies) / 1e6:.0f}" if len(dies) > 1 else ""
    memory = f"memory {clocks['mclk'] / 1e6:.0f}" if "mclk" in clocks else ""
    of = f"of {limit / 1e6:.0f} MHz" if limit else ""
    hour = _hour(scene, "clock_sclk", (0.0, limit or hertz), lambda value: f"{value / 1e6:.0f} MHz")
    return f"{hertz / 1e6:.0f} MHz{small(of)}{hour}{small(memory)}{small(spread)}"


def _power(scene: Scene) -> str:
    watts, cap = scene.sample.power_watts, scene.reading.limits.power_cap_watts
    if watts is None:
        return UNKNOWN
    hour = _hour(scene, "power_watts", (0.0, cap or watts), "{:.0f} W".format)
    return f"{watts:.0f} W{small('' if cap is None else f'of {cap:.0f} W')}{hour}"


def _busy(scene: Scene) -> str:
    busy = scene.sample.busy_ratio
    if "gfx" not in busy:
        return UNKNOWN
    memory = small(f"memory {percent(busy['memory'])}" if "memory" in busy else "")
    return percent(busy["gfx"]) + memory + _hour(scene, "busy_gfx", (0.0, 1.0), percent)


def _fragmentation(scene: Scene) -> str:
    table = None if scene.reading.state in SILENT else scene.reading.fragmentation
    if table is None:
        return UNKNOWN
    ratio = UNKNOWN if table.ratio is None else percent(table.ratio)
    allocatable = small(f"{size(table.allocatable_bytes)} usable") + small(f"of {size(table.free_bytes)} free")
    drawn = "" if table.ratio is None else bar(table.ratio, f"{percent(table.ratio)} fragmented")
    return f"{ratio}{drawn}{_hour(scene, 'fragmentation_ratio', (0.0, 1.0), percent)}{allocatable}"


def _hour(scene: Scene, name: str, scale: tuple[float, float], told: Callable[[float], str]) -> str:
    """The last hour of a value."""
    trend = None if scene.reading.state in SILENT else scene.trends.get(name)
    ends = span_of(trend) if trend is not None else None
    if ends is None:
        return ""
    low, high = ends
    return sparkline(trend, scale[0], max(scale[1], high), f"last hour: {told(low)} to {told(high)}")


class Column(NamedTuple):
    """A column of the table of GPUs."""

    heading: str
    style: str
    cell: Callable[[Scene], str]


COLUMNS = (
    Column("GPU", "what", _name),
    Column("State", "how", _state),
    Column("Memory", "memory", _memory),
    Column("Temperature", "value heat", _temperature),
    Column("Clock", "value clock", _clock),
    Column("Power", "value", _power),
    Column("Busy", "value", _busy),
    Column("Fragmentation", "value", _fragmentation),
)


def warnings(scene: Scene) -> Iterator[str]:
    """A line below a GPU of what should not be so; none for one that is well."""
    told = "".join(f"<li>{trouble}</li>" for trouble in troubles(scene))
    if told:
        yield f'<tr role="row"><td role="cell" class="troubles" colspan="{len(COLUMNS)}"><ul>{told}</ul></td></tr>'


def partitions(scene: Scene) -> Iterator[str]:
    """The partitions of a GPU, a cell each; nothing while they are folded."""
    if not (scene.is_open and scene.reading.gpu.partitions):
        return
    yield f'<tr role="row"><td role="cell" class="parts" colspan="{len(COLUMNS)}"><ul>'
    for part in scene.reading.gpu.partitions:
        now = scene.sample.partitions.get(part.partition)
        used, total = part.vram_used_bytes, part.vram_total_bytes
        known = used is not None and total and scene.sample is not _NOTHING
        told = (
            f"{size(used)} of {size(total)}" if known and used is not None and total else size(total) if total else ""
        )
        facts = [
            f"busy {percent(now.busy_ratio)}" if now and now.busy_ratio is not None else "",
            f"{now.sclk_hertz / 1e6:.0f}&nbsp;MHz" if now and now.sclk_hertz is not None else "",
        ]
        drawn = bar(used / total, percent(used / total)) if known and used is not None and total else ""
        yield (
            f'<li><div class="ends"><span>Partition {text(part.partition)}</span><span class="soft">{told}</span></div>'
            f"{drawn}{small(' · '.join(filter(None, facts)))}</li>"
        )
    yield "</ul></td></tr>"
