"""Which file of a card's hwmon folder holds which reading.

    temp2_label: junction   temp2_input: 61000   temp2_crit: 100000   temp2_emergency: 105000      (milli-degrees C)
    freq1_label: sclk       freq1_input: 1700000000                                                (Hz)
    power1_average: 412000000   or   power1_input: 587000000   power1_cap: 750000000               (uW)

Sensors are told by their label and never by their number: an MI300 has temp2 and temp3 and no temp1. MI300 has only
power1_input, MI200 and Radeon only power1_average, new APUs both. The second die of an MI250 reports a power and a cap
of 0, as its sister reports for both: that is absence and no measurement.
Source: drivers/gpu/drm/amd/pm/amdgpu_pm.c (hwmon attributes); Documentation/gpu/amdgpu/thermal.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rocmwatch.kernel.number import parse_text


class Reading(NamedTuple):
    """A file and what its number means.

    Attributes:
        name: The model's name for it.
        file: In the hwmon folder.
        scale: What to multiply the number with to come to the base unit.
        low: The smallest number that can be true, in the kernel's unit.
        high: The largest one.
        zero_is_absent: Whether 0 stands for "no such sensor here".
    """

    name: str
    file: str
    scale: float
    low: int
    high: int
    zero_is_absent: bool


class HwmonPlan(NamedTuple):
    """What to read on every tick, and what seldom changes."""

    readings: tuple[Reading, ...]
    limits: tuple[Reading, ...]


class _Unit(NamedTuple):
    scale: float
    low: int
    high: int
    zero_is_absent: bool


_CELSIUS = _Unit(0.001, 1, 200_000, zero_is_absent=False)
_WATTS = _Unit(1e-6, 0, 10_000_000_000, zero_is_absent=True)
_HERTZ = _Unit(1.0, 0, 10_000_000_000, zero_is_absent=False)

SENSORS: dict[tuple[str, str], str] = {
    ("temp", "edge"): "edge",
    ("temp", "junction"): "junction",
    ("temp", "mem"): "memory",
    ("freq", "sclk"): "sclk",
    ("freq", "mclk"): "mclk",
}
_POWER = ("power1_input", "power1_average")  # the first of them that is there
_LIMITS = (("critical", "crit"), ("emergency", "emergency"))
_LABEL = re.compile(r"(temp|freq)([0-9]{1,3})_label")


def plan(files: Mapping[str, bytes]) -> HwmonPlan:
    """Chooses the files to read.

    Args:
        files: Every name in the hwmon folder; for the `*_label` files with their bytes, else with b"".
    """
    sensors = _sensors(files)
    readings = []
    limits = []
    for kind, number, sensor in sensors:
        if f"{kind}{number}_input" in files:
            name = f"temperature_{sensor}" if kind == "temp" else f"clock_{sensor}"
            unit = _CELSIUS if kind == "temp" else _HERTZ
            readings.append(Reading(name, f"{kind}{number}_input", *unit))
        for limit, suffix in _LIMITS:
            if kind == "temp" and f"temp{number}_{suffix}" in files:
                limits.append(Reading(f"limit_{limit}_{sensor}", f"temp{number}_{suffix}", *_CELSIUS))
    power = next((file for file in _POWER if file in files), None)
    if power is not None:
        readings.append(Reading("power", power, *_WATTS))
    if "power1_cap" in files:
        limits.append(Reading("power_cap", "power1_cap", *_WATTS))
    return HwmonPlan(tuple(readings), tuple(limits))


def _sensors(files: Mapping[str, bytes]) -> list[tuple[str, str, str]]:
    """(kind, number, sensor) of the labelled sensors, each sensor once, in the order of the table."""
    found: dict[tuple[str, str], str] = {}
    labelled = False
    for name in sorted(files):
        match = _LABEL.fullmatch(name)
        if match is None:
            continue
        labelled = labelled or match[1] == "temp"
        found.setdefault((match[1], parse_text(files[name]) or ""), match[2])
    if not labelled:  # kernels before the labels knew one temperature
        found["temp", "edge"] = "1"
    return [(key[0], found[key], sensor) for key, sensor in SENSORS.items() if key in found]
