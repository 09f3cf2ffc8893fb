"""Throttling, links between GPUs, partitions, errors: from the files of a tree to the picture."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from kernel_bytes import Place, attribute, attributes, metrics
from watching import MINUTE, PACE, Watcher, faults_of, states

from rocmwatch.model import GpuReading, GpuSample, PartitionSample, PcieLink
from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
COUNTERS = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
ZERO = {"power": 0, "current": 0, "thermal": 0, "prochot": 0}


def device(node: SimulatedNode) -> Path:
    return Path(node.root, node.places[0].device)


def sample_of(reading: GpuReading) -> GpuSample:
    assert reading.sample is not None
    return reading.sample


def accumulated(revision: tuple[int, int], *numbers: int) -> bytes:
    if revision == (1, 9):
        return attributes(*(attribute(9 + n, 0, 6, "Q", number) for n, number in enumerate(numbers)))
    places: list[Place] = [(COUNTERS[revision] + 4 * n, "I", number) for n, number in enumerate(numbers)]
    return metrics(revision, places)


# Throttling


@pytest.mark.parametrize("revision", [*COUNTERS, (1, 9)])
def test_a_share_of_time_needs_two_readings(node: Node, watch: Watch, revision: tuple[int, int]) -> None:
    made = node()
    file = device(made) / "gpu_metrics"
    watcher = watch(made.root)
    found = []
    for power in (100, 150, 150, 250):
        file.write_bytes(accumulated(revision, 1000 + power, 7, power, 7, 7, 7))
        found.append(dict(sample_of(watcher.tick().gpus[0]).throttle_ratio))

    rest = dict.fromkeys(("prochot", "socket_thermal", "vr_thermal", "hbm_thermal"), 0.0)
    assert [{}, {"power": 1.0, **rest}, {}, {"power": 1.0, **rest}] == found
    assert watcher.tick().gpus[0].gpu.fields["throttle_ratio"]


def test_between_two_readings_of_the_sensors_the_share_stays(node: Node, watch: Watch) -> None:
    made = node()
    file = device(made) / "gpu_metrics"
    watcher = watch(made.root, pace=PACE._replace(memory=1.0, sensors=5.0))
    found = []
    for tick in range(12):
        file.write_bytes(accumulated((1, 6), 1000 + 100 * tick, 0, 50 * tick, 0, 0, 0))
        found.append(sample_of(watcher.tick(1.0).gpus[0]).throttle_ratio.get("power"))

    assert {None, 0.5} == set(found)
    assert found.index(0.5) + 1 < 12
    assert [0.5] * (12 - found.index(0.5)) == found[found.index(0.5) :]


def test_a_card_that_slept_begins_anew(node: Node, watch: Watch) -> None:
    made = node()
    file, status = device(made) / "gpu_metrics", device(made) / "power/runtime_status"
    watcher = watch(made.root)
    found = []
    for tick, state in enumerate(("active", "active", "suspended", "active", "active")):
        status.write_text(f"{state}\n")
        file.write_bytes(accumulated((1, 8), 1000 + 100 * tick, 0, 10 * tick, 0, 0, 0))
        found.append(sample_of(watcher.tick().gpus[0]).throttle_ratio.get("power"))

    assert [None, 0.1, None, None, 0.1] == found


def test_a_file_that_fails_for_a_moment_begins_anew(node: Node, watch: Watch) -> None:
    made = node()
    file = device(made) / "gpu_metrics"
    watcher = watch(made.root)
    found = []
    for tick in range(5):
        good = accumulated((1, 8), 1000 + 100 * tick, 0, 10 * tick, 0, 0, 0)
        file.write_bytes(good[:100] if tick == 2 else good)
        found.append(sample_of(watcher.tick().gpus[0]).throttle_ratio.get("power"))

    assert [None, 0.1, None, None, 0.1] == found


def test_what_holds_the_clocks_down_at_the_moment(node: Node, watch: Watch) -> None:
    made = node("mi210")
    raw = bytearray((device(made) / "gpu_metrics").read_bytes())
    assert (1, 3) == (raw[2], raw[3])
    watcher = watch(made.root)
    struct.pack_into("<Q", raw, 112, 1 << 36 | 1)
    (device(made) / "gpu_metrics").write_bytes(raw)
    reading = watcher.tick().gpus[0]
    struct.pack_into("<Q", raw, 112, (1 << 64) - 1)
    (device(made) / "gpu_metrics").write_bytes(raw)
    later = watcher.tick().gpus[0]

    assert {**ZERO, "power": 1, "thermal": 1} == sample_of(reading).throttled
    assert {} == sample_of(reading).throttle_ratio
    assert (True, False) == (reading.gpu.fields["throttled"], reading.gpu.fields["throttle_ratio"])
    assert {} == sample_of(later).throttled


def test_bytes_over_links_are_told_by_link(node: Node, watch: Watch) -> None:
    made = node()
    places: list[Place] = [(128 + 8 * n, "Q", n) for n in range(16)]
    (device(made) / "gpu_metrics").write_bytes(metrics((1, 6), places))
    sample = sample_of(watch(made.root).tick().gpus[0])

    assert {str(n): 1024 * n for n in range(8)} == sample.xgmi_read_bytes
    assert {str(n): 1024 * (8 + n) for n in range(8)} == sample.xgmi_write_bytes


def test_a_card_whose_counters_are_not_available_has_none(node: Node, watch: Watch) -> None:
    made = node()
    (device(made) / "gpu_metrics").write_bytes(metrics((1, 8)))
    watcher = watch(made.root)
    reading = [watcher.tick() for _ in range(2)][-1].gpus[0]

    assert ({}, {}) == (sample_of(reading).throttle_ratio, sample_of(reading).xgmi_read_bytes)
    assert [False] * 3 == [reading.gpu.fields[name] for name in ("throttle_ratio", "throttled", "xgmi")]


# Partitions


def xcp_file(node: SimulatedNode, minor: int) -> Path:
    folder = Path(node.root, f"sys/class/drm/renderD{minor}/device/xcp")
    folder.mkdir(exist_ok=True)
    return folder / "xcp_metrics"


def minors(reading: GpuReading) -> list[int]:
    return [partition.render_minor or 0 for partition in reading.gpu.partitions]


def test_a_partition_is_read_from_its_own_file(node: Node, watch: Watch) -> None:
    made = node("mi300x-cpx")
    watcher = watch(made.root)
    for number, minor in enumerate(minors(watcher.tick().gpus[0])):
        xcp_file(made, minor).write_bytes(metrics((1, 0), [(4, "H", 2000 + number), (48, "I", 10 * number)], size=488))
    reading = watcher.tick(MINUTE).gpus[0]

    expected = {str(n): PartitionSample(busy_ratio=n / 10, sclk_hertz=(2000 + n) * 1e6) for n in range(8)}
    assert (expected, []) == (sample_of(reading).partitions, faults_of(reading))
    assert reading.gpu.fields["partition_busy"]


def test_a_partition_s_own_file_that_is_bad_is_not_replaced_by_another(node: Node, watch: Watch) -> None:
    made = node("mi300x-cpx")
    watcher = watch(made.root)
    before = watcher.tick().gpus[0]
    file = xcp_file(made, minors(before)[3])
    file.write_bytes(b"unavailable\n")
    reading = watcher.tick(MINUTE).gpus[0]

    path = f"/sys/class/drm/renderD{minors(before)[3]}/device/xcp/xcp_metrics"
    assert [("partition_busy", "EBADMSG", path)] == faults_of(reading)
    assert PartitionSample() == sample_of(reading).partitions["3"]
    assert None is not sample_of(reading).partitions["2"].sclk_hertz


@pytest.mark.parametrize(("revision", "at", "size", "clock"), [((1, 6), 312, 168, 264), ((1, 8), 344, 440, 296)])
def test_without_such_files_the_card_s_own_tells_of_its_partitions(
    node: Node, watch: Watch, revision: tuple[int, int], at: int, size: int, clock: int
) -> None:
    made = node("mi300x-cpx")
    places: list[Place] = [(at + size * n, "I", 10 * n) for n in range(8)]
    places += [(clock + 2 * n, "H", 2000 + n) for n in range(8)]
    (device(made) / "gpu_metrics").write_bytes(metrics(revision, places))
    reading = watch(made.root).tick().gpus[0]

    expected = {str(n): PartitionSample(busy_ratio=n / 10, sclk_hertz=(2000 + n) * 1e6) for n in range(8)}
    assert (expected, []) == (sample_of(reading).partitions, faults_of(reading))


def test_a_gpu_without_partitions_has_no_partition_s_file_opened(node: Node, watch: Watch) -> None:
    made = node()
    xcp_file(made, made.places[0].drm.render_minor).write_bytes(b"nonsense\n")
    reading = watch(made.root).tick().gpus[0]

    assert ({}, []) == (sample_of(reading).partitions, faults_of(reading))
    assert "partition_busy" not in reading.gpu.fields


# The link to the host, and hardware errors


def test_the_link_to_the_host_is_read_once_a_minute_while_the_card_is_awake(node: Node, watch: Watch) -> None:
    made = node()
    files = {"current_link_width": "8", "current_link_speed": "16.0 GT/s PCIe", "max_link_width": "16"}
    for name, text in {**files, "max_link_speed": "Unknown", "pcie_replay_count": "5"}.items():
        (device(made) / name).write_text(f"{text}\n")
    watcher = watch(made.root)
    first = watcher.tick().gpus[0]
    (device(made) / "current_link_width").write_text("4\n")
    between, later = watcher.tick().gpus[0], watcher.tick(MINUTE).gpus[0]
    (device(made) / "power/runtime_status").write_text("suspended\n")
    asleep = watcher.tick().gpus[0]

    assert PcieLink(width=8, max_width=16, transfers_per_second=16e9, replays=5) == first.pcie == between.pcie
    assert (4, PcieLink()) == (later.pcie.width, asleep.pcie)
    assert all(first.gpu.fields[f"pcie_{name}"] for name in ("width", "max_transfers_per_second", "replays"))


def count_umc(node: SimulatedNode, text: str) -> None:
    (device(node) / "ras/umc_err_count").write_text(text)


def test_errors_are_read_at_a_pace_of_their_own(node: Node, watch: Watch) -> None:
    made = node()
    watcher = watch(made.root, pace=PACE._replace(ras=300.0))
    seen = []
    for tick in range(25):
        count_umc(made, f"ue: 0\nce: {tick}\nde: 2\n")
        snapshot = watcher.tick(30.0)
        reading = snapshot.gpus[0]
        seen.append(reading.ras_errors["umc", "correctable"])
        assert (0, 2) == (reading.ras_errors["umc", "uncorrectable"], reading.ras_errors["umc", "deferred"])
        assert reading.ras_at == snapshot.sources["ras"].last_success_at

    assert [0] * 10 + [10] * 10 + [20] * 5 == seen
    assert (True, {}) == (reading.gpu.fields["ras"], snapshot.readers.fault_counts)


def test_a_count_that_went_back_is_taken_as_it_is(node: Node, watch: Watch) -> None:
    """The driver was loaded anew, and whoever computes a rate knows how counters begin anew."""
    made = node()
    watcher = watch(made.root)
    seen = []
    for count in (9, 2):
        count_umc(made, f"ue: 0\nce: {count}\n")
        seen.append(watcher.tick(MINUTE).gpus[0].ras_errors["umc", "correctable"])

    assert [9, 2] == seen


def test_a_card_that_sleeps_is_asked_for_its_errors_when_it_wakes(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    status = device(made) / "power/runtime_status"
    status.write_text("suspended\n")
    watcher = watch(made.root, pace=PACE._replace(ras=300.0))
    asleep = [watcher.tick() for _ in range(3)]
    status.write_text("active\n")
    awake = watcher.tick()

    assert [({}, None)] * 3 == [(dict(shot.gpus[0].ras_errors), shot.gpus[0].ras_at) for shot in asleep]
    assert "ras" not in asleep[-1].sources, "what was left alone neither succeeded nor failed"
    assert awake.taken_at == awake.gpus[0].ras_at == awake.sources["ras"].last_success_at


def test_a_card_without_counts_of_errors_has_none_and_no_fault(node: Node, watch: Watch) -> None:
    made = node()
    for file in (device(made) / "ras").iterdir():
        file.unlink()
    (device(made) / "ras").rmdir()
    snapshot = watch(made.root).tick()
    reading = snapshot.gpus[0]

    assert ({}, None, [], False) == (
        dict(reading.ras_errors),
        reading.ras_at,
        faults_of(reading),
        reading.gpu.fields["ras"],
    )
    assert None is snapshot.sources["ras"].last_success_at


def test_a_card_that_cannot_be_asked_says_so_once_and_is_asked_again_after_a_minute(node: Node, watch: Watch) -> None:
    """During a reset, or while a fatal error is handled: not a fault of each block, and not for five minutes."""
    made = node()
    good = {file: file.read_bytes() for file in (device(made) / "ras").glob("*_err_count")}
    watcher = watch(made.root, pace=PACE._replace(ras=300.0))
    for file in good:
        file.write_bytes(b"Query currently inaccessible\n")
    first = watcher.tick().gpus[0]
    for file, content in good.items():
        file.write_bytes(content)
    seen = [watcher.tick(5.0).gpus[0] for _ in range(12)]

    assert [("ras", "EBUSY")] == [fault[:2] for fault in faults_of(first)]
    assert {} == first.ras_errors
    assert [True] * 10 == [not reading.ras_errors for reading in seen[:10]]
    assert (True, []) == (bool(seen[-1].ras_errors), faults_of(seen[-1]))


# What happens to a GPU


def test_a_gpu_that_falls_asleep_and_goes_is_counted(node: Node, watch: Watch) -> None:
    made = node(gpus=1)
    status = device(made) / "power/runtime_status"
    watcher = watch(made.root)
    first = watcher.tick().gpus[0].events
    for state in ("suspended", "active", "suspended", "active"):
        status.write_text(f"{state}\n")
        watcher.tick()
    card = Path(made.root, "sys/class/drm/card1")
    card.rename(card.with_name("away"))
    gone = watcher.tick(MINUTE)

    assert {0} == set(first.states.values())
    assert {"lost"} == set(states(gone).values())
    counts = {state.value: count for state, count in gone.gpus[0].events.states.items() if count}
    assert {"suspended": 2, "active": 2, "lost": 1} == counts


def test_a_gpu_that_is_divided_anew_is_counted(node: Node, watch: Watch) -> None:
    made = node()
    mode = device(made) / "current_compute_partition"
    watcher = watch(made.root)
    seen = []
    for word in ("SPX", "CPX", "CPX", "SPX"):
        mode.write_text(f"{word}\n")
        seen.append(watcher.tick(MINUTE).gpus[0].events.partition_changes)

    assert [0, 1, 1, 2] == seen


def test_what_the_kernel_announces_is_counted_for_the_gpu_that_it_names(node: Node, watch: Watch) -> None:
    made = node(gpus=2)
    watcher = watch(made.root)
    watcher.tick()
    sampler = watcher.sampler
    known = {f"card{place.drm.card_minor}": place.pci for place in made.places}
    assert known == {name: sampler.pci_of_card(name) for name in known}
    assert [None, None] == [sampler.pci_of_card("card0"), sampler.pci_of_card("")]
    sampler.note_wedged(made.places[1].pci, "rebind")
    sampler.note_wedged(made.places[1].pci, "rebind")
    sampler.note_wedged("0000:ff:00.0", "rebind")

    assert [{}, {"rebind": 2}] == [dict(reading.events.wedged) for reading in watcher.tick().gpus]
