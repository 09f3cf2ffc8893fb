"""The loop of a reader process: one request in, one frame a subject out, one token when all is there.

What it reads is the business of its role (`sensors.SensorReader`); this is only the way in and out. It ends when main
closes the pipe, and on the first thing it does not understand: main starts another one.
"""

import os
from collections.abc import Callable
from typing import Protocol

from rocmwatch.observe.processes import ProcessReader
from rocmwatch.observe.sensors import SensorReader
from rocmwatch.observe.wire import TOKEN, Mailbox, Order, unpack_request

REQUEST_BYTES = 64 << 10  # what a pipe holds: main never has two requests under way


class Role(Protocol):
    """What a kind of reader can do."""

    def answer(self, order: Order, /) -> tuple[object, ...]:
        """Reads one subject."""


def _amdsmi(root: str) -> Role:
    from rocmwatch.observe.amdsmi_reader import AmdsmiReader  # noqa: PLC0415  # the other readers stay small

    return AmdsmiReader(root)


def _record(root: str) -> Role:
    from rocmwatch.observe.record_reader import RecordReader  # noqa: PLC0415  # the same

    return RecordReader(root)


ROLES: dict[str, Callable[[str], Role]] = {
    "sensors": SensorReader,
    "processes": ProcessReader,
    "amdsmi": _amdsmi,
    "record": _record,
}


def serve_requests(role: Role, requests: int, token: int, mailbox_descriptor: int) -> None:
    """Answers until the request pipe ends."""
    mailbox = Mailbox(mailbox_descriptor)
    while data := os.read(requests, REQUEST_BYTES):
        sequence, orders = unpack_request(data)
        mailbox.begin(sequence)
        for order in orders:
            mailbox.enter(sequence, order.subject)
            mailbox.put(sequence, order.subject, role.answer(order))
        os.write(token, TOKEN.pack(sequence))
