"""`healthy`: models are loaded and served, and nothing is wrong."""

from __future__ import annotations

import math

from rocmwatch.simulate import motion
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.scenarios.scene import Cast, Scenario


def live(cast: Cast, index: int, seconds: float) -> State:
    """A GPU that loads a model and then serves it."""
    return motion.healthy(cast.model, cast.seed, index, seconds)


HEALTHY = Scenario(
    name="healthy", summary="models are loaded and served, nothing is wrong", begins_at=math.inf, live=live
)
