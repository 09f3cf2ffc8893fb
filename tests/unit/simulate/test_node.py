"""A node on disk: what its files say, and how they change."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocmwatch.kernel.buddy import parse_buddy
from rocmwatch.kernel.dpm import highest_hertz, parse_dpm
from rocmwatch.kernel.gpu_metrics import Decoder, parse_gpu_metrics
from rocmwatch.kernel.hwmon import HwmonPlan, plan
from rocmwatch.kernel.memory import MEMORY
from rocmwatch.kernel.number import parse_number, parse_text
from rocmwatch.kernel.partition import parse_partition_mode
from rocmwatch.kernel.runtime_pm import may_read_sensors, parse_runtime_status
from rocmwatch.simulate import MARKER, MODELS, SimulatedNode
from rocmwatch.simulate.device_files import moving_files
from rocmwatch.simulate.layout import table_path
from rocmwatch.simulate.node import NotOurs

MOMENTS = (0.0, 15.0, 60.0)  # idle, loading, serving

# What is seen of files that are kept open, and of one that is opened for every reading, until the input ends.
READER = """
import json, os, select, sys
kept = [os.open(path, os.O_RDONLY) for path in sys.argv[2:]]
seen = [set() for _ in kept]
tables = set()
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    for file, texts in zip(kept, seen):
        texts.add(os.pread(file, 4096, 0))
    with open(sys.argv[1], "rb") as table:
        tables.add(table.read())
