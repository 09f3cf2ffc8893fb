"""One real process at a time: it ends, its memory comes back, and at the first surprise nothing more is done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from watching import eventually, state_of

from rocmwatch.act.gc import Outcome, Terminator, Waits
from rocmwatch.act.ledger import Ledger, LedgerUnusable
from rocmwatch.kernel.process import parse_stat
from rocmwatch.model import Action, GpuProcess, Held, Holder, HolderClass, Owner, OwnerKind

GIB = 1 << 30
PCI = "0000:05:00.0"
QUICK = Waits(terminate=0.4, kill=5.0, release=0.4)
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
)
WILLING = "import time; print('ready', flush=True); time.sleep(60)"


class RealTime:
    def monotonic(self) -> float:
        return time.monotonic()

    def unix(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.02))


def classified(pid: int, **changes: object) -> Holder:
    """What a look at a process comes to."""
    stat = parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    process = GpuProcess(pid=pid, start_time=stat.start_time, comm=stat.comm, state=stat.state, uid=0, cgroup="/x")
    holder = Holder(
        process=process,
        holder_class=HolderClass.ORPHAN,
        owner=Owner(kind=OwnerKind.UNIT, name="vllm@0.service"),
        held=(Held(pci=PCI, partition=None, bytes=150 * GIB),),
        reason="it outlived its service",
        action=Action.TERMINATE,
    )
    return replace(holder, **changes)  # type: ignore[arg-type]


class Stage:
    """A node with one GPU, whose memory is in use while a process lives."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.looks: list[Callable[[], Holder | None]] = []  # what the next looks see, instead of the truth
        self.keeps = False

    def holder(self, pid: int) -> Holder | None:
        if self.looks:
            return self.looks.pop(0)()
        return classified(pid) if state_of(pid) not in ("", "Z") else None

    def used_bytes(self, pci: str) -> int:
        return 151 * GIB if self.keeps or state_of(self.pid) not in ("", "Z") else 1 * GIB


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(str(tmp_path / "ledger.db"), 1.0) as made:
        yield made


def ended(stage: Stage, ledger: Ledger, victim: Holder | None = None, waits: Waits = QUICK) -> Outcome:
    return Terminator(stage, ledger, RealTime(), waits).end(victim or classified(stage.pid), {"rocmwatch": "0"})


def events(ledger: Ledger) -> list[str]:
    (operation,) = ledger.operations()
    return [" ".join((step.event, *map(str, step.facts.values()))) for step in ledger.audit(operation.operation)]


def test_a_victim_is_asked_to_end_and_its_memory_is_seen_to_come_back(ledger: Ledger) -> None:
    with running(WILLING) as process:
        outcome = ended(Stage(process.pid), ledger, waits=Waits(terminate=20.0, kill=5.0, release=20.0))

        assert Outcome("done", "it ended, and its memory is free") == outcome
        assert -signal.SIGTERM == process.wait()
    assert ["signalled SIGTERM", "ended", "released"] == events(ledger)
    (operation,) = ledger.operations()
    assert ("gc", "done", "release") == (operation.action, operation.result, operation.phase)
    assert f"on {PCI}" in operation.subject


def test_one_that_does_not_listen_is_killed_after_a_while(ledger: Ledger) -> None:
    with running(STUBBORN) as process:
        outcome = ended(Stage(process.pid), ledger, waits=Waits(terminate=0.2, kill=20.0, release=20.0))

        assert "done" == outcome.result
        assert -signal.SIGKILL == process.wait()
    assert ["signalled SIGTERM", "signalled SIGKILL", "ended", "released"] == events(ledger)


