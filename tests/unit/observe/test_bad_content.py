"""Files that hold what no card can mean: each one's field goes without, a fault says why, and all else is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from gpu_table import DEVICE, ERRORS, LEVELS, METRICS, MODES, NODE, NUMBERS, SPEEDS, TABLE, TABLES
from watching import MINUTE, Watcher, faults_of, of, said

from rocmwatch.model import Pool
from rocmwatch.simulate import SimulatedNode

ABSURD: dict[str, tuple[bytes, str]] = {
    "2^64": (b"18446744073709551616\n", "ERANGE"),
    "-273150": (b"-273150\n", "ERANGE"),
    "a clock that nobody set": (b"140725345128448000000\n", "ERANGE"),
    "a page of nines": (b"9" * 4096, "ERANGE"),
    "a number that was cut": (b"17", "EBADMSG"),
    "a word": (b"unavailable\n", "EBADMSG"),
    "an underscore": (b"1_0\n", "EBADMSG"),
    "no text": (b"\xff\xfe\x00\x80", "EBADMSG"),
    "a fraction": (b"1.5\n", "EBADMSG"),
    "nothing": (b"", "ENODATA"),
    "an empty line": (b"\n", "ENODATA"),
    "a page of NULs": (bytes(4096), "ENODATA"),
}
BAD_LEVELS: dict[str, tuple[bytes, str]] = {
    "a word": (b"unavailable\n", "EBADMSG"),
    "a clock that nobody set": (b"0: 429496729Mhz *\n", "ERANGE"),
    "no text": (b"\xff\xfe\x00\x80", "EBADMSG"),
    "nothing": (b"", "ENODATA"),
}
BAD_MODES: dict[str, tuple[bytes, str]] = {
    "a word": (b"unavailable\n", "EBADMSG"),
    "a number": (b"18446744073709551616\n", "EBADMSG"),
    "no text": (b"\xff\xfe\x80", "EBADMSG"),
}
BAD_METRICS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ENODATA"),
    "only a header": (b"\xa0\x01\x01\x05", "EBADMSG"),
    "an unknown revision": (b"\xa0\x01\x09\x09" + bytes(4092), "EBADMSG"),
    "NULs": (bytes(4096), "EBADMSG"),
    "a word": (b"unavailable\n", "EBADMSG"),
}
BAD_TABLES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ENODATA"),
    "a word": (b"unavailable\n", "EBADMSG"),
    "more than there is": (b"chunk_size: 4KiB, total: 1MiB, free: 1MiB\norder- 9 free: 2 MiB, blocks: 99\n", "ERANGE"),
}
BAD_SPEEDS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ENODATA"),
    "a word": (b"unavailable\n", "EBADMSG"),
    "a speed that nobody makes": (b"999.0 GT/s PCIe\n", "ERANGE"),
}
BAD_ERRORS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ENODATA"),
    "a word": (b"unavailable\n", "EBADMSG"),
    "half of it": (b"ue: 0\n", "EBADMSG"),
    "more than there are": (b"ue: 0\nce: 18446744073709551615\n", "ERANGE"),
}
CASES = [
    (file, fields, name, content, errno)
    for files, contents in (
        (NUMBERS, ABSURD),
        (LEVELS, BAD_LEVELS),
        (MODES, BAD_MODES),
        (METRICS, BAD_METRICS),
        (TABLES, BAD_TABLES),
        (SPEEDS, BAD_SPEEDS),
        (ERRORS, BAD_ERRORS),
    )
    for file, fields in files.items()
    for name, (content, errno) in contents.items()
    if not (file.endswith("numa_node") and name == "nothing")
]


class Bench:
    """A node of two MI300X, and someone who watches it; the first GPU is the sick one."""

    def __init__(self, folder: Path) -> None:
        self.node = SimulatedNode(str(folder / "node"), "mi300x", 2)
        self.node.create()
        self.watcher = Watcher(self.node.root)
        self.sick, self.well = (place.pci for place in self.node.places)
        self.card = f"card{self.node.places[0].drm.card_minor}"
        self.hwmon = Path(self.node.places[0].hwmon).name
        self.before = {pci: said(of(self.watcher.tick(), pci)) for pci in (self.sick, self.well)}

    def path(self, file: str) -> str:
        return file.format(card=self.card, hwmon=self.hwmon, pci=self.sick, node=2)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bad"))
    with closing(made.watcher), closing(made.node):
        yield made


@pytest.mark.parametrize(
    ("file", "fields", "content", "errno"),
    [pytest.param(*case[:2], *case[3:], id=f"{case[0].rpartition('/')[2]}: {case[2]}") for case in CASES],
)
def test_a_bad_file_costs_its_field_and_nothing_else(
    bench: Bench, file: str, fields: tuple[str, ...], content: bytes, errno: str
) -> None:
    path = bench.path(file)
    counts = dict(bench.watcher.tick(MINUTE).readers.fault_counts)
    with changed(bench, path, lambda _: content):
        snapshot = bench.watcher.tick(MINUTE)
    healed = bench.watcher.tick(MINUTE)

    sick = of(snapshot, bench.sick)
    assert {name: value for name, value in bench.before[bench.sick].items() if name not in fields} == said(sick)
    assert [(fields[0], errno, path)] == faults_of(sick)
    assert {(fields[0], errno): counts.get((fields[0], errno), 0) + 1} == {
        key: count for key, count in snapshot.readers.fault_counts.items() if count != counts.get(key, 0)
    }
    assert ("active", Pool.VRAM) == (sick.state.value, sick.gpu.pool)
    assert (bench.before[bench.well], []) == (
        said(of(snapshot, bench.well)),
        faults_of(of(snapshot, bench.well)),
    )
    assert (bench.before[bench.sick], []) == (said(of(healed, bench.sick)), faults_of(of(healed, bench.sick)))


@pytest.mark.parametrize("file", [*NUMBERS, *LEVELS, *MODES, *SPEEDS, *ERRORS])
def test_a_page_that_is_filled_up_with_nuls_says_what_it_says(bench: Bench, file: str) -> None:
    with changed(bench, bench.path(file), lambda good: good.ljust(4096, b"\0")):
        snapshot = bench.watcher.tick(MINUTE)

    sick = of(snapshot, bench.sick)
    assert (bench.before[bench.sick], []) == (said(sick), faults_of(sick))


@pytest.mark.parametrize("length", [1, 3, 4, 100, 359])
def test_gpu_metrics_that_are_cut_short_are_refused(bench: Bench, length: int) -> None:
    path = bench.path(f"{DEVICE}/gpu_metrics")
    with changed(bench, path, lambda good: good[:length]):
        sick = of(bench.watcher.tick(), bench.sick)

    assert [("gpu_metrics", "EBADMSG", path)] == faults_of(sick)
    assert None is (sick.sample and sick.sample.energy_joules)
    assert bench.before[bench.sick]["temperature_junction"] == said(sick)["temperature_junction"]


def test_a_table_that_is_cut_short_is_refused(bench: Bench) -> None:
    path = bench.path(TABLE)
    with changed(bench, path, lambda good: good[: good.index(b"order- 9")]):
        sick = of(bench.watcher.tick(MINUTE), bench.sick)

    assert [("fragmentation", "EBADMSG", path)] == faults_of(sick)
    assert sick.free_blocks is None


@pytest.mark.parametrize(("content", "errno"), [(b"", "ENODATA"), (b"asleep?\n", "EBADMSG")])
def test_a_card_whose_sleep_cannot_be_told_is_left_alone(bench: Bench, content: bytes, errno: str) -> None:
    path = bench.path(f"{DEVICE}/power/runtime_status")
    bench.watcher.tick(MINUTE)
    with changed(bench, path, lambda _: content):
        sick = of(bench.watcher.tick(), bench.sick)
    healed = of(bench.watcher.tick(), bench.sick)

    assert ("active", [("runtime_status", errno, path)]) == (sick.state.value, faults_of(sick))
    assert {"vram_used_bytes"} <= said(sick).keys()
    assert {"temperature_junction", "power", "clock_sclk", "energy", "busy_gfx", "xcc_clock_0"}.isdisjoint(said(sick))
    assert bench.before[bench.sick] == said(healed)


@pytest.mark.parametrize(("content", "errno"), [(b"", "ENODATA"), (bytes(40), "ENODATA")])
def test_a_label_that_says_nothing_is_a_fault(bench: Bench, content: bytes, errno: str) -> None:
    path = bench.path(f"{DEVICE}/hwmon/{{hwmon}}/temp2_label")
    with changed(bench, path, lambda _: content):
        sick = of(bench.watcher.tick(MINUTE), bench.sick)
        later = of(bench.watcher.tick(), bench.sick)
    healed = of(bench.watcher.tick(MINUTE), bench.sick)

    gone = {"limit_critical_junction", "limit_emergency_junction"}
    assert {k: v for k, v in bench.before[bench.sick].items() if k not in gone} == said(sick)  # gpu_metrics stands in
    assert [("temp2_label", errno, path)] == faults_of(sick)
    assert faults_of(sick) == faults_of(later), "it is still so, though it is looked at once a minute"
    assert (bench.before[bench.sick], []) == (said(healed), faults_of(healed))


@pytest.mark.parametrize(("content", "errno"), [(b"", "ENODATA"), (bytes(4096), "ENODATA")])
def test_a_card_that_cannot_be_identified_for_a_moment_is_not_lost(bench: Bench, content: bytes, errno: str) -> None:
    path = bench.path(f"{DEVICE}/uevent")
    counts = bench.watcher.tick(MINUTE).readers.fault_counts
    with changed(bench, path, lambda _: content):
        snapshot = bench.watcher.tick(MINUTE)

    sick = of(snapshot, bench.sick)
    assert (bench.before[bench.sick], "active") == (said(sick), sick.state.value)
    assert [("identity", errno, path)] == faults_of(sick)
    assert snapshot.readers.fault_counts["topology", errno] == counts.get(("topology", errno), 0) + 1


@pytest.mark.parametrize(
    ("file", "content", "errno", "without"),
    [
        (f"{NODE}/gpu_id", b"", "ENODATA", {"kfd_gpu_id"}),
        (f"{NODE}/gpu_id", b"18446744073709551616\n", "ERANGE", {"kfd_gpu_id"}),
        (f"{NODE}/gpu_id", b"unavailable\n", "EBADMSG", {"kfd_gpu_id"}),
        (f"{NODE}/properties", b"", "ENODATA", {"kfd_gpu_id"}),
        (f"{NODE}/properties", b"\xff\xfe", "EBADMSG", {"kfd_gpu_id"}),
        (f"{NODE}/mem_banks/0/properties", b"", "ENODATA", set()),
        (f"{NODE}/mem_banks/0/properties", b"unavailable\n", "EBADMSG", set()),
        ("/sys/class/kfd/kfd/topology/generation_id", b"", "ENODATA", set()),
        ("/sys/class/kfd/kfd/topology/generation_id", b"unavailable\n", "EBADMSG", set()),
    ],
)
def test_a_bad_file_of_the_topology_costs_what_it_tells(
    bench: Bench, file: str, content: bytes, errno: str, without: set[str]
) -> None:
    path = bench.path(file)
    before = bench.watcher.tick(MINUTE).readers.fault_counts
    with changed(bench, path, lambda _: content):
        touch_generation(bench, bad=file.endswith("generation_id"))
        snapshot = bench.watcher.tick(MINUTE)
    touch_generation(bench)
    healed = bench.watcher.tick(MINUTE)

    sick = of(snapshot, bench.sick)
    assert {k: v for k, v in bench.before[bench.sick].items() if k not in without} == said(sick)
    assert snapshot.readers.fault_counts["topology", errno] == before.get(("topology", errno), 0) + 1
    assert bench.before[bench.well] == said(of(snapshot, bench.well))
    assert bench.before[bench.sick] == said(of(healed, bench.sick))


@contextmanager
def changed(bench: Bench, path: str, change: Callable[[bytes], bytes]) -> Iterator[None]:
    """The file holds something else."""
    real = Path(bench.node.root + path)
    good = real.read_bytes()
    real.write_bytes(change(good))
    try:
        yield
    finally:
        real.write_bytes(good)


def touch_generation(bench: Bench, *, bad: bool = False) -> None:
    """KFD counts a change, if its count is not what is bad."""
    if not bad:
        counter = Path(bench.node.root, "sys/class/kfd/kfd/topology/generation_id")
        counter.write_text(f"{int(counter.read_text()) + 1}\n")
