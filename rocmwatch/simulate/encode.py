"""Writes `gpu_metrics`: the other direction of rocmwatch.kernel.gpu_metrics, from the same layouts."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from rocmwatch.kernel.gpu_metrics_layouts import (
    ATTRIBUTE_REVISION,
    ATTRIBUTE_TABLE,
    ATTRIBUTE_TYPES,
    LAYOUTS,
    SIZES,
    WIDTHS,
    LayoutField,
)

Value = int | None | Sequence[int | None]

_ATTRIBUTES = {attribute.name: attribute for attribute in ATTRIBUTE_TABLE}


def encode(revision: tuple[int, int], fields: Mapping[str, Value]) -> bytes:
    """The bytes of the file.

    Args:
        revision: Format and content revision, e.g. (1, 5).
        fields: By the kernel's names. What is missing, `None`, or short of the array's length is written as all ones:
            not available, as the driver fills the table before it sets what it knows. Numbers that are too large wrap,
            as the kernel's do.

    Raises:
        KeyError: The revision has no such field.
    """
    if revision == ATTRIBUTE_REVISION:
        return _attributes(fields)
    layout = _by_name(revision)
    raw = bytearray(b"\xff" * SIZES[revision])
    struct.pack_into("<HBB", raw, 0, SIZES[revision], *revision)
    for name, value in fields.items():
        if value is not None:
            field = layout[name]
            _array(field.fmt, field.count).pack_into(raw, field.offset, *_numbers(value, field.fmt, field.count))
    return bytes(raw)


def _attributes(fields: Mapping[str, Value]) -> bytes:
    """Revision 1.9: each attribute behind a word that says its unit, type, number and count; nothing is aligned."""
    body = bytearray()
    for attribute in sorted(_ATTRIBUTES[name] for name in fields):
        kind = ATTRIBUTE_TYPES.index(attribute.fmt)
        body += struct.pack("<Q", attribute.unit << 24 | kind << 20 | attribute.number << 10 | attribute.count)
        numbers = _numbers(fields[attribute.name], attribute.fmt, attribute.count)
        body += _array(attribute.fmt, attribute.count).pack(*numbers)
    return struct.pack("<HBBi", 8 + len(body), *ATTRIBUTE_REVISION, len(fields)) + body


def _numbers(value: Value, fmt: str, count: int) -> list[int]:
    ones = (1 << 8 * WIDTHS[fmt]) - 1
    given = value if isinstance(value, Sequence) else (value,)
    numbers = [ones if number is None else number & ones for number in given[:count]]
    return numbers + [ones] * (count - len(numbers))


@lru_cache(maxsize=64)
def _by_name(revision: tuple[int, int]) -> dict[str, LayoutField]:
    return {field.name: field for field in LAYOUTS[revision]}


@lru_cache(maxsize=64)
def _array(fmt: str, count: int) -> struct.Struct:
    return struct.Struct(f"<{count}{fmt}")
