"""The ledger: what is written is there after a crash, and what is not to be trusted stops everything."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import require

from rocmwatch.act import ledger as ledger_module
from rocmwatch.act.ledger import Ledger, LedgerUnusable, Operation

NOW = 1_800_000_000.0
GC = Operation(
    operation="", action="gc", subject="pid 200", reason="an orphan", versions={"rocmwatch": "0.1.0"}, started_at=NOW
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state/ledger.db")


@pytest.fixture
def ledger(path: str) -> Iterator[Ledger]:
    with Ledger.create(path, NOW) as made:
        yield made


def test_an_operation_is_told_from_its_start_to_its_end(ledger: Ledger) -> None:
    name = ledger.reserve(GC)
    (begun,) = ledger.unfinished()
    assert (name, "gc", "pid 200", None, NOW) == (
        begun.operation,
        begun.action,
        begun.subject,
        begun.result,
        begun.started_at,
    )
    ledger.note(name, NOW + 1, "signalled", phase="stop", signal="SIGTERM")
    ledger.finish(name, NOW + 2, "done")

    (over,) = ledger.operations()
    assert ("done", "stop", "an orphan", NOW + 2) == (over.result, over.phase, over.reason, over.ended_at)
    assert {"rocmwatch": "0.1.0"} == dict(over.versions)
    (step,) = ledger.audit(name)
    assert ("signalled", {"signal": "SIGTERM"}, NOW + 1) == (step.event, dict(step.facts), step.at)
    assert () == ledger.unfinished()


def test_the_latest_operation_comes_first(ledger: Ledger) -> None:
    first, second = ledger.reserve(GC), ledger.reserve(GC)

    assert [second, first] == [operation.operation for operation in ledger.operations()]
    assert [second] == [operation.operation for operation in ledger.operations(limit=1)]


def test_floors_are_kept(ledger: Ledger, path: str) -> None:
    ledger.keep_floors({("0000:05:00.0", "SPX/NPS1", "6.16"): 7})
    ledger.keep_floors({("0000:05:00.0", "SPX/NPS1", "6.16"): 5, ("0000:05:00.0", "CPX/NPS1", "6.16"): 9})
    ledger.close()

    with Ledger(path) as again:
        assert {("0000:05:00.0", "SPX/NPS1", "6.16"): 5, ("0000:05:00.0", "CPX/NPS1", "6.16"): 9} == again.floors()
        assert NOW == again.created_at


def test_a_result_is_one_of_the_closed_words(ledger: Ledger) -> None:
    name = ledger.reserve(GC)

    with pytest.raises(ValueError, match="no result: fine"):
        ledger.finish(name, NOW, "fine")


def test_it_is_bounded_and_keeps_what_has_no_outcome(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MOST_OPERATIONS", 5)
    monkeypatch.setattr(ledger_module, "MOST_AUDIT_ROWS", 5)
    open_one = ledger.reserve(GC)
    for _ in range(20):
        name = ledger.reserve(GC)
        ledger.note(open_one, NOW, "step")
        ledger.finish(name, NOW, "done")

    names = [operation.operation for operation in ledger.operations()]
    assert (6, open_one) == (len(names), names[-1])
    assert 5 == len(ledger.audit(open_one))


KILLED = """
import os, signal, sys
from rocmwatch.act.ledger import Ledger, Operation
ledger = Ledger(sys.argv[1])
name = ledger.reserve(Operation(operation="mine", action="gc", subject="pid 200", started_at=1.0))
ledger.note(name, 2.0, "signalled", phase="stop")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_reserved_is_there_after_a_kill(ledger: Ledger, path: str) -> None:
    ledger.close()
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False, timeout=60)
    assert -signal.SIGKILL == done.returncode

    with Ledger(path) as again:
        (operation,) = again.unfinished()
        assert ("mine", "stop") == (operation.operation, operation.phase)
        assert ["signalled"] == [step.event for step in again.audit("mine")]


