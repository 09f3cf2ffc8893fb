"""How a simulated GPU lives: pure functions of the seed and the simulated time, so that any moment can be asked for.

Work is a sum of sines around a mean, because its integral is exact: counters are that integral, and whatever lags
behind the power is its mean over the last seconds. Nothing is remembered from step to step.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rocmwatch.simulate import blocks
from rocmwatch.simulate.parts import MIB, Model

UPTIME_SECONDS = 86_400.0  # the node was up for a day when the simulation began
GTT_FLOOR_BYTES = 24 * MIB  # what the driver itself has of the host's memory
_AMBIENT_CELSIUS = 31.0
_IDLE_WORK = 0.002  # an idle GPU still does something: counters never stand still
_POWER_LAG_SECONDS = 2.0
_MEMORY_SHARE = 0.7  # decoding is bound by memory
_POWER_LIMITED_SHARE = 0.03  # of its work is done with clocks held down by the power limit, as is usual
_XGMI_BYTES_PER_SECOND = 1_024_000_000  # to each neighbour, while it works


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one GPU is and does at one moment.

    Attributes:
        seconds: Simulated seconds since the start.
        free_blocks: The VRAM allocator's free blocks by order; their bytes are total - used.
        clear_free_bytes: The free bytes that are already wiped.
        temperatures_celsius: By hwmon label.
        sclk_mhz: Of each compute die (XCC).
        energy_joules: Since boot.
        busy_gfx_seconds: Work done since boot: the integral of `busy_gfx`.
        evicted_bytes: Of buffers that belong into VRAM and were moved to the host's memory, as there was no room.
        evicted_seconds: For how long queues were stopped because of that, since boot.
        throttle: By reason, for how many seconds since boot the clocks were held down: `prochot`, `power`,
            `socket_thermal`, `vr_thermal`, `hbm_thermal`. A reason that is missing never did.
        throttled: Why they are held down at this moment: `power`, `current`, `thermal`, `prochot`.
        ras: By (block, severity), hardware errors since boot: `correctable`, `uncorrectable`, `deferred`. What is
            missing is 0.
        xgmi_bytes: What it has read over each of its links to other GPUs since boot; it has written nine tenths of it.
    """

    seconds: float
    vram_used_bytes: int
    gtt_used_bytes: int
    free_blocks: Mapping[int, int]
    clear_free_bytes: int
    busy_gfx: float
    busy_memory: float
    power_watts: float
    temperatures_celsius: Mapping[str, float]
    sclk_mhz: tuple[int, ...]
    mclk_mhz: int
    energy_joules: float
    busy_gfx_seconds: float
    busy_memory_seconds: float
    evicted_bytes: int = 0
    evicted_seconds: float = 0.0
    throttle: Mapping[str, float] = field(default_factory=dict)
    throttled: frozenset[str] = frozenset()
    ras: Mapping[tuple[str, str], int] = field(default_factory=dict)
    xgmi_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One GPU's way from idle to serving: it waits, loads weights, reserves its KV cache and serves in waves.

    Attributes:
        load_at: When weights begin to arrive, seconds.
        serve_at: When the KV cache is reserved and requests come in.
        weights_ratio: The weights' share of the pool.
        reserved_ratio: The pool's share that is in use from then on.
        waves: (amplitude, angular frequency, phase) of the work around its mean.
    """

    load_at: float
    serve_at: float
    weights_ratio: float
    reserved_ratio: float
    loading_work: float
    serving_work: float
    waves: tuple[tuple[float, float, float], ...]

    def work(self, seconds: float) -> float:
        """How busy it is, 0 to 1."""
        if seconds < self.load_at:
            return _IDLE_WORK
        if seconds < self.serve_at:
            return self.loading_work
        return self.serving_work + sum(a * math.sin(w * seconds + p) for a, w, p in self.waves)

    def work_done(self, seconds: float) -> float:
        """The integral of `work` from the boot to that moment."""
        done = _IDLE_WORK * (UPTIME_SECONDS + min(seconds, self.load_at))
        if seconds > self.load_at:
            done += self.loading_work * (min(seconds, self.serve_at) - self.load_at)
        if seconds > self.serve_at:
            done += self.serving_work * (seconds - self.serve_at)
            done += sum(a / w * (math.cos(w * self.serve_at + p) - math.cos(w * seconds + p)) for a, w, p in self.waves)
        return done

    def mean_work(self, seconds: float, lag_seconds: float) -> float:
        """The mean of `work` over the last seconds: what a thing that lags behind has seen of it."""
        return (self.work_done(seconds) - self.work_done(seconds - lag_seconds)) / lag_seconds


def draw(seed: int, *names: object) -> float:
    """A number from 0 to below 1 that depends on the seed and the names alone."""
    return int.from_bytes(_digest(6, seed, *names), "big") / (1 << 48)


def _digest(size: int, *names: object) -> bytes:
    return hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=size).digest()


@lru_cache(maxsize=256)
def healthy_course(seed: int, index: int) -> Course:
    """The course of a GPU that serves a model: all GPUs of a node start within two seconds of each other."""

    def spread(name: str, low: float, high: float) -> float:
        return low + (high - low) * draw(seed, index, name)

    load_at = spread("load", 3.0, 5.0)
    return Course(
        load_at=load_at,
        serve_at=load_at + 20.0 + 10.0 * draw(seed, "load takes"),
        weights_ratio=0.30 + 0.15 * draw(seed, "weights"),
        reserved_ratio=0.90,
        loading_work=0.08,
        serving_work=spread("serving", 0.52, 0.60),
        waves=(
            (0.24, 2 * math.pi / spread("slow", 90, 150), spread("slow phase", 0, 2 * math.pi)),
            (0.10, 2 * math.pi / spread("quick", 11, 19), spread("quick phase", 0, 2 * math.pi)),
            (0.03, 2 * math.pi / spread("ripple", 2.1, 3.9), spread("ripple phase", 0, 2 * math.pi)),
        ),
    )


def healthy(model: Model, seed: int, index: int, seconds: float) -> State:
    """A GPU that loads a model and then serves it, with nothing wrong.

    Args:
        model: What GPU it is.
        seed: Gives this node its own numbers.
        index: Which GPU of the node.
        seconds: Simulated time since the start, 0 or more.
    """
    return along(healthy_course(seed, index), model, seed, index, seconds)


def idle(model: Model, seed: int, index: int, seconds: float) -> State:
    """A GPU that nobody uses."""
    never = replace(healthy_course(seed, index), load_at=math.inf, serve_at=math.inf)
    return along(never, model, seed, index, seconds)


def along(course: Course, model: Model, seed: int, index: int, seconds: float) -> State:
    """A GPU somewhere along its course."""
    work = course.work(seconds)
    recent = course.mean_work(seconds, _POWER_LAG_SECONDS)
    done = course.work_done(seconds)
    held = {"vram": model.vram_floor_bytes, "gtt": GTT_FLOOR_BYTES}
    total = {"vram": model.vram_total_bytes, "gtt": model.gtt_total_bytes}
    held[model.pool] += _engine_bytes(course, total[model.pool] - held[model.pool], seconds)
    if model.pool == "vram":
        staging = 1536 if course.load_at <= seconds < course.serve_at else 96 + int(64 * work)
        held["gtt"] += staging * MIB
    free = model.vram_total_bytes - held["vram"]
    crumbs = tuple(byte % 5 for byte in _digest(13, seed, index, held["vram"] >> 26))
    range_watts = 0.92 * model.power_cap_watts - model.power_idle_watts
    return State(
        seconds=seconds,
        vram_used_bytes=held["vram"],
        gtt_used_bytes=held["gtt"],
        free_blocks=blocks.split(free, model.vram_total_bytes, crumbs),
        clear_free_bytes=free // 8,
        busy_gfx=work,
        busy_memory=_MEMORY_SHARE * work,
        power_watts=model.power_idle_watts + range_watts * recent,
        temperatures_celsius={
            sensor.label: _AMBIENT_CELSIUS
            + (index % 4)
            + sensor.above_ambient * (0.12 + 0.88 * course.mean_work(seconds, sensor.lag_seconds))
            for sensor in model.sensors
        },
        sclk_mhz=_sclk(model, work),
        mclk_mhz=model.mclk.levels_mhz[-1] if work > 0.2 else model.mclk.idle_mhz,
        energy_joules=model.power_idle_watts * (UPTIME_SECONDS + seconds) + range_watts * done,
        busy_gfx_seconds=done,
        busy_memory_seconds=_MEMORY_SHARE * done,
        throttle={"power": _POWER_LIMITED_SHARE * done},
        xgmi_bytes=int(_XGMI_BYTES_PER_SECOND * _MEMORY_SHARE * done),
    )


def _engine_bytes(course: Course, room: int, seconds: float) -> int:
    """What the engine holds of its pool: nothing, a part of the weights, or what it reserved and some moves."""
    if seconds < course.load_at:
        return 0
    if seconds < course.serve_at:
        part = (seconds - course.load_at) / (course.serve_at - course.load_at)
        return _whole(course.weights_ratio * room * min(1.0, part * 1.15), 256 * 1024)
    moves = 0.004 * room * (course.work(seconds) - course.serving_work)
    return _whole(course.reserved_ratio * room, 2 * MIB) + _whole(moves, 64 * 1024)


def _whole(value: float, unit: int) -> int:
    return int(value // unit) * unit


def _sclk(model: Model, work: float) -> tuple[int, ...]:
    """Graphics clocks: idle, or near the top and lower the more there is to do, each die a little on its own."""
    if work < 0.02:
        return (model.sclk.idle_mhz,) * model.xcc_count
    top = model.sclk.levels_mhz[-1]
    return tuple(int(top * (1.0 - 0.16 * work)) - 3 * (die % 3) for die in range(model.xcc_count))
