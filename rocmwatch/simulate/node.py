"""A simulated node: made once, then moved in place, as the kernel's files change while a reader holds them open."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping
from typing import Protocol, TypeVar

from rocmwatch.errors import RocmwatchError
from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.layout import DEBUGFS
from rocmwatch.simulate.live_file import replace_file
from rocmwatch.simulate.models import MODELS
from rocmwatch.simulate.motion import UPTIME_SECONDS, State
from rocmwatch.simulate.places import Place, places
from rocmwatch.simulate.process_files import UNITS
from rocmwatch.simulate.scenarios import SCENARIOS
from rocmwatch.simulate.scenarios.scene import Cast, Scene
from rocmwatch.simulate.shown import ShownTree
from rocmwatch.simulate.stage import Stage
from rocmwatch.simulate.tree import Tree

MARKER = "rocmwatch-simulated.json"
_SCHEMA = "rocmwatch/simulated/1"
_UNFINISHED = f".{MARKER}"
_OURS = (MARKER, UNITS, "sys", "proc")
_SCRATCH = ".rocmwatch-next"
_Thing = TypeVar("_Thing")


class NotOurs(RocmwatchError):
    """The folder holds something that this module did not make, or that is in use."""


class Stop(Protocol):
    """What ends `run`: a `threading.Event`, say."""

    def wait(self, timeout: float, /) -> bool:
        """Waits for so many seconds at most; true when it is time to stop."""


class SimulatedNode:
    """A node of GPUs below a folder of one's own.

    Attributes:
        root: The folder: what `--root` takes.
        model: The GPUs' model, in the partition mode in which the node came up.
        scenario: How they fare.
        places: Where each GPU lies.
        states: What each GPU does at the moment: the truth that the files tell, as far as nothing happens to them.
        seconds: Simulated time.
        boot_id: Of this simulated boot; `None` before `create`.
    """

    def __init__(
        self, root: str, model: str, gpus: int, scenario: str = "healthy", seed: int = 1, kernel: str | None = None
    ) -> None:
        self.root = os.path.abspath(root)
        self.model = _named(MODELS, "model", model)
        if kernel is not None:
            self.model = self.model.on(_named(KERNELS, "kernel", kernel))
        self.scenario = _named(SCENARIOS, "scenario", scenario)
        if not 1 <= gpus <= len(self.model.pci):
            raise ValueError(f"a node has 1 to {len(self.model.pci)} GPUs of model {model}, not {gpus}")
        if not self.scenario.suits(self.model):
            raise ValueError(f"{scenario} cannot happen to {model}: {self.scenario.summary}")
        self.seed = seed
        self.seconds = 0.0
        self.boot_id: str | None = None
        self.places: tuple[Place, ...] = places(self.model, gpus, seed)
        self._cast = Cast(self.model, seed, gpus)
        self.states: tuple[State, ...] = self._at(0.0)
        self._folder: int | None = None
        self._booted_at = 0
        self._stage = Stage(self.model, self.places, seed)
        self._shown = ShownTree(self.root, _SCRATCH)

    def __enter__(self) -> SimulatedNode:
        """The node, made if it was not."""
        if self._folder is None:
            self.create()
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the files; the tree stays and stands still."""
        self.close()

    def create(self) -> None:
        """Writes the tree. A tree that an earlier simulation left there is replaced: a new boot.

        Raises:
            NotOurs: The folder is not empty and not a simulated node, or a simulation is running in it.
            OSError: The folder cannot be written.
        """
        self.boot_id = str(uuid.uuid4())
        self._claim()
        try:
            self._mark(_UNFINISHED)
            self._write()
            os.replace(f"{self.root}/{_UNFINISHED}", f"{self.root}/{MARKER}")
        except BaseException:
            self.close()
            raise

    def step(self, seconds: float) -> None:
        """Moves the node on by that much simulated time. Only files whose bytes change are written.

        Raises:
            ValueError: The time is negative, or there is no tree yet.
        """
        if seconds < 0 or self._folder is None:
            raise ValueError("a node that was created moves forwards; nothing else does")
        self.seconds += seconds
        self.states = self._at(self.seconds)
        self._shown.show(self._tree())

    def run(self, interval: float, stop: Stop) -> None:
        """Moves the node every `interval` seconds, in step with real time, until it is told to stop."""
        due = time.monotonic()
        while True:
            due = max(due + interval, time.monotonic())  # after a pause of the machine: go on, do not catch up
            if stop.wait(due - time.monotonic()):
                return
            self.step(interval)

    def close(self) -> None:
        """Closes what is open. The tree stays."""
        self._shown.close()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    @property
    def scene(self) -> Scene:
        """What is special in the tree at the moment."""
        return self.scenario.scene(self._cast, self.seconds)

    def _at(self, seconds: float) -> tuple[State, ...]:
        return tuple(self.scenario.live(self._cast, place.index, seconds) for place in self.places)

    def _tree(self) -> Tree:
        return self._stage.tree(self.scene, self.states, str(self.boot_id), self._booted_at)

    def _write(self) -> None:
        self._booted_at = int(os.stat(f"{self.root}/{_UNFINISHED}").st_mtime - UPTIME_SECONDS)  # its clock is at hand
        for name in _OURS:
            if os.path.lexists(f"{self.root}/{name}"):
                _remove(f"{self.root}/{name}")
        self._shown = ShownTree(self.root, _SCRATCH)
        self._shown.write(self._tree(), self._stage.moving(self.scene, str(self.boot_id)))
        os.chmod(f"{self.root}/{DEBUGFS}", 0o700)

    def _claim(self) -> None:
        """Makes sure that the folder is ours to write, and that no other simulation is at work in it."""
        os.makedirs(self.root, exist_ok=True)
        self.close()
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            raise NotOurs(f"{self.root} is in use by a running simulation: stop that one first") from None
        self._folder = folder
        if os.listdir(folder) and not is_simulated(self.root):
            self.close()
            raise NotOurs(f"{self.root} is not empty and not a simulated node: choose an empty folder")

    def _mark(self, name: str) -> None:
        """Writes the marker. It has another name while the tree is being made: the right one says that it is there."""
        content = {
            "schema": _SCHEMA,
            "boot_id": self.boot_id,
            "model": self.model.name,
            "kernel": self.model.kernel.name,
            "gpus": [place.pci for place in self.places],
            "scenario": self.scenario.name,
            "seed": self.seed,
        }
        replace_file(f"{self.root}/{name}", json.dumps(content, indent=2).encode() + b"\n", f"{self.root}/{_SCRATCH}")


def is_simulated(root: str) -> bool:
    """Whether the folder carries the marker of a simulated node, one that is being made included."""
    return any(_is_marker(f"{root}/{name}") for name in (MARKER, _UNFINISHED))


def _is_marker(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return bool(json.load(file).get("schema") == _SCHEMA)
    except (OSError, ValueError, AttributeError):
        return False


def _named(table: Mapping[str, _Thing], kind: str, name: str) -> _Thing:
    if name not in table:
        raise ValueError(f"there is no {kind} {name}: choose one of {', '.join(table)}")
    return table[name]


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
