"""Readers that are stopped, killed, refused or gone wild, and the launcher as well: the GPUs are read all the same.

What hangs in the driver is tests/fuse/test_hanging.py.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable

import pytest
from watching import PACE, Watcher, children_of, descriptors_of, eventually, state_of, states

from rocmwatch.errors import LauncherLost
from rocmwatch.judge.edges import edges
from rocmwatch.observe import link
from rocmwatch.observe.launcher import Launcher
from rocmwatch.observe.link import LauncherLink, ReaderFailed
from rocmwatch.observe.wire import CARDS, LIST, NODES, Mailbox, Order
from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
Watch = Callable[..., Watcher]
ALL_ACTIVE = {"0000:05:00.0": "active", "0000:27:00.0": "active", "0000:47:00.0": "active"}


@pytest.fixture
def watcher(node: Node, watch: Watch) -> Watcher:
    """Someone who watches three GPUs, and has seen them."""
    made = watch(node("mi300x", gpus=3).root)
    made.tick()
    return made


def refuse(name: str) -> LauncherLink:
    """In place of a launcher's `fork`."""
    raise ReaderFailed(name)


def is_whole(watcher: Watcher) -> bool:
    """Whether the last picture lacks nothing."""
    snapshot = watcher.last
    assert snapshot is not None
    return states(snapshot) == ALL_ACTIVE and all(
        reading.sample is not None
        and reading.sampled_at == snapshot.taken_at
        and "junction" in reading.sample.temperatures_celsius
        for reading in snapshot.gpus
    )


def test_one_reader_reads_everything(watcher: Watcher) -> None:
    watcher.tick()

    assert is_whole(watcher)
    assert ([watcher.reader], 0, 0) == (list(watcher.readers), watcher.crew.restarts, watcher.crew.abandoned)


def test_a_reader_that_was_killed_between_two_ticks_is_replaced_within_the_next(watcher: Watcher) -> None:
    os.kill(watcher.reader, signal.SIGKILL)
    assert eventually(lambda: state_of(watcher.reader) in ("Z", ""))
    watcher.tick()

    assert is_whole(watcher)
    assert 1 == watcher.crew.restarts


def test_a_reader_that_is_stopped_costs_one_deadline(watcher: Watcher) -> None:
    stopped = watcher.reader
    os.kill(stopped, signal.SIGSTOP)
    begun = time.monotonic()
    watcher.tick()
    took = time.monotonic() - begun

    assert is_whole(watcher)
    assert took >= PACE.deadline * 0.9
    assert stopped != watcher.reader
    assert eventually(lambda: state_of(stopped) == "")
    watcher.tick()
    assert 0 == watcher.crew.abandoned


def test_a_reader_whose_mailbox_is_damaged_is_replaced(watcher: Watcher) -> None:
    reader = watcher.crew._reader
    assert reader is not None
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)  # in place of its token: it says that it is done, and is not
    os.dup2(read, reader.token)
    os.write(write, struct.pack("<Q", reader._sequence + 1))
    reader._mailbox._memory[0:60] = b"\xff" * 60
    os.close(reader._requests)
    reader._requests = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    watcher.tick()
    os.close(read)
    os.close(write)

    assert is_whole(watcher)
    assert watcher.crew._reader is not reader


def test_an_answer_to_another_request_is_not_taken(watcher: Watcher) -> None:
    reader = watcher.crew._reader
    assert reader is not None
    reader._sequence += 5
    reader.ask((Order(NODES, 0),))
    assert eventually(lambda: bool(link.ready([reader], 0.1)))
    reader._sequence -= 5
    watcher.tick()

    assert is_whole(watcher)
    assert watcher.crew._reader is not reader


def test_without_a_launcher_there_is_no_sampling(watcher: Watcher) -> None:
    os.kill(watcher.launcher.pid, signal.SIGKILL)
    assert eventually(lambda: state_of(watcher.launcher.pid) == "Z")

    with pytest.raises(LauncherLost, match="only a new start brings its capabilities back"):
        watcher.tick()


def test_a_launcher_that_went_while_a_reader_is_wanted_is_noticed(node: Node) -> None:
    launcher = LauncherLink(node("mi300x").root)
    os.kill(launcher.pid, signal.SIGKILL)
    assert eventually(lambda: state_of(launcher.pid) == "Z")

    with pytest.raises(LauncherLost):
        launcher.fork("sensors")
    launcher.close()


def test_a_launcher_that_says_nothing_is_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "START_SECONDS", 0.2)
    launcher = LauncherLink(node("mi300x").root)
    os.kill(launcher.pid, signal.SIGSTOP)

    with pytest.raises(LauncherLost, match="does not answer"):
        launcher.fork("sensors")
    os.kill(launcher.pid, signal.SIGCONT)
    launcher.close()


def test_the_readers_go_with_the_launcher(watcher: Watcher) -> None:
    reader, launcher = watcher.reader, watcher.launcher.pid
    os.kill(reader, signal.SIGSTOP)
    watcher.crew._reader = None  # even one that main has forgotten
    watcher.close()

    assert eventually(lambda: state_of(reader) in ("", "Z") and state_of(launcher) == "")


