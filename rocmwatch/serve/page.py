"""The page at `/`: the node's GPUs for a person with a browser, rendered here, without a script.

It refreshes itself by loading anew. What is unfolded stands in its address, so that it stays unfolded; and so does the
reader's wish that it stand still, as loading anew takes the keyboard's focus away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rocmwatch.model import GpuReading, GpuState, Snapshot, View
from rocmwatch.serve.page_cells import COLUMNS, UNKNOWN, Scene, partitions, small, text, troubles, warnings
from rocmwatch.serve.page_style import STYLE
from rocmwatch.serve.wording import span

_REFRESH_SECONDS = 10
_LINKS = (
    ("/metrics", "Metrics for Prometheus"),
    ("/api/v1/snapshot", "This reading as JSON"),
    ("/api/v1/holders", "Who holds the memory, as JSON"),
    ("/api/v1/trends", "The last hour as JSON"),
    ("/api/v1/status", "Status as JSON"),
    ("/-/healthy", "Health"),
)
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='%235f9fe0'%3E"
    "%3Cpath d='M0 10h4v6H0zM6 6h4v10H6zM12 2h4v14h-4z'/%3E%3C/svg%3E"
)


class Wish(NamedTuple):
    """What the reader wants of the page.

    Attributes:
        unfolded: The ordinals of the GPUs whose partitions are shown.
        is_still: Whether the page stays as it is, and does not load anew.
    """

    unfolded: Collection[str] = ()
    is_still: bool = False


_NO_WISH = Wish()


def _address(unfolded: Sequence[str], *, is_still: bool) -> str:
    """Where a page like this is, escaped for an attribute."""
    wishes = [f"open={text(gpu)}" for gpu in unfolded] + ["still=1"] * is_still
    return "/?" + "&amp;".join(wishes) if wishes else "/"


def _table(snapshot: Snapshot, scenes: Sequence[Scene]) -> Iterator[str]:
    if not scenes:
        known = "No AMD GPU is bound to the amdgpu driver on this node."
        yield f'<p class="warn">{known if snapshot.listed else "Which GPUs this node has is not known so far."}</p>'
        return
    # With display: block, browsers forget that a table is one: the roles say it again.
    yield '<table class="sheet" role="table" id="gpus"><thead role="rowgroup"><tr role="row">'
    yield "".join(f'<th scope="col" role="columnheader">{column.heading}</th>' for column in COLUMNS)
    yield "</tr></thead>"
    for scene in scenes:
        yield '<tbody role="rowgroup"><tr role="row">'
        for column in COLUMNS:
            content = column.cell(scene)
            style = column.style if content != UNKNOWN else "none"
            yield f'<td role="cell" class="{style}" data-label="{column.heading}">{content}</td>'
        yield "</tr>"
        yield from warnings(scene)
        yield from partitions(scene)
        yield "</tbody>"
    yield "</table>"


def _unfolded(view: View | None, wish: Wish) -> list[str]:
    """What is wished for and there: nothing else of the address comes back. Any number, until that is known."""
    if view is None or not view.snapshot.listed:
        return sorted(one for one in wish.unfolded if one.isascii() and one.isdigit())
    return [reading.gpu.gpu for reading in view.snapshot.gpus if reading.gpu.gpu in wish.unfolded]


def _scene(view: View, reading: GpuReading, now: float, wish: Wish) -> Scene:
    gpu = reading.gpu.gpu
    unfolded = _unfolded(view, wish)
    others = [other for other in unfolded if other != gpu]
    wanted = others if gpu in unfolded else [*others, gpu]
    return Scene(
        reading=reading,
        now=now,
        trends=view.trends.get(reading.gpu.pci, {}),
        is_open=gpu in unfolded,
        fold=_address(wanted, is_still=wish.is_still),
    )


def _list(heading: str, items: list[str]) -> Iterator[str]:
    if items:
        yield f'<h2>{heading}</h2><ul class="sheet">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def _sources(snapshot: Snapshot, now: float) -> str:
    ages = (
        (name, "never" if source.last_success_at is None else f"{span(now - source.last_success_at)} ago")
        for name, source in snapshot.sources.items()
    )
    return " · ".join(f"{text(name)} {age}" for name, age in ages)


def _states(scenes: Sequence[Scene]) -> Iterator[str]:
    for state in GpuState:
        count = sum(scene.reading.state is state for scene in scenes)
        if count:
            yield f"{count} {state.value}"
    troubled = sum(any(troubles(scene)) for scene in scenes)
    if troubled:
        yield f'<span class="old">{troubled} with trouble</span>'


def _pace(view: View, wish: Wish) -> str:
    """How often it loads anew, and the link to change that."""
    words = ("Stands still", "refresh again") if wish.is_still else (f"Refreshes every {_REFRESH_SECONDS} s", "stop")
    there = _address(_unfolded(view, wish), is_still=not wish.is_still)
    return f'{words[0]} · <a href="{there}">{words[1]}</a>'


def _headline(view: View, now: float, wish: Wish, scenes: Sequence[Scene]) -> Iterator[str]:
    gpus = view.snapshot.gpus
    states = ", ".join(_states(scenes))
    driver = view.snapshot.driver_version
    yield f"<h1>{text(view.hostname)}</h1><p>{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
    yield f": {states}</p>" if states else "</p>"
    yield f'<p class="soft">rocmwatch {text(view.version)}, up {span(now - view.started_at)}'
    yield f" · driver {text(driver)}" if driver else ""
    yield f'</p><p class="soft">{_pace(view, wish)}</p>'
    if not view.config_last_reload_successful:
        yield '<p class="warn">The last reload of the configuration was refused; the one before it is in force.</p>'
    if view.root not in {"", "/"}:
        yield f'<p class="soft">Reads the tree {text(view.root)}, not this host.</p>'


def _body(view: View, now: float, wish: Wish) -> Iterator[str]:
    snapshot = view.snapshot
    scenes = [_scene(view, reading, now, wish) for reading in snapshot.gpus]
    yield '<a class="skip" href="#gpus">Skip to the GPUs</a><header>'
    yield from _headline(view, now, wish, scenes)
    yield "</header><main>"
    yield from _table(snapshot, scenes)
    yield from _list(
        "Reads that failed",
        [
            f"GPU {text(reading.gpu.gpu)}: {text(fault.source)} {text(fault.errno)}{small(text(fault.path))}"
            for reading in snapshot.gpus
            for fault in reading.faults
        ],
    )
    yield from _list("Notes", [text(note) for note in snapshot.notes])
    if snapshot.sources:
        yield f'<p class="soft ages">Last read: {_sources(snapshot, now)}</p>'
    yield "</main>"


def _refresh(view: View | None, wish: Wish) -> str:
    # It says where to: an address with a #fragment, to which the links that unfold lead, would not be loaded anew.
    if wish.is_still and view is not None:
        return ""
    there = _address(_unfolded(view, wish), is_still=wish.is_still)
    return f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS};url={there}">'


def render_page(view: View | None, now: float, wish: Wish = _NO_WISH) -> str:
    """The page as it is at a moment.

    Args:
        view: What is published; None before the first tick.
        now: Unix seconds: what ages are counted from.
        wish: What the reader wants.
    """
    if view is None:
        title, body = "rocmwatch", "<main><h1>rocmwatch</h1><p>The GPUs have not been read yet.</p></main>"
    else:
        title, body = f"{text(view.hostname)} - rocmwatch", "".join(_body(view, now, wish))
    links = "".join(f'<a href="{link}">{words}</a>' for link, words in _LINKS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{_refresh(view, wish)}<title>{title}</title>"
        f'<link rel="icon" href="{_ICON}"><style>{STYLE}</style></head>'
        f"<body>{body}<footer>{links}</footer></body></html>\n"
    )
