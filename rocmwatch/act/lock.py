"""One thing at a time: the lock that whoever changes anything holds, from the daemon as well as from the command line.

The kernel gives a flock back when its holder ends, however that comes about. The file itself is never removed: a lock
on a file that was replaced would be another lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterator

from rocmwatch.errors import RocmwatchError

NAME = "ops.lock"
_NOTE_BYTES = 1024


class Busy(RocmwatchError):
    """Somebody else is at work."""


@contextlib.contextmanager
def operations_lock(folder: str, what: str) -> Iterator[None]:
    """Holds the lock.

    Args:
        folder: Where it lies, /run/rocmwatch.
        what: What it is held for, for others to read.

    Raises:
        Busy: When it is held; says by whom, and for what.
        RocmwatchError: When there can be none.
    """
    path = os.path.join(folder, NAME)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RocmwatchError(f"{path}: {error.strerror}; nothing is done without this lock") from error
    try:
        _take(descriptor, path)
        _give_away(descriptor, folder)
        note = json.dumps({"pid": os.getpid(), "what": what}).encode()[:_NOTE_BYTES]
        os.pwrite(descriptor, note, 0)
        os.ftruncate(descriptor, len(note))
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise RocmwatchError(f"{path}: {error.strerror}") from error
        raise Busy(f"{path} is held {_holder(descriptor)}: one thing at a time") from None


def _holder(descriptor: int) -> str:
    try:
        note = json.loads(os.pread(descriptor, _NOTE_BYTES, 0))
        return f"by process {int(note['pid'])} for {str(note['what'])[:80]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "by another process"


def _give_away(descriptor: int, folder: str) -> None:
    """The service must be able to take it as well, when root made it."""
    if os.geteuid() == 0:
        owner = os.stat(folder)
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
