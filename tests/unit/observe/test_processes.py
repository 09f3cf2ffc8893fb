"""What the processes reader reads, in its own process's place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from gpu_processes import Processes
from opened import Opened

from rocmwatch.observe.process_wire import CGROUPS, PIDS, CgroupsFrame, PidsFrame, ProcessFrame, subject_of
from rocmwatch.observe.processes import ProcessReader
from rocmwatch.observe.wire import LIST, LOOK, Order

GPU, OTHER = "0000:05:00.0", "0000:27:00.0"
RENDER = "/dev/dri/renderD128"
MIB = 1 << 20


@pytest.fixture
def made(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def pids(reader: ProcessReader, what: int = LOOK) -> PidsFrame:
    return PidsFrame(*reader.answer(Order(PIDS, what)))  # type: ignore[arg-type]


def process(reader: ProcessReader, pid: int) -> ProcessFrame:
    return ProcessFrame(*reader.answer(Order(subject_of(pid), LOOK)))  # type: ignore[arg-type]


def test_users_of_a_gpu_are_those_with_an_open_file_or_an_entry_in_the_books(made: Processes) -> None:
    for pid in (10, 11, 12, 13):
        made.process(pid)
    made.opens(10, 4, "/dev/null")
    made.opens(11, 4, RENDER)
    made.opens(12, 9, "/dev/kfd")
    made.books(99, 5711, vram=1)  # of a process that is gone

    assert pids(ProcessReader(str(made.root))) == PidsFrame((11, 12, 99), 0, ())


def test_a_process_that_opens_a_gpu_later_is_found_when_all_are_looked_at(made: Processes) -> None:
    made.process(10)
    reader = ProcessReader(str(made.root))
    assert pids(reader).pids == ()
    made.opens(10, 4, RENDER)

    assert pids(reader).pids == ()
    assert pids(reader, LIST).pids == (10,)


def test_a_process_is_told_with_all_that_it_has(made: Processes) -> None:
    made.process(10, "VLLM::EngineCor", 777, "/system.slice/vllm@0.service")
    made.opens(10, 3, "/dev/kfd")
    made.opens(10, 4, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7, drm_memory_vram="2048 KiB")
    made.opens(10, 5, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7, drm_memory_vram="2048 KiB")  # a dup
    made.opens(10, 6, "/dev/dri/card2", drm_driver="amdgpu", drm_pdev=OTHER, drm_client_id=8, amd_evicted_vram="4 KiB")
    made.books(10, 5711, vram=123, evicted_ms=45, faults=6)
    made.books(10, 600, vram=0)

    expected = ProcessFrame(
        start_time=777,
        comm="VLLM::EngineCor",
        state="S",
        parent=1,
        cgroup="/system.slice/vllm@0.service",
        kfd=((600, 0, None, None), (5711, 123, 45, 6)),
        has_kfd_entry=True,
        clients=((GPU, 128, 2 * MIB, None, None, None), (OTHER, None, None, None, 4096, None)),
        kfd_open=True,
    )
    actual = process(ProcessReader(str(made.root)), 10)
    assert expected == actual._replace(clients=tuple(sorted(actual.clients)))


def test_contexts_of_one_process_are_added_up(made: Processes) -> None:
    made.process(10)
    made.books(10, 5711, vram=100, evicted_ms=3)
    made.books(10, 5711)
    second = made.kfd / "10/context_1"
    second.mkdir()
    (second / "vram_5711").write_text("23\n")

    assert process(ProcessReader(str(made.root)), 10).kfd == ((5711, 123, 3, None),)


def test_an_entry_of_a_process_that_is_gone_is_told_without_it(made: Processes) -> None:
    made.books(10, 5711, vram=100)

    assert process(ProcessReader(str(made.root)), 10) == ProcessFrame(
        kfd=((5711, 100, None, None),), has_kfd_entry=True
    )


def test_numbers_that_make_no_sense_are_faults_and_the_rest_is_read(made: Processes) -> None:
    made.process(10)
    made.books(10, 5711, vram=100, evicted_ms=3)
    made.books(10, 600, vram=7)
    (made.kfd / "10/vram_5711").write_text("many\n")

    frame = process(ProcessReader(str(made.root)), 10)

    assert frame.kfd == ((600, 7, None, None), (5711, None, 3, None))
    assert frame.faults == ((0, "processes", "EBADMSG", "/sys/class/kfd/kfd/proc/10/vram_5711"),)


def test_a_stat_that_makes_no_sense_is_a_fault_and_no_other_process(made: Processes) -> None:
    made.process(10)
    made.books(10, 5711, vram=100)
    (made.root / "proc/10/stat").write_text("10 half a line")

    frame = process(ProcessReader(str(made.root)), 10)

    assert (frame.start_time, frame.kfd) == (None, ((5711, 100, None, None),))
    assert frame.faults == ((0, "processes", "EBADMSG", "/proc/10/stat"),)


def test_what_costs_the_hardware_something_is_never_opened(made: Processes) -> None:
    made.process(10)
    made.opens(10, 4, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7)
    made.books(10, 5711, vram=1, evicted_ms=1, faults=1)
    (made.kfd / "10/sdma_5711").write_text("9\n")
    (made.kfd / "10/stats_5711/cu_occupancy").write_text("9\n")
    (made.root / "proc/10/mem").write_text("")
    (made.root / "proc/10/environ").write_text("")
    reader = ProcessReader(str(made.root))

    with Opened(made.root) as opened:
        pids(reader, LIST)
        process(reader, 10)
        reader.answer(Order(CGROUPS, LIST))
        files = set(opened.look())

    assert files == {
        "/proc/10/stat",
        "/proc/10/cgroup",
        "/proc/10/fdinfo/4",
        "/sys/class/kfd/kfd/proc/10/vram_5711",
        "/sys/class/kfd/kfd/proc/10/stats_5711/evicted_ms",
        "/sys/class/kfd/kfd/proc/10/counters_5711/faults",
    }


def test_memory_is_told_by_control_group_where_the_kernel_counts_it(made: Processes) -> None:
    root = made.root / "sys/fs/cgroup"
    unit = root / "system.slice/vllm@0.service"
    (unit / "empty").mkdir(parents=True)
    (root / "dmem.capacity").write_text(f"drm/{GPU}/vram 1000\n")
    (root / "dmem.current").write_text(f"drm/{GPU}/vram 900\n")  # the root's is the sum of all
    (unit / "dmem.current").write_text(f"drm/{GPU}/vram 700\ndrm/{OTHER}/vram 0\n")
    (unit / "empty/dmem.current").write_text(f"drm/{GPU}/vram 200\n")

    frame = CgroupsFrame(*ProcessReader(str(made.root)).answer(Order(CGROUPS, LIST)))  # type: ignore[arg-type]

    name = "/system.slice/vllm@0.service"
    assert frame == CgroupsFrame(((name, GPU, 700), (f"{name}/empty", GPU, 200)), ())


def test_a_kernel_that_does_not_count_by_control_group_says_nothing(made: Processes) -> None:
    assert ProcessReader(str(made.root)).answer(Order(CGROUPS, LIST)) == CgroupsFrame(None, ())


def test_a_machine_without_a_gpu_has_no_users(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()

    assert pids(ProcessReader(str(tmp_path))) == PidsFrame((), 0, ())


def test_real_processes_are_looked_at_and_those_of_this_machine_have_no_gpu() -> None:
    child = subprocess.Popen(["sleep", "30"])
    try:
        reader = ProcessReader("")
        found = pids(reader, LIST)
        frame = process(reader, child.pid)
    finally:
        child.kill()
        child.wait()

    assert (child.pid not in found.pids, found.faults) == (True, ())
    assert (frame.comm, frame.parent, frame.kfd_open, frame.clients) == ("sleep", os.getpid(), False, ())


def test_a_process_that_ended_is_none(made: Processes) -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    assert process(ProcessReader(""), child.pid) == ProcessFrame()
