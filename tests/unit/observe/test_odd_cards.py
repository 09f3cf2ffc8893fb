"""Cards that lack things: they give what they have, and nothing is a fault that is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import MINUTE, Watcher, faults_of, of, said, states

from rocmwatch.kernel.gpu_metrics_layouts import LAYOUTS
from rocmwatch.simulate import SimulatedNode
from rocmwatch.simulate.places import Place

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
MEMORY = {f"{kind}_{part}_bytes" for kind in ("vram", "visible_vram", "gtt") for part in ("total", "used")}
IDENTITY = {"device_id", "vbios", "pool", "numa_node"}
LINK = ("*_link_speed", "*_link_width", "pcie_replay_count")
POWER_MANAGEMENT = ("gpu_metrics", "gpu_busy_percent", "mem_busy_percent", "pp_dpm_sclk", "pp_dpm_mclk")


def device(node: SimulatedNode, place: Place | None = None) -> Path:
    return Path(node.root, (place or node.places[0]).device)


def without(folder: Path, *names: str) -> None:
    """Takes files and folders away."""
    for name in names:
        for path in folder.glob(name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_guest_with_a_virtual_function_has_its_memory_and_no_sensors(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    without(device(made), "hwmon", *POWER_MANAGEMENT, *LINK, "ras", "unique_id", "serial_number", "product_name")
    without(Path(made.root, "sys/kernel"), "debug")
    snapshot = watch(made.root).tick()
    reading = snapshot.gpus[0]

    assert ("active", []) == (reading.state.value, faults_of(reading))
    assert MEMORY | IDENTITY | {"kfd_gpu_id", "compute_partition", "memory_partition"} == said(reading).keys()
    assert "vram" == reading.gpu.pool.value
    assert {name for name, there in reading.gpu.fields.items() if there} == MEMORY
    assert snapshot.taken_at == snapshot.sources["sensors"].last_success_at, "no sensors are none that fail"
    assert None is snapshot.sources["fragmentation"].last_success_at


def test_a_guest_with_the_only_virtual_function_keeps_its_address(node: Node, watch: Watch) -> None:
    """A guest's GPU may be function 2 of its device, whose number in KFD's location is then no partition."""
    made = node(gpus=1)
    pci = "0000:05:00.2"
    uevent = device(made) / "uevent"
    uevent.write_text(uevent.read_text().replace("0000:05:00.0", pci))
    properties = Path(made.root, "sys/class/kfd/kfd/topology/nodes/2/properties")
    properties.write_text(properties.read_text().replace("location_id 1280", "location_id 1282"))
    gpu = watch(made.root).tick().gpus[0].gpu

    assert (pci, (), True) == (gpu.pci, gpu.partitions, gpu.kfd_gpu_id is not None)


def test_a_radeon_card_is_no_gpu_of_ours(node: Node, watch: Watch) -> None:
    made = node(gpus=2)
    uevent = device(made) / "uevent"
    uevent.write_text(uevent.read_text().replace("DRIVER=amdgpu", "DRIVER=radeon"))
    snapshot = watch(made.root).tick()

    assert {made.places[1].pci: "active"} == states(snapshot)
    assert {} == snapshot.readers.fault_counts


def test_a_card_without_any_file_of_ours_is_a_gpu_without_values(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    without(device(made), "hwmon", "mem_info_*", *POWER_MANAGEMENT, *LINK, "ras", "power")
    reading = watch(made.root).tick().gpus[0]

    assert ("active", []) == (reading.state.value, faults_of(reading))
    assert MEMORY.isdisjoint(said(reading))
    assert not any(reading.gpu.fields.values())


def test_the_silent_second_die_of_a_package_has_no_power(node: Node, watch: Watch) -> None:
    """MI250: the first die reports for both, the second one says 0 W and a cap of 0."""
    made = node("mi210", gpus=2)
    hwmon = Path(made.root, made.places[1].hwmon)
    (hwmon / "power1_average").write_text("0\n")
    (hwmon / "power1_cap").write_text("0\n")
    metrics = device(made, made.places[1]) / "gpu_metrics"
    raw = bytearray(metrics.read_bytes())
    raw[22:32] = bytes(10)  # average_socket_power, energy_accumulator
    metrics.write_bytes(bytes(raw))
    snapshot = watch(made.root).tick()
    first, second = (said(of(snapshot, place.pci)) for place in made.places)

    assert {"power", "power_cap", "energy"} <= first.keys()
    assert {"power", "power_cap", "energy"}.isdisjoint(second)
    assert [] == faults_of(snapshot.gpus[1])


def test_a_clock_that_no_die_reports_is_the_one_that_hwmon_shows(node: Node, watch: Watch) -> None:
    made = node("mi300x")
    file = device(made) / "gpu_metrics"
    raw = bytearray(file.read_bytes())
    [clocks] = [field for field in LAYOUTS[raw[2], raw[3]] if field.name == "current_gfxclk"]
    raw[clocks.offset : clocks.offset + 2 * clocks.count] = b"\xff" * 2 * clocks.count
    file.write_bytes(raw)
    [hwmon] = (device(made) / "hwmon").glob("*/freq1_input")
    sample = watch(made.root).tick().gpus[0].sample

    assert sample is not None
    assert {} == sample.xcc_clocks_hertz
    assert int(hwmon.read_text()) == sample.clocks_hertz["sclk"]


def test_an_instant_power_is_preferred_to_an_average(node: Node, watch: Watch) -> None:
    made = node("apu")
    hwmon = Path(made.root, made.places[0].hwmon)
    (hwmon / "power1_input").write_text("33000000\n")
    (hwmon / "power1_average").write_text("11000000\n")
    watcher = watch(made.root)
    both = watcher.tick()
    (hwmon / "power1_input").unlink()
    average = watcher.tick(MINUTE)

    assert [33.0, 11.0] == [
        snapshot.gpus[0].sample and snapshot.gpus[0].sample.power_watts for snapshot in (both, average)
    ]


def test_the_clock_of_a_card_of_several_dies_is_that_of_the_fastest(node: Node, watch: Watch) -> None:
    """hwmon shows the first one."""
    made = node("mi300x")
    (Path(made.root, made.places[0].hwmon) / "freq1_input").write_text("90000000\n")
    sample = watch(made.root).tick().gpus[0].sample

    assert sample is not None
    assert max(sample.xcc_clocks_hertz.values()) == sample.clocks_hertz["sclk"] > 90e6


def test_an_old_card_with_nothing_but_levels_of_its_clocks_has_these(node: Node, watch: Watch) -> None:
    made = node("mi210")
    without(device(made), "gpu_metrics")
    without(Path(made.root, made.places[0].hwmon), "freq*")
    (device(made) / "pp_dpm_sclk").write_text("S: 19Mhz *\n0: 500Mhz\n1: 1700Mhz\n")
    (device(made) / "pp_dpm_mclk").write_text("\n")
    reading = watch(made.root).tick().gpus[0]

    assert reading.sample is not None
    assert ({"sclk": 19e6}, {"sclk": 1700e6}, []) == (
        dict(reading.sample.clocks_hertz),
        dict(reading.limits.clocks_hertz),
        faults_of(reading),
    )


# Which memory models live in


@pytest.mark.parametrize("kfd", [True, False], ids=["with KFD", "without KFD"])
def test_models_live_in_gtt_on_an_apu_and_in_vram_on_a_card(node: Node, watch: Watch, kfd: bool) -> None:
    pools = {}
    for model in ("apu", "mi300x"):
        made = node(model, name=model)
        if not kfd:
            without(Path(made.root, "sys/class"), "kfd")
        pools[model] = watch(made.root).tick().gpus[0].gpu.pool.value

    assert {"apu": "gtt", "mi300x": "vram"} == pools


def test_an_apu_whose_driver_hides_its_vram_has_gtt_only(node: Node, watch: Watch) -> None:
    made = node("apu")
    without(Path(made.root, "sys/class"), "kfd")
    without(device(made), "mem_info_vram*", "mem_info_vis_vram*", "gpu_metrics")

    assert "gtt" == watch(made.root).tick().gpus[0].gpu.pool.value


@pytest.mark.parametrize("file", ["mem_info_vram_total", "mem_info_gtt_total"])
@pytest.mark.parametrize("model", ["apu", "mi300x"])
def test_a_size_that_cannot_be_read_does_not_move_the_pool(node: Node, watch: Watch, model: str, file: str) -> None:
    made = node(model)
    size = device(made) / file
    good = size.read_text()
    watcher = watch(made.root)
    before = watcher.tick().gpus[0].gpu.pool
    size.write_text("unavailable\n")
    bad = watcher.tick(MINUTE).gpus[0]
    size.write_text(good)
    after = watcher.tick(MINUTE).gpus[0].gpu.pool

    assert (before, before, 1) == (bad.gpu.pool, after, len(bad.faults))


def test_a_card_whose_size_cannot_be_read_at_first_sight_is_not_taken_for_an_apu(node: Node, watch: Watch) -> None:
    made = node("mi300x")
    without(Path(made.root, "sys/class"), "kfd")
    (device(made) / "mem_info_vram_total").write_text("\n")

    assert "vram" == watch(made.root).tick().gpus[0].gpu.pool.value


# What the node lacks


def test_without_debugfs_there_is_one_note_and_no_fault(node: Node, watch: Watch) -> None:
    made = node(gpus=3)
    without(Path(made.root, "sys/kernel"), "debug")
    watcher = watch(made.root)
    snapshots = [watcher.tick(MINUTE) for _ in range(3)]

    (note,) = snapshots[-1].notes
    assert note.startswith("/sys/kernel/debug/dri: ENOENT (is debugfs mounted?): fragmentation")
    assert ({}, [None] * 3) == (
        snapshots[-1].readers.fault_counts,
        [reading.free_blocks for reading in snapshots[-1].gpus],
    )


def test_debugfs_that_is_mounted_later_is_used_and_the_note_goes(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    debug = Path(made.root, "sys/kernel/debug")
    debug.rename(debug.with_name("away"))
    watcher = watch(made.root)
    before = watcher.tick()
    debug.with_name("away").rename(debug)
    after = watcher.tick(MINUTE)

    assert (1, None) == (len(before.notes), before.gpus[0].free_blocks)
    assert ((), True) == (after.notes, after.gpus[0].free_blocks is not None)


def test_an_older_kernel_names_the_debugfs_folder_by_the_card(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    dri = Path(made.root, "sys/kernel/debug/dri")
    (dri / "1").unlink()
    (dri / made.places[0].pci).rename(dri / "1")

    assert None is not watch(made.root).tick().gpus[0].free_blocks


def test_without_the_compute_driver_there_are_no_partitions_and_no_fault(node: Node, watch: Watch) -> None:
    made = node("mi300x-cpx", gpus=1)
    without(Path(made.root, "sys/class"), "kfd")
    snapshot = watch(made.root).tick()

    assert ((), None, {}) == (
        snapshot.gpus[0].gpu.partitions,
        snapshot.gpus[0].gpu.kfd_gpu_id,
        snapshot.readers.fault_counts,
    )
    assert snapshot.taken_at == snapshot.sources["topology"].last_success_at


def test_unreadable_identity_texts_are_escaped_or_absent(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    (device(made) / "product_name").write_bytes(b"AMD \xff\x1b[31m\n")
    (device(made) / "unique_id").write_bytes(b"")
    (device(made) / "serial_number").write_bytes(b"\n")
    (device(made) / "numa_node").write_text("-1\n")
    gpu = watch(made.root).tick().gpus[0].gpu

    assert ("AMD \\xff\ufffd[31m", None, None, None) == (gpu.product, gpu.unique_id, gpu.serial, gpu.numa_node)


def test_what_is_no_gpu_is_not_opened_for_more_than_its_name(node: Node, watch: Watch) -> None:
    """Platform devices of partitions, connectors, render nodes, a management display."""
    made = node("mi300x-cpx", gpus=1)
    os.mkdir(f"{made.root}/sys/class/drm/card1-DP-1")
    snapshot = watch(made.root).tick()

    assert ({made.places[0].pci: "active"}, {}) == (states(snapshot), snapshot.readers.fault_counts)
