"""The kinds of values an option can take, each with its one way of being written and of being refused.

A refusal is a ValueError whose text goes on after the option's name: `sampling.interval` + ` "5" has no unit; ...`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rocmwatch.config.document import quoted

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|min|h|d)")
_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]")
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")


def word(value: object, example: str) -> str:
    """The value as one word; refuses an empty value, a list and a mapping."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ValueError(f"has no value; write {example}, or remove the line")
    raise ValueError(f"takes one value, not {kind_of(value)}; write {example}")


def kind_of(value: object) -> str:
    """What a person would call the value."""
    if isinstance(value, dict):
        return "a section with keys"
    if isinstance(value, list):
        return "a list"
    return quoted(str(value))


def parse_duration(text: str) -> float:
    """`100ms 5s 1.5min 2h 1d` -> seconds, to the millisecond."""
    match = _DURATION.fullmatch(text)
    if match is not None:
        return round(float(match[1]) * _MILLISECONDS[match[2]]) / 1000
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise ValueError(f"{quoted(text)} has no unit; write {text[:20]}s for seconds")
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?m", text):
        raise ValueError(f"{quoted(text)} could be minutes or milliseconds; write {text[:20]}in or {text[:20]}s")
    raise ValueError(f"{quoted(text)} is no duration; write a number and its unit (ms, s, min, h, d), such as 5s")


def format_duration(seconds: float) -> str:
    """Seconds -> the shortest way to write them; `parse_duration` reads it back."""
    milliseconds = round(seconds * 1000)
    for unit, factor in _MILLISECONDS.items():
        if milliseconds and milliseconds % factor == 0:
            return f"{milliseconds // factor}{unit}"
    return "0s"


@dataclass(frozen=True)
class Duration:
    """An option that is a duration, in seconds.

    Attributes:
        least: The shortest one that is taken, as it is written.
        most: The longest one.
        why: Why none is shorter.
    """

    least: str
    most: str
    why: str

    def parse(self, value: object) -> float:
        """The value in seconds. A number is in seconds already: it comes from code, where YAML gives text."""
        if isinstance(value, (int, float)):
            seconds = float(value)
        else:
            seconds = parse_duration(word(value, "a duration such as 5s"))
        if seconds < parse_duration(self.least):
            raise ValueError(f"{format_duration(seconds)} is below the least, {self.least}: {self.why}")
        if seconds > parse_duration(self.most):
            raise ValueError(f"{format_duration(seconds)} is above the most, {self.most}")
        return seconds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            self.parse,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(format_duration),
        )

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^{_DURATION.pattern}$"}


def _parse_switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = word(value, "true or false")
    if text.lower() not in _SWITCH:
        raise ValueError(f"{quoted(text)} is neither true nor false")
    return _SWITCH[text.lower()]


Switch = Annotated[bool, BeforeValidator(_parse_switch)]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens.

    Attributes:
        host: A name or address without brackets; empty for all addresses of the host.
        port: 1 to 65535.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, value: object) -> Address:
        """`127.0.0.1:19300`, `[::1]:19300`, `localhost:19300`, or `:19300` for all addresses."""
        if isinstance(value, Address):
            return value
        text = word(value, '"127.0.0.1:19300"')
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError(f'{quoted(text)} has no port; write "127.0.0.1:19300", or ":19300" for all addresses')
        if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
            raise ValueError(f"{quoted(text)} does not end in a port from 1 to 65535")
        if not _is_host(host):
            raise ValueError(f'{quoted(text)} names no host; write "127.0.0.1:{port}", "[::1]:{port}" or ":{port}"')
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.to_string_ser_schema(when_used="always"),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": "^.*:[0-9]{1,5}$"}


def _is_host(host: str) -> bool:
    """Whether it is nothing (all addresses), a name, an IPv4 address, or an IPv6 address in brackets."""
    if not host:
        return True
    try:
        if (match := _IPV6.fullmatch(host)) is not None:
            ipaddress.IPv6Address(match[1])
        elif re.fullmatch(r"[0-9.]+", host):
            ipaddress.IPv4Address(host)
        else:
            return len(host) <= 253 and _HOST_NAME.fullmatch(host) is not None
    except ValueError:
        return False
    return True
