"""amdsmi hangs, dies, prints, lies, or refuses: the service goes on with the files, says so once, and tries again."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable

import pytest
from rocm import Make, Pair, Rocm, children_of_role, values
from watching import PACE, eventually, state_of

from rocmwatch.judge.edges import edges
from rocmwatch.model import Snapshot
from rocmwatch.observe.backend import SYSFS
from rocmwatch.observe.link import ReaderFailed
from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
Pairs = Callable[..., Pair]
NOT_USED = "amdsmi is not used, the driver's files are read instead: "
CALLS = ("gpu_memory_total", "gpu_memory_usage", "temp_metric", "clock_info", "power_info", "gpu_activity")
START_IS_WELL = {"gpu_bdf_id": "slow 0", "lib_version": "slow 0", "socket_handles": "slow 0"}
FIRST = "0000:05:00.0"


class Scene:
    """Two GPUs, their amdsmi, and what the files alone say of them."""

    def __init__(self, tree: SimulatedNode, installed: Rocm, pair: Pairs) -> None:
        self.rocm = installed
        self.plain = [values(reading) for reading in pair(tree.root, mode=SYSFS).tick().gpus]
        self.pair = pair(tree.root, pace=PACE._replace(deadline=1.0))
        self.lines: list[str] = []
        self._last: Snapshot | None = None

    def tick(self, seconds: float = 5.0) -> tuple[str, ...]:
        """What there is to say, so many seconds later, and once a start that is under way has come to its end."""
        notes = self.look(seconds)
        while self.pair.is_starting:
            notes = self.look(0.001)
        return notes

    def look(self, seconds: float = 5.0) -> tuple[str, ...]:
        """What there is to say, so many seconds later; the values are always whole."""
        snapshot = self.pair.tick(seconds)
        self.lines += [edge.event for edge in edges(self._last, snapshot) if not edge.event.startswith("gpu.")]
        self._last = snapshot
        assert self.plain == [values(reading) for reading in snapshot.gpus]
        return tuple(note.removeprefix(NOT_USED) for note in snapshot.notes)

    @property
    def readers(self) -> list[int]:
        return children_of_role(self.pair.launcher.pid, "rw-amdsmi")

    def is_buried(self, reader: int) -> bool:
        """Whether a reader is gone, and main knows it."""
        self.pair.amdsmi.renew()
        return state_of(reader) == "" and self.pair.amdsmi.abandoned == 0

    def starts(self) -> int:
        """How often the library was started since `listen`."""
        return self.rocm.calls().count(("init", "-"))


@pytest.fixture
def scene(node: Node, rocm: Make, pair: Pairs) -> Scene:
    tree = node("mi300x", gpus=2)
    return Scene(tree, rocm(tree.root), pair)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("hang", "it did not answer in time"),
        ("slow 30", "it did not answer in time"),
        ("abort", "its reader died"),
        ("crash", "its reader died"),
    ],
)
@pytest.mark.parametrize("call", ["gpu_memory_usage", "gpu_activity"])
def test_the_service_goes_on_says_so_in_one_line_and_tries_again(
    scene: Scene, call: str, action: str, told: str
) -> None:
    assert () == scene.tick()
    (reader,) = scene.readers
    scene.rocm.tell(**{call: action})
    assert (told,) == scene.tick()
    assert eventually(lambda: scene.is_buried(reader))
    assert (told,) == scene.tick()
    assert (told,) == scene.tick(31)  # tried again, in vain
    assert eventually(lambda: scene.readers == [] and scene.is_buried(reader))
    assert ["node.limited"] == scene.lines

    scene.rocm.tell(**{call: None})
    assert (told,) == scene.tick(31)  # not yet: it takes twice as long now
    assert () == scene.tick(31)
    assert ["node.limited", "node.limit_lifted"] == scene.lines


def test_a_pass_over_all_gpus_is_bounded_however_many_are_slow(scene: Scene) -> None:
    scene.tick()
    scene.rocm.tell(temp_metric="slow 0.9")  # each within its deadline
    begun = time.monotonic()
    notes = scene.tick()
    took = time.monotonic() - begun

    assert ("it did not answer in time",) == notes
    assert took < 0.9 * 2 * 3 - 0.5  # what all of them would take


def test_the_time_between_two_tries_grows_to_ten_minutes(scene: Scene) -> None:
    scene.rocm.tell(init=34)
    scene.rocm.listen()
    tries = []
    for second in range(0, 3000, 5):
        before = scene.starts()
        scene.tick()
        if scene.starts() > before:
            tries.append(second)

    assert [30, 60, 120, 240, 480, 600, 600, 600] == [b - a for a, b in itertools.pairwise(tries)]
    assert ["node.limited"] == scene.lines


def test_who_was_well_for_long_is_soon_tried_again(scene: Scene) -> None:
    for _ in range(4):  # each time after a minute without trouble
        for _ in range(13):
            scene.tick()
        assert () == scene.tick()
        os.kill(scene.readers[0], signal.SIGKILL)
        assert ("its reader died",) == scene.tick()
        assert () == scene.tick(31)


def test_a_reader_that_is_killed_between_two_ticks_is_noticed(scene: Scene) -> None:
    scene.tick()
    os.kill(scene.readers[0], signal.SIGKILL)

    assert ("its reader died",) == scene.tick()
    assert () == scene.tick(31)


def test_one_that_is_stopped_costs_two_deadlines_and_is_killed(scene: Scene) -> None:
    scene.tick()
    (reader,) = scene.readers
    os.kill(reader, signal.SIGSTOP)

    assert ("it did not answer in time",) == scene.tick()
    assert eventually(lambda: state_of(reader) in ("", "Z"))


@pytest.mark.parametrize("when", ["init", *CALLS])
def test_what_it_prints_goes_nowhere(scene: Scene, when: str, capfd: pytest.CaptureFixture[str]) -> None:
    scene.rocm.tell(**{when: "print"})

    assert () == scene.tick()
    assert ("", "") == capfd.readouterr()


def test_garbage_is_found_out_before_anything_of_it_is_shown(scene: Scene) -> None:
    scene.rocm.tell(**START_IS_WELL, all="garbage")

    assert (f"it is wrong about GPU {FIRST}: the VRAM that it has is not what the driver says",) == scene.tick()
    assert eventually(lambda: scene.readers == [])


def test_garbage_that_begins_later_is_found_out_within_a_minute(scene: Scene) -> None:
    scene.tick()
    scene.rocm.tell(gpu_memory_total="garbage")

    assert (f"it is wrong about GPU {FIRST}: the VRAM that it has is not what the driver says",) == scene.tick(61)


def test_more_vram_in_use_than_there_is_is_not_believed(scene: Scene) -> None:
    scene.tick()
    scene.rocm.tell(gpu_memory_usage="garbage")

    assert (f"it is wrong about GPU {FIRST}: more VRAM is used than there is",) == scene.tick()


@pytest.mark.parametrize(
    ("call", "action"),
    [(call, action) for call in CALLS for action in ("ones", "2", "3", "10", "40", "43")]
    + [(call, "garbage") for call in ("temp_metric", "clock_info", "gpu_activity")],
)
def test_a_call_that_fails_or_knows_nothing_costs_nothing(scene: Scene, call: str, action: str) -> None:
    scene.rocm.tell(**{call: action})

    assert () == scene.tick()
    assert () == scene.tick(61)


@pytest.mark.parametrize("call", ["temp_metric", "power_info", "gpu_activity"])
def test_255_that_stands_for_nothing_is_not_shown(scene: Scene, call: str) -> None:
    scene.rocm.tell(**{call: "255"})

    assert () == scene.tick()


@pytest.mark.parametrize("call", ["gpu_memory_total", "temp_metric", "clock_info", "power_info"])
def test_a_0_that_stands_for_nothing_is_not_shown(scene: Scene, call: str) -> None:
    scene.rocm.tell(**{call: "zero"})

    assert () == scene.tick()


def test_who_answers_nothing_at_all_is_not_asked_any_more(scene: Scene) -> None:
    scene.rocm.tell(**START_IS_WELL, all="10")

    assert ("it answers nothing: AMDSMI_10",) == scene.tick()
    assert eventually(lambda: scene.readers == [])


def test_no_further_process_is_one_line_too(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = scene.pair.launcher.fork

    def refuse(name: str) -> object:
        if name == "amdsmi":
            raise ReaderFailed("no further reader process: Resource temporarily unavailable")
        return fork(name)

    monkeypatch.setattr(scene.pair.launcher, "fork", refuse)

    assert ("no further reader process: Resource temporarily unavailable",) == scene.tick()


def test_a_start_that_hangs_is_given_up_after_ten_seconds(scene: Scene) -> None:
    scene.rocm.tell(init="hang")
    scene.rocm.listen()
    assert ("it has not started so far",) == scene.look()
    (reader,) = scene.readers
    assert eventually(lambda: scene.starts() == 1)
    assert ("it has not started so far",) == scene.look()
    assert ("its start does not come to an end",) == scene.look()
    assert eventually(lambda: scene.is_buried(reader))
    assert 1 == scene.starts()

    scene.rocm.tell(init=None)
    assert () == scene.tick(31)


def test_it_can_be_closed_while_it_hangs(scene: Scene) -> None:
    scene.rocm.tell(init="hang")
    scene.look()
    (reader,) = scene.readers
    begun = time.monotonic()
    scene.pair.backend.close()

    assert time.monotonic() - begun < 5
    assert eventually(lambda: state_of(reader) in ("", "Z"))


def test_fifty_failures_leave_nothing_behind(scene: Scene) -> None:
    scene.tick()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        scene.rocm.tell(power_info="abort")
        assert () != scene.tick(700)
        scene.rocm.tell(power_info=None)
        assert () == scene.tick(700)

    assert before == len(os.listdir("/proc/self/fd"))
    assert 1 == len(scene.readers)
    assert 0 == scene.pair.backend.abandoned
    assert 50 == scene.pair.backend.restarts
