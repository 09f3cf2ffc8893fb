"""Where connections wait: no worker ever waits for a client.

cheroot gives an accepted connection to a worker, which then blocks until the client has sent its request and taken its
answer: a few clients that do either slowly stop the server. Here one thread holds every connection that nobody works
on, and gives one to a worker only when the whole head of a request has arrived (it peeks and leaves the bytes where
they are). What an answer leaves over goes back to the lobby too. All sockets are non-blocking, each wait has a
deadline, the number of connections has a bound, and an idle server wakes up for nothing.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

MOST_CONNECTIONS = 256  # waiting and being worked on
MOST_HEAD_BYTES = 16 * 1024
REQUEST_SECONDS = 5.0  # from the first byte of a request, or from the connect, to the end of its head
ANSWER_SECONDS = 5.0  # for taking the answer
IDLE_SECONDS = 75.0  # between two requests: longer than any usual scrape interval
PARTING_SECONDS = 1.0  # from our last byte to the client's close
_MOST_PARTING_BYTES = 256 * 1024
_CHUNK = 64 * 1024
_TIMED_OUT = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
)


class Connection(Protocol):
    """What the lobby needs of a connection that comes back from a worker."""

    socket: socket.socket
    keep: bool
    """Whether another request may follow."""

    def send_rest(self) -> bool:
        """Send what the kernel takes of the answer; True when nothing is left. OSError: the client is gone."""

    def close(self) -> None:
        """Close it; no error is raised."""


class _Guest:
    """One waiting connection.

    Attributes:
        look: What to do when something happened on its socket.
    """

    __slots__ = ("address", "connection", "deadline", "discarded", "look", "on_time", "sock")

    def __init__(self, sock: socket.socket, address: tuple[str, int], connection: Connection | None) -> None:
        self.sock = sock
        self.address = address
        self.connection = connection
        self.deadline = 0.0
        self.discarded = 0
        self.look: Callable[[_Guest], None]
        self.on_time = True


def head_is_there(seen: bytes) -> bool:
    """Whether a worker can answer without waiting: the head is whole, or it is too long, or it never will be one.

    A bare LF ends lines for no client that we know, but who sends it shall be told so at once.
    """
    return b"\r\n\r\n" in seen or b"\n\n" in seen or len(seen) > MOST_HEAD_BYTES


class Lobby:
    """Takes the place of cheroot's ConnectionManager (`run`, `put`, `stop`, `close`)."""

    can_add_keepalive_connection = True  # the bound is on all connections, and the oldest one makes room

    def __init__(
        self, listener: socket.socket, hand_over: Callable[[socket.socket, tuple[str, int], Connection | None], None]
    ) -> None:
        """A lobby behind a listening socket.

        Args:
            listener: It is closed by `stop`.
            hand_over: Gives a connection (None: a new one, still to be made of its socket) to a worker.
        """
        self._listener = listener
        self._hand_over = hand_over
        self._guests: dict[int, _Guest] = {}  # in the order of their arrival
        self._busy = 0  # connections that workers have
        self._returned: deque[Connection] = deque()
        self._next_deadline = float("inf")  # no guest's deadline is earlier
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._stopping = False
        self._open = threading.Lock()  # held to write to the eventfd, and to close it
        self._closed = False
        self._over = threading.Event()
        self._over.set()
        listener.settimeout(0)
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        self._epoll.register(self._wake, select.EPOLLIN)

    def put(self, connection: Connection) -> None:
        """Take a connection back from a worker; each one has to come back. Workers call it."""
        with self._open:
            if self._closed:  # the number of the eventfd may be someone else's by now
                connection.close()
                return
            self._returned.append(connection)
            os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """End `run` and wait for its end."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._over.wait(5)

    def close(self) -> None:
        """Close every connection, the listener, and what the lobby itself holds."""
        with self._open:
            self._closed = True
            os.close(self._wake)
        for guest in list(self._guests.values()):
            self._dismiss(guest)
        for connection in self._returned:
            connection.close()
        self._listener.close()
        self._epoll.close()

    def run(self, _expiration_interval: float) -> None:
        """Look after the guests until `stop`."""
        self._over.clear()
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._over.set()

    def _turn(self) -> None:
        left = self._next_deadline - time.monotonic()
        for fd, _events in self._epoll.poll(None if left == float("inf") else max(0.0, left)):
            if fd == self._wake:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
            elif fd == self._listener.fileno():
                self._accept()
            elif fd in self._guests:
                guest = self._guests[fd]
                try:
                    guest.look(guest)
                except OSError:  # reset by the client
                    self._dismiss(guest)
        while self._returned:
            self._busy -= 1
            self._take_back(self._returned.popleft())
        now = time.monotonic()
        if now >= self._next_deadline:
            self._expire(now)

    def _accept(self) -> None:
        for _ in range(MOST_CONNECTIONS):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor left, most likely: those who have waited longest make room
                if not self._guests:
                    time.sleep(0.05)
                for guest in list(self._guests.values())[:16]:
                    self._dismiss(guest)
                return
            if self._busy >= MOST_CONNECTIONS:  # flooded with whole requests, and none to send away for this one
                sock.close()
                continue
            sock.settimeout(0)
            guest = _Guest(sock, address[:2], None)
            self._await_request(guest, REQUEST_SECONDS)

    def _admit(self, guest: _Guest, look: Callable[[_Guest], None], seconds: float, events: int) -> None:
        if len(self._guests) + self._busy >= MOST_CONNECTIONS and self._guests:
            self._dismiss(next(iter(self._guests.values())))
        guest.look = look
        self._set_deadline(guest, seconds)
        fd = guest.sock.fileno()
        self._epoll.register(fd, events)
        self._guests[fd] = guest

    def _set_deadline(self, guest: _Guest, seconds: float) -> None:
        guest.deadline = time.monotonic() + seconds
        self._next_deadline = min(self._next_deadline, guest.deadline)

    def _release(self, guest: _Guest) -> None:
        fd = guest.sock.fileno()
        del self._guests[fd]
        self._epoll.unregister(fd)

    def _dismiss(self, guest: _Guest) -> None:
        self._release(guest)
        if guest.connection is not None:
            guest.connection.close()
        guest.sock.close()

    def _expire(self, now: float) -> None:
        for guest in [guest for guest in self._guests.values() if guest.deadline <= now]:
            if guest.look == self._look_for_head and not guest.on_time:
                with suppress(OSError):
                    guest.sock.send(_TIMED_OUT)
            self._dismiss(guest)
        self._next_deadline = min((guest.deadline for guest in self._guests.values()), default=float("inf"))

    def _look_for_head(self, guest: _Guest) -> None:
        try:
            seen = guest.sock.recv(MOST_HEAD_BYTES + 1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        if head_is_there(seen):
            self._release(guest)
            self._busy += 1
            self._hand_over(guest.sock, guest.address, guest.connection)
        elif not seen:
            self._dismiss(guest)
        elif guest.on_time:  # the first bytes of a request: from here on its own deadline counts
            guest.on_time = False
            if guest.connection is not None:
                self._set_deadline(guest, REQUEST_SECONDS)

    def _take_back(self, connection: Connection) -> None:
        guest = _Guest(connection.socket, ("", 0), connection)
        try:
            if not connection.send_rest():
                self._admit(guest, self._look_for_room, ANSWER_SECONDS, select.EPOLLOUT)
            elif connection.keep:
                self._await_request(guest, IDLE_SECONDS)
            else:
                self._part(guest)
        except OSError:  # the client is gone
            connection.close()

    def _await_request(self, guest: _Guest, seconds: float) -> None:
        # edge-triggered: bytes that were looked at and left in the socket are not reported again
        self._admit(guest, self._look_for_head, seconds, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

    def _part(self, guest: _Guest) -> None:
        """Let the client read to the end: a close with unread bytes of it would reset what it has not read yet."""
        guest.sock.shutdown(socket.SHUT_WR)
        self._admit(guest, self._look_for_end, PARTING_SECONDS, select.EPOLLIN | select.EPOLLRDHUP)

    def _look_for_room(self, guest: _Guest) -> None:
        if guest.connection is not None and guest.connection.send_rest():
            self._release(guest)
            self._take_back(guest.connection)

    def _look_for_end(self, guest: _Guest) -> None:
        try:
            got = len(guest.sock.recv(_CHUNK))
        except BlockingIOError:
            return
        guest.discarded += got
        if not got or guest.discarded > _MOST_PARTING_BYTES:
            self._dismiss(guest)
