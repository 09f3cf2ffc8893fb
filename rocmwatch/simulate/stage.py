"""The tree of a moment, composed: what stands still in it, what moves with the GPUs' states, and what happens to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from rocmwatch.simulate.device_files import moving_files, table_text
from rocmwatch.simulate.layout import add_node, table_path
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import Model
from rocmwatch.simulate.places import Place
from rocmwatch.simulate.process_files import add_processes
from rocmwatch.simulate.processes import processes
from rocmwatch.simulate.procfs import MOVING_PROC_FILES, add_still_proc, moment
from rocmwatch.simulate.scenarios.scene import Scene, Trouble
from rocmwatch.simulate.topology import add_topology
from rocmwatch.simulate.tree import Tree

Render = Callable[[State], bytes]

_FIRST_GENERATION = 2


class Stage:
    """Composes the trees of one node.

    Attributes:
        model: The GPUs' model, in the mode in which the node came up.
        places: All that there can be.
    """

    def __init__(self, model: Model, places: tuple[Place, ...], seed: int) -> None:
        self.model = model
        self.places = places
        self._seed = seed
        self._setting = lru_cache(maxsize=4)(self._set)

    def tree(self, scene: Scene, states: Sequence[State], boot_id: str, booted_at: int) -> Tree:
        """All of it.

        Args:
            scene: What is special.
            states: Of each GPU that there can be.
            boot_id: Of this boot.
            booted_at: Unix seconds.
        """
        model, gpus, still, moving = self._setting(scene.compute, scene.lost, scene.topology_changes, boot_id)
        tree = Tree(
            files=dict(still.files),
            links=still.links,
            folders=set(still.folders),
            pointers={},
            renewed=set(still.renewed),
        )
        for gpu in gpus:
            state = states[gpu.index]
            tree.files |= {path: render(state) for path, render in moving[gpu.index].items()}
            tree.files[table_path(model, gpu)] = table_text(model, state)
        now = moment(states, booted_at)
        tree.files |= {path: show(model.host, now) for path, show in MOVING_PROC_FILES.items()}
        by_index = {gpu.index: states[gpu.index] for gpu in gpus}
        add_processes(tree, model, gpus, processes(model, gpus, by_index, scene.engines))
        self._trouble(tree, scene, model)
        return tree

    def moving(self, scene: Scene, boot_id: str) -> Iterator[str]:
        """The files that move with the GPUs' states, by path."""
        *_, moving = self._setting(scene.compute, scene.lost, scene.topology_changes, boot_id)
        for files in moving.values():
            yield from files
        yield from MOVING_PROC_FILES

    def _set(
        self, compute: str | None, lost: frozenset[int], changes: int, boot_id: str
    ) -> tuple[Model, tuple[Place, ...], Tree, dict[int, dict[str, Render]]]:
        """What follows from who is there, and in which mode: model, GPUs, what stands still, what moves."""
        model = in_mode(self.model, compute)
        gpus = tuple(place for place in self.places if place.index not in lost)
        still = Tree()
        add_node(still, model, gpus)
        add_topology(still, model, gpus, self._seed, _FIRST_GENERATION + changes)
        add_still_proc(still, model.kernel, model.host, boot_id)
        still.renewed |= {path for path, text in still.files.items() if text.count(b"\n") > 1}
        still.renewed |= {table_path(model, gpu) for gpu in gpus}
        return model, gpus, still, {gpu.index: moving_files(model, gpu) for gpu in gpus}

    def _trouble(self, tree: Tree, scene: Scene, model: Model) -> None:
        for (index, name), change in scene.files.items():
            path = _path(model, self.places[index], name)
            if path not in tree.files:
                continue
            if isinstance(change, Trouble):
                del tree.files[path]
                if change is Trouble.HANGS:
                    tree.pipes.add(path)
            else:
                tree.files[path] = change(tree.files[path])


def in_mode(model: Model, compute: str | None) -> Model:
    """The same GPUs in another partition mode; `None`: as they are."""
    if model.partitioning is None or compute is None or compute == model.partitioning.compute:
        return model
    count = model.xcc_count if compute == "CPX" else 1
    return replace(model, partitioning=replace(model.partitioning, compute=compute, count=count))


def _path(model: Model, place: Place, name: str) -> str:
    folder, _, file = name.rpartition("/")
    if folder == "hwmon":
        return f"{place.hwmon}/{file}"
    if folder == "debugfs":
        return f"{os.path.dirname(table_path(model, place))}/{file}"
    return f"{place.device}/{name}"
