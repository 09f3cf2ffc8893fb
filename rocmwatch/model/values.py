"""Mappings that are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def frozen(values: Mapping[_Key, _Value]) -> Mapping[_Key, _Value]:
    """A read-only copy of a mapping."""
    return MappingProxyType(dict(values))


EMPTY: Mapping[str, float] = frozen({})


def empty() -> Mapping[str, float]:
    """What a field is without values."""
    return EMPTY  # dataclasses refuse it as a default, up to Python 3.11
