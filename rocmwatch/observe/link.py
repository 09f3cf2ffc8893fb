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
from typing import NamedTuple

from rocmwatch.errors import LauncherLost
from rocmwatch.observe.wire import PACKET_BYTES, TOKEN, Mailbox, Request, WireError, pack

_LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")  # not imported: main stays smaller
START_SECONDS = 10.0
END_SECONDS = 1.0
SLICES = 4  # how often within a deadline the reader's progress is looked at


class ReaderFailed(Exception):
    """A reader could not be started. Tried again with the next tick."""


class Answer(NamedTuple):
    """What came of a request.

    Attributes:
        frames: subject -> value, complete ones only.
        complete: Whether every subject was read.
        died: Whether the reader is gone.
        stuck_in: The subject that was being read when it stopped; empty when that is not known.
    """

    frames: dict[str, tuple[object, ...]]
    complete: bool
    died: bool = False
    stuck_in: str = ""


class ReaderLink:
    """One reader process, as main sees it."""

    def __init__(self, pid: int, requests: int, token: int, mailbox: int) -> None:
        self.pid = pid
        self._requests = requests
        self._token = token
        self._mailbox = Mailbox(mailbox)
        os.close(mailbox)  # the mapping stays
        self._poll = select.poll()
        self._poll.register(token, select.POLLIN)
        self._sequence = 0

    def ask(self, topology: int, gpus: tuple[tuple[str, str, int], ...]) -> None:
        """Sends a request. A dead reader is noticed by `wait`."""
        self._sequence += 1
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, pack(Request(self._sequence, topology, gpus)))

    def wait(self, deadline_seconds: float) -> Answer:
        """The answer to the last request, or what there is of it once one subject takes longer than the deadline."""
        progress, since = None, time.monotonic()
        slice_milliseconds = max(1, round(deadline_seconds * 1000 / SLICES))
        while not self._poll.poll(slice_milliseconds):
            current, now = self._mailbox.progress(), time.monotonic()
            if current != progress:
                progress, since = current, now - deadline_seconds / SLICES
            if now - since >= deadline_seconds:
                return Answer(self._frames(), complete=False, stuck_in=current[1])
        data = os.read(self._token, 4096)
        if not data:
            return Answer(self._frames(), complete=False, died=True, stuck_in=self._mailbox.progress()[1])
        if data[-TOKEN.size :] != TOKEN.pack(self._sequence):
            return self.wait(deadline_seconds)  # the token of a request whose answer nobody waited for any more
        try:
            return Answer(dict(self._mailbox.frames(self._sequence)), complete=True)
        except WireError:
            return Answer({}, complete=False, died=True)

    def close(self) -> None:
        """Closes the pipes: a reader that is well ends by that."""
        os.close(self._requests)
        os.close(self._token)
        self._mailbox.close()

    def _frames(self) -> dict[str, tuple[object, ...]]:
        try:
            return dict(self._mailbox.frames(self._sequence))
        except WireError:
            return {}


class LauncherLink:
    """The launcher process, as main sees it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._dead: set[int] = set()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=2,  # nothing of a reader may reach our standard output
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},  # NOTIFY_SOCKET least of all
                start_new_session=True,
            )
        self._socket = ours
        self._socket.settimeout(START_SECONDS)

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
        request_read, request_write = os.pipe2(os.O_CLOEXEC)
        token_read, token_write = os.pipe2(os.O_CLOEXEC)
        mailbox = Mailbox.create()
        try:
            self._send(f"fork {name} {self._root}", [request_read, token_write, mailbox])
            number = self._started_pid()
        except BaseException:
            for descriptor in (request_write, token_read, mailbox):
                os.close(descriptor)
            raise
        finally:
            os.close(request_read)
            os.close(token_write)
        os.set_blocking(request_write, False)
        return ReaderLink(number, request_write, token_read, mailbox)

    def kill(self, pid: int) -> None:
        """Has a reader killed; `dead()` tells when it is gone."""
        self._send(f"kill {pid}", [])

    def dead(self) -> frozenset[int]:
        """The killed readers that are gone, each named once.

        Raises:
            LauncherLost: When the launcher is gone.
        """
        while select.select([self._socket], [], [], 0)[0]:
            self._receive()
        dead, self._dead = frozenset(self._dead), set()
        return dead

    def close(self) -> None:
        """Ends the launcher, by its pipe. It reads nothing of the driver, so unlike a reader it can be waited for."""
        self._socket.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, text: str, descriptors: list[int]) -> None:
        try:
            socket.send_fds(self._socket, [text.encode()], descriptors)
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
        if verb == "dead":
            self._dead.add(int(number))
        return verb, int(number)