def test_a_reader_that_cannot_be_started_leaves_nothing_current(
    node: Node, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the service has come to its TasksMax."""
    watcher = watch(node("mi300x", gpus=3).root)
    watcher.tick()
    before = descriptors_of(os.getpid())
    os.kill(watcher.reader, signal.SIGKILL)

    monkeypatch.setattr(watcher.launcher, "fork", refuse)
    refused = watcher.tick()
    monkeypatch.undo()
    old = refused.sources["memory"].last_success_at
    watcher.tick()

    assert [None] * 3 == [reading.sample for reading in refused.gpus], "old values are not passed off as new"
    assert ("sensors",) == refused.notes, "and why is told"
    assert () == watcher.last.notes
    assert old is not None
    assert old < refused.taken_at
    assert is_whole(watcher)
    assert before == descriptors_of(os.getpid())


def test_a_node_that_no_reader_ever_looked_at_is_not_one_without_gpus(
    node: Node, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = watch(node("mi300x", gpus=3).root)
    monkeypatch.setattr(watcher.launcher, "fork", refuse)
    blind = watcher.tick()
    monkeypatch.undo()
    seeing = watcher.tick()

    assert (False, ()) == (blind.listed, blind.gpus)
    assert "memory" not in blind.sources
    assert ["which GPUs there are is not known" in blind.notes[0], blind.notes[1:]] == [True, ("sensors",)]
    assert [edge.event for edge in edges(None, blind)] == ["node.limited", "node.limited"]
    assert (True, ()) == (seeing.listed, seeing.notes)
    assert is_whole(watcher)


@pytest.mark.parametrize("name", ["n\xe9 \n", os.fsdecode(b"\xff\xe9")])
def test_a_root_may_have_any_name(node: Node, watch: Watch, name: str) -> None:
    watcher = watch(node("mi300x", gpus=3, name=name).root)
    watcher.tick()

    assert is_whole(watcher)


def test_a_fork_that_the_system_refuses_is_told_and_costs_no_descriptor(node: Node) -> None:
    launcher = LauncherLink(node("mi300x").root)
    real = launcher._socket
    with real:
        launcher._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = descriptors_of(os.getpid())
        other.send(f"failed {errno.EAGAIN}".encode())
        with other, pytest.raises(ReaderFailed, match="temporarily unavailable"):
            launcher.fork("sensors")
        after = descriptors_of(os.getpid())
    launcher.close()

    assert before - 1 == after, "but for the one that this test closed itself"


def test_a_process_without_descriptors_starts_no_reader_and_keeps_those_it_has(node: Node) -> None:
    launcher = LauncherLink(node("mi300x").root)
    before = descriptors_of(os.getpid())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 3, limits[1]))
    try:
        with pytest.raises(ReaderFailed, match="Too many open files"):
            launcher.fork("sensors")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert before == descriptors_of(os.getpid())
    launcher.fork("sensors").close()
    launcher.close()


def test_a_process_without_memory_for_a_mailbox_keeps_no_descriptor_and_no_reader(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_memory(*_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    launcher = LauncherLink(node("mi300x").root)
    before = descriptors_of(os.getpid())
    monkeypatch.setattr(link, "Mailbox", type("Mailbox", (), {"create": Mailbox.create, "__init__": refuse_memory}))
    with pytest.raises(ReaderFailed, match="Cannot allocate memory"):
        launcher.fork("sensors")

    assert before == descriptors_of(os.getpid())
    assert eventually(lambda: not children_of(launcher.pid))
    launcher.close()


def test_a_launcher_answers_a_fork_that_fails_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(os, "fork", refuse)
    ours.send(b"fork sensors /nowhere")
    with ours, theirs:
        assert Launcher(theirs)._obey()
        assert b"failed %d" % errno.EAGAIN == ours.recv(100)


def test_a_launcher_that_cannot_answer_any_more_ends() -> None:
    """Main went after it had given an order."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(b"kill 1")  # no child of its own, which it would say
    ours.close()
    before = descriptors_of(os.getpid())
    try:
        with theirs:
            Launcher(theirs).run()
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wake = signal.set_wakeup_fd(-1)

    assert wake >= 0
    assert before + 1 == descriptors_of(os.getpid()), "the two of the pipe that wakes it, less its socket"


def test_a_reader_says_in_the_journal_why_it_ended(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    launcher = LauncherLink(node("mi300x").root)
    reader = launcher.fork("sensors")
    os.write(reader._requests, b"no request")
    answer = reader.wait(5.0)
    reader.close()
    launcher.close()

    assert (True, {}) == (answer.died, answer.frames)
    assert "WireError" in capfd.readouterr().err


def test_nothing_is_said_when_main_goes_first(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    launcher = LauncherLink(node("mi300x").root)
    reader = launcher.fork("sensors")
    os.kill(reader.pid, signal.SIGSTOP)
    reader.ask((Order(CARDS, LIST),))
    reader.close()
    os.kill(reader.pid, signal.SIGCONT)
    gone = eventually(lambda: state_of(reader.pid) in ("", "Z"))
    launcher.close()

    assert (True, "") == (gone, capfd.readouterr().err)


def test_fifty_deaths_leave_nothing_behind(watcher: Watcher) -> None:
    """Readers that are killed again and again: as many processes and descriptors at the end as at the beginning."""
    watcher.tick()
    before = descriptors_of(os.getpid()), descriptors_of(watcher.launcher.pid), len(watcher.readers)
    for _ in range(50):
        os.kill(watcher.reader, signal.SIGKILL)
        watcher.tick()
    assert is_whole(watcher)
    assert eventually(lambda: len(watcher.readers) == 1)

    assert before == (descriptors_of(os.getpid()), descriptors_of(watcher.launcher.pid), len(watcher.readers))
