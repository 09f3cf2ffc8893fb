"""Files that fail when they are read or opened: each one's field goes without, a fault says why, all else is served."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from faultfs import FaultFS
from gpu_table import ERRORS as COUNTS
from gpu_table import LEVELS, METRICS, MODES, NUMBERS, SPEEDS, TABLES
from watching import MINUTE, Watcher, faults_of, of, said

from rocmwatch.simulate import SimulatedNode

pytestmark = pytest.mark.fuse

FILES = NUMBERS | LEVELS | MODES | METRICS | TABLES | SPEEDS | COUNTS
ERRORS = ("EIO", "open:EACCES")


class Bench:
    """A node of two MI300X behind a mirror, and someone who watches it; the first GPU is the sick one."""

    def __init__(self, folder: Path, fs: FaultFS, node: SimulatedNode) -> None:
        self.fs = fs
        self.node = node
        self.watcher = Watcher(fs.root)
        self.sick, self.well = (place.pci for place in node.places)
        self.card = f"card{node.places[0].drm.card_minor}"
        self.hwmon = Path(node.places[0].hwmon).name
        self.before = {pci: said(of(self.watcher.tick(), pci)) for pci in (self.sick, self.well)}

    def path(self, file: str) -> str:
        return file.format(card=self.card, hwmon=self.hwmon, pci=self.sick)

    def real(self, file: str) -> str:
        """The path below the root without links, which is what the mirror sees."""
        return "/" + str(Path(self.node.root + self.path(file)).resolve().relative_to(Path(self.node.root).resolve()))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("errors")
    node = SimulatedNode(str(folder / "node"), "mi300x", 2)
    node.create()
    with closing(node), FaultFS(node.root, folder / "mirror") as fs:
        made = Bench(folder, fs, node)
        with closing(made.watcher):
            yield made


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("error", ERRORS)
def test_a_file_that_fails_costs_its_field_and_nothing_else(bench: Bench, file: str, error: str) -> None:
    source, name = FILES[file][0], error.removeprefix("open:")
    bench.watcher.tick(MINUTE)
    bench.fs.set({bench.real(file): error})
    snapshot = bench.watcher.tick(MINUTE)
    again = bench.watcher.tick(MINUTE)
    bench.fs.release()
    healed = bench.watcher.tick(MINUTE)

    without = said(of(snapshot, bench.sick))
    faults = [] if (source, name) == ("fragmentation", "EACCES") else [(source, name, bench.path(file))]
    assert {key: value for key, value in bench.before[bench.sick].items() if key not in FILES[file]} == without
    assert faults == faults_of(of(snapshot, bench.sick))
    counted = [shot.readers.fault_counts.get((source, name), 0) for shot in (snapshot, again)]
    assert len(faults) == counted[1] - counted[0]
    assert "active" == of(snapshot, bench.sick).state.value
    assert bench.before == {pci: said(of(healed, pci)) for pci in (bench.sick, bench.well)}
    assert (bench.before[bench.well], []) == (said(of(snapshot, bench.well)), faults_of(of(snapshot, bench.well)))


@pytest.mark.parametrize("error", ["EOPNOTSUPP", "EINVAL"])
def test_a_sensor_that_the_card_has_not_is_absent_without_a_fault(bench: Bench, error: str) -> None:
    files = [file for file in NUMBERS if "/hwmon/" in file and "freq1" not in file]
    bench.fs.set({bench.real(file): error for file in files})
    sick = of(bench.watcher.tick(MINUTE), bench.sick)
    bench.fs.release()
    bench.watcher.tick(MINUTE)

    limits = {"limit_critical_junction", "limit_emergency_memory", "power_cap"}
    assert [] == faults_of(sick)
    assert {k: v for k, v in bench.before[bench.sick].items() if k not in limits} == said(sick), "gpu_metrics stands in"


def test_memory_that_the_driver_refuses_is_a_fault_whatever_the_error(bench: Bench) -> None:
    file = "/sys/class/drm/{card}/device/mem_info_vram_used"
    bench.fs.set({bench.real(file): "EINVAL"})
    sick = of(bench.watcher.tick(), bench.sick)
    bench.fs.release()

    assert [("vram_used_bytes", "EINVAL", bench.path(file))] == faults_of(sick)


@pytest.mark.parametrize("rule", ["list:EIO", "list:EACCES"])
def test_hwmon_that_cannot_be_listed_is_one_fault(bench: Bench, rule: str) -> None:
    bench.fs.set({f"*/{bench.sick}/hwmon": rule})
    sick = of(bench.watcher.tick(MINUTE), bench.sick)
    bench.fs.release()
    healed = of(bench.watcher.tick(MINUTE), bench.sick)

    assert [("hwmon", rule.removeprefix("list:"), f"/sys/class/drm/{bench.card}/device/hwmon")] == faults_of(sick)
    assert {"temperature_junction", "power", "clock_sclk"} <= said(sick).keys(), "gpu_metrics stands in"
    assert bench.before[bench.sick] == said(healed)


@pytest.mark.parametrize(
    "rules",
    [
        {"/sys/class/drm": "list:EIO"},
        {"*/uevent": "EIO"},
        {"*/uevent": "open:EACCES"},
        {"/sys/devices/virtual/kfd/kfd/topology/nodes": "list:EIO"},
        {"/sys/devices/virtual/kfd/kfd/topology/generation_id": "EIO"},
    ],
    ids=lambda rules: " ".join(f"{path} {rule}" for path, rule in rules.items()),
)
def test_a_list_that_cannot_be_read_for_a_moment_changes_nothing(bench: Bench, rules: dict[str, str]) -> None:
    before = bench.watcher.tick(MINUTE)
    counter = Path(bench.node.root, "sys/class/kfd/kfd/topology/generation_id")
    counter.write_text(f"{int(counter.read_text()) + 1}\n")
    bench.fs.set(rules)
    snapshots = [bench.watcher.tick(MINUTE) for _ in range(3)]
    bench.fs.release()

    for snapshot in snapshots:
        assert bench.before == {pci: said(of(snapshot, pci)) for pci in (bench.sick, bench.well)}
        assert {"active"} == {reading.state.value for reading in snapshot.gpus}
    assert snapshots[-1].readers.fault_counts != before.readers.fault_counts


def test_a_topology_that_the_device_cgroup_forbids_is_one_note(bench: Bench) -> None:
    """What a container sees, or a service without DeviceAllow=."""
    counter = Path(bench.node.root, "sys/class/kfd/kfd/topology/generation_id")
    counter.write_text(f"{int(counter.read_text()) + 1}\n")
    bench.fs.set({f"*/topology/nodes/{number}/*": "EPERM" for number in (2, 3)})
    before = bench.watcher.last
    snapshot = bench.watcher.tick(MINUTE)
    again = bench.watcher.tick(MINUTE)
    bench.fs.release()
    healed = bench.watcher.tick(MINUTE)

    assert before is not None
    (note,) = snapshot.notes
    assert note.startswith("/sys/class/kfd/kfd/topology/nodes/2/properties: EPERM")
    assert snapshot.notes == again.notes
    assert before.readers.fault_counts == again.readers.fault_counts
    assert [None, None] == [reading.gpu.kfd_gpu_id for reading in again.gpus]
    assert ((), bench.before) == (healed.notes, {pci: said(of(healed, pci)) for pci in (bench.sick, bench.well)})
