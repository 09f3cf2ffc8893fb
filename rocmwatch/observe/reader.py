"""The loop of a reader process: one request in, one frame a subject out, one token when all is there.

What it reads is the business of its role (`sensors.SensorReader`); this is only the way in and out. It ends when main
closes the pipe, and on the first thing it does not understand: main starts another one.
"""

import os
from collections.abc import Callable, Iterator
from typing import Protocol

from rocmwatch.observe.sensors import SensorReader
from rocmwatch.observe.wire import TOKEN, Mailbox, Request, unpack

REQUEST_BYTES = 64 << 10  # what a pipe holds: main never has two requests under way


class Role(Protocol):
    """What a kind of reader can do."""

    def subjects(self, request: Request) -> Iterator[tuple[str, Callable[[], tuple[object, ...] | None]]]:
        """(name, read) of each subject of a request, in order; `read` may return `None`: no frame."""


ROLES: dict[str, Callable[[str], Role]] = {"sensors": SensorReader}


def serve_requests(role: Role, requests: int, token: int, mailbox_descriptor: int) -> None:
    """Answers until the request pipe ends."""
    mailbox = Mailbox(mailbox_descriptor)
    while data := os.read(requests, REQUEST_BYTES):
        value, _ = unpack(data)
        request = Request(*value)  # type: ignore[arg-type]  # main packed a Request
        sequence = request.sequence
        mailbox.begin(sequence)
        for subject, read in role.subjects(request):
            mailbox.enter(sequence, subject)
            answer = read()
            if answer is not None:
                mailbox.put(sequence, subject, answer)
        os.write(token, TOKEN.pack(sequence))
