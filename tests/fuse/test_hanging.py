"""Reads that never return: their GPU is stalled, all others are read in the same tick, and all of it passes by itself.

A killed reader of a hanging read is in state D here as it is in a driver. Deadlines are real time, all else is the
clock of the tests. Where a limit of time is asserted, it is far from what a quiet machine takes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from faultfs import FaultFS
from kernel_bytes import metrics
from watching import MINUTE, PACE, Watcher, descriptors_of, eventually, faults_of, of, said, state_of, states

from rocmwatch.model import Snapshot
from rocmwatch.observe.leftovers import LeftOvers
from rocmwatch.observe.stall import Patience
from rocmwatch.simulate import SimulatedNode

pytestmark = pytest.mark.fuse

Mirror = Callable[..., FaultFS]
Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
PCI = tuple(f"0000:{bus}:00.0" for bus in ("05", "27", "47", "65", "85", "a7", "c7", "e5"))
SICK = PCI[1]
KFD = "/sys/devices/virtual/kfd/kfd/topology"


def hanging(*places: str) -> dict[str, str]:
    """The rules that let a file of each GPU hang."""
    return {f"*/{pci}/gpu_metrics": "hang" for pci in places}


@pytest.fixture
def fs(node: Node, mirror: Mirror) -> FaultFS:
    """The mirror of a node of three MI300X."""
    return mirror(Path(node("mi300x", gpus=3).root))


def is_well(snapshot: Snapshot) -> bool:
    """Whether every GPU was read in this tick."""
    return all(
        reading.state.value == "active" and reading.sample and reading.sampled_at == snapshot.taken_at
        for reading in snapshot.gpus
    )


def assert_only_stalled(snapshot: Snapshot, *stalled: str) -> None:
    """Some GPUs are stalled and say nothing; all others were read in this tick."""
    for reading in snapshot.gpus:
        if reading.gpu.pci in stalled:
            assert ("stalled", None, None) == (reading.state.value, reading.sample, reading.free_blocks)
        else:
            assert ("active", snapshot.taken_at, []) == (reading.state.value, reading.sampled_at, faults_of(reading))
            assert {"temperature_junction", "vram_used_bytes"} <= said(reading).keys()


# One GPU hangs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        "mem_info_vram_used",
        "power/runtime_status",
        "gpu_metrics",
        "gpu_busy_percent",
        "hwmon/hwmon*/temp2_input",
        "pp_dpm_sclk",
        "serial_number",
        "hwmon/hwmon*/temp2_label",
        "current_link_speed",
        "ras/umc_err_count",
    ],
)
def test_a_read_that_never_returns_stalls_its_gpu_and_no_other(fs: FaultFS, watch: Watch, file: str) -> None:
    watcher = watch(fs.root)
    before = watcher.tick()
    fs.set({f"*/{SICK}/{file}": "hang"})
    begun = time.monotonic()
    hung = watcher.tick(MINUTE)
    took = time.monotonic() - begun
    stuck = eventually(lambda: list(watcher.readers.values()) == ["D"])
    later = watcher.tick()
    fs.release()
    back = watcher.until(is_well)

    assert_only_stalled(hung, SICK)
    assert_only_stalled(later, SICK)
    assert took < 10 * PACE.deadline
    assert (True, 1) == (stuck, later.readers.abandoned)
    assert 0 == back.readers.abandoned
    assert [said(reading) for reading in before.gpus] == [said(reading) for reading in back.gpus]
    assert eventually(lambda: len(watcher.readers) == 1)


def test_the_table_of_blocks_that_hangs_stalls_its_gpu(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    watcher.tick()
    fs.set({f"/sys/kernel/debug/dri/{SICK}/amdgpu_vram_mm": "hang"})

    assert_only_stalled(watcher.tick(MINUTE), SICK)


def test_a_partition_s_file_that_hangs_stalls_its_gpu(node: Node, mirror: Mirror, watch: Watch) -> None:
    made = node("mi300x-cpx", gpus=2)
    for place in made.places:
        folder = Path(made.root, f"sys/class/drm/renderD{place.extra[0].render_minor}/device/xcp")
        folder.mkdir()
        (folder / "xcp_metrics").write_bytes(metrics((1, 0), size=488))
    fs = mirror(Path(made.root))
    watcher = watch(fs.root)
    before = watcher.tick()
    sick = Path(made.root, f"sys/class/drm/renderD{made.places[1].extra[0].render_minor}/device").resolve()
    fs.set({f"*/{sick.name}/xcp/xcp_metrics": "hang"})
    hung = watcher.tick()
    fs.release()
    back = watcher.until(is_well)

    assert_only_stalled(hung, made.places[1].pci)
    assert [said(reading) for reading in before.gpus] == [said(reading) for reading in back.gpus]


def test_a_gpu_that_hangs_when_it_is_asked_for_its_errors_is_asked_less_and_less(fs: FaultFS, watch: Watch) -> None:
    """The first time after two of its intervals, then after four: else it were stalled half of the time."""
    watcher = watch(fs.root)
    watcher.tick()
    fs.set({f"*/{SICK}/ras/umc_err_count": "hang"})
    hung = watcher.tick(MINUTE)
    fs.release()
    back = watcher.until(is_well)
    fs.set({f"*/{SICK}/ras/umc_err_count": "hang"})
    since = watcher.clock.unix() - hung.taken_at
    well = [watcher.tick(5.0) for _ in range(int((120.0 - since - 10.0) // 5.0))]
    again = watcher.until(lambda snapshot: states(snapshot)[SICK] == "stalled")

    assert_only_stalled(hung, SICK)
    assert all(is_well(snapshot) for snapshot in (back, *well))
    assert 115.0 <= again.taken_at - hung.taken_at <= 125.0


@pytest.mark.parametrize("rule", ["open:hang", "hang"])
def test_a_gpu_that_hangs_at_first_sight_is_stalled_and_named(fs: FaultFS, watch: Watch, rule: str) -> None:
    fs.set({f"*/{SICK}/mem_info_vram_used": rule})
    watcher = watch(fs.root)
    snapshot = watcher.tick()
    fs.release()
    back = watcher.until(is_well)

    assert_only_stalled(snapshot, SICK)
    assert ["0", "1", "2"] == [reading.gpu.gpu for reading in snapshot.gpus]
    assert {} == of(snapshot, SICK).gpu.fields, "nothing is known of what it has"
    assert "AMD Instinct MI300X OAM" == of(back, SICK).gpu.product


def test_a_stalled_source_is_no_success_and_those_that_are_left_are(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    before = watcher.tick()
    fs.set(hanging(SICK))
    hung = watcher.tick()
    later = watcher.tick()

    for source in ("memory", "sensors"):
        assert before.taken_at == hung.sources[source].last_success_at
        assert later.taken_at == later.sources[source].last_success_at


def test_the_last_gpu_that_hangs_leaves_nothing_to_read(node: Node, mirror: Mirror, watch: Watch) -> None:
    fs = mirror(Path(node("mi300x", gpus=1).root))
    watcher = watch(fs.root)
    watcher.tick()
    fs.set(hanging(PCI[0]))
    seen = [states(watcher.tick()) for _ in range(3)]
    fs.release()

    assert [{PCI[0]: "stalled"}] * 3 == seen
    watcher.until(is_well)


# Many hang at once -----------------------------------------------------------------------------------------------


def test_however_many_hang_at_once_the_others_wait_for_two_deadlines(node: Node, mirror: Mirror, watch: Watch) -> None:
    fs = mirror(Path(node("mi300x", gpus=8).root))
    watcher = watch(fs.root, pace=PACE._replace(deadline=1.0))
    watcher.tick()
    sick = tuple(pci for pci in PCI if pci != PCI[6])
    fs.set(hanging(*sick))
    begun = time.monotonic()
    hung = watcher.tick()
    took = time.monotonic() - begun
    begun = time.monotonic()
    later = watcher.tick()
    took_later = time.monotonic() - begun
    fs.release()
    back = watcher.until(is_well)

    assert_only_stalled(hung, *sick)
    assert_only_stalled(later, *sick)
    assert took < 5.0, "one after the other they would have taken seven"
    assert took_later < 1.0
    assert (7, 0) == (later.readers.abandoned, back.readers.abandoned)


def test_readers_that_hang_are_bounded_and_it_is_said(node: Node, mirror: Mirror, watch: Watch) -> None:
    fs = mirror(Path(node("mi300x", gpus=8).root))
    watcher = watch(fs.root, patience=Patience(most_readers=3))
    watcher.tick()
    fs.set(hanging(*PCI))
    snapshots = [watcher.tick() for _ in range(20)]
    processes = len(watcher.readers)
    fs.release()
    back = watcher.until(is_well)

    assert 3 == processes == snapshots[-1].readers.abandoned
    assert ["too many readers hang in the driver"] == [note.partition(":")[0] for note in snapshots[-1].notes]
    assert [None] * 8 == [reading.sample for reading in snapshots[-1].gpus], "nothing old is passed off as new"
    assert (0, ()) == (back.readers.abandoned, back.notes)


def test_what_an_earlier_start_left_behind_counts(fs: FaultFS, watch: Watch, tmp_path: Path) -> None:
    first = watch(fs.root)
    first.tick()
    fs.set(hanging(SICK))
    first.tick()
    assert eventually(lambda: list(first.readers.values()) == ["D"])
    (stuck,) = first.readers
    first.close()
    cgroup = tmp_path / "cgroup.procs"
    cgroup.write_text(f"{os.getpid()}\n{stuck}\n")
    second = watch(fs.root, left_overs=LeftOvers(str(tmp_path), (os.getpid(),)))
    seen = second.tick()
    then = second.tick()
    fs.release()
    assert eventually(lambda: state_of(stuck) == "")
    cgroup.write_text(f"{os.getpid()}\n")
    back = second.until(is_well)

    assert_only_stalled(seen, SICK)
    assert (2, 0) == (then.readers.abandoned, back.readers.abandoned)


# The topology hangs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rules",
    [{f"{KFD}/nodes": "list:hang"}, {f"{KFD}/nodes/2/properties": "hang"}, {f"{KFD}/generation_id": "hang"}],
    ids=lambda rules: next(iter(rules)).rpartition("/")[2],
)
def test_a_compute_driver_that_hangs_does_not_hide_the_gpus(fs: FaultFS, watch: Watch, rules: dict[str, str]) -> None:
    fs.set(rules)
    watcher = watch(fs.root)
    hung = watcher.tick()
    later = watcher.tick()
    fs.release()
    back = watcher.until(lambda snapshot: all(reading.gpu.kfd_gpu_id for reading in snapshot.gpus))

    assert_only_stalled(hung)
    assert_only_stalled(later)
    assert [None] * 3 == [reading.gpu.kfd_gpu_id for reading in later.gpus]
    assert None is later.sources["topology"].last_success_at
    assert back.taken_at == back.sources["topology"].last_success_at


def test_a_list_of_cards_that_hangs_leaves_those_that_are_known(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    watcher.tick()
    fs.set({"/sys/class/drm": "list:hang"})
    hung = watcher.tick(31.0)
    later = watcher.tick()
    fs.release()
    back = watcher.until(lambda snapshot: snapshot.sources["topology"].last_success_at == snapshot.taken_at)

    assert_only_stalled(hung)
    assert_only_stalled(later)
    assert is_well(back)


def test_a_list_of_cards_that_hangs_at_the_start_is_tried_again(fs: FaultFS, watch: Watch) -> None:
    fs.set({"/sys/class/drm": "list:hang"})
    watcher = watch(fs.root)
    hung = watcher.tick()
    fs.release()
    back = watcher.until(lambda snapshot: len(snapshot.gpus) == 3)

    assert () == hung.gpus
    assert is_well(back)


# Trying again ----------------------------------------------------------------------------------------------------


def test_a_stalled_gpu_is_not_tried_as_long_as_its_reader_lives(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    watcher.tick()
    fs.set(hanging(SICK))
    watcher.tick()
    started = watcher.crew.restarts
    for _ in range(30):
        watcher.tick(700.0)

    assert started == watcher.crew.restarts - 1, "the common reader was started anew, and nothing else"
    assert 1 == watcher.crew.abandoned


def test_tries_are_further_and_further_apart(fs: FaultFS, watch: Watch) -> None:
    """A GPU whose killed readers go, and that hangs again each time."""
    watcher = watch(fs.root, pace=PACE._replace(deadline=0.2), patience=Patience(trial_seconds=0.3))
    watcher.tick()
    fs.set(hanging(SICK))
    watcher.tick()
    tried = []
    for second in range(0, 470, 5):
        free_the_stuck(watcher, fs)
        before = watcher.crew.restarts
        snapshot = watcher.tick()
        if watcher.crew.restarts > before and second > 5:
            tried.append(second + 5)
        assert_only_stalled(snapshot, SICK)

    gaps = [later - earlier for earlier, later in pairwise([0, *tried])]
    assert [30, 65, 125, 245] == gaps, "a try is judged in the tick after it"


def free_the_stuck(watcher: Watcher, fs: FaultFS) -> None:
    """Lets the killed readers go, and hangs again at once."""
    stuck = list(watcher.crew._given_up)
    if stuck:
        fs.release()
        assert eventually(lambda: all(state_of(pid) == "" for pid in stuck))
        fs.set(hanging(SICK))


def test_a_gpu_that_hangs_now_and_then_is_trusted_less_each_time(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    watcher.tick()
    waits = []
    for _ in range(3):
        fs.set(hanging(SICK))
        watcher.tick()
        fs.release()
        begun = watcher.clock.now
        watcher.until(is_well)
        waits.append(watcher.clock.now - begun)

    assert waits[0] < waits[1] < waits[2]


def test_a_try_that_takes_a_while_makes_nobody_wait(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root, pace=PACE._replace(deadline=20.0), patience=Patience(trial_seconds=0.1))
    watcher.sampler.pace = PACE
    watcher.tick()
    fs.set(hanging(SICK))
    watcher.tick()
    watcher.sampler.pace = PACE._replace(deadline=20.0)
    fs.release()
    assert eventually(lambda: watcher.readers == {})
    fs.set({f"*/{SICK}/gpu_metrics": "slow:1.0"})
    begun = time.monotonic()
    watcher.tick(31.0)
    took = time.monotonic() - begun
    fs.release()
    back = watcher.until(is_well, seconds=1.0)

    assert took < 1.0
    assert_only_stalled(back)


def test_a_gpu_that_goes_away_while_it_is_stalled_is_lost_and_not_tried(
    node: Node, mirror: Mirror, watch: Watch
) -> None:
    made = node("mi300x", gpus=3)
    fs = mirror(Path(made.root))
    watcher = watch(fs.root)
    watcher.tick()
    fs.set(hanging(SICK))
    watcher.tick()
    Path(made.root, f"sys/class/drm/card{made.places[1].drm.card_minor}").unlink()
    lost = watcher.until(lambda snapshot: states(snapshot)[SICK] == "lost")
    fs.release()
    for _ in range(20):
        lost = watcher.tick(10.0)

    assert {PCI[0]: "active", SICK: "lost", PCI[2]: "active"} == states(lost)
    assert frozenset() == watcher.crew.stalled


# Slow, and killed ------------------------------------------------------------------------------------------------


def test_slow_but_sure_gpus_are_not_given_up(fs: FaultFS, watch: Watch) -> None:
    """Each takes most of a deadline, all of them more than one."""
    watcher = watch(fs.root, pace=PACE._replace(deadline=2.0))
    watcher.tick()
    fs.set({"*/gpu_metrics": "slow:0.9"})
    begun = time.monotonic()
    snapshot = watcher.tick()
    took = time.monotonic() - begun

    assert_only_stalled(snapshot)
    assert (True, 0) == (took > 2.5, snapshot.readers.restarts)


def test_a_reader_that_is_killed_in_the_middle_of_a_gpu_costs_no_value(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root, pace=PACE._replace(deadline=5.0))
    watcher.tick()
    fs.set({f"*/{SICK}/gpu_metrics": "slow:0.5"})
    reader = watcher.reader
    killer = threading.Timer(0.25, os.kill, (reader, signal.SIGKILL))
    killer.start()
    snapshot = watcher.tick()
    killer.join()

    assert_only_stalled(snapshot)
    assert frozenset() == watcher.crew.stalled
    assert reader not in watcher.readers


# For a long time -------------------------------------------------------------------------------------------------


def test_nothing_grows_over_a_thousand_ticks_with_a_gpu_that_hangs(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root, pace=PACE._replace(sensors=60.0))
    watcher.tick()
    fs.set(hanging(SICK) | {f"*/{PCI[2]}/mem_info_gtt_used": "EIO"})
    for _ in range(20):
        watcher.tick(MINUTE)
    before = held(watcher)
    for _ in range(1000):
        snapshot = watcher.tick()
    after = held(watcher)
    fs.release()
    back = watcher.until(is_well)

    assert before == after
    assert 1 == snapshot.readers.abandoned
    assert 1020 == snapshot.readers.fault_counts["gtt_used_bytes", "EIO"]
    assert len(snapshot.readers.fault_counts) == 1
    assert (0, []) == (back.readers.abandoned, faults_of(of(back, PCI[2])))


def held(watcher: Watcher) -> dict[str, int]:
    """Descriptors and processes; memory is what the kernel rounds to, and is looked at by the benchmark of leaks."""
    readers = watcher.readers
    return {
        "descriptors of main": descriptors_of(os.getpid()),
        "descriptors of the launcher": descriptors_of(watcher.launcher.pid),
        "readers": len(readers),
        "descriptors of the reader": descriptors_of(watcher.reader),
        "threads": threading.active_count(),
    }
