"""Who has what, pass after pass, by a real reader process on a tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gpu_processes import Processes
from watching import HandClock, eventually

from rocmwatch.model import CgroupVram, Gpu, Partition, Pool, Pressure, Use
from rocmwatch.observe.census import Census, Findings
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.link import LauncherLink

WHOLE = Gpu(gpu="0", pci="0000:05:00.0", pool=Pool.VRAM, kfd_gpu_id=5711)
PARTED = Gpu(
    gpu="1",
    pci="0000:27:00.0",
    pool=Pool.VRAM,
    partitions=tuple(
        Partition(partition=str(number), kfd_gpu_id=600 + number, render_minor=136 + number) for number in range(2)
    ),
)
RENDER = "/dev/dri/renderD{}"
KIB = 1 << 10


class Taker:
    """A census of a tree, at a clock that is moved by hand."""

    def __init__(self, root: Path) -> None:
        self.clock = HandClock()
        self.launcher = LauncherLink(str(root))
        self.crew = Crew(self.launcher, role="processes")
        self.census = Census(self.crew, self.clock)
        self.census.deadline_seconds = 5.0  # this machine may be busy

    def take(self, seconds: float = 10.0) -> Findings:
        self.clock.now += seconds
        return self.census.tick([WHOLE, PARTED])

    def close(self) -> None:
        self.crew.close()
        self.launcher.close()


@pytest.fixture
def made(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


@pytest.fixture
def taker(made: Processes) -> Iterator[Taker]:
    with closing(Taker(made.root)) as taker:
        yield taker


def client(pci: str, number: int, **more: str) -> dict[str, str | int]:
    return {"drm_driver": "amdgpu", "drm_pdev": pci, "drm_client_id": number, **more}


def test_each_use_is_told_by_its_place(made: Processes, taker: Taker) -> None:
    made.process(10, "engine", 777)
    made.books(10, 5711, vram=1000, evicted_ms=1500, faults=3)
    made.books(10, 601, vram=2000)
    made.opens(10, 4, RENDER.format(128), **client(WHOLE.pci, 1, drm_memory_vram="1 KiB", amd_evicted_vram="2 KiB"))
    made.opens(10, 5, RENDER.format(137), **client(PARTED.pci, 2, drm_memory_vram="3 KiB", drm_memory_gtt="4 KiB"))
    made.opens(10, 6, RENDER.format(137), **client(PARTED.pci, 3, drm_memory_vram="5 KiB"))

    first = Use(
        pci=WHOLE.pci,
        kfd_bytes=1000,
        fdinfo_bytes=KIB,
        evicted_bytes=2 * KIB,
        evicted_seconds=1.5,
        page_faults=3,
    )
    second = Use(pci=PARTED.pci, partition="1", kfd_bytes=2000, fdinfo_bytes=8 * KIB, gtt_bytes=4 * KIB)
    (process,) = taker.take().processes or ()
    assert (10, 777, "engine", True, 1000) == (
        process.pid,
        process.start_time,
        process.comm,
        process.drm_open,
        process.uid,
    )
    assert (first, second) == process.uses


def test_counters_begin_with_the_daemon_and_outlive_a_process(made: Processes, taker: Taker) -> None:
    made.process(10)
    made.books(10, 5711, vram=1, evicted_ms=5000, faults=100)
    assert taker.take().pressures[WHOLE.pci] == Pressure(evicted_seconds=0.0, page_faults=0)

    made.books(10, 5711, evicted_ms=5250, faults=101)
    made.process(11)
    made.books(11, 5711, vram=1, evicted_ms=1000)
    assert taker.take().pressures[WHOLE.pci] == Pressure(evicted_seconds=1.25, page_faults=1)

    made.ends(10)
    assert taker.take().pressures[WHOLE.pci] == Pressure(evicted_seconds=1.25, page_faults=1)


def test_a_number_that_a_later_process_got_counts_anew(made: Processes, taker: Taker) -> None:
    made.process(10, start=1)
    made.books(10, 5711, evicted_ms=5000)
    taker.take()
    made.process(10, start=2)
    made.books(10, 5711, evicted_ms=2000)

    assert taker.take().pressures[WHOLE.pci].evicted_seconds == 2.0


def test_what_clients_are_denied_is_added_up_over_processes(made: Processes, taker: Taker) -> None:
    for pid in (10, 11):
        made.process(pid)
        more = {"amd_evicted_vram": "3 KiB", "amd_requested_vram": "5 KiB"}
        made.opens(pid, 4, RENDER.format(128), **client(WHOLE.pci, pid, **more))

    assert taker.take().pressures == {WHOLE.pci: Pressure(evicted_bytes=6 * KIB, requested_bytes=10 * KIB)}


def test_between_two_passes_nothing_is_read(made: Processes, taker: Taker) -> None:
    first = taker.take()
    made.process(10)
    made.books(10, 5711, vram=1)

    assert taker.take(seconds=3.0) is first
    assert [10] == [process.pid for process in taker.take(seconds=7.0).processes or ()]


def test_a_pass_is_a_source_of_its_own(taker: Taker) -> None:
    source = taker.take().source

    assert source is not None
    assert taker.clock.unix() == source.last_success_at


def test_control_groups_are_looked_at_once_a_minute(made: Processes, taker: Taker) -> None:
    group = made.root / "sys/fs/cgroup/a.slice"
    group.mkdir(parents=True)
    (made.root / "sys/fs/cgroup/dmem.capacity").write_text("")
    (group / "dmem.current").write_text(f"drm/{WHOLE.pci}/vram 7\n")
    expected = (CgroupVram(cgroup="/a.slice", pci=WHOLE.pci, bytes=7),)
    assert expected == taker.take().cgroups
    (group / "dmem.current").write_text(f"drm/{WHOLE.pci}/vram 8\n")

    assert expected == taker.take().cgroups
    assert [8] == [one.bytes for one in taker.take(seconds=60.0).cgroups]


def test_failing_reads_are_counted(made: Processes, taker: Taker) -> None:
    made.process(10)
    made.books(10, 5711, vram=1)
    (made.kfd / "10/vram_5711").write_text("")

    assert taker.take().readers.fault_counts == {("processes", "ENODATA"): 1}


def test_how_long_a_kill_has_been_waiting_is_counted_here(made: Processes, taker: Taker) -> None:
    made.process(10)
    made.books(10, 5711, vram=1)
    made.process(11, pending=0x100)
    made.books(11, 5711, vram=1)

    def waits() -> list[float | None]:
        return [process.kill_pending_seconds for process in taker.take().processes or ()]

    assert [[None, 0.0], [None, 10.0], [None, 20.0]] == [waits(), waits(), waits()]


def test_whether_a_suspect_listens_is_found_out(made: Processes, taker: Taker) -> None:
    made.process(10)
    made.books(10, 5711, vram=1)
    (made.root / "proc/10/net").mkdir()
    (made.root / "proc/10/net/tcp").write_text("")

    taker.clock.now += 10.0
    first = taker.census.tick([WHOLE])
    taker.clock.now += 10.0
    second = taker.census.tick([WHOLE], suspects={10})

    assert [None, False] == [(findings.processes or ())[0].listening for findings in (first, second)]


def test_hundreds_of_processes_are_read_in_several_requests(made: Processes, taker: Taker) -> None:
    for pid in range(1000, 1450):
        made.process(pid)
        made.books(pid, 5711, vram=pid)

    processes = taker.take().processes or ()

    assert list(range(1000, 1450)) == [process.uses[0].kfd_bytes for process in processes]


def test_a_reader_that_was_killed_is_replaced_within_the_pass(made: Processes, taker: Taker) -> None:
    made.process(10)
    made.books(10, 5711, vram=1)
    taker.take()
    reader = taker.crew._reader
    assert reader is not None
    os.kill(reader.pid, signal.SIGKILL)

    assert [10] == [process.pid for process in taker.take().processes or ()]


def test_a_process_whose_files_hang_keeps_its_last_words_and_hides_nobody(made: Processes, taker: Taker) -> None:
    taker.census.deadline_seconds = 0.5
    for pid in (10, 11, 12):
        made.process(pid)
        made.books(pid, 5711, vram=pid)
    taker.take()
    for pid in (10, 11, 12):
        made.books(pid, 5711, vram=100 * pid)
    os.unlink(made.kfd / "11/vram_5711")
    os.mkfifo(made.kfd / "11/vram_5711")  # whoever opens it waits for a writer

    held: Callable[[], list[int | None]] = lambda: [  # noqa: E731
        process.uses[0].kfd_bytes for process in taker.take().processes or ()
    ]
    assert [1000, 11, 1200] == held()
    assert taker.crew.stalled == {"pid 11"}
    assert [1000, 11, 1200] == held()
    os.unlink(made.kfd / "11/vram_5711")
    made.books(11, 5711, vram=1100)

    assert eventually(lambda: held() == [1000, 1100, 1200])
