"""Writes `gpu_metrics`: the other direction of rocmwatch.kernel.gpu_metrics, from the same layouts."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rocmwatch.kernel.gpu_metrics_layouts import (
    ATTRIBUTE_REVISION,
    ATTRIBUTE_TABLE,
    ATTRIBUTE_TYPES,
    HEADER_BYTES,
    LAYOUTS,
    SIZES,
    WIDTHS,
    XCP_ATTRIBUTE_REVISION,
    XCP_LAYOUTS,
    XCP_SIZES,
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
        return _attributes(revision, sorted(fields, key=_number_of), fields)
    return _packed(_compiled(revision, of_partition=False), fields)


def encode_partition(revision: tuple[int, int], fields: Mapping[str, Value]) -> bytes:
    """The bytes of a partition's own `xcp_metrics`; as `encode`, but attributes come in the order of the fields."""
    if revision == XCP_ATTRIBUTE_REVISION:
        return _attributes(revision, fields, fields)
    return _packed(_compiled(revision, of_partition=True), fields)


def _packed(layout: _Layout, fields: Mapping[str, Value]) -> bytes:
    numbers = list(layout.blank)
    for name, value in fields.items():
        start, count, ones = layout.positions[name]
        if isinstance(value, int):
            numbers[start] = value & ones
        elif value is not None:
            numbers[start : start + count] = _numbers(value, ones, count)
    return layout.struct.pack(*numbers)


def _number_of(name: str) -> int:
    return _ATTRIBUTES[name].number


def _attributes(revision: tuple[int, int], names: Iterable[str], fields: Mapping[str, Value]) -> bytes:
    """A list of attributes, each behind a word that says its unit, type, number and count; nothing is aligned."""
    body = bytearray()
    for attribute in (_ATTRIBUTES[name] for name in names):
        kind = ATTRIBUTE_TYPES.index(attribute.fmt)
        body += struct.pack("<Q", attribute.unit << 24 | kind << 20 | attribute.number << 10 | attribute.count)
        numbers = _numbers(fields[attribute.name], _ones(attribute.fmt), attribute.count)
        body += struct.pack(f"<{attribute.count}{attribute.fmt}", *numbers)
    return struct.pack("<HBBi", 8 + len(body), *revision, len(fields)) + body


def _numbers(value: Value, ones: int, count: int) -> list[int]:
    given = value if isinstance(value, Sequence) else (value,)
    numbers = [ones if number is None else number & ones for number in given[:count]]
    return numbers + [ones] * (count - len(numbers))


def _ones(fmt: str) -> int:
    return (1 << 8 * WIDTHS[fmt]) - 1


class _Layout(NamedTuple):
    """A revision, ready to be packed.

    Attributes:
        struct: All of it; bytes between fields are fields of their own.
        blank: A number for each of them: the header, and all ones.
        positions: Field -> where its numbers begin, how many they are, and all ones of its width.
    """

    struct: struct.Struct
    blank: tuple[int, ...]
    positions: dict[str, tuple[int, int, int]]


@lru_cache(maxsize=32)
def _compiled(revision: tuple[int, int], *, of_partition: bool) -> _Layout:
    size = (XCP_SIZES if of_partition else SIZES)[revision]
    fields = (XCP_LAYOUTS if of_partition else LAYOUTS)[revision]
    formats = ["<HBB"]
    blank = [size, *revision]
    positions = {}
    at = HEADER_BYTES
    for field in fields:
        gap = field.offset - at
        ones = _ones(field.fmt)
        positions[field.name] = len(blank) + gap, field.count, ones
        formats.append(f"{gap}B{field.count}{field.fmt}")
        blank += [0xFF] * gap + [ones] * field.count
        at = field.offset + field.count * WIDTHS[field.fmt]
    formats.append(f"{size - at}B")
    blank += [0xFF] * (size - at)
    return _Layout(struct.Struct("".join(formats)), tuple(blank), positions)
