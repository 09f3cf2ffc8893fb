"""What the kernel announces, over its own netlink group where it can be made to speak."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import require
from watching import eventually

from rocmwatch.kernel.uevent import Wedged
from rocmwatch.observe import uevents
from rocmwatch.observe.uevents import Uevents

DEVICE = Path("/sys/class/mem/null/uevent")
PAIRS = b"change@/devices/x/drm/card3\0ACTION=change\0SUBSYSTEM=drm\0WEDGED=rebind\0"


class Speaker:
    """Stands where the kernel's socket does, and sends as whoever it is told to be."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, object] | OSError] = []

    def recvfrom(self, size: int, flags: int) -> tuple[bytes, object]:
        assert flags == socket.MSG_DONTWAIT
        if not self.waiting:
            raise BlockingIOError(errno.EAGAIN, "nothing")
        said = self.waiting.pop(0)
        if isinstance(said, OSError):
            raise said
        return said[0][:size], said[1]

    def close(self) -> None:
        self.waiting.clear()


@pytest.fixture
def speaker() -> Speaker:
    return Speaker()


def heard(speaker: Speaker) -> list[Wedged]:
    return list(Uevents(speaker).wedged())  # type: ignore[arg-type]


def test_a_gpu_that_hung_is_told(speaker: Speaker) -> None:
    speaker.waiting = [(b"add@/devices/y\0ACTION=add\0SUBSYSTEM=usb\0", (0, 1)), (PAIRS, (0, 1))]

    assert [Wedged("card3", "rebind")] == heard(speaker)


def test_only_the_kernel_is_believed(speaker: Speaker) -> None:
    speaker.waiting = [(PAIRS, (4242, 1))]

    assert [] == heard(speaker)


def test_after_a_flood_the_rest_is_heard(speaker: Speaker) -> None:
    speaker.waiting = [OSError(errno.ENOBUFS, "lost some"), (PAIRS, (0, 1))]

    assert [Wedged("card3", "rebind")] == heard(speaker)


def test_a_storm_ends_with_the_tick(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uevents, "_MOST_MESSAGES", 10)
    speaker.waiting = [(PAIRS, (0, 1))] * 25

    assert 10 == len(heard(speaker))


def test_without_netlink_there_is_a_note_and_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "no such family")

    monkeypatch.setattr(uevents.socket, "socket", refused)
    listening = Uevents()

    assert listening.note.startswith("netlink: EAFNOSUPPORT (RestrictAddressFamilies= without AF_NETLINK?)")
    assert [] == list(listening.wedged())


@contextlib.contextmanager
def listening() -> Iterator[Uevents]:
    events = Uevents()
    assert events.note == ""
    try:
        yield events
    finally:
        events.close()


def test_the_kernel_is_heard_and_a_program_that_talks_like_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells of any device when it is asked to; a program of root's can send to the same group."""
    require("root")
    if not os.access(DEVICE, os.W_OK):
        pytest.fail(f"{DEVICE} cannot be written here")
    seen: list[bytes] = []

    def look(message: bytes) -> None:
        seen.append(message.split(b"\0")[0])

    monkeypatch.setattr(uevents, "parse_wedged", look)
    with listening() as events, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15) as forger:
        forger.bind((0, 0))
        forger.sendto(PAIRS, (0, 1))
        DEVICE.write_text("change")
        expected = b"change@/devices/virtual/mem/null"  # others may come as well: it is a machine in use
        assert eventually(lambda: (list(events.wedged()), expected in seen)[1])

    assert PAIRS.split(b"\0")[0] not in seen
