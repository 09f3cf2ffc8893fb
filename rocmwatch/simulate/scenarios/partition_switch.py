"""`partition-switch`: the node goes from SPX to CPX and back (a CPX node: to SPX and back).

The driver refuses while a GPU is in use: so the engines end first, all GPUs change at once, and new engines start,
with a worker for each partition. Only GPUs that can be partitioned do that.
"""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate import motion
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.scenarios.scene import BEGINS_AT, ENGINE_START_SECONDS, Cast, Run, Scenario, Scene, Spell

_OTHER = Spell(first=BEGINS_AT, lasts=120.0, every=240.0)  # in the other mode
_SERVE_UNTIL = 8.0  # seconds before the next switch


def _began_at(seconds: float) -> float:
    """When the mode of this moment was entered."""
    count, over = _OTHER.count(seconds), _OTHER.over(seconds)
    if count == over:
        return _OTHER.over_at(seconds)
    return _OTHER.first + (count - 1) * _OTHER.every


def _in_use(seconds: float) -> bool:
    """Whether there are engines: from a while after a switch until a while before the next."""
    upcoming = seconds + _SERVE_UNTIL
    switches = _OTHER.count(seconds) + _OTHER.over(seconds)
    return switches == _OTHER.count(upcoming) + _OTHER.over(upcoming)


def live(cast: Cast, index: int, seconds: float) -> State:
    """A GPU that loads and serves in each mode, and is empty when the modes change."""
    if not _in_use(seconds):
        return replace(motion.idle(cast.model, cast.seed, index, 0.0), seconds=seconds)
    state = motion.healthy(cast.model, cast.seed, index, seconds - _began_at(seconds))
    return replace(state, seconds=seconds)


def scene(cast: Cast, seconds: float) -> Scene:
    """The node in one of the two modes."""
    partitioning = cast.model.partitioning
    own = partitioning.compute if partitioning else None
    switches = _OTHER.count(seconds) + _OTHER.over(seconds)
    started_at = _began_at(seconds) + ENGINE_START_SECONDS
    serving = _in_use(seconds) and seconds >= started_at
    return Scene(
        engines=dict.fromkeys(range(cast.gpus), Run(switches, started_at)) if serving else {},
        compute=("SPX" if own == "CPX" else "CPX") if _OTHER.holds(seconds) else own,
        topology_changes=switches,
    )


def suits(model: Model) -> bool:
    """Whether such GPUs have partitions."""
    return model.partitioning is not None


PARTITION_SWITCH = Scenario(
    name="partition-switch",
    summary="the node goes from SPX to CPX and back (MI300 and later)",
    live=live,
    scene=scene,
    suits=suits,
)
