"""Which files of a tree are opened, as the kernel tells it (inotify): by whomever, in whatever process."""

from __future__ import annotations

import ctypes
import os
import struct
from collections import Counter
from pathlib import Path
from types import TracebackType

_IN_OPEN = 0x20
_IN_NONBLOCK = os.O_NONBLOCK
_IN_Q_OVERFLOW = 0x4000
_IN_ISDIR = 0x40000000
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Opened:
    """Watches every folder of a tree, as a context manager.

    Attributes:
        files: How often each file was opened so far, by its path below the tree, links resolved.
    """

    def __init__(self, tree: str | Path) -> None:
        self.files: Counter[str] = Counter()
        self._tree = str(tree)
        self._folders: dict[int, str] = {}
        self._descriptor = -1

    def __enter__(self) -> Opened:
        self._descriptor = _libc.inotify_init1(_IN_NONBLOCK)
        for folder, _, _ in os.walk(self._tree):
            watch = _libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _IN_OPEN)
            assert watch > 0, os.strerror(ctypes.get_errno())
            self._folders[watch] = folder.removeprefix(self._tree)
        self.look()
        self.files.clear()  # os.walk itself opens folders
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def look(self) -> Counter[str]:
        """The files that were opened, up to now."""
        while True:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return self.files
            while data:
                watch, mask, _, length = _EVENT.unpack_from(data)
                assert not mask & _IN_Q_OVERFLOW, "more events than the kernel keeps"
                name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0").decode()
                if name and not mask & _IN_ISDIR:
                    self.files[f"{self._folders[watch]}/{name}"] += 1
                data = data[_EVENT.size + length :]
