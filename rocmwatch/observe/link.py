"""Main's side of the launcher and of the readers: start one, ask it, notice that it hangs, give it up.

Nothing here ever waits for a process: one that hangs in the driver cannot be waited for. A reader is ended by closing
its pipes, or, when it hangs, by a kill that the launcher sends and whose effect it reports whenever that comes.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from rocmwatch.errors import LauncherLost
from rocmwatch.observe.amdsmi_frame import PACKAGES, ROCM_PATH
from rocmwatch.observe.wire import PACKET_BYTES, TOKEN, Mailbox, Order, WireError, pack_request

_LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")  # not imported: main stays smaller
START_SECONDS = 10.0
END_SECONDS = 1.0
SLICES = 4  # how often within a deadline the reader's progress is looked at

Frames = dict[str, tuple[Any, ...]]


class ReaderFailed(Exception):
    """A reader could not be started. Tried again with the next tick."""


class Answer(NamedTuple):
    """What came of a request.

    Attributes:
        frames: subject -> value, complete ones only.
        complete: Whether every subject was read.
        died: Whether the reader is gone, or cannot be trusted.
        stuck_in: The subject that was being read when it stopped; empty when that is not known.
    """

    frames: Frames
    complete: bool
    died: bool = False
    stuck_in: str = ""


NO_ANSWER = Answer({}, complete=False)


class ReaderLink:
    """One reader process, as main sees it."""

    def __init__(self, pid: int, requests: int, token: int, mailbox: int) -> None:
        self.pid = pid
        self.token = token
        self._requests = requests
        self._mailbox = Mailbox(mailbox)
        os.close(mailbox)  # the mapping stays
        self._sequence = 0

    def ask(self, orders: tuple[Order, ...]) -> None:
        """Sends a request. A dead reader is noticed by `wait`."""
        self._sequence += 1
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._requests, pack_request(self._sequence, orders))

    def wait(self, deadline_seconds: float) -> Answer:
        """The answer to the last request, or what there is of it when a single subject takes longer than that."""
        progress, idle = self._mailbox.progress(), 0
        while idle < SLICES and not ready((self,), deadline_seconds / SLICES):  # counted: a machine may stand still
            before, progress = progress, self._mailbox.progress()
            idle = 0 if progress != before else idle + 1
        return self.answer()

    def answer(self) -> Answer:
        """What there is of the answer by now."""
        frames: Frames = {}
        intact = True
        try:
            token = os.read(self.token, 4 * TOKEN.size)
        except BlockingIOError:
            token = None
        try:
            for subject, value in self._mailbox.frames(self._sequence):
                frames[subject] = value
        except WireError:
            intact = False
        if token is not None:
            complete = intact and token == TOKEN.pack(self._sequence)
            return Answer(frames, complete, died=not complete, stuck_in="" if complete else self._stuck_in())
        return Answer(frames, complete=False, stuck_in=self._stuck_in())

    def close(self) -> None:
        """Closes the pipes: a reader that is well ends by that."""
        os.close(self._requests)
        os.close(self.token)
        self._mailbox.close()

    def _stuck_in(self) -> str:
        sequence, _, subject = self._mailbox.progress()
        return subject if sequence == self._sequence else ""


def ready(readers: Collection[ReaderLink], seconds: float) -> list[ReaderLink]:
    """Those that have answered or ended, once there is one, or after so many seconds."""
    poll = select.poll()
    by_token = {reader.token: reader for reader in readers}
    for token in by_token:
        poll.register(token, select.POLLIN)
    return [by_token[token] for token, _ in poll.poll(max(1.0, seconds * 1000))]


def wait_for_all(readers: Mapping[str, ReaderLink], seconds: float) -> dict[str, Answer]:
    """The answers of readers that were asked for one subject each, after so many seconds at most."""
    waiting = list(readers.values())
    for _ in range(SLICES):
        end = time.monotonic() + seconds / SLICES
        while waiting and (left := end - time.monotonic()) > 0:
            done = ready(waiting, left)
            waiting = [reader for reader in waiting if reader not in done]
    return {subject: reader.answer() for subject, reader in readers.items()}


def _environment() -> dict[str, str]:
    """What the launcher gets of ours: where amdsmi may be, and nothing else, NOTIFY_SOCKET least of all."""
    rocm = {ROCM_PATH: os.environ[ROCM_PATH]} if ROCM_PATH in os.environ else {}
    packages = os.pathsep.join(path for path in sys.path if path.endswith("-packages"))  # site- and dist-
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", PACKAGES: packages, **rocm}


class LauncherLink:
    """The launcher process, as main sees it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._awaited: set[int] = set()  # killed readers whose end is of interest
        self._dead: set[int] = set()  # those of them that are gone
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=2,  # nothing of a reader may reach our standard output
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )
        self._socket = ours
        self._socket.settimeout(START_SECONDS)
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        return self._process.pid

    def fork(self, name: str) -> ReaderLink:
        """A fresh reader.

        Raises:
            ReaderFailed: When there can be no further process just now.
            LauncherLost: When the launcher is gone.
        """
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            try:
                request_read, request_write = os.pipe2(os.O_CLOEXEC)
                theirs.callback(os.close, request_read)
                ours.callback(os.close, request_write)
                token_read, token_write = os.pipe2(os.O_CLOEXEC)
                theirs.callback(os.close, token_write)
                ours.callback(os.close, token_read)
                mailbox = Mailbox.create()
                ours.callback(os.close, mailbox)
            except OSError as error:
                raise ReaderFailed(f"no further reader process: {error.strerror}") from error
            self._send(f"fork {name} {self._root}", [request_read, token_write, mailbox])
            pid = self._started_pid()
            os.set_blocking(request_write, False)
            os.set_blocking(token_read, False)
            try:
                reader = ReaderLink(pid, request_write, token_read, mailbox)
            except OSError as error:  # the reader ends with its pipes
                raise ReaderFailed(f"no memory for a further reader process: {error.strerror}") from error
            ours.pop_all()
        return reader

    def kill(self, pid: int, *, awaited: bool) -> None:
        """Has a reader killed. When its end is awaited, `dead` tells of it."""
        if awaited:
            self._awaited.add(pid)
        self._send(f"kill {pid}", [])

    def dead(self, killed: Collection[int]) -> frozenset[int]:
        """Which of these killed readers are gone; each is named once.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        while self._poll.poll(0):
            self._receive()
        dead = frozenset(self._dead.intersection(killed))
        self._dead -= dead
        return dead

    def close(self) -> None:
        """Ends the launcher, and it the readers. It reads nothing of the driver: unlike a reader it can be waited for.

        A thread that is in the middle of an order to it gets LauncherLost.
        """
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._socket.close()

    def _send(self, text: str, descriptors: list[int]) -> None:
        try:
            socket.send_fds(self._socket, [os.fsencode(text)], descriptors)
        except OSError as error:
            raise LauncherLost(
                f"the launcher is gone ({error.strerror}): only a new start brings its capabilities back"
            ) from error

    def _started_pid(self) -> int:
        verb, number = self._receive()
        while verb == "dead":
            verb, number = self._receive()
        if verb == "failed":
            raise ReaderFailed(f"no further reader process: {os.strerror(number)}")
        return number

    def _receive(self) -> tuple[str, int]:
        try:
            data = self._socket.recv(PACKET_BYTES)
        except OSError as error:
            raise LauncherLost(
                f"the launcher does not answer ({error}): only a new start brings its capabilities back"
            ) from error
        if not data:
            raise LauncherLost("the launcher ended: only a new start brings its capabilities back")
        verb, _, number = data.decode().partition(" ")
        if verb == "dead" and int(number) in self._awaited:
            self._awaited.discard(int(number))
            self._dead.add(int(number))
        return verb, int(number)
