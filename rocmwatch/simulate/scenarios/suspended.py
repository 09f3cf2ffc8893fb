"""`suspended`: GPUs that nobody uses fall asleep, each at its own time, and are woken again.

Their sensors still hold bytes here: a monitor that reads them would have woken the GPU. The first GPU serves a model
and stays awake, where there is another one.
"""

from __future__ import annotations

from rocmwatch.simulate import motion
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.scenarios.scene import BEGINS_AT, Cast, Change, Scenario, Scene, Spell, engines_of

_APART_SECONDS = 4.0


def _sleeps(index: int) -> Spell:
    return Spell(first=BEGINS_AT + _APART_SECONDS * index, lasts=60.0, every=120.0)


def _serves(cast: Cast, index: int) -> bool:
    return index == 0 < cast.gpus - 1


def live(cast: Cast, index: int, seconds: float) -> State:
    """The first GPU serves; the others have nothing to do."""
    life = motion.healthy if _serves(cast, index) else motion.idle
    return life(cast.model, cast.seed, index, seconds)


def scene(cast: Cast, seconds: float) -> Scene:
    """Who sleeps."""
    files: dict[tuple[int, str], Change] = {}
    for index in range(cast.gpus):
        if not _serves(cast, index):
            files[index, "power/control"] = _auto
            files[index, "power/runtime_enabled"] = _enabled
            if _sleeps(index).holds(seconds):
                files[index, "power/runtime_status"] = _suspended
                files[index, "power_state"] = _off
    engines = engines_of(cast, seconds)
    return Scene(engines={index: run for index, run in engines.items() if _serves(cast, index)}, files=files)


def _auto(_: bytes) -> bytes:
    return b"auto\n"


def _enabled(_: bytes) -> bytes:
    return b"enabled\n"


def _suspended(_: bytes) -> bytes:
    return b"suspended\n"


def _off(_: bytes) -> bytes:
    return b"D3hot\n"


SUSPENDED = Scenario(
    name="suspended", summary="GPUs that nobody uses fall asleep and wake again", live=live, scene=scene
)