def test_memory_that_does_not_come_back_is_a_failure(ledger: Ledger) -> None:
    with running(WILLING) as process:
        stage = Stage(process.pid)
        stage.keeps = True

        outcome = ended(stage, ledger, waits=Waits(terminate=20.0, kill=5.0, release=0.2))

    assert ("failed", True) == (outcome.result, "was not given back" in outcome.reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"process": GpuProcess(pid=1, start_time=7)}, "identity_changed"),
        ({"owner": Owner()}, "identity_changed"),
        (
            {"holder_class": HolderClass.FOREIGN, "action": Action.NONE, "reason": "busy"},
            "class_changed: foreign: busy",
        ),
        ({"holder_class": HolderClass.ZOMBIE_LEADER}, "class_changed: zombie_leader"),
        (None, "it holds nothing any more"),
    ],
)
def test_whoever_is_not_what_was_agreed_to_is_let_alone(
    ledger: Ledger, change: dict[str, object] | None, reason: str
) -> None:
    with running(WILLING) as process:
        stage = Stage(process.pid)
        stage.looks = [lambda: None if change is None else classified(process.pid, **change)]

        outcome = ended(stage, ledger)

        assert ("refused", True) == (outcome.result, reason in outcome.reason)
        assert process.poll() is None
    assert () == ledger.operations()


def test_what_becomes_of_it_between_two_signals_is_looked_at(ledger: Ledger) -> None:
    with running(STUBBORN) as process:
        stage = Stage(process.pid)
        owned = {"holder_class": HolderClass.OWNED, "action": Action.NONE, "reason": "started anew"}
        stage.looks = [lambda: classified(process.pid), lambda: classified(process.pid, **owned)]

        outcome = ended(stage, ledger)

        assert Outcome("failed", "after SIGTERM: class_changed: owned: started anew") == outcome
        assert process.poll() is None
    assert ["signalled SIGTERM"] == events(ledger)


def test_one_that_ended_by_itself_is_no_victim(ledger: Ledger) -> None:
    with running(WILLING) as process:
        victim = classified(process.pid)
        process.kill()
        process.wait()

        assert Outcome("refused", "it ended by itself") == ended(Stage(process.pid), ledger, victim)
    assert () == ledger.operations()


def test_one_that_survives_a_kill_needs_a_reboot(ledger: Ledger) -> None:
    class Immortal:
        def __init__(self, pid: int) -> None:
            self.signals: list[signal.Signals] = []

        def close(self) -> None: ...

        def send(self, number: signal.Signals) -> None:
            self.signals.append(number)

        def has_ended(self, seconds: float) -> bool:
            time.sleep(min(seconds, 0.02))
            return False

    with running(WILLING) as process:
        stage = Stage(process.pid)
        terminator = Terminator(stage, ledger, RealTime(), Waits(0.1, 0.1, 0.1), Immortal)

        outcome = terminator.end(classified(process.pid), {})

        assert ("failed", True) == (outcome.result, outcome.needs_reboot)
        assert process.poll() is None


def test_without_a_place_to_write_nothing_is_signalled(ledger: Ledger) -> None:
    with running(WILLING) as process:
        ledger.close()

        with pytest.raises(LedgerUnusable):
            ended(Stage(process.pid), ledger)
        assert process.poll() is None


def test_what_is_not_ours_to_signal_is_a_failure_and_stays(ledger: Ledger, tmp_path: Path) -> None:
    class Forbidden:
        def __init__(self, pid: int) -> None: ...

        def close(self) -> None: ...

        def send(self, number: signal.Signals) -> None:
            raise PermissionError(1, "no")

        def has_ended(self, seconds: float) -> bool:
            return False

    with running(WILLING) as process:
        outcome = Terminator(Stage(process.pid), ledger, RealTime(), QUICK, Forbidden).end(classified(process.pid), {})

    assert Outcome("failed", "SIGTERM is not permitted: it takes root, or CAP_KILL") == outcome


THREADS = """
import ctypes, threading, time
threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_leader_that_ended_while_its_threads_live_is_ended_whole(ledger: Ledger) -> None:
    with running(THREADS) as process:
        assert eventually(lambda: state_of(process.pid) == "Z")
        alive = [True]

        class Scene:
            def holder(self, pid: int) -> Holder:
                return classified(pid, holder_class=HolderClass.ZOMBIE_LEADER)

            def used_bytes(self, pci: str) -> int:
                alive[0] = alive[0] and len(os.listdir(f"/proc/{process.pid}/task")) > 1
                return 151 * GIB if alive[0] else 0

        victim = classified(process.pid, holder_class=HolderClass.ZOMBIE_LEADER)
        terminator = Terminator(Scene(), ledger, RealTime(), Waits(20.0, 20.0, 20.0))

        assert "done" == terminator.end(victim, {}).result
