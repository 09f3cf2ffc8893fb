"""Both backends on the same tree, and what a GPU that sleeps, or one whose files lack something, gets of amdsmi."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rocm import Make, Pair, children_of_role, cpu_nanoseconds, values
from watching import PACE, eventually

from rocmwatch.observe.backend import AMDSMI, AUTO, SYSFS
from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
Pairs = Callable[..., Pair]
FIRST, SECOND = "0000:05:00.0", "0000:27:00.0"
ROUNDS = 200


def device(node: SimulatedNode, pci: str) -> Path:
    """The folder of a GPU's files."""
    return next(
        path.parent
        for path in Path(node.root).glob("sys/class/drm/card*/device/uevent")
        if f"PCI_SLOT_NAME={pci}" in path.read_text()
    )


def asleep(node: SimulatedNode, pci: str, word: str = "suspended") -> None:
    (device(node, pci) / "power" / "runtime_status").write_text(f"{word}\n")


MODELS = ("mi300x", "mi300x-cpx", "mi325x", "mi355x", "mi210", "mi250x", "rx7900xtx", "apu", "strix-halo")


@pytest.mark.parametrize("model", MODELS)
def test_both_backends_say_the_same(model: str, node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node(model)
    tree.step(150.0)  # the models are loaded, and busy
    rocm(tree.root)
    by_files, by_amdsmi = pair(tree.root, mode=SYSFS).tick(), pair(tree.root, mode=AMDSMI).tick()

    assert () == by_amdsmi.notes
    assert [values(reading) for reading in by_files.gpus] == [values(reading) for reading in by_amdsmi.gpus]


def test_with_amdsmi_its_values_win(node: Node, rocm: Make, pair: Pairs) -> None:
    tree, other = node("mi300x", name="files"), node("mi300x", name="other")
    rocm(other.root)
    (device(other, FIRST) / "mem_info_vram_used").write_text("1234567890\n")
    snapshot = pair(tree.root).tick()

    assert 1234567890 == values(snapshot.gpus[0])["vram_used_bytes"]


def test_it_is_started_once_and_asked_each_time(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x", gpus=2)
    installed = rocm(tree.root)
    installed.listen()
    one = pair(tree.root)
    for _ in range(3):
        one.tick()
    calls = installed.calls()

    assert 1 == calls.count(("init", "-"))
    assert 3 == calls.count(("power_info", FIRST)) == calls.count(("power_info", SECOND))


def test_what_the_cards_have_not_is_asked_once_a_minute(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x", gpus=1)  # no edge sensor
    installed = rocm(tree.root)
    installed.listen()
    one = pair(tree.root)
    one.tick()
    installed.listen()
    one.tick()
    assert 2 == installed.calls().count(("temp_metric", FIRST))
    one.tick(61)
    assert 2 + 3 + 6 == installed.calls().count(("temp_metric", FIRST))


def test_a_sleeping_gpu_is_not_asked(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x", gpus=2)
    installed = rocm(tree.root)
    one = pair(tree.root)
    one.tick()
    asleep(tree, SECOND)
    installed.listen()
    snapshot = one.tick(61)

    assert ["active", "suspended"] == [reading.state.value for reading in snapshot.gpus]
    assert {FIRST} == {pci for _, pci in installed.calls()}


def test_it_is_not_started_while_a_gpu_sleeps_as_its_start_would_wake_it(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x", gpus=2)
    installed = rocm(tree.root)
    installed.listen()
    asleep(tree, SECOND)
    one = pair(tree.root)
    snapshot = one.tick()

    assert [] == installed.calls()
    assert [
        "amdsmi is not used, the driver's files are read instead: "
        "its start would wake every GPU, and one is not awake or cannot be read"
    ] == list(snapshot.notes)
    asleep(tree, SECOND, "active")
    assert () == one.tick().notes
    assert {FIRST, SECOND} < {pci for _, pci in installed.calls()}


def test_with_sysfs_it_is_not_started(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x")
    installed = rocm(tree.root)
    installed.listen()
    pair(tree.root, mode=SYSFS).tick()

    assert [] == installed.calls()


def test_with_auto_it_is_not_started_where_the_files_have_what_is_needed(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x")
    installed = rocm(tree.root)
    installed.listen()
    pair(tree.root, mode=AUTO).tick()

    assert [] == installed.calls()


def test_with_auto_it_fills_the_gaps_of_the_files(node: Node, rocm: Make, pair: Pairs) -> None:
    whole, tree = node("mi300x", name="whole"), node("mi300x", name="lacking")
    rocm(whole.root)  # a driver whose files are not all there, and a library that finds another way
    (device(tree, FIRST) / "mem_info_vram_used").unlink()
    snapshot = pair(tree.root, mode=AUTO).tick()

    assert () == snapshot.notes
    assert int((device(whole, FIRST) / "mem_info_vram_used").read_text()) == values(snapshot.gpus[0])["vram_used_bytes"]


def test_with_auto_a_machine_without_amdsmi_says_nothing(
    node: Node, pair: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "none"))
    tree = node("mi300x")
    (device(tree, FIRST) / "mem_info_vram_used").unlink()

    assert () == pair(tree.root, mode=AUTO).tick().notes


def test_with_auto_a_card_that_it_cannot_help_is_left_alone_for_a_while(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x")
    (device(tree, FIRST) / "mem_info_vram_used").unlink()
    installed = rocm(tree.root)
    one = pair(tree.root, mode=AUTO)
    one.tick()
    installed.listen()
    for _ in range(5):
        one.tick(100)
    assert [] == installed.calls()
    one.tick(200)
    one.tick(200)

    assert [] != installed.calls()


def test_the_mode_can_be_changed_at_any_time(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x")
    rocm(tree.root)
    one = pair(tree.root, mode=SYSFS)
    one.tick()
    assert [] == children_of_role(one.launcher.pid, "rw-amdsmi")
    one.backend.mode = AMDSMI
    one.tick()
    assert 1 == len(children_of_role(one.launcher.pid, "rw-amdsmi"))
    one.backend.mode = SYSFS
    one.tick()

    assert eventually(lambda: children_of_role(one.launcher.pid, "rw-amdsmi") == [])


def test_the_reader_has_no_capability_and_no_folder_to_write_to(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x")
    rocm(tree.root)
    one = pair(tree.root)
    one.tick()
    (reader,) = children_of_role(one.launcher.pid, "rw-amdsmi")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{reader}/status").read_text().splitlines())

    assert ["0" * 16] * 3 == [status[name] for name in ("CapEff", "CapPrm", "CapBnd")]
    assert ["/proc", "/dev/null", "/dev/null"] == [
        str(Path(f"/proc/{reader}/{link}").readlink()) for link in ("cwd", "fd/1", "fd/2")
    ]


def test_what_it_costs(node: Node, rocm: Make, pair: Pairs) -> None:
    tree = node("mi300x", gpus=8)
    rocm(tree.root)
    one = pair(tree.root, pace=PACE._replace(memory=1.0, sensors=1.0))
    one.tick()
    (amdsmi,) = children_of_role(one.launcher.pid, "rw-amdsmi")
    (files,) = children_of_role(one.launcher.pid, "rw-sensors")
    before = cpu_nanoseconds(amdsmi), cpu_nanoseconds(files)
    for _ in range(ROUNDS):
        one.tick(1)
    ours, theirs = cpu_nanoseconds(files) - before[1], cpu_nanoseconds(amdsmi) - before[0]
    print(json.dumps({"amdsmi_to_files_cpu": round(theirs / ours, 2), "ms_a_tick": theirs / ROUNDS / 1e6}))

    assert 0 < ours < theirs
