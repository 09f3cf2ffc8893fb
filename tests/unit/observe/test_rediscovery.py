"""GPUs, partitions and files that come and go under a running sampler: no restart is needed to see it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import MINUTE, Watcher, of, said, states

from rocmwatch.observe.files import Faults
from rocmwatch.observe.gpu_files import GpuFiles
from rocmwatch.observe.sensors import SensorReader
from rocmwatch.observe.wire import MEMORY, SENSORS, SLOW, GpuFrame, Order
from rocmwatch.simulate import SimulatedNode
from rocmwatch.simulate.places import Place

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
A, B, C = "0000:05:00.0", "0000:27:00.0", "0000:47:00.0"


def card_of(node: SimulatedNode, place: Place) -> Path:
    """The GPU's entry in /sys/class/drm."""
    return Path(node.root, f"sys/class/drm/card{place.drm.card_minor}")


def count_change(node: SimulatedNode) -> None:
    """KFD's counter goes up, in place, as after any change of its nodes."""
    counter = Path(node.root, "sys/class/kfd/kfd/topology/generation_id")
    counter.write_text(f"{int(counter.read_text()) + 1}\n")


def test_a_gpu_that_vanishes_is_lost_and_keeps_its_number_and_its_name(node: Node, watch: Watch) -> None:
    made = node(gpus=3)
    watcher = watch(made.root)
    before = watcher.tick()
    card_of(made, made.places[1]).unlink()
    count_change(made)
    noticed = watcher.tick()
    listed = watcher.tick()

    assert {A: "active", B: "lost", C: "active"} == states(listed)
    assert ["0", "1", "2"] == [reading.gpu.gpu for reading in listed.gpus]
    assert of(before, B).gpu.serial == of(listed, B).gpu.serial
    assert (None, None, ()) == (of(listed, B).sample, of(listed, B).free_blocks, of(listed, B).faults)
    assert all(of(snapshot, A).sample for snapshot in (noticed, listed))


def test_without_the_compute_driver_it_takes_half_a_minute(node: Node, watch: Watch) -> None:
    made = node(gpus=2)
    shutil.rmtree(f"{made.root}/sys/class/kfd")
    watcher = watch(made.root)
    watcher.tick()
    card_of(made, made.places[1]).unlink()

    seen = [states(watcher.tick())[B] for _ in range(6)]
    assert "lost" == seen[-1]


def test_a_gpu_that_comes_back_has_its_old_number(node: Node, watch: Watch) -> None:
    made = node(gpus=3)
    watcher = watch(made.root)
    before = watcher.tick()
    link = card_of(made, made.places[0])
    target = os.readlink(link)
    link.unlink()
    lost = watcher.tick(MINUTE)
    link.symlink_to(target)
    back = watcher.tick(MINUTE)

    assert ("lost", "active") == (states(lost)[A], states(back)[A])
    assert (of(before, A).gpu, said(of(before, A))) == (of(back, A).gpu, said(of(back, A)))


def test_a_gpu_that_appears_later_is_read_at_once_and_gets_the_next_number(node: Node, watch: Watch) -> None:
    made = node(gpus=3)
    link = card_of(made, made.places[0])
    target = os.readlink(link)
    link.unlink()
    watcher = watch(made.root)
    first = watcher.tick()
    link.symlink_to(target)
    second = watcher.tick(MINUTE)

    assert {B: "0", C: "1"} == {reading.gpu.pci: reading.gpu.gpu for reading in first.gpus}
    assert {B: "0", C: "1", A: "2"} == {reading.gpu.pci: reading.gpu.gpu for reading in second.gpus}
    assert (second.taken_at, second.taken_at, second.taken_at) == (
        of(second, A).sampled_at,
        of(second, A).sensors_at,
        of(second, A).fragmentation_at,
    )


