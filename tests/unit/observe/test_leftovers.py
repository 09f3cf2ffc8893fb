"""Who still hangs from an earlier start of the service, told from /proc and the cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from watching import eventually, state_of

from rocmwatch.observe.leftovers import is_stuck_reader, left_over_readers, parse_stat, service_folder


@pytest.mark.parametrize(
    ("raw", "name", "state"),
    [
        (b"17 (rw-sensors) D 1 17 17 0 -1 4194560 ...", "rw-sensors", "D"),
        (b"17 (a) S 1) R 1 17 17 0", "a) S 1", "R"),
        (b"17 (((()))) D 1", "((()))", "D"),
        (b"17 (rw-sensors) D (x) S 1", "rw-sensors) D (x", "S"),
        (b"17 (two\nlines) Z 1", "two\nlines", "Z"),
        (b"17 () X 1", "", "X"),
        (b"17 (\xff\xfe) S 1", "\ufffd\ufffd", "S"),
        (b"", "", ""),
        (b"17 (cut", "", ""),
        (b"17 (cut)", "cut", ""),
    ],
)
def test_a_name_may_hold_anything_and_the_state_comes_after_it(raw: bytes, name: str, state: str) -> None:
    assert (name, state) == parse_stat(raw)


def test_a_process_can_call_itself_what_it_likes_and_is_still_understood() -> None:
    code = "import sys; open('/proc/self/comm', 'w').write('rw-) D (\\n(x'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        name, state = parse_stat(Path(f"/proc/{process.pid}/stat").read_bytes())
        process.communicate()

    assert ("rw-) D (\n(x", True) == (name, state in "RS")


def test_a_reader_that_is_well_is_no_left_over() -> None:
    code = "import sys; open('/proc/self/comm', 'w').write('rw-sensors'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stuck = is_stuck_reader(process.pid)
        process.communicate()

    assert not stuck


def test_a_process_in_state_d_counts_by_its_name_only(tmp_path: Path, require: Callable[[str], None]) -> None:
    """A parent in vfork is in state D until its child goes on."""
    require("gcc")
    program = tmp_path / "vfork.c"
    program.write_text(
        """
        #include <stdio.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
            FILE *comm = fopen("/proc/self/comm", "w");
            fputs(argv[1], comm);
            fclose(comm);
            if (vfork() == 0) { char c; read(0, &c, 1); _exit(0); }
            return 0;
        }
        """
    )
    binary = tmp_path / "vfork"
    subprocess.run(["gcc", "-o", binary, program], check=True)
    found = {}
    for name in ("rw-sensors", "sleep"):
        with subprocess.Popen([binary, name], stdin=subprocess.PIPE) as process:
            assert eventually(lambda pid=process.pid: state_of(pid) == "D")
            found[name] = is_stuck_reader(process.pid)
            process.communicate(b"x")

    assert {"rw-sensors": True, "sleep": False} == found


def test_a_process_that_is_gone_is_no_left_over() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    assert not is_stuck_reader(process.pid)


UNIT = "/system.slice/rocmwatch.service"


@pytest.mark.parametrize(
    ("cgroup", "folder"),
    [
        (f"0::{UNIT}\n", "v2"),
        (f"12:pids:{UNIT}\n1:name=systemd:{UNIT}\n0::/x\n", "v1"),
        (f"5:memory:{UNIT}\n0::/user.slice/session-1.scope\n", None),
        ("0::/\n", None),
        ("0::/system.slice/none.service\n", None),
        (f"0::{UNIT}/init.scope\n", None),
        ("", None),
        ("nonsense\n:\n::\n0:\n", None),
        (f"0::/odd:name{UNIT}\n", None),
    ],
)
def test_the_service_is_found_in_either_kind_of_hierarchy(tmp_path: Path, cgroup: str, folder: str | None) -> None:
    roots = [str(tmp_path / "v1"), str(tmp_path / "v2")]
    if folder:
        os.makedirs(f"{tmp_path}/{folder}{UNIT}")
        Path(f"{tmp_path}/{folder}{UNIT}/cgroup.procs").touch()

    assert (f"{tmp_path}/{folder}{UNIT}" if folder else None) == service_folder(cgroup, roots)


def test_outside_of_a_service_there_are_none() -> None:
    assert frozenset() == left_over_readers()
