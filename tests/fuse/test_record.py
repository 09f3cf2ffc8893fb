"""A record of a node whose files fail or hang: what can be had is had, the rest is named, and it comes to an end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from e2e.running import run
from faultfs import FaultFS
from record_trees import inhabit, manifest
from watching import eventually, state_of

from rocmwatch.observe.record import Entry, Recorder, Recording
from rocmwatch.observe.record_hands import MOST_GIVEN_UP
from rocmwatch.simulate import SimulatedNode

pytestmark = pytest.mark.fuse

Mirror = Callable[..., FaultFS]
Node = Callable[..., SimulatedNode]
SICK, WELL = "0000:27:00.0", "0000:05:00.0"
DEADLINE_SECONDS = 0.3


@pytest.fixture
def fs(node: Node, mirror: Mirror) -> FaultFS:
    return mirror(inhabit(node("mi300x", gpus=2).root))


def recorded_from(fs: FaultFS, rules: dict[str, str]) -> Recording:
    with closing(Recorder(str(fs.root), DEADLINE_SECONDS)) as recorder:
        plan = recorder.survey()
        fs.set(rules)
        return recorder.record(plan)


def of(recording: Recording, ending: str, pci: str = SICK) -> Entry:
    (found,) = (entry for entry in recording.entries if entry.path.endswith(ending) and pci in entry.path)
    return found


@pytest.mark.parametrize("errno", ["EIO", "EPERM", "EBUSY", "ENODEV", "EHWPOISON", "EACCES"])
@pytest.mark.parametrize("operation", ["", "open:"])
def test_a_file_that_fails_is_named_with_its_errno(fs: FaultFS, errno: str, operation: str) -> None:
    recording = recorded_from(fs, {f"*/{SICK}/gpu_metrics": operation + errno})

    assert ("failed", errno, b"") == (
        of(recording, "/gpu_metrics").outcome,
        of(recording, "/gpu_metrics").why,
        of(recording, "/gpu_metrics").data,
    )
    assert "read" == of(recording, "/gpu_metrics", WELL).outcome
    assert "read" == of(recording, "/gpu_busy_percent").outcome
    assert (errno == "EACCES") == bool(recording.incomplete)


def test_a_folder_that_cannot_be_listed_is_named(fs: FaultFS) -> None:
    fs.set({f"*/{SICK}/hwmon": "list:EIO"})
    with closing(Recorder(str(fs.root), DEADLINE_SECONDS)) as recorder:
        recording = recorder.record(recorder.survey())

    assert ("failed", "EIO") == (of(recording, "/hwmon").outcome, of(recording, "/hwmon").why)
    assert "read" == of(recording, "/gpu_metrics").outcome


@pytest.mark.parametrize("file", ["gpu_metrics", "mem_info_vram_total", "power/runtime_status"])
def test_a_read_that_never_returns_is_given_up(fs: FaultFS, file: str) -> None:
    begun = time.monotonic()
    recording = recorded_from(fs, {f"*/{SICK}/{file}": "hang"})
    took = time.monotonic() - begun

    hung = [entry for entry in recording.entries if entry.why == "no answer"]
    assert 1 == len(hung)
    assert SICK in hung[0].path
    assert ("skipped", "another read of the same hangs") == (
        of(recording, "/ras/umc_err_count").outcome,
        of(recording, "/ras/umc_err_count").why,
    )
    assert [] == [entry for entry in recording.entries if WELL in entry.path and entry.outcome == "failed"]
    assert "read" == of(recording, "/gpu_metrics", WELL).outcome
    assert {"read"} == {entry.outcome for entry in recording.entries if entry.path.startswith("proc/94242/")}
    assert recording.incomplete
    assert took < 20
    assert fs.held()


def test_the_compute_drivers_files_that_hang_take_nothing_else_along(fs: FaultFS) -> None:
    recording = recorded_from(fs, {"*/topology/nodes/*/properties": "hang"})

    outcomes = {entry.path: entry.outcome for entry in recording.entries}
    assert "read" == outcomes["proc/meminfo"] == of(recording, "/gpu_metrics").outcome
    assert 2 >= sum(entry.why == "no answer" for entry in recording.entries)


def test_after_some_hanging_reads_no_further_reader_is_started(fs: FaultFS) -> None:
    """One of each process, of which there are more than readers that may be lost."""
    for pid in range(6000, 6000 + MOST_GIVEN_UP + 4):
        folder = fs.tree / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True)
        os.symlink("/dev/dri/renderD128", folder / "fd/9")
        (folder / "comm").write_text("python3\n")
    recording = recorded_from(fs, {"/proc/6*/comm": "hang"})

    whys = [entry.why for entry in recording.entries]
    assert MOST_GIVEN_UP == whys.count("no answer")
    assert "too many reads hang" in whys


def test_the_command_ends_though_its_reader_cannot(fs: FaultFS, tmp_path: Path) -> None:
    out = tmp_path / "node.tar.gz"
    fs.set({f"*/{SICK}/gpu_metrics": "hang", f"*/{WELL}/product_name": "EIO"})
    finished = run("record", str(out), "--root", str(fs.root), seconds=60)

    assert 4 == finished.status, finished.err
    assert "not everything could be read" in finished.err
    assert f"{WELL}/product_name: EIO" in finished.out
    rows = {row["path"]: row for row in manifest(out)["files"]}
    (hung,) = (row for path, row in rows.items() if path.endswith(f"{SICK}/gpu_metrics"))
    assert {"outcome": "failed", "why": "no answer"}.items() <= hung.items()
    assert 0 == run("sample", "--root", str(out)).status
    json.dumps(rows)


def test_a_reader_that_hangs_is_not_waited_for(fs: FaultFS) -> None:
    recorder = Recorder(str(fs.root), DEADLINE_SECONDS)
    plan = recorder.survey()
    fs.set({f"*/{SICK}/gpu_metrics": "hang"})
    recorder.record(plan)
    stuck = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal() and _is_ours(int(entry))]
    begun = time.monotonic()
    recorder.close()

    assert time.monotonic() - begun < 10
    assert stuck
    fs.release()
    assert eventually(lambda: all(state_of(pid) in ("", "Z") for pid in stuck)), [state_of(pid) for pid in stuck]


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "rw-record\n"
    except OSError:
        return False
