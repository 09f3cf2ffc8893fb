"""What a scenario is made of: the cast, and the scene at a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import Model

BEGINS_AT = 60.0
ENGINE_START_SECONDS = 1.0  # an engine's processes are there before its weights begin to arrive


class Cast(NamedTuple):
    """Who takes part.

    Attributes:
        model: The GPUs' model, in the partition mode in which the node came up.
        seed: Gives this node its own numbers.
        gpus: How many there are.
    """

    model: Model
    seed: int
    gpus: int

    @property
    def victim(self) -> int:
        """The GPU that something happens to when it happens to one: not the first, where there is another."""
        return min(1, self.gpus - 1)


class Trouble(Enum):
    """What may be wrong with a file as such.

    A file tree can say no error of a driver's, and a read of a file that is open always returns. What comes near:
    """

    GONE = "gone"  # there is no such file
    HANGS = "hangs"  # a FIFO without a writer: it can be listed, and opening it does not return


Change = Trouble | Callable[[bytes], bytes]


class Run(NamedTuple):
    """An engine that has a GPU.

    Attributes:
        number: Counts the engines that this GPU has had: another one is another process.
        started_at: Simulated seconds.
    """

    number: int
    started_at: float


def _nothing() -> Mapping[tuple[int, str], Change]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is special in the tree at a moment.

    Attributes:
        engines: By GPU, the engine that it serves.
        compute: The partition mode that all GPUs are in; `None`: that of the model.
        lost: GPUs that are not on the bus.
        topology_changes: How often the compute driver's picture of the node has changed.
        files: What happened to a GPU's files, by GPU and name: below its device's folder; `hwmon/` stands for the
            folder of its sensors, `debugfs/` for its folder there. Files that this GPU never had stay away.
    """

    engines: Mapping[int, Run]
    compute: str | None = None
    lost: frozenset[int] = frozenset()
    topology_changes: int = 0
    files: Mapping[tuple[int, str], Change] = field(default_factory=_nothing)


def engines_of(cast: Cast, seconds: float) -> Mapping[int, Run]:
    """An engine on each GPU, from soon after the start on."""
    return dict.fromkeys(range(cast.gpus), Run(0, ENGINE_START_SECONDS)) if seconds >= ENGINE_START_SECONDS else {}


def _nothing_special(cast: Cast, seconds: float) -> Scene:
    return Scene(engines=engines_of(cast, seconds))


def _any(_model: Model) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A way in which a node may fare.

    Attributes:
        name: How it is chosen.
        summary: A few words.
        begins_at: From when on something happens, simulated seconds: models are served by then.
        live: The state of one GPU: cast, which GPU, simulated seconds.
        scene: What is special in the tree: cast, simulated seconds.
        suits: Whether it can happen to such GPUs.
    """

    name: str
    summary: str
    begins_at: float = BEGINS_AT
    live: Callable[[Cast, int, float], State]
    scene: Callable[[Cast, float], Scene] = _nothing_special
    suits: Callable[[Model], bool] = _any


class Spell(NamedTuple):
    """Something that comes, lasts, goes, and comes again.

    Attributes:
        first: When it comes for the first time, simulated seconds.
        lasts: For how long.
        every: From one coming to the next.
    """

    first: float
    lasts: float
    every: float

    def count(self, seconds: float) -> int:
        """How often it has come by then."""
        return 0 if seconds < self.first else 1 + int((seconds - self.first) // self.every)

    def over(self, seconds: float) -> int:
        """How often it has gone by then."""
        return Spell(self.first + self.lasts, 0.0, self.every).count(seconds)

    def holds(self, seconds: float) -> bool:
        """Whether it is there."""
        return self.count(seconds) > self.over(seconds)

    def over_at(self, seconds: float) -> float:
        """When it went for the last time; 0 when it has not so far."""
        over = self.over(seconds)
        return self.first + self.lasts + (over - 1) * self.every if over else 0.0
