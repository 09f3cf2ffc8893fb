"""A trend as a small drawing: an hour, a point a minute, drawn to the right end; gaps stay gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocmwatch.model import Trend

WIDTH = 60  # minutes
HEIGHT = 12
_MINUTE = 60.0


def sparkline(trend: Trend | None, low: float, high: float, label: str) -> str:
    """An SVG element; empty when there is nothing to draw.

    Args:
        trend: What to draw.
        low: The value at the bottom.
        high: The value at the top.
        label: What it says to whoever cannot see it; escaped.
    """
    columns = minutes(trend) if trend is not None else []
    if sum(value is not None for value in columns) < 2:
        return ""
    return (
        f'<svg class="spark" viewBox="0 -1 {WIDTH} {HEIGHT + 2}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}"><path d="{"".join(_path(columns, low, high))}"/></svg>'
    )


def minutes(trend: Trend) -> list[float | None]:
    """The largest value of each minute (of each step, where that is longer), the last one at the end."""
    per_column = max(1, round(_MINUTE / trend.step_seconds))
    points = trend.points[-WIDTH * per_column :]
    first = len(points) % per_column - per_column  # the columns end with the last point, and the first may be short
    starts = range(first, len(points), per_column) if first > -per_column else range(0, len(points), per_column)
    return [_largest(points[max(0, start) : start + per_column]) for start in starts]


def span_of(trend: Trend) -> tuple[float, float] | None:
    """The smallest and the largest value; `None` when there is none."""
    values = [value for value in trend.points if value is not None]
    return (min(values), max(values)) if values else None


def _largest(points: Sequence[float | None]) -> float | None:
    return max((point for point in points if point is not None), default=None)


def _path(columns: Sequence[float | None], low: float, high: float) -> Iterator[str]:
    """Relative lines of whole units: half of the bytes of absolute ones, and nobody sees the difference."""
    pen: tuple[int, int] | None = None
    room = high - low or 1.0
    for x, value in enumerate(columns, WIDTH - len(columns)):
        if value is None:
            pen = None
            continue
        y = HEIGHT - round(HEIGHT * min(1.0, max(0.0, (value - low) / room)))
        if pen is None:
            yield f"M{x} {y}h0"  # a round end makes a dot of a lonely point
        elif y == pen[1]:
            yield f"h{x - pen[0]}"
        else:
            yield f"l{x - pen[0]} {y - pen[1]}"
        pen = (x, y)
