"""The kernel's announcements of GPUs that hung, as they come over netlink.

Any process may listen to what the kernel says of its devices (group 1), and any root process may talk there as well:
only what the kernel itself sends, which has no port number, is believed. Nobody waits for a message; they are taken in
with each tick.
"""

import contextlib
import socket
from collections.abc import Iterator

from rocmwatch.kernel.uevent import Wedged, parse_wedged
from rocmwatch.observe.files import errno_name

_KOBJECT_UEVENT = 15  # linux/netlink.h; Python has no name for it
_KERNEL_GROUP = 1
_KERNEL_PORT = 0
_MESSAGE_BYTES = 16 << 10  # the kernel's own limit is 2 KiB for the pairs, and the path
_BUFFER_BYTES = 1 << 20  # of what waits between two ticks
_MOST_MESSAGES = 4096  # in one tick: a storm must not hold it up


class Uevents:
    """The listening end.

    Attributes:
        note: Why there is none; empty when there is.
    """

    def __init__(self, listening: socket.socket | None = None) -> None:
        """Begins to listen.

        Args:
            listening: Where the messages come in; the kernel's group unless said otherwise.
        """
        self.note = ""
        self._socket = listening
        if listening is None:
            try:
                self._socket = _listen()
            except OSError as error:
                self.note = (
                    f"netlink: {errno_name(error.errno)} (RestrictAddressFamilies= without AF_NETLINK?): "
                    "that the kernel gave a GPU up goes unnoticed here"
                )

    def wedged(self) -> Iterator[Wedged]:
        """What came since the last call."""
        for _ in range(_MOST_MESSAGES):
            if self._socket is None:
                return
            try:
                message, sender = self._socket.recvfrom(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except OSError as error:
                if errno_name(error.errno) == "ENOBUFS":
                    continue  # some were lost; those that are left can be had
                return
            event = parse_wedged(message) if _is_of_the_kernel(sender) else None
            if event is not None:
                yield event

    def close(self) -> None:
        """Stops listening."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _listen() -> socket.socket:
    listening = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT)
    try:
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        listening.bind((0, _KERNEL_GROUP))
    except OSError:
        listening.close()
        raise
    return listening


def _is_of_the_kernel(sender: object) -> bool:
    return isinstance(sender, tuple) and bool(sender) and sender[0] == _KERNEL_PORT
