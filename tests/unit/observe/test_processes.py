"""What the processes reader reads, in its own process's place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_processes import Processes
from opened import Opened

from rocmwatch.kernel.sockets import parse_port_range
from rocmwatch.observe.files import Faults
from rocmwatch.observe.process_files import ProcessFiles
from rocmwatch.observe.process_wire import CGROUPS, PIDS, SUSPECT, CgroupsFrame, PidsFrame, ProcessFrame, subject_of
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


def test_a_process_that_opens_a_gpu_later_is_found_when_it_is_looked_at_again(made: Processes) -> None:
    made.process(10)
    reader = ProcessReader(str(made.root))
    assert pids(reader).pids == ()
    assert pids(reader).pids == ()
    made.opens(10, 4, RENDER)

    assert pids(reader).pids == ()  # the pauses between two looks grow
    assert pids(reader).pids == (10,)


def test_who_has_a_gpu_is_told_without_reading_a_file_of_it(made: Processes) -> None:
    made.process(10)
    made.opens(10, 4, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7)
    reader = ProcessReader(str(made.root))

    with Opened(made.root) as opened:
        assert pids(reader, LIST).pids == (10,)
        assert set(opened.look()) == set()


def test_all_can_be_looked_at_at_once(made: Processes) -> None:
    made.process(10)
    reader = ProcessReader(str(made.root))
    for _ in range(4):
        assert pids(reader).pids == ()
    made.opens(10, 4, RENDER)

    assert pids(reader, LIST).pids == (10,)


def test_a_number_that_passed_to_another_process_is_looked_at_at_once(made: Processes) -> None:
    made.process(10)
    reader = ProcessReader(str(made.root))
    for _ in range(4):
        pids(reader)
    os.rename(made.root / "proc/10", made.root / "old")
    made.process(10)
    made.opens(10, 4, RENDER)

    assert pids(reader).pids == (10,)


def test_a_process_is_told_with_all_that_it_has(made: Processes) -> None:
    started = "0123456789abcdef" * 2
    made.process(10, "VLLM::EngineCor", 777, "/system.slice/vllm@0.service", group=9, pending=0x100, invocation=started)
    made.thread(10, 10)
    made.thread(10, 11, "D")
    made.opens(10, 3, "/dev/kfd")
    made.opens(10, 4, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7, drm_memory_vram="2048 KiB")
    made.opens(10, 5, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7, drm_memory_vram="2048 KiB")  # a dup
    made.opens(10, 6, "/dev/dri/card2", drm_driver="amdgpu", drm_pdev=OTHER, drm_client_id=8, amd_evicted_vram="4 KiB")
    made.books(10, 5711, vram=123, evicted_ms=45, faults=6)
    made.books(10, 600, vram=0)

    expected = ProcessFrame(
        exists=True,
        start_time=777,
        comm="VLLM::EngineCor",
        state="S",
        parent=1,
        group=9,
        session=9,
        group_is_led=False,
        uid=1000,
        namespaces=1,
        live_threads=2,
        stuck_thread=True,
        kill_pending=True,
        cgroup="/system.slice/vllm@0.service",
        invocation=started,
        has_kfd_entry=True,
        kfd_open=True,
        drm_open=True,
        kfd=((600, 0, None, None), (5711, 123, 45, 6)),
        clients=((GPU, 128, 2 * MIB, None, None, None), (OTHER, None, None, None, 4096, None)),
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
    reader = ProcessReader(str(made.root))

    with Opened(made.root) as opened:
        pids(reader, LIST)
        process(reader, 10)
        reader.answer(Order(CGROUPS, LIST))
        files = set(opened.look())

    assert files == {
        "/proc/10/stat",
        "/proc/10/status",
        "/proc/10/cgroup",
        "/proc/10/environ",
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
    assert frame == CgroupsFrame(((name, GPU, 500), (f"{name}/empty", GPU, 200)), ())


def test_a_group_is_told_without_what_is_in_the_groups_below_it(made: Processes) -> None:
    root = made.root / "sys/fs/cgroup"
    sizes = {"a.slice": 900, "a.slice/b.service": 600, "a.slice/x/c.service": 300, "d.slice": 7}
    (root / "a.slice/x").mkdir(parents=True)  # has no count of its own
    for name, size in sizes.items():
        (root / name).mkdir(exist_ok=True, parents=True)
        (root / name / "dmem.current").write_text(f"drm/{GPU}/vram {size}\n")
    (root / "dmem.capacity").write_text("")

    frame = CgroupsFrame(*ProcessReader(str(made.root)).answer(Order(CGROUPS, LIST)))  # type: ignore[arg-type]

    expected = (("/a.slice/b.service", GPU, 600), ("/a.slice/x/c.service", GPU, 300), ("/d.slice", GPU, 7))
    assert (expected, ()) == frame


def test_a_kernel_that_does_not_count_by_control_group_says_nothing(made: Processes) -> None:
    assert ProcessReader(str(made.root)).answer(Order(CGROUPS, LIST)) == CgroupsFrame(None, ())


def test_a_machine_without_a_gpu_has_no_users(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()

    assert pids(ProcessReader(str(tmp_path))) == PidsFrame((), 0, ())


def test_threads_of_a_leader_that_ended_still_show_what_is_open(made: Processes) -> None:
    made.process(10, state="Z")
    made.thread(10, 10, "Z")
    made.thread(10, 11)
    made.opens("10/task/11", 4, RENDER, drm_driver="amdgpu", drm_pdev=GPU, drm_client_id=7, drm_memory_vram="1 KiB")

    frame = process(ProcessReader(str(made.root)), 10)

    assert (frame.state, frame.live_threads, frame.stuck_thread, frame.drm_open) == ("Z", 1, False, True)
    assert frame.clients == ((GPU, 128, 1024, None, None, None),)


def test_a_number_in_the_books_whose_process_has_no_gpu_is_told_as_such(made: Processes) -> None:
    made.process(10, "sshd")
    made.books(10, 5711, vram=100)
    (made.root / "proc/10/maps").write_text("7f00-7f10 r--p 00000000 00:01 1 /usr/sbin/sshd\n")
    reader = ProcessReader(str(made.root))
    assert not process(reader, 10).kfd_open

    (made.root / "proc/10/maps").write_text("7f00-7f10 rw-s 00000000 00:06 1 /dev/kfd\n")
    assert process(reader, 10).kfd_open


class TestListening:
    """One that serves is of use to somebody, whatever became of its service."""

    def listens(self, made: Processes, pid: int) -> bool | None:
        frame = ProcessReader(str(made.root)).answer(Order(subject_of(pid), SUSPECT))
        return ProcessFrame(*frame).listening  # type: ignore[arg-type]

    def socket(self, made: Processes, pid: int, port: int, inode: int = 77, state: str = "0A") -> None:
        made.opens(pid, 30, f"socket:[{inode}]")
        for name in made.root.glob("proc/[0-9]*"):
            (name / "net").mkdir(exist_ok=True)
            line = (
                f"0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 77 1 0 100\n"
            )
            (name / "net/tcp").write_text("  sl  local_address rem_address   st\n   " + line)

    def test_its_own_socket_is_found(self, made: Processes) -> None:
        made.process(10)
        self.socket(made, 10, 8000)

        assert self.listens(made, 10) is True

    def test_that_of_another_process_of_its_service_is(self, made: Processes) -> None:
        made.process(10)
        made.process(11)
        self.socket(made, 11, 8000)
        procs = made.root / "sys/fs/cgroup/system.slice/vllm.service/cgroup.procs"
        procs.parent.mkdir(parents=True)
        procs.write_text("10\n11\n")

        assert self.listens(made, 10) is True

    def test_that_of_another_process_of_its_group_is(self, made: Processes) -> None:
        for pid in (10, 11):
            made.process(pid, cgroup="/user.slice/session-3.scope", group=9)
        self.socket(made, 11, 8000)

        assert self.listens(made, 10) is True

    def test_a_port_that_the_kernel_chose_is_where_workers_meet(self, made: Processes) -> None:
        made.process(10)
        self.socket(made, 10, 40_000)

        assert self.listens(made, 10) is False

    def test_a_connection_is_no_service(self, made: Processes) -> None:
        made.process(10)
        self.socket(made, 10, 8000, state="01")

        assert self.listens(made, 10) is False

    def test_what_cannot_be_told_is_not(self, made: Processes) -> None:
        made.process(10)

        assert self.listens(made, 10) is None

    def test_a_real_one_is_found(self) -> None:
        code = (
            "import socket, time; s = socket.create_server(('127.0.0.1', 0)); "
            "print(s.getsockname()[1], flush=True); time.sleep(60)"
        )
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            port = int(child.stdout.readline())
            found = ProcessFiles("").listening(child.pid, iter(()), Faults(0))
        finally:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
        low, high = parse_port_range(Path("/proc/sys/net/ipv4/ip_local_port_range").read_bytes())

        assert found is not (low <= port <= high)


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
    assert (frame.may_look, frame.namespaces, frame.group_is_led) == (True, frame.namespaces, True)


def test_a_process_that_ended_is_none(made: Processes) -> None:
    child = subprocess.Popen(["true"])
    child.wait()

    assert process(ProcessReader(""), child.pid) == ProcessFrame()