def test_a_node_without_a_gpu_is_watched_until_there_is_one(node: Node, watch: Watch, tmp_path: Path) -> None:
    root = tmp_path / "node"
    (root / "sys").mkdir(parents=True)
    watcher = watch(root)
    nothing = watcher.tick()
    (root / "sys").rmdir()
    root.rmdir()
    node(gpus=2)
    found = watcher.tick(MINUTE)

    assert ((), ()) == (nothing.gpus, nothing.notes)
    assert {} == nothing.readers.fault_counts
    assert {A: "active", B: "active"} == states(found)


def test_two_cards_that_change_their_numbers_do_not_change_their_values(node: Node, watch: Watch) -> None:
    made = node(gpus=2)
    used = {A: 11 << 30, B: 22 << 30}
    for place in made.places:
        Path(made.root, place.device, "mem_info_vram_used").write_text(f"{used[place.pci]}\n")
    watcher = watch(made.root)
    watcher.tick()
    first, second = (card_of(made, place) for place in made.places)
    targets = os.readlink(first), os.readlink(second)
    for link in (first, second):
        link.unlink()
    first.symlink_to(targets[1])
    second.symlink_to(targets[0])
    seen = []
    for seconds in (5.0, 5.0, MINUTE, 5.0, 5.0):
        snapshot = watcher.tick(seconds)
        seen.append({pci: of(snapshot, pci) for pci in used})

    for readings in seen:
        for pci, reading in readings.items():
            assert reading.sample is None or used[pci] == reading.sample.vram_used_bytes
    assert {A: "active", B: "active"} == states(watcher.tick())
    assert [used[A], used[B]] == [reading.sample and reading.sample.vram_used_bytes for reading in seen[-1].values()]


