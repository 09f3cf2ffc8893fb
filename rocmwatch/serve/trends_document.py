"""The last hour as a JSON document: `rocmwatch/trends/1`."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs

from rocmwatch.judge.trends import POINTS, slope_per_second
from rocmwatch.model import Trend, View
from rocmwatch.serve.wording import printable, rfc3339

Document = dict[str, object]
TRENDS_SCHEMA = "rocmwatch/trends/1"
_MOST_FIELDS = 100
_DIGITS = 9  # significant ones: 200 GB to the byte would be 12, and nobody sees them in a trend


class Wish(NamedTuple):
    """Which part of it is wanted; empty for all.

    Attributes:
        gpus: By ordinal or PCI address.
        names: Of trends.
        points: The last so many of each.
    """

    gpus: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    points: int = POINTS


def parse_wish(query: str) -> Wish:
    """The wish in a query like `gpu=0&name=power_watts&name=busy_gfx&points=60`.

    Raises:
        ValueError: When there is something else in it.
    """
    asked = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    unknown = sorted(asked.keys() - {"gpu", "name", "points"})
    if unknown:
        raise ValueError(f"unknown in the query: {printable(unknown[0])}; known are gpu, name, points")
    (points,) = asked.get("points", [str(POINTS)])[-1:]
    if not points.isdecimal() or not 1 <= int(points) <= POINTS:
        raise ValueError(f"points is a number from 1 to {POINTS}")
    return Wish(frozenset(asked.get("gpu", ())), frozenset(asked.get("name", ())), int(points))


def trends_document(view: View, wish: Wish = Wish()) -> Document:  # noqa: B008  # it is frozen
    """The trends of the node, as far as they are wanted."""
    return {
        "schema": TRENDS_SCHEMA,
        "taken_at": rfc3339(view.snapshot.taken_at),
        "gpus": [
            {
                "gpu": reading.gpu.gpu,
                "pci": reading.gpu.pci,
                "trends": {
                    name: _trend(trend, wish.points)
                    for name, trend in view.trends.get(reading.gpu.pci, {}).items()
                    if name in wish.names or not wish.names
                },
            }
            for reading in view.snapshot.gpus
            if not wish.gpus.isdisjoint((reading.gpu.gpu, reading.gpu.pci)) or not wish.gpus
        ],
    }


def _trend(trend: Trend, points: int) -> Document:
    slope = slope_per_second(trend)
    return {
        "step_seconds": trend.step_seconds,
        "ended_at": rfc3339(trend.ended_at),
        "slope_per_second": None if slope is None else _rounded(slope),
        "points": [None if point is None else _rounded(point) for point in trend.points[-points:]],
    }


def _rounded(value: float) -> float | int:
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
