"""What several revisions of `gpu_metrics` have in common."""

from __future__ import annotations

from rocmwatch.simulate.encode import Value
from rocmwatch.simulate.motion import UPTIME_SECONDS, State
from rocmwatch.simulate.parts import Model

Fields = dict[str, Value]

ACTIVITY_PER_SECOND = 100_000  # the accumulators' unit is the firmware's own; only their growth says something
_ENERGY_UNITS_PER_JOULE = 1 << 16  # 15.259 uJ each
_NOT_AVAILABLE = (1 << 32) - 1


def counters(state: State) -> dict[str, int]:
    """What only grows."""
    return {
        "energy_accumulator": int(state.energy_joules * _ENERGY_UNITS_PER_JOULE),
        "system_clock_counter": nanoseconds(state),
        "gfx_activity_acc": int(ACTIVITY_PER_SECOND * state.busy_gfx_seconds),
        "mem_activity_acc": int(ACTIVITY_PER_SECOND * state.busy_memory_seconds),
        "firmware_timestamp": nanoseconds(state) // 10,
    }


def millijoules(state: State) -> int:
    """How a Radeon counts energy in the same field: in another unit, and in 32 bits."""
    return int(1000 * state.energy_joules) % _NOT_AVAILABLE


def link(model: Model) -> Fields:
    """The link to the host: lanes, and speed in 0.1 GT/s."""
    speed, width = model.link
    return {"pcie_link_width": width, "pcie_link_speed": int(10 * float(speed.split()[0]))}


def nanoseconds(state: State) -> int:
    """Since the boot."""
    return int((UPTIME_SECONDS + state.seconds) * 1e9)
