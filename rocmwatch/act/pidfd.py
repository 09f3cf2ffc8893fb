"""A process, held on to: a signal through it reaches that process or none, whoever has its number by then.

A pidfd of a zombie can be had, and a signal to it does nothing. It becomes readable when the whole process has ended,
which for one whose leader ended first is when its last thread has. Source: pidfd_open(2), pidfd_send_signal(2).
"""

from __future__ import annotations

import os
import select
import signal


class Pidfd:
    """An open pidfd."""

    def __init__(self, pid: int) -> None:
        """Takes hold of the process that has this number at the moment.

        Raises:
            OSError: `ProcessLookupError` when there is none.
        """
        self._descriptor = os.pidfd_open(pid)

    def close(self) -> None:
        """Lets go."""
        os.close(self._descriptor)

    def send(self, number: signal.Signals) -> None:
        """Signals it.

        Raises:
            OSError: `ProcessLookupError` when it is gone, `PermissionError` when that is not ours to do.
        """
        signal.pidfd_send_signal(self._descriptor, number)

    def has_ended(self, seconds: float) -> bool:
        """Whether it has ended, or does so within the time."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
