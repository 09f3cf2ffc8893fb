"""One at a time, across processes, and never lost with the process that held it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from watching import eventually

from rocmwatch.act.lock import NAME, Busy, operations_lock
from rocmwatch.errors import RocmwatchError

HOLDS = """
import sys, time
from rocmwatch.act.lock import operations_lock
with operations_lock(sys.argv[1], "gc of pid 7"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_it_is_held_once(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    with operations_lock(folder, "gc"):
        with pytest.raises(Busy) as raised, operations_lock(folder, "restart"):
            pass
        assert f"{folder}/{NAME} is held by process {os.getpid()} for gc: one thing at a time" == str(raised.value)
    with operations_lock(folder, "restart"):
        pass


def test_it_goes_with_its_holder_and_keeps_its_file(tmp_path: Path) -> None:
    folder = str(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, folder], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert b"held\n" == holder.stdout.readline()
    inode = os.stat(f"{folder}/{NAME}").st_ino
    with pytest.raises(Busy, match=f"by process {holder.pid} for gc of pid 7"), operations_lock(folder, "gc"):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()

    def is_free() -> bool:
        try:
            with operations_lock(folder, "gc"):
                return True
        except Busy:
            return False

    assert eventually(is_free)
    assert inode == os.stat(f"{folder}/{NAME}").st_ino


def test_a_note_that_makes_no_sense_does_no_harm(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with operations_lock(folder, "gc"):
        (tmp_path / NAME).write_bytes(b"\xff{")
        with pytest.raises(Busy, match="by another process"), operations_lock(folder, "gc"):
            pass


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    os.symlink(target, tmp_path / NAME)

    with pytest.raises(RocmwatchError, match="nothing is done without this lock"), operations_lock(str(tmp_path), "gc"):
        pass
    assert "kept" == target.read_text()
