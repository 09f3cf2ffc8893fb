"""What the processes reader does: who has something of a GPU, and what.

    /sys/class/kfd/kfd/proc/PID/    the compute driver's books: VRAM by node, how long queues were stopped, page faults
    /proc/PID/fd, fdinfo            DRM clients: what is open, and what is mapped through it
    /sys/fs/cgroup/.../dmem.current VRAM by control group, on kernels that count it

A process is a subject of its own, as the driver may make a reader of its fdinfo wait. `sdma_*` and `cu_occupancy` lie
in the same folders and are never opened: they make the driver ask the hardware.
"""

import contextlib
import errno
import os
import re
from collections.abc import Iterator

from rocmwatch.errors import ParseError
from rocmwatch.kernel.dmem import parse_dmem
from rocmwatch.kernel.drm import minor_of
from rocmwatch.kernel.fdinfo import parse_fdinfo
from rocmwatch.kernel.number import parse_number
from rocmwatch.kernel.process import parse_cgroup, parse_stat
from rocmwatch.observe.files import MISSING, Faults, errno_name, read_file
from rocmwatch.observe.process_wire import (
    CGROUPS,
    PIDS,
    CgroupsFrame,
    ClientTuple,
    KfdTuple,
    PidsFrame,
    ProcessFrame,
    pid_of,
)
from rocmwatch.observe.wire import LIST, Order

KFD_PROC = "/sys/class/kfd/kfd/proc"
CGROUP_ROOT = "/sys/fs/cgroup"
SOURCE = "processes"
_NODE_FILE = re.compile(r"(vram|stats|counters)_([0-9]{1,10})")
_CONTEXT = re.compile(r"context_[0-9]+")  # a process may have several, since Linux 7
_DRM_NODE = re.compile(r"/dev/dri/((?:renderD|card)[0-9]+)")
_KFD_NODE = "/dev/kfd"
_NUMBER_HIGH = 1 << 50
_REFUSED = frozenset({"EACCES", "EPERM"})
_VANISHED = MISSING | {errno.ESRCH}  # it ended while it was looked at
_DEEPEST_CGROUP = 12
_MOST_CGROUPS = 20_000


