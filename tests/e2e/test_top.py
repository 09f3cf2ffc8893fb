"""`rocmwatch top` as people use it: in a terminal of their size, and through a pipe."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e.running import COMMAND, Service, environment, run

from rocmwatch.simulate import SimulatedNode

Node = Callable[..., SimulatedNode]
ENTERS, LEAVES = b"\x1b[?1049h", b"\x1b[?1049l"
_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The other end of a terminal, and the program that runs on it."""

    def __init__(self, columns: int, lines: int, *arguments: str, **env: str) -> None:
        self._ours, self._theirs = os.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self._theirs)
        self.said = b""
        self.program = subprocess.Popen(
            [*COMMAND, "top", *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=environment(**{"TERM": "xterm-256color", **env}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # nobody else runs yet
        )

    def close(self) -> None:
        """Ends the program, if it has not."""
        self.program.kill()
        self.program.wait()
        os.close(self._theirs)
        if self._ours >= 0:
            os.close(self._ours)

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self._theirs)
        os.close(self._ours)
        self._ours = -1
        self._theirs = os.open(os.devnull, os.O_RDONLY)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def shows(self, what: str, seconds: float = 20.0) -> list[str]:
        """The screen, once there is this on it."""
        end = time.monotonic() + seconds
        while what not in "\n".join(self.screen):
            assert time.monotonic() < end, f"no {what!r} on the screen: {self.screen}"
            self._hear(0.2)
        return self.screen

    def ends(self) -> int:
        """Its exit status."""
        end = time.monotonic() + 20
        while self.program.poll() is None:
            assert time.monotonic() < end, "it does not end"
            self._hear(0.1)
        self._hear(0.1)
        return self.program.returncode

    @property
    def screen(self) -> list[str]:
        """What was drawn last."""
        drawn = self.said.rpartition(b"\x1b[?2026l")[0].rpartition(b"\x1b[H")[2]
        return [line.decode() for line in _CODES.sub(b"", drawn).split(b"\r\n")]

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before."""
        return self.said.rfind(LEAVES) > self.said.rfind(ENTERS) and self.before == termios.tcgetattr(self._theirs)

    def _hear(self, seconds: float) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.said += os.read(self._ours, 1 << 16)


@contextmanager
def top(columns: int, lines: int, *arguments: str, **env: str) -> Iterator[Terminal]:
    terminal = Terminal(columns, lines, *arguments, **env)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def root(node: Node) -> str:
    made = node("mi300x-cpx", gpus=8)
    made.step(137)
    return str(made.root)


def test_at_80_by_24_every_gpu_is_on_the_screen(root: str) -> None:
    with top(80, 24, "--root", root) as terminal:
        screen = terminal.shows("q quit")

        assert 24 == len(screen)
        assert 8 == len([line for line in screen if " active " in line])
        assert max(map(len, screen)) <= 80


def test_q_ends_it_and_leaves_the_terminal_as_it_was(root: str) -> None:
    with top(80, 24, "--root", root) as terminal:
        terminal.shows("q quit")
        assert terminal.before != termios.tcgetattr(terminal._theirs)
        terminal.type(b"q")

        assert (0, True) == (terminal.ends(), terminal.is_restored)


@pytest.mark.parametrize("how", [b"\x03", b"\x1c", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_however_it_ends_the_terminal_is_as_it_was(root: str, how: bytes | signal.Signals) -> None:
    with top(80, 24, "--root", root) as terminal:
        terminal.shows("q quit")
        if isinstance(how, bytes):
            terminal.type(how)
        else:
            terminal.program.send_signal(how)

        assert (0, True) == (terminal.ends(), terminal.is_restored)
        assert b"Traceback" not in terminal.said


def test_a_window_that_is_closed_ends_it(root: str) -> None:
    with top(80, 24, "--root", root) as terminal:
        terminal.shows("q quit")
        terminal.hang_up()

        terminal.program.wait(20)


def test_a_stop_gives_the_terminal_back_until_it_goes_on(root: str) -> None:
    with top(80, 24, "--root", root, "--interval", "200ms") as terminal:
        terminal.shows("q quit")
        os.kill(terminal.program.pid, signal.SIGTSTP)
        _, status = os.waitpid(terminal.program.pid, os.WUNTRACED)
        terminal._hear(0.2)
        assert (True, True) == (os.WIFSTOPPED(status), terminal.is_restored)

        seen = len(terminal.said)
        os.kill(terminal.program.pid, signal.SIGCONT)
        end = time.monotonic() + 20
        while terminal.said.count(b"\x1b[?2026l", seen) < 2 and time.monotonic() < end:
            terminal._hear(0.2)
        assert ENTERS in terminal.said[seen:]
        terminal.type(b"q")
        assert (0, True) == (terminal.ends(), terminal.is_restored)


def test_keys_change_what_is_shown(root: str) -> None:
    with top(80, 24, "--root", root) as terminal:
        terminal.shows("q quit")
        terminal.type(b"p")
        assert any(line.startswith("  0.7 ") for line in terminal.shows("  0.7 "))
        terminal.type(b"\x1b[6~\x1b[B")
        terminal.shows("lines 22 to 42 of 71")
        terminal.type(b"?")
        terminal.shows("partitions of each GPU")
        terminal.type(b"?p")
        terminal.shows("  7 active")


def test_a_window_of_another_size_is_drawn_at_once(root: str) -> None:
    with top(80, 24, "--root", root, "--interval", "1h") as terminal:
        terminal.shows("q quit")
        terminal.resize(120, 30)
        assert 30 == len(terminal.shows("0000:05:00.0"))
        terminal.resize(20, 5)
        assert "0 90% " == terminal.shows("small: 1-4 of 8 GPUs")[1][:6]
        terminal.type(b"\x1b[6~\x1b[6~")
        assert "7 90% " == terminal.shows("small: 5-8 of 8 GPUs")[4][:6]


def test_from_20_by_5_on_something_is_shown(root: str) -> None:
    with top(20, 5, "--root", root) as terminal:
        screen = terminal.shows("small")

        assert 5 == len(screen)
        assert max(map(len, screen)) <= 20
        terminal.type(b"q")
        assert 0 == terminal.ends()


def test_the_size_is_the_terminals_whatever_the_environment_says(root: str) -> None:
    with top(80, 24, "--root", root, COLUMNS="200", LINES="60") as terminal:
        assert 24 == len(terminal.shows("q quit"))


def test_a_line_is_cleared_before_it_is_drawn(root: str) -> None:
    """Behind a line as wide as the terminal the cursor still stands on its last character."""
    with top(20, 5, "--root", root) as terminal:
        terminal.shows("small")

        for line in terminal.said.rpartition(b"\x1b[H")[2].rpartition(b"\x1b[?2026l")[0].split(b"\r\n"):
            assert (0, 1) == (line.find(b"\x1b[K"), line.count(b"\x1b[K"))


def test_a_terminal_that_cannot_be_drawn_on_gets_plain_lines(root: str) -> None:
    with top(80, 24, "--root", root, "--count", "1", TERM="dumb") as terminal:
        assert 0 == terminal.ends()
        assert b"\x1b" not in terminal.said
        assert b" active " in terminal.said


def test_the_locale_c_gets_plain_letters(root: str) -> None:
    done = run("top", "--root", root, "--count", "1", env=environment(LC_ALL="C"))

    assert (0, True) == (done.status, done.out.isascii())


def test_a_daemon_that_goes_ends_plain_lines_with_one(root: str, tmp_path: Path) -> None:
    with Service(tmp_path, root) as service:
        command = [*COMMAND, "top", "--config", str(service.config), "--interval", "200ms"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdout is not None
            process.stdout.readline()
            service.end()
            _, errors = process.communicate(timeout=20)

    assert (1, 1, True) == (process.returncode, len(errors.splitlines()), "no daemon at" in errors)


def test_a_daemon_that_goes_is_said_and_one_that_comes_back_is_shown(root: str, tmp_path: Path) -> None:
    with Service(tmp_path, root) as service:
        config = str(service.config)
        with top(100, 24, "--config", config, "--interval", "200ms") as terminal:
            terminal.shows("read 0 s ago")
            service.end()
            terminal.shows("no daemon at")
            service.start()
            terminal.shows("read 0 s ago")
            terminal.type(b"q")
            assert 0 == terminal.ends()


def test_through_a_pipe_come_plain_lines(root: str) -> None:
    done = run("top", "--root", root, "--count", "2", "--interval", "200ms", "--partitions")

    blocks = done.out.split("\n\n")
    assert (0, "", 2) == (done.status, done.err, len(blocks))
    for block in blocks:
        assert 1 + 1 + 8 + 63 == len(block.strip("\n").splitlines())
    assert "\x1b" not in done.out


def test_a_reader_that_has_enough_ends_it(root: str) -> None:
    command = [*COMMAND, "top", "--root", root, "--interval", "200ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        process.wait(20)

    assert b"" == errors


def test_a_machine_without_a_gpu_is_one_line_and_1(tmp_path: Path) -> None:
    (tmp_path / "sys/class/drm").mkdir(parents=True)
    done = run("top", "--root", str(tmp_path), "--count", "1")

    assert (1, 1, True) == (done.status, len(done.err.splitlines()), "no AMD GPU found here" in done.err)


@pytest.mark.parametrize("wrong", [("--interval", "1ms"), ("--interval", "soon"), ("--count", "0")])
def test_a_wrong_call_is_told_so(wrong: tuple[str, str]) -> None:
    assert 2 == run("top", *wrong).status
