"""`gpu-lost`: one GPU falls off the bus, and is back a minute and a half later, as after a reset by hand.

All that the kernel shows of it goes: cards, the device with its sensors, the compute driver's node. Its engine dies
with it, and another one starts when the GPU is back: its memory is empty and its counters begin anew.
"""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate import motion
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.scenarios.scene import (
    BEGINS_AT,
    ENGINE_START_SECONDS,
    Cast,
    Run,
    Scenario,
    Scene,
    Spell,
    engines_of,
)

_LOST = Spell(first=BEGINS_AT, lasts=90.0, every=300.0)


def live(cast: Cast, index: int, seconds: float) -> State:
    """A GPU that serves; the victim's life begins anew each time it is back."""
    if index != cast.victim:
        return motion.healthy(cast.model, cast.seed, index, seconds)
    if _LOST.holds(seconds):
        return replace(motion.idle(cast.model, cast.seed, index, 0.0), seconds=seconds)
    state = motion.healthy(cast.model, cast.seed, index, seconds - _LOST.over_at(seconds))
    return replace(state, seconds=seconds)


def scene(cast: Cast, seconds: float) -> Scene:
    """The node with or without the victim."""
    victim = cast.victim
    engines = dict(engines_of(cast, seconds))
    started_at = _LOST.over_at(seconds) + ENGINE_START_SECONDS
    engines.pop(victim, None)
    if not _LOST.holds(seconds) and seconds >= started_at:
        engines[victim] = Run(_LOST.over(seconds), started_at)
    return Scene(
        engines=engines,
        lost=frozenset({victim}) if _LOST.holds(seconds) else frozenset(),
        topology_changes=_LOST.count(seconds) + _LOST.over(seconds),
    )


GPU_LOST = Scenario(
    name="gpu-lost", summary="one GPU falls off the bus and comes back 90 s later", live=live, scene=scene
)
