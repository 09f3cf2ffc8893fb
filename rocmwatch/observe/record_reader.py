"""What the record reader does: lists a folder, or reads a file, one at a time.

It asks whether a card is awake right before each read that might wake it. A folder outside of a root of one's own is
not entered, whatever a link says.
"""

import errno
import os
import re

from rocmwatch.errors import ParseError
from rocmwatch.kernel.runtime_pm import may_read_sensors, parse_runtime_status
from rocmwatch.observe.files import MISSING, errno_name, read_file
from rocmwatch.observe.process_wire import PIDS
from rocmwatch.observe.processes import KFD_PROC
from rocmwatch.observe.record_table import LARGEST_BYTES
from rocmwatch.observe.wire import Order

# What to do, the `what` of an order. Its `card` is the path below the root; a read's has the guards behind it.
FOLDER = 1  # list it
DEVICES = 2  # of a folder of descriptors, list those of GPUs
FILE = 3  # read it to its end
ONCE = 4  # read it with one call: another one would ask the firmware again

BETWEEN = "\0"
ASLEEP = "asleep"
TOO_LARGE = "too large"
GPU_NODE = re.compile(r"/dev/(?:kfd|dri/(?:renderD|card)[0-9]+)")
_OUTSIDE = "EXDEV"

Entry = tuple[str, "str | None", bool]
"""(name, what it leads to when it is a link, whether it is a folder)"""


class RecordReader:
    """Answers the orders of `observe.record`: (why not, what there is)."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._inside: dict[str, bool] = {}

    def answer(self, order: Order) -> tuple[object, ...]:
        """The frame that an order asks for; the first value is empty when all went well."""
        if order.subject == PIDS:
            return self._pids()
        path, *guards = order.card.split(BETWEEN)
        list_folder = {FOLDER: self._list, DEVICES: self._devices}.get(order.what)
        try:
            if not self._is_inside(path if list_folder else os.path.dirname(path)):
                return _OUTSIDE, None
            if list_folder:
                return "", list_folder(path)
            return self._read(path, once=order.what == ONCE) if all(map(self._is_awake, guards)) else (ASLEEP, None)
        except OSError as error:
            return errno_name(error.errno), None

    def _is_inside(self, folder: str) -> bool:
        """Whether a folder is where its path says: a tree of somebody's may have links that lead anywhere."""
        if not self._root:
            return True
        if folder not in self._inside:
            root = os.path.realpath(self._root)
            self._inside[folder] = os.path.realpath(f"{root}/{folder}") == os.path.normpath(f"{root}/{folder}")
        return self._inside[folder]

    def _pids(self) -> tuple[tuple[int, ...], int]:
        """(processes that have something of a GPU, of how many others it could not be told); reads no file for it."""
        found = set(self._numbers(KFD_PROC))
        refused = 0
        for pid in self._numbers("/proc"):
            has_gpu = self._has_gpu(pid)
            found.update((pid,) if has_gpu else ())
            refused += has_gpu is None
        return tuple(sorted(found)), refused

    def _numbers(self, folder: str) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._root + folder) if name.isdecimal()]
        except OSError:
            return []

    def _has_gpu(self, pid: int) -> bool | None:
        try:
            return bool(self._devices(f"proc/{pid}/fd"))
        except PermissionError:
            return None
        except OSError:
            return False  # it has ended

    def _list(self, path: str) -> tuple[Entry, ...]:
        found = []
        with os.scandir(f"{self._root}/{path}") as entries:
            for entry in entries:
                target = os.readlink(entry.path) if entry.is_symlink() else None
                found.append((entry.name, target, entry.is_dir(follow_symlinks=False)))
        return tuple(sorted(found))

    def _devices(self, path: str) -> tuple[Entry, ...]:
        found = []
        folder = f"{self._root}/{path}"
        for name in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError as error:
                if error.errno not in MISSING:  # closed meanwhile
                    raise
                continue
            device = GPU_NODE.match(target)
            if device:
                found.append((name, device[0], False))
        return tuple(sorted(found))

    def _is_awake(self, device: str) -> bool:
        """Whether a card is; in doubt it is not."""
        try:
            raw = read_file(f"{self._root}/{device}/power/runtime_status")
            return may_read_sensors(parse_runtime_status(raw))
        except OSError as error:
            return error.errno in MISSING  # without power management nothing sleeps
        except ParseError:
            return False

    def _read(self, path: str, *, once: bool) -> tuple[str, "bytes | None"]:
        descriptor = os.open(f"{self._root}/{path}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            data = part = os.read(descriptor, LARGEST_BYTES + 1)
            while not once and part and len(data) <= LARGEST_BYTES:
                part = os.read(descriptor, LARGEST_BYTES + 1)
                data += part
        finally:
            os.close(descriptor)
        return ("", data) if len(data) <= LARGEST_BYTES else (TOO_LARGE, None)


VANISHED = frozenset({"ENOENT", "ENOTDIR", errno_name(errno.ESRCH)})
