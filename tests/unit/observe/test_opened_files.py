"""What is opened, and what never is: some files wake, stop or reset a GPU when they are read.

inotify tells who opened what below the tree, and strace what else a reader touches.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from opened import Opened
from watching import MINUTE, Watcher, of, said, states

from rocmwatch.simulate import MODELS, SimulatedNode
from rocmwatch.simulate.layout import FORBIDDEN_DEBUGFS

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]

# The whole list: whatever else is opened below /sys or /proc is a mistake, or belongs here after a look at its driver.
ALLOWED = (
    r"/sys/class/drm",
    r"/sys/module/amdgpu/version",
    r"/proc/sys/kernel/random/boot_id",
    r".*/uevent",
    r".*/mem_info_(vram|vis_vram|gtt)_(total|used)",
    r".*/power/runtime_status",
    r".*/(gpu_metrics|gpu_busy_percent|mem_busy_percent|pp_dpm_sclk|pp_dpm_mclk)",
    r".*/(product_name|device|unique_id|serial_number|vbios_version|numa_node)",
    r".*/current_(compute|memory)_partition",
    r".*/hwmon/hwmon\d+/(temp|freq)\d+_(label|input|crit|emergency)",
    r".*/hwmon/hwmon\d+/(power1_input|power1_average|power1_cap)",
    r".*/(current|max)_link_(speed|width)",
    r".*/pcie_replay_count",
    r".*/ras/[a-z0-9_]+_err_count",
    r".*/xcp/xcp_metrics",
    r".*/kfd/topology/generation_id",
    r".*/kfd/topology/nodes/\d+/(gpu_id|name|properties)",
    r".*/kfd/topology/nodes/\d+/mem_banks/\d+/(properties|used_memory)",
    r"/sys/kernel/debug/dri/[0-9a-f:.]+/amdgpu_vram_mm",
)
# Beside what debugfs has (FORBIDDEN_DEBUGFS), named here to be found by whoever looks for the reason.
FORBIDDEN = (
    "pcie_bw",  # takes a second
    "xgmi_error",  # clears the counter
    "pp_table",
    "pm_metrics",
    "config",  # wakes a device from D3cold
    "reset",
    "remove",
    "gpu_od",
)
SENSORS = re.compile(r"/hwmon/|/ras/|metrics$|_busy_percent$|pp_dpm_|_link_(speed|width)$|pcie_replay_count$")


def assert_allowed(opened: Counter[str]) -> None:
    allowed = re.compile("|".join(ALLOWED))
    assert [] == sorted(path for path in opened if not allowed.fullmatch(path))
    touched = {Path(path).name for path in opened}
    assert touched.isdisjoint(FORBIDDEN)
    assert touched.isdisjoint(FORBIDDEN_DEBUGFS)


@pytest.mark.parametrize("model", MODELS)
def test_nothing_else_is_opened_in_an_hour(node: Node, watch: Watch, model: str) -> None:
    made = node(model, gpus=1)
    with Opened(made.root) as opened:
        watcher = watch(made.root)
        for _ in range(60):
            watcher.tick(MINUTE)
        for _ in range(20):
            watcher.tick()
        files = opened.look()

    assert {"active"} == set(states(watcher.tick()).values())
    assert any(path.endswith("/gpu_metrics") for path in files)
    assert_allowed(files)


def test_a_watcher_of_opened_files_sees_a_forbidden_one(node: Node) -> None:
    """The positive control."""
    made = node("mi300x")
    with Opened(made.root) as opened:
        Path(made.root, "sys/class/drm/card1/device/pcie_bw").read_bytes()
        files = opened.look()

    with pytest.raises(AssertionError):
        assert_allowed(files)


def test_a_tick_between_two_minutes_opens_nothing(node: Node, watch: Watch) -> None:
    made = node("mi300x", gpus=2)
    watcher = watch(made.root)
    watcher.tick()
    with Opened(made.root) as opened:
        for _ in range(5):
            watcher.tick()
        files = opened.look()

    assert {} == files


def test_the_sensors_of_a_sleeping_card_are_not_even_opened(node: Node, watch: Watch) -> None:
    made = node("mi300x", gpus=2)
    asleep, awake = made.places
    status = Path(made.root, asleep.device, "power/runtime_status")
    status.write_text("suspended\n")
    used = Path(made.root, asleep.device, "mem_info_vram_used")
    with Opened(made.root) as opened:
        watcher = watch(made.root)
        first = watcher.tick()
        used.write_text(f"{5 << 30}\n")
        for _ in range(3):
            snapshot = watcher.tick(MINUTE)
        sleeping = [path for path in opened.look() if asleep.pci in path and SENSORS.search(path)]
        status.write_text("active\n")
        woken = watcher.tick()
        opened_now = [path for path in opened.look() if asleep.pci in path and SENSORS.search(path)]

    assert [] == sleeping
    assert {asleep.pci: "suspended", awake.pci: "active"} == states(first) == states(snapshot)
    reading = of(snapshot, asleep.pci)
    assert reading.sample is not None
    assert (5 << 30, {}, {}, None, {}) == (
        reading.sample.vram_used_bytes,
        dict(reading.sample.temperatures_celsius),
        dict(reading.sample.clocks_hertz),
        reading.sample.power_watts,
        dict(reading.limits.temperatures_celsius),
    )
    assert "temperature_junction" not in reading.gpu.fields, "what was not looked for is neither there nor not there"
    assert snapshot.taken_at == snapshot.sources["sensors"].last_success_at
    assert opened_now
    now = of(woken, asleep.pci)
    assert {"temperature_junction", "power", "energy", "limit_critical_junction"} <= said(now).keys()
    assert ("active", True, woken.taken_at) == (
        now.state.value,
        now.gpu.fields["temperature_junction"],
        now.sensors_at,
    )


@pytest.mark.parametrize("status", ["suspended", "suspending", "resuming"])
def test_a_card_that_falls_asleep_is_not_asked_any_more(node: Node, watch: Watch, status: str) -> None:
    made = node("mi300x", gpus=1)
    watcher = watch(made.root)
    before = watcher.tick()
    Path(made.root, made.places[0].device, "power/runtime_status").write_text(f"{status}\n")
    first = watcher.tick()
    with Opened(made.root) as opened:
        later = watcher.tick(MINUTE)
        files = opened.look()

    assert [] == [path for path in files if SENSORS.search(path)]
    for snapshot in (first, later):
        reading = snapshot.gpus[0]
        assert ("suspended", []) == (reading.state.value, list(reading.faults))
        assert {"temperature_junction", "power", "clock_sclk", "energy", "xcc_clock_0"}.isdisjoint(said(reading))
        assert before.taken_at == reading.sensors_at
        assert before.gpus[0].gpu == reading.gpu, "it still has what it had"
        assert before.gpus[0].limits == reading.limits


def test_a_card_without_power_management_is_read(node: Node, watch: Watch) -> None:
    made = node("mi300x", gpus=1)
    Path(made.root, made.places[0].device, "power/runtime_status").unlink()

    assert "temperature_junction" in said(watch(made.root).tick().gpus[0])


TICKS = """
import sys
from watching import Watcher
watcher = Watcher(sys.argv[1])
for _ in range(int(sys.argv[2])):
    watcher.tick(61.0)