print(json.dumps([[text.hex() for text in texts] for texts in (tables, *seen)]))
"""


@pytest.fixture(scope="module", params=[(model, moment) for model in MODELS for moment in MOMENTS], ids=str)
def still(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimulatedNode:
    """Two GPUs of each model at each moment, standing still."""
    model, moment = request.param
    with SimulatedNode(str(tmp_path_factory.mktemp("node")), model, min(2, len(MODELS[model].pci))) as made:
        made.step(moment)
        return made


@pytest.fixture(params=list(MODELS))
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimulatedNode]:
    with SimulatedNode(str(tmp_path), request.param, min(2, len(MODELS[request.param].pci))) as made:
        yield made


def _device(node: SimulatedNode, index: int = 0) -> Path:
    return Path(node.root, node.places[index].device)


def _plan(folder: Path) -> HwmonPlan:
    return plan({path.name: path.read_bytes() if path.name.endswith("_label") else b"" for path in folder.iterdir()})


def test_the_parsers_read_back_the_memory(still: SimulatedNode) -> None:
    for place, state in zip(still.places, still.states, strict=True):
        device = Path(still.root, place.device)
        read = {field.name: parse_number((device / field.file).read_bytes(), field.low, field.high) for field in MEMORY}
        assert {
            "vram_total_bytes": still.model.vram_total_bytes,
            "vram_used_bytes": state.vram_used_bytes,
            "visible_vram_total_bytes": still.model.vram_total_bytes,
            "visible_vram_used_bytes": state.vram_used_bytes,
            "gtt_total_bytes": still.model.gtt_total_bytes,
            "gtt_used_bytes": state.gtt_used_bytes,
        } == read


def test_the_parsers_read_back_the_sensors(still: SimulatedNode) -> None:
    state = still.states[0]
    folder = Path(still.root, still.places[0].hwmon)

    read = {
        reading.name: parse_number((folder / reading.file).read_bytes(), reading.low, reading.high) * reading.scale
        for reading in _plan(folder).readings
    }

    names = {"edge": "edge", "junction": "junction", "mem": "memory"}
    expected = {f"temperature_{names[label]}": int(value) for label, value in state.temperatures_celsius.items()}
    expected |= {"power": int(state.power_watts), "clock_sclk": state.sclk_mhz[0] * 1_000_000}
    if still.model.mclk.hwmon_number is not None:
        expected["clock_mclk"] = state.mclk_mhz * 1_000_000
    assert pytest.approx(expected) == read


def test_limits_are_those_of_the_model(still: SimulatedNode) -> None:
    folder = Path(still.root, still.places[0].hwmon)

    read = {
        reading.name: parse_number((folder / reading.file).read_bytes(), reading.low, reading.high) * reading.scale
        for reading in _plan(folder).limits
    }

    names = {"edge": "edge", "junction": "junction", "mem": "memory", "crit": "critical", "emergency": "emergency"}
    expected = {
        f"limit_{names[limit]}_{names[sensor.label]}": celsius
        for sensor in still.model.sensors
        for limit, celsius in sensor.limits_celsius
    }
    expected |= {"power_cap": int(still.model.power_cap_watts)} if still.model.power_has_cap else {}
    assert pytest.approx(expected) == read


def test_the_parsers_read_back_gpu_metrics(still: SimulatedNode) -> None:
    state = still.states[0]
    raw = (_device(still) / "gpu_metrics").read_bytes()

    metrics = parse_gpu_metrics(raw)
    reading = Decoder().decode(raw)

    assert still.model.gpu_metrics == (metrics.format_revision, metrics.content_revision)
    busy = None if still.model.gpu_metrics == (3, 0) else pytest.approx(state.busy_gfx, abs=0.01)
    assert busy == reading.busy_gfx  # the scale of 3.0 is not known for sure, so the product does not use it
    assert state.power_watts == pytest.approx(reading.power, abs=1)
    for label, value in (("junction", reading.temperature_junction), ("mem", reading.temperature_memory)):
        expected = state.temperatures_celsius.get(label)
        assert (None if expected is None else pytest.approx(expected, abs=1)) == value
    assert state.mclk_mhz * 1e6 == reading.clock_mclk


def test_every_die_of_an_mi300x_reports_its_clock(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x", 1) as node:
        node.step(60)
        reading = Decoder().decode((_device(node) / "gpu_metrics").read_bytes())

    assert [mhz * 1e6 for mhz in node.states[0].sclk_mhz] == list(reading.xcc_clocks)
    assert len(reading.xcc_clocks) == 8


def test_the_table_of_free_blocks_agrees_with_the_used_memory(still: SimulatedNode) -> None:
    for place, state in zip(still.places, still.states, strict=True):
        table = parse_buddy(Path(still.root, table_path(still.model, place)).read_bytes())
        assert (still.model.kernel.buddy_format, still.model.vram_total_bytes) == (table.format, table.total_bytes)
        assert still.model.vram_total_bytes - state.vram_used_bytes == table.free_bytes
        assert table.clear_free_bytes is not None
        assert table.clear_free_bytes <= table.free_bytes


def test_clock_levels_are_lists_that_the_parser_knows(still: SimulatedNode) -> None:
    for clock in (still.model.sclk, still.model.mclk):
        levels = parse_dpm((_device(still) / clock.dpm_file).read_bytes())
        assert clock.levels_mhz[-1] * 1_000_000 == highest_hertz(levels.levels)
        assert [True] == [level.current for level in levels.levels if level.current]


def test_a_sleeping_mi300x_says_so_in_its_list_of_clocks(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x", 1) as node:
        text = (_device(node) / "pp_dpm_sclk").read_text()

    expected = "S: 132Mhz *\n0: 500Mhz\n1: 2100Mhz\n"
    assert expected == text


def test_a_gpu_is_awake_and_says_what_it_is(still: SimulatedNode) -> None:
    device = _device(still)

    assert may_read_sensors(parse_runtime_status((device / "power/runtime_status").read_bytes()))
    assert still.model.vbios == parse_text((device / "vbios_version").read_bytes())
    if still.model.partitioning:
        mode = (device / "current_compute_partition").read_bytes()
        assert still.model.partitioning.compute == parse_partition_mode(mode)


def test_inodes_stay_and_values_move(node: SimulatedNode) -> None:
    paths = [Path(node.root, path) for path in moving_files(node.model, node.places[0])]
    paths += [Path(node.root, "proc", name) for name in ("meminfo", "stat", "uptime", "pressure/memory")]
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in paths}

    for _ in range(8):
        node.step(7.5)

    assert [before[path][0] for path in paths] == [path.stat().st_ino for path in paths]
    unmoved = {path.name for path in paths if before[path][1] == path.read_bytes()}
    still = (
        {"mem_info_vram_used", "mem_info_vis_vram_used"} if node.model.pool == "gtt" else {"freq2_input", "pp_dpm_mclk"}
    )
    still |= {f"{block}_err_count" for block in node.model.ras_blocks}
    assert unmoved <= still


def test_a_step_writes_only_what_changes(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x", 1) as node:
        node.step(60)
        files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
        for path in files:
            os.utime(path, (1, 1))
        node.step(0)

        assert [] == [path for path in files if path.stat().st_mtime != 1]


def test_two_nodes_of_a_seed_are_alike_and_another_seed_differs(tmp_path: Path) -> None:
    texts = []
    for name, seed, steps in (("a", 1, 60), ("b", 1, 1), ("c", 2, 1)):
        with SimulatedNode(str(tmp_path / name), "mi300x", 2, seed=seed) as node:
            for _ in range(steps):
                node.step(60 / steps)
            texts.append(
                {
                    str(path.relative_to(node.root)): path.read_bytes()
                    for path in Path(node.root, "sys").rglob("*")
                    if path.is_file()
                }
            )

    one, same, other = texts
    assert one == same
    assert one.keys() == other.keys()
    assert one != other


def test_a_reader_never_sees_a_torn_value(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x", 1) as node:
        files = [Path(node.root, path) for path in moving_files(node.model, node.places[0])]
        paths = [path for path in files if path.name != "gpu_metrics"]
        paths.append(_device(node) / "gpu_metrics")
        written = [{path.read_bytes()} for path in paths]
        command = [
            sys.executable,
            "-c",
            READER,
            f"{tmp_path}/{table_path(node.model, node.places[0])}",
            *map(str, paths),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
            assert reader.stdin is not None
            assert reader.stdout is not None
            reader.stdout.readline()
            for _ in range(600):
                node.step(0.1)
                for texts, path in zip(written, paths, strict=True):
                    texts.add(path.read_bytes())
            reader.stdin.close()
            tables, *seen = [[bytes.fromhex(text) for text in texts] for texts in json.loads(reader.stdout.read())]

    assert len(tables) > 1
    for text in tables:
        used = int(text.split(b"usage: ")[1].split()[0])
        assert node.model.vram_total_bytes - used == parse_buddy(text).free_bytes
    for texts, expected in zip(seen[:-1], written[:-1], strict=True):
        assert {text.rstrip(b"\n\0") for text in texts} <= {text.rstrip(b"\n") for text in expected}
    clocks = {parse_gpu_metrics(text).fields["system_clock_counter"] for text in seen[-1]}
    assert clocks <= {parse_gpu_metrics(text).fields["system_clock_counter"] for text in written[-1]}


def test_it_moves_by_itself_until_it_is_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    with SimulatedNode(str(tmp_path), "mi210", 1) as node:
        thread = threading.Thread(target=node.run, args=(0.02, stop))
        thread.start()
        until = time.monotonic() + 20
        while node.seconds < 0.1 and time.monotonic() < until:
            time.sleep(0.01)
        stop.set()
        thread.join(20)

        assert not thread.is_alive()
        assert node.seconds >= 0.1


def test_the_marker_tells_what_was_simulated_and_its_boot(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x-cpx", 2, seed=7) as node:
        content = json.loads((tmp_path / MARKER).read_text())

    assert {
        "schema": "rocmwatch/simulated/1",
        "boot_id": node.boot_id,
        "model": "mi300x-cpx",
        "kernel": "6.12",
        "gpus": ["0000:05:00.0", "0000:27:00.0"],
        "scenario": "healthy",
        "seed": 7,
    } == content
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", content["boot_id"])
    assert {MARKER, "units.json", "sys", "proc"} == set(os.listdir(tmp_path))


def test_an_earlier_simulation_is_replaced_by_a_new_boot(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi300x", 2) as first:
        first.step(1)
    with SimulatedNode(str(tmp_path), "mi210", 1) as second:
        pass

    assert first.boot_id != second.boot_id
    assert ["card0", "card1", "renderD128"] == sorted(set(os.listdir(tmp_path / "sys/class/drm")) - {"version"})


def test_a_folder_with_other_things_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/precious").write_text("mine")

    with pytest.raises(NotOurs, match="not empty"):
        SimulatedNode(str(tmp_path), "mi210", 1).create()
    assert ["sys"] == os.listdir(tmp_path)
    assert (tmp_path / "sys/precious").read_text() == "mine"


def test_what_is_no_marker_does_not_open_the_door(tmp_path: Path) -> None:
    for text in ("", "{}", "[]", "null", '{"schema": "rocmwatch/sample/1"}'):
        (tmp_path / MARKER).write_text(text)
        with pytest.raises(NotOurs):
            SimulatedNode(str(tmp_path), "mi210", 1).create()


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with SimulatedNode(str(tmp_path), "mi210", 1) as node:
        with pytest.raises(NotOurs, match="in use"):
            SimulatedNode(str(tmp_path), "mi210", 1).create()
        node.step(1)


def test_links_in_place_of_folders_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with SimulatedNode(str(root), "mi210", 1):
        pass
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (root / "sys").rename(tmp_path / "away")
    (root / "sys").symlink_to(precious)

    with SimulatedNode(str(root), "mi210", 1):
        pass
    assert (precious / "file").read_text() == "mine"
    assert not (root / "sys").is_symlink()


@pytest.mark.parametrize(
    ("model", "gpus", "scenario", "expected"),
    [
        ("mi9999", 1, "healthy", "no model mi9999: choose one of mi210, mi250x, mi300x"),
        ("apu", 2, "healthy", "1 to 1 GPUs of model apu, not 2"),
        ("mi300x", 0, "healthy", "1 to 8 GPUs"),
        ("mi300x", 1, "chaos", "no scenario chaos"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    tmp_path: Path, model: str, gpus: int, scenario: str, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        SimulatedNode(str(tmp_path / "new"), model, gpus, scenario)
    assert not (tmp_path / "new").exists()


def test_time_does_not_go_backwards_and_needs_a_tree(tmp_path: Path) -> None:
    node = SimulatedNode(str(tmp_path), "mi210", 1)

    with pytest.raises(ValueError, match="created"):
        node.step(1)
    with node, pytest.raises(ValueError, match="forwards"):
        node.step(-1)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")

    for _ in range(2):
        with SimulatedNode(str(tmp_path), "mi210", 8) as node:
            node.step(1)

    assert before == os.listdir("/proc/self/fd")
