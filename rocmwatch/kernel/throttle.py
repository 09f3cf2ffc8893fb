"""Why a card holds its clocks down: what gpu_metrics says about it, in two ways.

Instinct cards from MI300 on (1.6 to 1.9) *accumulate*: `accumulation_counter` counts the firmware's rounds, each
`*_residency_acc` the rounds in which that reason held the clocks down. Only the difference of two readings means
something: the share of the time between them. 32 bits in 1.6 to 1.8, which wrap after weeks; 64 bits in 1.9.
The others (1.3, and 2.2 on) say what holds *now*, bit by bit (`indep_throttle_status`), in numbers that are the same
for all cards: 0-15 power limits, 16-31 current limits, 32-45 temperatures (44 and 45: a regulator that is too hot),
46-47 PROCHOT, a line by which another part of the machine asks for it. 56 and 57 (PPM, FIT) are none of these.
Source: drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h (SMU_THROTTLER_*_BIT), smu_v13_0_6_ppt.c.
"""

from __future__ import annotations

from collections.abc import Mapping

ACCUMULATED = (  # the kernel's fields, in the order in which they travel
    "accumulation_counter",
    "prochot_residency_acc",
    "ppt_residency_acc",
    "socket_thm_residency_acc",
    "vr_thm_residency_acc",
    "hbm_thm_residency_acc",
)
REASONS = ("prochot", "power", "socket_thermal", "vr_thermal", "hbm_thermal")  # of all but the first of them

_NOW = {
    "power": 0xFFFF,
    "current": 0xFFFF << 16,
    "thermal": 0x3FFF << 32,
    "prochot": 0x3 << 46,
}
_WORD = 32  # bits of a counter that may wrap


def throttled_now(status: int) -> dict[str, int]:
    """1 for each reason that holds at this moment, 0 for the others.

    Args:
        status: `indep_throttle_status`.
    """
    return {reason: int(status & mask != 0) for reason, mask in _NOW.items()}


class ThrottleMeter:
    """Turns accumulators into shares of time, from one reading to the next."""

    __slots__ = ("_bits", "_numbers")

    def __init__(self) -> None:
        self._bits = 0
        self._numbers: tuple[int, ...] = ()

    def forget(self) -> None:
        """What comes next has nothing to do with what was: the card slept, was reset, or could not be read."""
        self._bits, self._numbers = 0, ()

    def update(self, bits: int, numbers: tuple[int, ...]) -> Mapping[str, float]:
        """The shares since the last reading, by reason.

        Args:
            bits: The width of the counters; all ones is "not available".
            numbers: In the order of ACCUMULATED; nothing where the card does not count.

        Returns:
            Nothing at a first reading, when the counter stood still or began anew, or when a share came out above 1:
            the counters are not of one run of the firmware then, and no part of them is believed.
        """
        before = self._numbers if bits == self._bits else ()
        self._bits, self._numbers = bits, numbers
        if not numbers or not before:
            return {}
        missing = (1 << bits) - 1
        rounds = _grown(bits, before[0], numbers[0])
        if not rounds or missing in (before[0], numbers[0]):
            return {}
        shares = {}
        for reason, old, new in zip(REASONS, before[1:], numbers[1:], strict=True):
            if missing in (old, new):
                continue
            grown = _grown(bits, old, new)
            if grown is None or grown > rounds:
                return {}
            shares[reason] = grown / rounds
        return shares


def _grown(bits: int, before: int, now: int) -> int | None:
    """By how much a counter grew; `None` when it went back. One of 32 bits that went back by more than half wrapped."""
    grown = now - before
    if grown >= 0:
        return grown
    wrapped = grown + (1 << bits)
    return wrapped if bits <= _WORD and wrapped < 1 << (bits - 1) else None
