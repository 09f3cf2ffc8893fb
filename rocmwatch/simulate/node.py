"""A simulated node: made once, then moved in place, as the kernel's files change while a reader holds them open."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from rocmwatch.errors import RocmwatchError
from rocmwatch.simulate.device_files import moving_files, table_text
from rocmwatch.simulate.layout import add_node, table_path
from rocmwatch.simulate.live_file import LiveFile, replace_file
from rocmwatch.simulate.models import MODELS
from rocmwatch.simulate.motion import SCENARIOS, UPTIME_SECONDS, State
from rocmwatch.simulate.places import Place, places
from rocmwatch.simulate.procfs import add_still_proc, moment, moving_proc_files
from rocmwatch.simulate.topology import add_topology
from rocmwatch.simulate.tree import Tree

MARKER = "rocmwatch-simulated.json"
_SCHEMA = "rocmwatch/simulated/1"
_OURS = ("sys", "proc")
_SCRATCH = ".rocmwatch-next"


class NotOurs(RocmwatchError):
    """The folder holds something that this module did not make, or that is in use."""


class SimulatedNode:
    """A node of GPUs below a folder of one's own.

    Attributes:
        root: The folder: what `--root` takes.
        model: The GPUs' model.
        places: Where each GPU lies.
        states: What each GPU does at the moment: the truth that the files tell.
        seconds: Simulated time.
        boot_id: Of this simulated boot; `None` before `create`.
    """

    def __init__(self, root: str, model: str, gpus: int, scenario: str = "healthy", seed: int = 1) -> None:
        self.root = os.path.abspath(root)
        self.model = _known(MODELS, "model", model)
        self._scenario_name = scenario
        self._scenario = _known(SCENARIOS, "scenario", scenario)
        if not 1 <= gpus <= len(self.model.pci):
            raise ValueError(f"a node has 1 to {len(self.model.pci)} GPUs of model {model}, not {gpus}")
        self.seed = seed
        self.seconds = 0.0
        self.boot_id: str | None = None
        self.places: tuple[Place, ...] = places(self.model, gpus, seed)
        self.states: tuple[State, ...] = self._at(0.0)
        self._marker: int | None = None
        self._files: list[tuple[LiveFile, Callable[[], bytes]]] = []
        self._tables: dict[str, bytes] = {}

    def __enter__(self) -> SimulatedNode:
        """The node, made if it was not."""
        if self._marker is None:
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
        marker = self._claim()
        self.boot_id = str(uuid.uuid4())
        for name in _OURS:
            if os.path.lexists(f"{self.root}/{name}"):
                shutil.rmtree(f"{self.root}/{name}")
        tree = Tree()
        add_node(tree, self.model, self.places)
        add_topology(tree, self.model, self.places, self.seed)
        add_still_proc(tree, self.model.kernel, self.model.host, self.boot_id)
        moving = self._moving()
        tree.files.update({path: render() for path, render in moving.items()})
        self._tables = {table_path(place): b"" for place in self.places}
        tree.files.update(dict(self._table_texts()))
        tree.write(self.root)
        os.chmod(f"{self.root}/sys/kernel/debug", 0o700)
        self._files = [(LiveFile(f"{self.root}/{path}", tree.files[path]), render) for path, render in moving.items()]
        self._tables = {path: tree.files[path] for path in self._tables}
        self._write_marker(marker)

    def step(self, seconds: float) -> None:
        """Moves the node on by that much simulated time. Only files whose bytes change are written."""
        if seconds < 0:
            raise ValueError("time does not go backwards")
        self.seconds += seconds
        self.states = self._at(self.seconds)
        for file, render in self._files:
            file.write(render())
        for path, text in self._table_texts():
            if text != self._tables[path]:
                replace_file(f"{self.root}/{path}", text, f"{self.root}/{_SCRATCH}")
                self._tables[path] = text

    def run(self, interval: float, stop: threading.Event) -> None:
        """Moves the node every `interval` seconds, in step with real time, until `stop` is set."""
        due = time.monotonic()
        while True:
            due = max(due + interval, time.monotonic())  # after a pause of the machine: go on, do not catch up
            if stop.wait(due - time.monotonic()):
                return
            self.step(interval)

    def close(self) -> None:
        """Closes what is open. The tree stays."""
        for file, _ in self._files:
            file.close()
        self._files = []
        if self._marker is not None:
            os.close(self._marker)
            self._marker = None

    def _at(self, seconds: float) -> tuple[State, ...]:
        return tuple(self._scenario(self.model, self.seed, place.index, seconds) for place in self.places)

    def _moving(self) -> dict[str, Callable[[], bytes]]:
        """Every file that is rewritten in place, by its path, and what renders the bytes of the present moment."""
        found: dict[str, Callable[[], bytes]] = {}
        for place in self.places:
            for name, render in moving_files(self.model).items():
                folder, _, file = name.rpartition("/")
                path = f"{place.hwmon if folder else place.device}/{file}"
                found[path] = lambda render=render, index=place.index: render(self.states[index])  # type: ignore[misc]
        booted_at = int(os.stat(self.root).st_mtime - UPTIME_SECONDS)  # the file system's clock is the one at hand
        for path, show in moving_proc_files(self.model, booted_at).items():
            found[path] = lambda show=show: show(moment(self.states))  # type: ignore[misc]
        return found

    def _table_texts(self) -> Iterator[tuple[str, bytes]]:
        for place in self.places:
            yield table_path(place), table_text(self.model, self.states[place.index])

    def _claim(self) -> int:
        """The locked marker: the folder is ours to write, and no other simulation is at work in it."""
        os.makedirs(self.root, exist_ok=True)
        path = f"{self.root}/{MARKER}"
        if os.listdir(self.root) and not _is_marker(path):
            raise NotOurs(f"{self.root} is not empty and not a simulated node: choose an empty folder")
        self.close()
        marker = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(marker)
            raise NotOurs(f"{self.root} is in use by a running simulation: stop that one first") from None
        self._marker = marker
        return marker

    def _write_marker(self, marker: int) -> None:
        content = {
            "schema": _SCHEMA,
            "boot_id": self.boot_id,
            "model": self.model.name,
            "gpus": [place.pci for place in self.places],
            "scenario": self._scenario_name,
            "seed": self.seed,
        }
        text = json.dumps(content, indent=2).encode() + b"\n"
        os.pwrite(marker, text, 0)
        os.ftruncate(marker, len(text))


def _known(table: dict[str, Any], kind: str, name: str) -> Any:
    if name not in table:
        raise ValueError(f"no such {kind}: {name} (there are {', '.join(table)})")
    return table[name]


def _is_marker(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return bool(json.load(file).get("schema") == _SCHEMA)
    except (OSError, ValueError, AttributeError):
        return False
