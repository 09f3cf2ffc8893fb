"""Resets, lost and sleeping cards, a firmware that answers nonsense: what state a GPU is then said to be in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from faultfs import FaultFS
from watching import MINUTE, PACE, Watcher, faults_of, of, said, states

from rocmwatch.simulate import SimulatedNode

pytestmark = pytest.mark.fuse

Mirror = Callable[..., FaultFS]
Watch = Callable[..., Watcher]
SICK, WELL = "0000:05:00.0", "0000:27:00.0"
DEVICE = f"*/{SICK}"
SENSORS = (
    f"{DEVICE}/hwmon/hwmon*/*_input",
    f"{DEVICE}/hwmon/hwmon*/power1_cap",
    f"{DEVICE}/gpu_metrics",
    f"{DEVICE}/gpu_busy_percent",
    f"{DEVICE}/mem_busy_percent",
    f"{DEVICE}/pp_dpm_*",
)
SENSORS_ALONE = (SENSORS[0], *SENSORS[2:5])
READINGS = {"temperature_junction", "temperature_memory", "power", "energy", "busy_gfx", "busy_memory", "clock_sclk"}


@pytest.fixture
def fs(node: Callable[..., SimulatedNode], mirror: Mirror) -> FaultFS:
    """The mirror of a node of two MI300X; the first is the sick one."""
    return mirror(Path(node("mi300x", gpus=2).root))


def rules(effect: str, *paths: str) -> dict[str, str]:
    return dict.fromkeys(paths, effect)


@pytest.mark.parametrize("error", ["EPERM", "EBUSY"])
def test_a_card_that_is_awake_and_refuses_its_sensors_is_resetting(fs: FaultFS, watch: Watch, error: str) -> None:
    """EPERM up to Linux 6.12, EBUSY later."""
    watcher = watch(fs.root)
    before = watcher.tick()
    fs.set(rules(error, *SENSORS))
    during = watcher.tick()
    much_later = watcher.tick(MINUTE)
    fs.release()
    after = watcher.tick()

    for snapshot in (during, much_later):
        sick = of(snapshot, SICK)
        assert {SICK: "resetting", WELL: "active"} == states(snapshot)
        assert READINGS.isdisjoint(said(sick))
        assert sick.sample is not None
        assert {"vram_used_bytes", "vram_total_bytes"} <= said(sick).keys(), "memory can be read during a reset"
        assert {error} == {errno for _, errno, _ in faults_of(sick)}
        assert "temperature_junction" in said(of(snapshot, WELL))
        assert before.taken_at == snapshot.sources["sensors"].last_success_at
        assert snapshot.taken_at == snapshot.sources["memory"].last_success_at
        assert before.taken_at == sick.sensors_at
    assert of(before, SICK).limits == of(much_later, SICK).limits, "limits are not asked for during a reset"
    assert (said(of(before, SICK)), []) == (said(of(after, SICK)), faults_of(of(after, SICK)))
    assert {SICK: "active", WELL: "active"} == states(after)
    assert after.taken_at == after.sources["sensors"].last_success_at


def test_a_reset_lasts_until_the_sensors_say_otherwise(fs: FaultFS, watch: Watch) -> None:
    """Memory is read five times as often, and knows nothing of it."""
    watcher = watch(fs.root, pace=PACE._replace(memory=1.0, sensors=5.0))
    watcher.tick(1.0)
    fs.set(rules("EBUSY", *SENSORS))
    seen = [states(watcher.tick(1.0))[SICK] for _ in range(10)]
    fs.release()
    seen += [states(watcher.tick(1.0))[SICK] for _ in range(5)]

    first = seen.index("resetting")
    assert ["resetting"] * (10 - first) == seen[first:10]
    assert "active" == seen[-1]


def test_a_card_that_is_being_reset_is_not_asked_for_its_errors(fs: FaultFS, watch: Watch) -> None:
    """They would hang, and nobody notices; they are asked for as soon as the reset is over."""
    fs.set(rules("EBUSY", *SENSORS) | rules("hang", f"{DEVICE}/ras/*", f"{DEVICE}/*_link_*"))
    watcher = watch(fs.root)
    during = [watcher.tick(seconds) for seconds in (5.0, MINUTE, 5.0)]
    fs.release()
    after = watcher.tick()

    for snapshot in during:
        sick = of(snapshot, SICK)
        assert ({SICK: "resetting", WELL: "active"}, {}) == (states(snapshot), sick.ras_errors)
        assert 0 == snapshot.readers.restarts
    assert of(during[0], WELL).ras_at is not None
    back = watcher.tick()
    assert ("active", after.taken_at) == (states(after)[SICK], of(after, SICK).sensors_at)
    assert (True, back.taken_at) == (bool(of(back, SICK).ras_errors), of(back, SICK).ras_at)


def test_one_sensor_that_is_busy_is_no_reset(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    fs.set(rules("EBUSY", f"{DEVICE}/hwmon/hwmon*/power1_input"))
    sick = of(watcher.tick(), SICK)

    assert ("active", [("power", "EBUSY")]) == (sick.state.value, [fault[:2] for fault in faults_of(sick)])


def test_a_firmware_whose_table_is_poisoned_costs_what_only_the_table_tells(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    before = said(of(watcher.tick(), SICK))
    fs.set(rules("EHWPOISON", f"{DEVICE}/gpu_metrics"))
    snapshot = watcher.tick()
    sick = of(snapshot, SICK)

    assert "active" == sick.state.value
    assert [("gpu_metrics", "EHWPOISON", "/sys/class/drm/card1/device/gpu_metrics")] == faults_of(sick)
    assert 1 == snapshot.readers.fault_counts["gpu_metrics", "EHWPOISON"]
    lost = {"energy", "xgmi", *(f"xcc_clock_{die}" for die in range(8))}
    assert {key: value for key, value in before.items() if key not in lost} == said(sick)


@pytest.mark.parametrize("error", ["EIO", "EHWPOISON"])
def test_a_card_of_whose_sensors_none_can_be_read_is_still_there(fs: FaultFS, watch: Watch, error: str) -> None:
    watcher = watch(fs.root)
    watcher.tick()
    fs.set(rules(error, *SENSORS))
    snapshot = watcher.tick()

    assert ("active", True) == (states(snapshot)[SICK], READINGS.isdisjoint(said(of(snapshot, SICK))))
    assert snapshot.taken_at > (snapshot.sources["sensors"].last_success_at or 0.0)


@pytest.mark.parametrize(
    "paths",
    [(f"{DEVICE}/*",), (f"{DEVICE}/mem_info_*",), (f"{DEVICE}/mem_info_vram_used",), SENSORS, SENSORS_ALONE],
    ids=["every file", "memory", "one file of memory", "every sensor", "every sensor, no limit"],
)
def test_a_device_that_is_gone_is_lost_and_comes_back_with_its_number(
    fs: FaultFS, watch: Watch, paths: tuple[str, ...]
) -> None:
    watcher = watch(fs.root)
    before = watcher.tick()
    fs.set(rules("ENODEV", *paths))
    lost = watcher.tick()
    still = [watcher.tick() for _ in range(10)]
    fs.release()
    back = watcher.until(lambda snapshot: states(snapshot)[SICK] == "active")

    for snapshot in (lost, *still):
        assert {SICK: "lost", WELL: "active"} == states(snapshot)
        sick = of(snapshot, SICK)
        assert ("0", None, None, ()) == (sick.gpu.gpu, sick.sample, sick.free_blocks, sick.faults)
        assert of(before, SICK).gpu == sick.gpu
        assert said(of(before, WELL)) == said(of(snapshot, WELL))
    assert (of(before, SICK).gpu, said(of(before, SICK))) == (of(back, SICK).gpu, said(of(back, SICK)))
    assert back.taken_at == back.sources["memory"].last_success_at


def test_a_lost_card_is_looked_for_twice_a_minute(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    watcher.tick()
    fs.set(rules("ENODEV", f"{DEVICE}/mem_info_*"))
    for _ in range(3):
        watcher.tick()
    fs.release()
    seen = [states(watcher.tick())[SICK] for _ in range(7)]

    assert ("lost", "active") == (seen[0], seen[-1])


def test_a_single_sensor_that_says_that_the_device_is_gone_is_a_fault(fs: FaultFS, watch: Watch) -> None:
    watcher = watch(fs.root)
    before = said(of(watcher.tick(), SICK))
    fs.set(rules("ENODEV", f"{DEVICE}/hwmon/hwmon*/temp2_input"))
    sick = [of(watcher.tick(seconds), SICK) for seconds in (5.0, 5.0, MINUTE)]

    for reading in sick:
        assert "active" == reading.state.value
        assert [("temperature_junction", "ENODEV")] == [fault[:2] for fault in faults_of(reading)]
        assert {key: value for key, value in before.items() if key != "temperature_junction"} == said(reading)


def test_files_that_were_replaced_are_opened_anew_in_the_same_tick(
    node: Callable[..., SimulatedNode], mirror: Mirror, watch: Watch
) -> None:
    """As when hwmon gets another number: the old descriptors say that the device is gone, and new files are there."""
    made = node("mi300x", gpus=1)
    fs = mirror(Path(made.root))
    watcher = watch(fs.root)
    before = said(watcher.tick().gpus[0])
    folder = Path(made.root, made.places[0].hwmon)
    folder.rename(folder.with_name("hwmon7"))
    fs.set({f"*/{folder.name}/*": "ENODEV"})
    snapshots = [watcher.tick() for _ in range(3)]

    for snapshot in snapshots:
        assert ("active", before, []) == (
            snapshot.gpus[0].state.value,
            said(snapshot.gpus[0]),
            faults_of(snapshot.gpus[0]),
        )
        assert 0 == snapshot.readers.restarts


def test_a_driver_that_was_loaded_anew_is_found_in_the_next_tick(
    node: Callable[..., SimulatedNode], mirror: Mirror, watch: Watch
) -> None:
    """Its cards have other numbers then."""
    made = node("mi300x", gpus=2)
    fs = mirror(Path(made.root))
    watcher = watch(fs.root)
    before = watcher.tick()
    fs.set(rules("ENODEV", f"{DEVICE}/mem_info_*"))
    lost = watcher.tick()
    cards = Path(made.root, "sys/class/drm")
    (cards / "card1").rename(cards / "card60")
    fs.release()
    back = watcher.until(lambda snapshot: snapshot is not lost, seconds=5.0)

    assert ("lost", "active") == (states(lost)[SICK], states(back)[SICK])
    assert said(of(before, SICK)) == said(of(back, SICK))


def test_a_card_that_falls_asleep_in_the_middle_of_it_is_asleep_and_not_resetting(fs: FaultFS, watch: Watch) -> None:
    """Linux after 6.12 refuses its sensors rather than wake it."""
    watcher = watch(fs.root, pace=PACE._replace(deadline=10.0))
    watcher.tick()
    fs.set(rules("hang", *SENSORS))
    asleep = {**rules("EPERM", *SENSORS), f"{DEVICE}/power/runtime_status": "text:suspended\n"}
    timer = threading.Timer(0.5, fs.set, (asleep,))
    timer.start()
    snapshot = watcher.tick()
    timer.join()

    assert ("suspended", []) == (states(snapshot)[SICK], faults_of(of(snapshot, SICK)))
    assert READINGS.isdisjoint(said(of(snapshot, SICK)))
    assert snapshot.taken_at == snapshot.sources["sensors"].last_success_at


@pytest.mark.parametrize("effect", ["hang", "EIO", "open:hang", "list:hang"])
def test_a_sleeping_card_is_not_asked_anything_that_wakes_it(fs: FaultFS, watch: Watch, effect: str) -> None:
    """Its sensors would hang, and nobody notices."""
    hwmon = (f"{DEVICE}/hwmon",) if effect == "list:hang" else SENSORS
    fs.set({**rules(effect, *hwmon), f"{DEVICE}/power/runtime_status": "text:suspended\n"})
    watcher = watch(fs.root)
    snapshots = [watcher.tick(MINUTE) for _ in range(3)]

    for snapshot in snapshots:
        assert {SICK: "suspended", WELL: "active"} == states(snapshot)
        assert ({"vram_used_bytes", "fragmentation"}, set()) == (
            {"vram_used_bytes", "fragmentation"} & said(of(snapshot, SICK)).keys(),
            READINGS & said(of(snapshot, SICK)).keys(),
        )
        assert (0, {}) == (snapshot.readers.restarts, snapshot.readers.fault_counts)


def test_a_status_that_cannot_be_read_leaves_the_card_alone(fs: FaultFS, watch: Watch) -> None:
    fs.set({**rules("hang", *SENSORS), f"{DEVICE}/power/runtime_status": "EIO"})
    watcher = watch(fs.root)
    snapshot = watcher.tick()
    sick = of(snapshot, SICK)

    assert ("active", ["runtime_status"]) == (sick.state.value, [source for source, _, _ in faults_of(sick)])
    assert READINGS.isdisjoint(said(sick))
    assert None is snapshot.sources["sensors"].last_success_at
