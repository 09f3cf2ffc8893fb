"""`thermal`: the air stops for one or two GPUs; they run hot, and slow down to stay below their limit.

Heat rises for a minute until it is just below the critical limit. The clock falls in steps, and power with it; the
residencies of the thermal limits count on. It stays so: fans do not mend themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from rocmwatch.simulate import motion
from rocmwatch.simulate.motion import State, draw
from rocmwatch.simulate.parts import Model, Sensor
from rocmwatch.simulate.scenarios.scene import BEGINS_AT, Cast, Scenario

_HEATS_IN_SECONDS = 18.0
_LIMIT_CELSIUS = 100  # of a sensor that names none
_BELOW_LIMIT = 1.5
# From when on (seconds) how much the firmware holds it down: as a step function, its integral is exact.
_STEPS = ((0.0, 0.0), (75.0, 0.25), (80.0, 0.5), (85.0, 0.75), (90.0, 1.0), (math.inf, 1.0))
_CLOCK_SHARE = 0.45  # of the clock, at most
_POWER_SHARE = 0.40  # of the power above idle
_TIME_SHARE = 0.8  # of the time, that the thermal limit is the one that holds it down


def _is_hot(cast: Cast, index: int) -> bool:
    """One GPU, and on half of the nodes that have more than a few another one."""
    second = 3 if cast.gpus > 3 and draw(cast.seed, "second hot GPU") < 0.5 else cast.victim
    return index in (cast.victim, second)


def _held_down(seconds: float) -> float:
    """How much, from 0 to 1."""
    return next(share for begin, share in reversed(_STEPS) if begin <= seconds)


def live(cast: Cast, index: int, seconds: float) -> State:
    """A GPU that serves, hot or not."""
    state = motion.healthy(cast.model, cast.seed, index, seconds)
    if seconds < BEGINS_AT or not _is_hot(cast, index):
        return state
    model = cast.model
    held_down = _held_down(seconds)
    above_idle = state.power_watts - model.power_idle_watts
    return replace(
        state,
        temperatures_celsius=_heated(model, state.temperatures_celsius, seconds),
        sclk_mhz=tuple(int(mhz * (1 - _CLOCK_SHARE * held_down)) for mhz in state.sclk_mhz),
        power_watts=model.power_idle_watts + above_idle * (1 - _POWER_SHARE * held_down),
        energy_joules=state.energy_joules - _POWER_SHARE * _missed_joules(cast, index, seconds),
        throttle={**state.throttle, **_residencies(model, seconds)},
        throttled=state.throttled | {"thermal"} if held_down else state.throttled,
    )


def _heated(model: Model, celsius: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Each sensor, on its way from where it would be to just below its limit."""
    part = 1 - math.exp((BEGINS_AT - seconds) / _HEATS_IN_SECONDS)
    tops = {sensor.label: _limit(sensor) - _BELOW_LIMIT for sensor in model.sensors}
    return {label: now + part * max(0.0, tops[label] - now) for label, now in celsius.items()}


def _limit(sensor: Sensor) -> int:
    return dict(sensor.limits_celsius).get("crit", _LIMIT_CELSIUS)


def _steps_until(seconds: float) -> list[tuple[float, float, float]]:
    """(begin, end, held down) of each step up to a moment."""
    return [(begin, min(end, seconds), share) for (begin, share), (end, _) in pairwise(_STEPS) if begin < seconds]


def _missed_joules(cast: Cast, index: int, seconds: float) -> float:
    """The energy above idle that it would have taken meanwhile, weighted by how much it was held down."""

    def joules(moment: float) -> float:
        idle = cast.model.power_idle_watts * (motion.UPTIME_SECONDS + moment)
        return motion.healthy(cast.model, cast.seed, index, moment).energy_joules - idle

    return sum(share * (joules(end) - joules(begin)) for begin, end, share in _steps_until(seconds) if share)


def _residencies(model: Model, seconds: float) -> dict[str, float]:
    """Socket first; the memory's own limit joins in where there are sensors for it."""
    held = sum(share * (end - begin) for begin, end, share in _steps_until(seconds))
    reasons = {"socket_thermal": _TIME_SHARE * held}
    if any(sensor.label == "mem" for sensor in model.sensors):
        reasons["hbm_thermal"] = 0.3 * _TIME_SHARE * held
    return reasons


THERMAL = Scenario(name="thermal", summary="one or two GPUs run hot and are throttled", live=live)
