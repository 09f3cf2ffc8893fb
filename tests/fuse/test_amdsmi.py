"""amdsmi hangs in the driver and cannot be killed: the files are read all the same, and no second reader joins it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from faultfs import FaultFS
from rocm import Make, Pair, built, children_of_role, pair, rocm
from watching import eventually, state_of

from rocmwatch.simulate import SimulatedNode

__all__ = ["built", "pair", "rocm"]

pytestmark = pytest.mark.fuse


def test_one_that_cannot_be_killed_is_not_joined_by_another(
    node: Callable[..., SimulatedNode],
    mirror: Callable[..., FaultFS],
    rocm: Make,
    pair: Callable[..., Pair],
) -> None:
    tree = node("mi300x", gpus=2)
    sick = mirror(tree.root)
    rocm(sick.root)  # the library goes by the mirror, our files do not
    one = pair(tree.root)
    assert eventually(lambda: one.tick().notes == ())
    (reader,) = children_of_role(one.launcher.pid, "rw-amdsmi")

    sick.set({"*/gpu_busy_percent": "hang"})
    (note,) = one.tick().notes
    assert note.endswith("it did not answer in time")
    assert eventually(lambda: state_of(reader) == "D")
    for _ in range(3):  # long after its time has come
        snapshot = one.tick(700)
        assert [note] == list(snapshot.notes)
        assert ["active", "active"] == [reading.state.value for reading in snapshot.gpus]
        assert 1 == snapshot.readers.abandoned
        assert [reader] == children_of_role(one.launcher.pid, "rw-amdsmi")

    sick.set({})
    assert eventually(lambda: state_of(reader) in ("", "Z"))
    assert eventually(lambda: one.tick().notes == ())
    assert 0 == one.tick().readers.abandoned