class ProcessReader:
    """Answers the orders that concern processes."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._looked_at: dict[int, bool] = {}  # pid -> whether it had a GPU open when it was looked at last

    def answer(self, order: Order) -> tuple[object, ...]:
        """The frame that an order asks for."""
        if order.subject == PIDS:
            return self._pids(anew=order.what == LIST)
        if order.subject == CGROUPS:
            return self._cgroups()
        return self._process(pid_of(order.subject))

    # Which processes

    def _pids(self, *, anew: bool) -> PidsFrame:
        """Which processes have something of a GPU.

        Args:
            anew: Whether to look again at those that had nothing: a program opens a GPU some time after its start.
        """
        faults = Faults(0)
        kfd = {int(name) for name in self._list(KFD_PROC, faults) if name.isdecimal()}
        running = [int(name) for name in self._list("/proc", faults) if name.isdecimal()]
        if anew:
            self._looked_at = {}
        known, self._looked_at = self._looked_at, {}
        refused = 0
        for pid in running:
            has_gpu = known.get(pid)
            if not has_gpu:  # one that has is looked at in full anyway
                try:
                    has_gpu = self._has_gpu_open(pid) if has_gpu is None else has_gpu
                except PermissionError:
                    refused += 1
                    has_gpu = False
            self._looked_at[pid] = has_gpu
        users = kfd.union(pid for pid, has_gpu in self._looked_at.items() if has_gpu)
        return PidsFrame(tuple(sorted(users)), refused, tuple(faults.found))

    def _has_gpu_open(self, pid: int) -> bool:
        return any(target == _KFD_NODE or _DRM_NODE.match(target) for _, target in self._open_files(pid))

    def _open_files(self, pid: int) -> Iterator[tuple[str, str]]:
        """(descriptor, what it is of) of a process; none of one that is gone.

        Raises:
            PermissionError: When we may not look.
        """
        folder = f"{self._root}/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # closed meanwhile
                yield name, os.readlink(f"{folder}/{name}")

    # One process

    def _process(self, pid: int) -> ProcessFrame:
        faults = Faults(0)
        kfd = tuple(self._kfd_entries(f"{KFD_PROC}/{pid}", faults))
        raw = self._read(f"/proc/{pid}/stat", faults)
        if raw is None:
            self._looked_at.pop(pid, None)
            return ProcessFrame(kfd=kfd, has_kfd_entry=self._is_folder(f"{KFD_PROC}/{pid}"), faults=tuple(faults.found))
        try:
            stat = parse_stat(raw)
        except ParseError as error:
            faults.add(SOURCE, error.errno, f"/proc/{pid}/stat")
            return ProcessFrame(kfd=kfd, has_kfd_entry=bool(kfd), faults=tuple(faults.found))
        clients, kfd_open, may_look = self._clients(pid, faults)
        self._looked_at[pid] = kfd_open or bool(clients)
        return ProcessFrame(
            start_time=stat.start_time,
            comm=stat.comm,
            state=stat.state,
            parent=stat.parent,
            cgroup=parse_cgroup(self._read(f"/proc/{pid}/cgroup", faults) or b""),
            kfd=kfd,
            has_kfd_entry=self._is_folder(f"{KFD_PROC}/{pid}"),
            clients=clients,
            kfd_open=kfd_open if may_look else None,
            faults=tuple(faults.found),
        )

    def _kfd_entries(self, folder: str, faults: Faults) -> Iterator[KfdTuple]:
        """What the compute driver's books say, node by node."""
        books: dict[int, list[int | None]] = {}
        places = {"vram": (0, ""), "stats": (1, "/evicted_ms"), "counters": (2, "/faults")}
        folders = [folder]
        while folders:
            at = folders.pop()
            for name in self._list(at, faults):
                found = _NODE_FILE.fullmatch(name)
                if found:
                    place, below = places[found[1]]
                    value = self._number(f"{at}/{name}{below}", faults)
                    book = books.setdefault(int(found[2]), [None, None, None])
                    if value is not None:
                        book[place] = (book[place] or 0) + value
                elif _CONTEXT.fullmatch(name):
                    folders.append(f"{at}/{name}")
        for gpu_id, (vram_bytes, evicted_ms, page_faults) in sorted(books.items()):
            yield gpu_id, vram_bytes, evicted_ms, page_faults

    def _clients(self, pid: int, faults: Faults) -> tuple[tuple[ClientTuple, ...], bool, bool]:
        """(DRM clients, whether /dev/kfd is open, whether we may look)."""
        clients: dict[tuple[str, str], ClientTuple] = {}
        kfd_open = False
        try:
            for descriptor, target in self._open_files(pid):
                kfd_open = kfd_open or target == _KFD_NODE
                node = _DRM_NODE.match(target)
                raw = self._read(f"/proc/{pid}/fdinfo/{descriptor}", faults) if node else None
                client = parse_fdinfo(raw) if raw else None
                if node and client:
                    pci, number, *sizes = client
                    minor = minor_of(node[1]) if node[1].startswith("renderD") else None
                    clients.setdefault((pci, number), (pci, minor, *sizes))  # type: ignore[arg-type]
        except PermissionError:
            return (), kfd_open, False
        return tuple(clients.values()), kfd_open, True

    # Control groups

    def _cgroups(self) -> CgroupsFrame:
        faults = Faults(0)
        if self._read(f"{CGROUP_ROOT}/dmem.capacity", faults) is None:
            return CgroupsFrame(None, tuple(faults.found))
        found: list[tuple[str, str, int]] = []
        folders = [("", 0)]
        seen = 0
        while folders and seen < _MOST_CGROUPS:
            group, depth = folders.pop()
            seen += 1
            raw = self._read(f"{CGROUP_ROOT}{group}/dmem.current", faults) if group else None
            name = os.fsencode(group).decode("utf-8", "backslashreplace")
            found += [(name, pci, size) for pci, size in parse_dmem(raw or b"").items() if size]
            if depth < _DEEPEST_CGROUP:
                folders += [(f"{group}/{name}", depth + 1) for name in self._subfolders(f"{CGROUP_ROOT}{group}")]
        return CgroupsFrame(tuple(sorted(found)), tuple(faults.found))

    def _subfolders(self, folder: str) -> list[str]:
        try:
            with os.scandir(self._root + folder) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []  # removed meanwhile

    # Files

    def _list(self, folder: str, faults: Faults) -> list[str]:
        try:
            return os.listdir(self._root + folder)
        except OSError as error:
            if error.errno not in _VANISHED:
                faults.add(SOURCE, errno_name(error.errno), folder)
            return []

    def _is_folder(self, folder: str) -> bool:
        return os.path.isdir(self._root + folder)

    def _read(self, path: str, faults: Faults) -> bytes | None:
        try:
            return read_file(self._root + path)
        except OSError as error:
            name = errno_name(error.errno)
            if error.errno not in _VANISHED and name not in _REFUSED:
                faults.add(SOURCE, name, path)
            return None

    def _number(self, path: str, faults: Faults) -> int | None:
        raw = self._read(path, faults)
        try:
            return None if raw is None else parse_number(raw, 0, _NUMBER_HIGH)
        except ParseError as error:
            faults.add(SOURCE, error.errno, path)
            return None
