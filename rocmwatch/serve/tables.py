"""The JSON documents as tables for a terminal; documents, as they come from a daemon as well as from this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from rocmwatch.serve.wording import size, span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Document = Mapping[str, Any]
NOTHING = "-"
NARROW = 104  # a terminal of fewer columns gets fewer columns of ours
PIPED_WIDTH = 160
_BAR_CELLS = 10
HEALTHY = frozenset({"active", "suspended"})


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


def print_sample(document: Document, stream: TextIO, *, clear: bool = False) -> None:
    """Writes `rocmwatch/sample/1` as a table, as wide as the terminal, where the stream is one.

    Args:
        document: The reading.
        stream: Where to.
        clear: Whether it takes the place of what the terminal shows.
    """
    from rich.console import Console  # noqa: PLC0415  # only who prints a table waits for it to be imported

    console = Console(file=stream, width=None if stream.isatty() else PIPED_WIDTH, highlight=False)
    if clear:
        console.clear()
    console.print(_sample_table(document, console))


def _sample_table(document: Document, console: Console) -> Table:
    """A row a GPU; `!` counts the reads that failed."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    narrow = console.width < NARROW
    table = Table(box=None, pad_edge=False, collapse_padding=narrow, header_style="bold")
    columns = [column for column in _SAMPLE_COLUMNS if not (narrow and column.wide)]
    simple = str.maketrans("█░", "#.", "°") if console.options.ascii_only else {}
    for column in columns:
        table.add_column(column.title.translate(simple), justify=column.justify, no_wrap=True)
    for gpu in document["gpus"]:
        style = None if gpu["state"] in HEALTHY else "bold red"
        table.add_row(*(Text(column.text(gpu).translate(simple)) for column in columns), style=style)
    return table


def status_lines(document: Document) -> list[str]:
    """`rocmwatch/status/1` in lines."""
    readers = document["readers"]
    rows = [
        ("GPUs", _states(document["gpus"])),
        *((f"GPU {gpu['gpu']}", _trouble(gpu)) for gpu in document["gpus"] if _is_in_trouble(gpu)),
        *((name, _freshness(source)) for name, source in sorted(document["sources"].items())),
        ("readers", f"{readers['restarts']} restarted, {readers['abandoned']} abandoned"),
    ]
    if document["root"]:
        rows.append(("root", f"{document['root']}, not this machine's own files"))
    if not document["config"]["last_reload_successful"]:
        rows.append(("config", "the last reload was refused; the configuration before it is in force"))
    rows += [("note", note) for note in document["notes"]]
    title = f"rocmwatch {document['version']} on {document['hostname']}, up {span(document['uptime_seconds'])}"
    return [title, *(f"  {label:<13}  {text}" for label, text in rows)]


def _states(gpus: Sequence[Document]) -> str:
    counts = Counter(gpu["state"] for gpu in gpus)
    told = ", ".join(f"{count} {state}" for state, count in counts.items())
    return f"{len(gpus)} ({told})" if told else "0"


def _is_in_trouble(gpu: Document) -> bool:
    return gpu["state"] not in HEALTHY or gpu["faults"] > 0


def _trouble(gpu: Document) -> str:
    count = gpu["faults"]
    faults = f", {count} failed read{'s' if count > 1 else ''}" if count else ""
    return f"{gpu['pci']} {gpu['state']}, memory {_ago(gpu['age_seconds'])}{faults}"


def _freshness(source: Document) -> str:
    took = source["duration_seconds"]
    return _ago(source["age_seconds"]) + ("" if took is None else f", took {took * 1000:.1f} ms")


def _ago(seconds: float | None) -> str:
    return "never read" if seconds is None else f"read {span(seconds)} ago"
