"""The live view of `rocmwatch top`, as lines of text: from the documents and the size of a terminal, and nothing else.

What does not fit is left out, the less important first; no line is wider than the terminal, and there are never more
lines than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rocmwatch.serve.wording import printable, size, span

if TYPE_CHECKING:
    from rich.text import Text

Document = Mapping[str, Any]
LEAST_WIDTH, LEAST_HEIGHT = 63, 8  # what the columns take that are always there
OLD_SECONDS = 30.0
NEAR_CELSIUS = 5.0
_HELD_DOWN_RATIO = 0.01
_BAR_CELLS = 8
_LEAST_HOUR = 4
_GIB = 1 << 30
_STYLES = {"suspended": "dim", "stalled": "bold yellow", "resetting": "bold yellow", "lost": "bold red"}
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = ".:-=+*#@"
_PLAIN = str.maketrans("█░", "#.")
HELP = (
    "rocmwatch top",
    "",
    "q          quit",
    "p          partitions of each GPU, shown or not",
    "up down    a line, Page Up, Page Down: a page",
    "? or h     this help, and back",
    "",
    "USED       of the memory that models live in (VRAM, or GTT on an APU)",
    "TEMP       junction (or edge) of its critical limit, degrees C",
    "MHz W      graphics clock; power of its cap",
    "FRAG       share of free VRAM in blocks too small for a large buffer",
    "HOUR       power over the last hour",
)


class Wish(NamedTuple):
    """How it is to be shown.

    Attributes:
        width: Columns of the terminal.
        height: Its lines; 0 for as many as there are (a pipe).
        first: The first line of GPUs that is shown.
        partitions: Whether the partitions are.
        ascii: Whether the terminal knows no other characters.
    """

    width: int
    height: int
    first: int = 0
    partitions: bool = False
    ascii: bool = False


class Picture(NamedTuple):
    """What is shown.

    Attributes:
        lines: From the top.
        rows: How many lines of GPUs there are, of which a part may be shown: what to scroll in.
        room: How many of them fit.
    """

    lines: list[Text]
    rows: int
    room: int


def picture(sample: Document, status: Document | None, trends: Document | None, wish: Wish) -> Picture:
    """The screen.

    Args:
        sample: `rocmwatch/sample/1`.
        status: `rocmwatch/status/1`, where there is a daemon.
        trends: `rocmwatch/trends/1`, where anybody remembers.
        wish: How.
    """
    head = [_title(sample, status)]
    foot = _foot(sample, status)
    hours = {gpu["pci"]: gpu["trends"] for gpu in trends["gpus"]} if trends else {}
    if wish.height and (wish.width < LEAST_WIDTH or wish.height < LEAST_HEIGHT):
        return _cramped(sample, wish)
    rows = [row for gpu in sample["gpus"] for row in _rows(gpu, hours.get(gpu["pci"], {}), wish)]
    head.append(_heading(wish))
    if not wish.height:
        return Picture([_cut(line, wish) for line in (*head, *rows, *foot)], len(rows), len(rows))
    keys = _text("q quit  p partitions  ? help", "dim")
    room = max(1, wish.height - len(head) - 1)
    untold, foot = len(foot), foot[: max(0, room - len(rows))]
    untold -= len(foot)
    first = max(0, min(wish.first, len(rows) - room))
    shown = rows[first : first + room]
    if len(rows) > room:
        keys.append(f"  lines {first + 1} to {first + len(shown)} of {len(rows)}, arrows scroll", "dim")
    if untold:
        keys.append(f"  +{untold} message{'s' if untold > 1 else ''}", "yellow")
    gap = [_text("")] * max(0, wish.height - len(head) - len(shown) - len(foot) - 1)
    lines = [*head, *shown, *gap, *foot, keys]
    return Picture([_cut(line, wish) for line in lines[: wish.height]], len(rows), room)


def help_picture(wish: Wish) -> Picture:
    """What the keys and the columns are."""
    lines = [_cut(_text(line), wish) for line in HELP[: wish.height or len(HELP)]]
    return Picture(lines, 0, 0)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text  # noqa: PLC0415  # only who draws waits for it

    return Text(text, style=style, no_wrap=True, end="")


def _cut(line: Text, wish: Wish) -> Text:
    """As the terminal takes it: its characters, and at most its columns; wide characters count for two."""
    cut = line.copy()
    if wish.ascii and not cut.plain.isascii():
        plain = cut.plain.translate(_PLAIN).encode("ascii", "backslashreplace").decode()
        cut = _text(plain, str(cut.style) if cut.style else "")
    cut.truncate(wish.width)
    return cut


def _title(sample: Document, status: Document | None) -> Text:
    gpus = sample["gpus"]
    used = [gpu["pool_used_bytes"] for gpu in gpus if gpu["pool_used_bytes"] is not None]
    total = [gpu["pool_total_bytes"] for gpu in gpus if gpu["pool_total_bytes"] is not None]
    parts = [f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"]
    if total:
        parts.append(f"{size(sum(used))} of {size(sum(total))} in use")
    watts = [gpu["power_watts"] for gpu in gpus if gpu["power_watts"] is not None]
    if watts:
        parts.append(f"{sum(watts):.0f} W")
    line = _text("")
    line.append(printable(status["hostname"]) if status else "this node", "bold")
    line.append("  " + ", ".join(parts))
    if status:
        age = status["snapshot"]["age_seconds"]
        old = age is not None and age > OLD_SECONDS
        line.append(f"  read {span(age or 0)} ago", "bold yellow" if old else "dim")
    return line


class _Column(NamedTuple):
    heading: str
    width: int
    text: Callable[[Document], str]
    right: bool = True
    from_width: int = 0


def _number(value: float | None, form: str = "{:.0f}", factor: float = 1) -> str:
    return "-" if value is None else form.format(value * factor)


def _share(gpu: Document) -> float | None:
    used, total = gpu["pool_used_bytes"], gpu["pool_total_bytes"]
    return None if used is None or not total else min(1.0, used / total)


def _bar(gpu: Document) -> str:
    share = _share(gpu)
    full = 0 if share is None else round(share * _BAR_CELLS)
    return "-" if share is None else "█" * full + "░" * (_BAR_CELLS - full)


def _sizes(gpu: Document) -> str:
    used, total = gpu["pool_used_bytes"], gpu["pool_total_bytes"]
    if used is None and total is None:
        return _number(None)
    return f"{_number(used, '{:.1f}', 1 / _GIB)}/{_number(total, '{:.0f}', 1 / _GIB)}G"


def _hottest(gpu: Document) -> tuple[str, float] | None:
    known = {name: value for name, value in gpu["temperatures_celsius"].items() if value is not None}
    name = next((one for one in ("junction", "edge", "memory") if one in known), None)
    return None if name is None else (name, known[name])


def _critical(gpu: Document, sensor: str) -> float | None:
    limits: Mapping[str, Any] = (gpu.get("limits") or {}).get("temperatures_celsius") or {}
    found = (limits.get(sensor) or {}).get("critical")
    return None if found is None else float(found)


def _temperature(gpu: Document) -> str:
    hottest = _hottest(gpu)
    if hottest is None:
        return "-"
    limit = _critical(gpu, hottest[0])
    return f"{hottest[1]:.0f}" + ("" if limit is None else f"/{limit:.0f}")


def _power(gpu: Document) -> str:
    cap = (gpu.get("limits") or {}).get("power_cap_watts")
    return _number(gpu["power_watts"]) + ("" if cap is None or gpu["power_watts"] is None else f"/{cap:.0f}")


_COLUMNS = (
    _Column("GPU", 3, lambda gpu: printable(gpu["gpu"])),
    _Column("PCI", 12, lambda gpu: printable(gpu["pci"]), right=False, from_width=100),
    _Column("STATE", 9, lambda gpu: str(gpu["state"]), right=False),
    _Column("USED", 8, _bar, right=False, from_width=72),
    _Column("", 4, lambda gpu: _number(_share(gpu), "{:.0%}")),
    _Column("", 11, _sizes),
    _Column("TEMP", 7, _temperature),
    _Column("MHz", 4, lambda gpu: _number(gpu["clocks_hertz"].get("sclk"), "{:.0f}", 1e-6)),
    _Column("W", 9, _power),
    _Column("BUSY", 4, lambda gpu: _number(gpu["busy_ratio"].get("gfx"), "{:.0%}")),
    _Column("FRAG", 4, lambda gpu: _number((gpu["fragmentation"] or {}).get("ratio"), "{:.0%}")),
)


def _columns(wish: Wish) -> list[_Column]:
    return [column for column in _COLUMNS if wish.width >= column.from_width]


def _heading(wish: Wish) -> Text:
    cells = (
        column.heading.rjust(column.width) if column.right else column.heading.ljust(column.width)
        for column in _columns(wish)
    )
    line = " ".join(cells)
    return _text(line + " HOUR" if len(line) + _LEAST_HOUR < wish.width else line, "bold")


def _rows(gpu: Document, hours: Mapping[str, Document], wish: Wish) -> Iterator[Text]:
    cells = []
    for column in _columns(wish):
        told = column.text(gpu)
        cells.append(told.rjust(column.width) if column.right else told.ljust(column.width))
    line = " ".join(cells)
    left = wish.width - len(line) - 1
    line += " " + _hour(hours.get("power_watts"), (gpu.get("limits") or {}).get("power_cap_watts"), min(30, left), wish)
    style = _STYLES.get(gpu["state"], "bold yellow" if any(_troubles(gpu)) else "")
    yield _text(line, style)
    if wish.partitions:
        for part in gpu["partitions"]:
            facts = (
                f"{_number(part['vram_used_bytes'], '{:.1f}', 1 / _GIB)}/"
                f"{_number(part['vram_total_bytes'], '{:.0f}', 1 / _GIB)}G",
                f"busy {_number(part.get('busy_ratio'), '{:.0%}')}",
                f"{_number(part.get('sclk_hertz'), '{:.0f}', 1e-6)} MHz",
            )
            yield _text(f"  {printable(gpu['gpu'])}.{printable(part['partition'])}  " + "  ".join(facts), "dim")


def _hour(trend: Document | None, cap: float | None, width: int, wish: Wish) -> str:
    """The last hour in so many characters; a space where there was no value."""
    if trend is None or width < _LEAST_HOUR:
        return ""
    points: Sequence[float | None] = trend["points"]
    each = max(1.0, len(points) / width)
    parts = [
        points[int(at * each) : max(int(at * each) + 1, int((at + 1) * each))] for at in range(min(width, len(points)))
    ]
    tops = [max((point for point in part if point is not None), default=None) for part in parts]
    high = max([cap or 0.0, *(top for top in tops if top is not None)]) or 1.0
    levels = _ASCII_LEVELS if wish.ascii else _LEVELS
    last = len(levels) - 1
    return "".join(" " if top is None else levels[max(0, min(last, round(top / high * last)))] for top in tops)


def _troubles(gpu: Document) -> Iterator[str]:
    """What should not be so of one GPU."""
    hottest = _hottest(gpu)
    limit = _critical(gpu, hottest[0]) if hottest else None
    if hottest and limit is not None and hottest[1] >= limit - NEAR_CELSIUS:
        yield f"{hottest[1]:.0f} degrees, near its limit of {limit:.0f}"
    for reason, ratio in (gpu.get("throttle_ratio") or {}).items():
        if ratio is not None and ratio >= _HELD_DOWN_RATIO:
            yield f"held down {ratio:.0%} of the time by {printable(reason.replace('_', ' '))}"
    for reason, held in (gpu.get("throttled") or {}).items():
        if held:
            yield f"held down by {printable(reason)}"
    faults = len(gpu["faults"])
    if faults:
        first = gpu["faults"][0]
        more = f" and {faults - 1} more" if faults > 1 else ""
        yield f"{printable(first['source'])}: {printable(first['errno'])}{more}"


def _foot(sample: Document, status: Document | None) -> list[Text]:
    lines = [
        _text(f"GPU {printable(gpu['gpu'])}: {gpu['state']}, memory {_ago(gpu['age_seconds'])}", "bold yellow")
        for gpu in (status["gpus"] if status else ())
        if _is_silent(gpu)
    ]
    lines += [
        _text(f"GPU {printable(gpu['gpu'])}: {trouble}", "yellow")
        for gpu in sample["gpus"]
        for trouble in _troubles(gpu)
    ]
    lines += [_text(f"note: {printable(note)}", "dim") for note in (status["notes"] if status else ())]
    return lines


def _is_silent(gpu: Document) -> bool:
    """Whether what is shown of a GPU is old, or nothing, though nobody sent it to sleep."""
    age = gpu["age_seconds"]
    return gpu["state"] in {"stalled", "resetting", "lost"} or (
        gpu["state"] == "active" and (age is None or age > OLD_SECONDS)
    )


def _ago(seconds: float | None) -> str:
    return "never read" if seconds is None else f"read {span(seconds)} ago"


def _cramped(sample: Document, wish: Wish) -> Picture:
    """A window that is too small for a table: the GPUs in a few characters each, as many as fit."""
    gpus = sample["gpus"]
    room = wish.height - 1
    first = max(0, min(wish.first, len(gpus) - room))
    shown = gpus[first : first + room]
    these = f"{first + 1}-{first + len(shown)} of " if 0 < len(shown) < len(gpus) else ""
    lines = [_text(f"small: {these}{len(gpus)} GPUs", "bold")]
    for gpu in shown:
        temperature = _temperature(gpu).partition("/")[0]
        line = f"{printable(gpu['gpu'])} {_number(_share(gpu), '{:.0%}')} {temperature}C {gpu['state']}"
        lines.append(_text(line, _STYLES.get(gpu["state"], "")))
    return Picture([_cut(line, wish) for line in lines], len(gpus), room)
