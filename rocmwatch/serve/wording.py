"""How values are put into words: for labels, JSON and people."""

from __future__ import annotations

from datetime import datetime, timezone

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def printable(text: str) -> str:
    """A text that any encoder takes and any terminal survives.

    What the kernel hands out (product names, serial numbers) is cleaned where it is read. This is the second fence:
    a single lone surrogate would otherwise fail a whole scrape.

    Returns:
        The text itself when it is harmless, else with every unprintable character as a backslash escape.
    """
    if text.isprintable():  # false for surrogates and control characters alike
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def rfc3339(moment: float) -> str:
    """Unix seconds as `2026-03-01T12:00:00.250Z`."""
    return datetime.fromtimestamp(moment, tz=timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size(count: float, fixed_unit: str | None = None) -> str:
    """Bytes as `191.5 GiB`: binary units, three or four digits that count; only the number for a unit that is given."""
    value = float(count)
    if fixed_unit is not None:
        return f"{value / 1024 ** _BINARY.index(fixed_unit):.1f}"
    for unit in _BINARY:
        if abs(value) < 1024 or unit == _BINARY[-1]:
            return f"{value:.0f} {unit}" if value >= 1000 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError  # the last unit takes everything


def span(seconds: float) -> str:
    """A length of time in its two largest units: `4 s`, `2 min 5 s`, `3 d 4 h`."""
    whole = max(0, round(seconds))
    parts = [(whole // 86400, "d"), (whole % 86400 // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s")]
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count or unit == parts[first][1])