for _ in range(int(sys.argv[2])):
    watcher.tick()
watcher.close()
"""


def traced(root: str, ticks: int, output: Path, *options: str) -> list[str]:
    """The calls of all processes of a watcher, as strace prints them, with the process id in front."""
    command = ["strace", "-f", "-qq", "-o", str(output), *options, sys.executable, "-c", TICKS, root, str(ticks)]
    subprocess.run(command, check=True, timeout=100, env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"})
    return output.read_text().splitlines()


def test_no_device_of_a_gpu_is_ever_opened(node: Node, tmp_path: Path, require: Callable[[str], None]) -> None:
    require("strace")
    made = node("mi300x", gpus=2)
    calls = traced(made.root, 3, tmp_path / "trace", "-e", "trace=open,openat,openat2,stat,lstat,readlink,access")

    paths = {match[1] for line in calls if (match := re.search(r'"([^"]*)"', line))}
    assert any(path.startswith(made.root) for path in paths)
    assert [] == sorted(
        path for path in paths if re.match(r"/dev/(kfd|dri)|/sys/(class|module|bus|devices|kernel)", path)
    )


def test_a_tick_is_one_read_a_file_and_at_most_five_calls_besides(
    node: Node, tmp_path: Path, require: Callable[[str], None]
) -> None:
    require("strace")
    made = node("mi300x", gpus=8)
    calls = traced(made.root, 4, tmp_path / "trace")

    reads = Counter(line.split()[0] for line in calls if " pread64(" in line)
    reader = max(reads, key=lambda pid: reads[pid])
    names = [match[1] for line in calls if (match := re.match(rf"{reader} +(\w+)\(", line))]
    names = names[names.index("pread64") :]
    ticks = [Counter(part.split()) for part in " ".join(names).split(" read ") if "write" in part]
    last = ticks[-2]  # the last one ends with the process
    assert 8 * 12 + 1 == last["pread64"], "twelve files of each GPU, and the compute driver's counter"
    assert last.total() - 8 * 12 + 1 <= 5, "one of which is the read that splits the ticks"