class TestNotToBeTrusted:
    def refused(self, path: str) -> str:
        with pytest.raises(LedgerUnusable) as raised:
            Ledger(path)
        return str(raised.value)

    def test_without_a_ledger_nothing_is_made_on_the_way(self, path: str) -> None:
        assert "there is no ledger" in self.refused(path)
        assert not os.path.exists(path)

    @pytest.mark.parametrize("content", [b"", b"{trunc", b"SQLite format 3\0" + b"\xff" * 4096])
    def test_a_file_that_is_none_is_refused(self, path: str, content: bytes) -> None:
        Path(path).parent.mkdir()
        Path(path).write_bytes(content)

        assert path in self.refused(path)

    def test_a_damaged_one_is_refused(self, ledger: Ledger, path: str) -> None:
        for _ in range(50):
            ledger.reserve(GC)
        ledger.close()
        data = bytearray(Path(path).read_bytes())
        data[4096:] = b"\xa5" * (len(data) - 4096)
        Path(path).write_bytes(data)

        assert path in self.refused(path)

    def test_one_of_a_newer_rocmwatch_is_refused(self, ledger: Ledger, path: str) -> None:
        ledger.close()
        with sqlite3.connect(path) as database:
            database.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")
        database.close()

        assert f"{path}: its schema is 2, this rocmwatch knows 1" == self.refused(path)

    def test_one_that_somebody_holds_is_refused_after_a_while(
        self, ledger: Ledger, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger_module, "BUSY_SECONDS", 0.05)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            assert f"{path}: database is locked" == self.refused(path)
        finally:
            other.close()

    def test_a_link_is_refused(self, ledger: Ledger, path: str) -> None:
        ledger.close()
        os.rename(path, f"{path}.real")
        os.symlink(f"{path}.real", path)

        assert "is a link" in self.refused(path)

    def test_a_read_only_disk_is_refused(self, ledger: Ledger, path: str, tmp_path: Path) -> None:
        require("root")
        require("unshare")
        ledger.close()
        code = "import sys; from rocmwatch.act.ledger import Ledger; Ledger(sys.argv[1])"
        folder = os.path.dirname(path)
        script = f'mount --bind "{folder}" "{folder}" && mount -o remount,ro,bind "{folder}" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", code, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

        assert "LedgerUnusable" in done.stderr
        assert "readonly" in done.stderr or "read-only" in done.stderr or "unable to open" in done.stderr

    def test_a_full_disk_stops_an_operation_before_it_begins(self, path: str, tmp_path: Path) -> None:
        require("root")
        require("unshare")
        code = (
            "import sys\n"
            "from rocmwatch.act.ledger import Ledger, LedgerUnusable, Operation\n"
            "ledger = Ledger.create(sys.argv[1], 1.0)\n"
            "try:\n"
            "    for number in range(100000):\n"
            "        ledger.reserve(Operation(operation='', action='gc', subject='x' * 4000, started_at=1.0))\n"
            "except LedgerUnusable as error:\n"
            "    print(error)\n"
        )
        folder = tmp_path / "small"
        folder.mkdir()
        script = f'mount -t tmpfs -o size=512k tmpfs "{folder}" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", code, f"{folder}/ledger.db"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

        assert ("", True) == (done.stderr, "disk is full" in done.stdout or "disk I/O error" in done.stdout)


def test_a_new_one_puts_the_old_one_aside(ledger: Ledger, path: str) -> None:
    ledger.reserve(GC)
    ledger.close()

    with Ledger.create(path, NOW + 5) as fresh:
        assert () == fresh.operations()
    with Ledger(f"{path}.{int(NOW + 5)}") as old:
        assert 1 == len(old.operations())


def test_the_files_belong_to_whoever_owns_the_folder(path: str) -> None:
    require("root")
    folder = os.path.dirname(path)
    os.mkdir(folder)
    os.chown(folder, 4711, 4712)
    with Ledger.create(path, NOW) as ledger:
        ledger.reserve(GC)
        owners = {
            (os.stat(f"{folder}/{name}").st_uid, os.stat(f"{folder}/{name}").st_gid) for name in os.listdir(folder)
        }

    assert {(4711, 4712)} == owners
    shutil.rmtree(folder)