def test_a_card_that_changes_hands_while_it_is_opened_is_not_read_as_the_one_it_was(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = node("mi300x", gpus=2)
    card, other = (card_of(made, place) for place in made.places)
    check = GpuFiles._check_identity

    def check_and_swap(files: GpuFiles, faults: Faults) -> None:
        check(files, faults)
        if card.is_symlink():
            card.unlink()
            card.symlink_to(other.resolve())

    monkeypatch.setattr(GpuFiles, "_check_identity", check_and_swap)
    reader = SensorReader(made.root)
    frame = reader.answer(Order(A, MEMORY | SENSORS | SLOW, card.name))
    reader.close()

    assert frame == GpuFrame(state="gone")


def test_a_file_that_appears_later_is_read_within_a_minute(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    file = Path(made.root, made.places[0].hwmon, "temp3_input")
    content = file.read_bytes()
    file.unlink()
    metrics = Path(made.root, made.places[0].device, "gpu_metrics")
    metrics.unlink()
    watcher = watch(made.root)
    first = watcher.tick()
    file.write_bytes(content)
    second = watcher.tick(MINUTE)

    assert ({"junction"}, False, ()) == (
        set(_temperatures(first)),
        first.gpus[0].gpu.fields["temperature_memory"],
        first.gpus[0].faults,
    )
    assert ({"junction", "memory"}, True) == (
        set(_temperatures(second)),
        second.gpus[0].gpu.fields["temperature_memory"],
    )


def _temperatures(snapshot: object) -> dict[str, float]:
    return dict(snapshot.gpus[0].sample.temperatures_celsius)  # type: ignore[attr-defined]


def test_an_hwmon_folder_with_another_number_is_found_within_a_minute(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    watcher = watch(made.root)
    before = watcher.tick()
    folder = Path(made.root, made.places[0].hwmon)
    folder.rename(folder.with_name("hwmon9"))
    (folder.with_name("hwmon9") / "temp2_input").write_text("77000\n")
    after = watcher.tick(MINUTE)

    assert (38.0, 77.0) == (_temperatures(before)["junction"], _temperatures(after)["junction"])
    assert "active" == after.gpus[0].state.value


def test_a_change_of_the_partition_mode_is_seen_in_the_same_tick(node: Node, watch: Watch, tmp_path: Path) -> None:
    """From SPX to CPX: the compute driver counts a change, and has eight nodes in place of one."""
    made = node("mi300x", gpus=1)
    other = SimulatedNode(str(tmp_path / "other"), "mi300x-cpx", 1)
    other.create()
    watcher = watch(made.root)
    before = watcher.tick()
    topology = "sys/devices/virtual/kfd/kfd/topology"
    shutil.rmtree(f"{made.root}/{topology}/nodes")
    shutil.copytree(f"{other.root}/{topology}/nodes", f"{made.root}/{topology}/nodes", symlinks=True)
    Path(made.root, made.places[0].device, "current_compute_partition").write_text("CPX\n")
    count_change(made)
    after = watcher.tick()
    other.close()

    assert ("SPX", ()) == (before.gpus[0].gpu.compute_partition, before.gpus[0].gpu.partitions)
    assert ("CPX", [str(number) for number in range(8)]) == (
        after.gpus[0].gpu.compute_partition,
        [partition.partition for partition in after.gpus[0].gpu.partitions],
    )
    assert (before.gpus[0].gpu.gpu, None) == (after.gpus[0].gpu.gpu, after.gpus[0].gpu.kfd_gpu_id)
    assert after.taken_at == after.gpus[0].sampled_at


def test_a_list_of_cards_that_cannot_be_had_for_a_moment_loses_nobody(node: Node, watch: Watch) -> None:
    made = node(gpus=2)
    watcher = watch(made.root)
    before = watcher.tick()
    folder = Path(made.root, "sys/class/drm")
    folder.rename(folder.with_name("away"))
    folder.write_text("no folder\n")  # ENOTDIR is absence as well: no GPU
    gone = watcher.tick(MINUTE)
    folder.unlink()
    folder.with_name("away").rename(folder)
    back = watcher.tick(MINUTE)

    assert {A: "lost", B: "lost"} == states(gone)
    assert [said(reading) for reading in before.gpus] == [said(reading) for reading in back.gpus]


def test_partitions_are_numbered_by_the_driver_not_by_their_order(node: Node, watch: Watch) -> None:
    """The last GPU of a full node in CPX mode has seven of its eight partitions; here it is one in the middle."""
    made = node("mi300x-cpx", gpus=1)
    nodes = Path(made.root, "sys/devices/virtual/kfd/kfd/topology/nodes")
    missing = sorted(int(folder.name) for folder in nodes.iterdir())[2 + 3]  # two CPUs come first
    shutil.rmtree(nodes / str(missing))
    partitions = watch(made.root).tick().gpus[0].gpu.partitions

    assert ["0", "1", "2", "4", "5", "6", "7"] == [partition.partition for partition in partitions]


def test_the_used_memory_of_partitions_is_read_in_every_tick(node: Node, watch: Watch) -> None:
    """As ROCm's own driver counts it."""
    made = node("mi300x-cpx", gpus=1)
    nodes = Path(made.root, "sys/devices/virtual/kfd/kfd/topology/nodes")
    files = [nodes / str(number) / "mem_banks/0/used_memory" for number in range(2, 10)]
    for number, file in enumerate(files):
        file.write_text(f"{number << 30}\n")
    watcher = watch(made.root)
    first = watcher.tick()
    files[3].write_text(f"{33 << 30}\n")
    files[4].write_text("unavailable\n")
    second = watcher.tick()

    assert [number << 30 for number in range(8)] == _used(first)
    assert [0, 1 << 30, 2 << 30, 33 << 30, None, *(number << 30 for number in (5, 6, 7))] == _used(second)
    assert [("partition_vram_used_bytes", "EBADMSG")] == [
        (fault.source, fault.errno) for fault in second.gpus[0].faults
    ]


def _used(snapshot: object) -> list[int | None]:
    return [partition.vram_used_bytes for partition in snapshot.gpus[0].gpu.partitions]  # type: ignore[attr-defined]
