"""What the processes reader does: who has something of a GPU, and what.

    /sys/class/kfd/kfd/proc/PID/    the compute driver's books: VRAM by node, how long queues were stopped, page faults
    /proc/PID/fd, fdinfo            DRM clients: what is open, and what is mapped through it
    /sys/fs/cgroup/.../dmem.current VRAM by control group, on kernels that count it

A process is a subject of its own, as the driver may make a reader of its fdinfo wait. `sdma_*` and `cu_occupancy` lie
in the same folders and are never opened: they make the driver ask the hardware.
The driver's books name every user of compute at once. Whoever uses a GPU without them is found by its open files: a
process that was seen for the first time is looked at soon and then ever more seldom, as a program that opens a GPU does
so early in its life.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.dmem import parse_dmem
from rocmwatch.kernel.number import parse_number
from rocmwatch.observe.files import MISSING, Faults, errno_name
from rocmwatch.observe.process_files import SOURCE, ProcessFiles
from rocmwatch.observe.process_wire import (
    CGROUPS,
    PIDS,
    SUSPECT,
    CgroupsFrame,
    KfdTuple,
    PidsFrame,
    ProcessFrame,
    pid_of,
)
from rocmwatch.observe.wire import LIST, Order

KFD_PROC = "/sys/class/kfd/kfd/proc"
CGROUP_ROOT = "/sys/fs/cgroup"
_NODE_FILE = re.compile(r"(vram|stats|counters)_([0-9]{1,10})")
_CONTEXT = re.compile(r"context_[0-9]+")  # a process may have several, since Linux 7
_NUMBER_HIGH = 1 << 50
_DEEPEST_CGROUP = 12
_MOST_CGROUPS = 20_000
_LONGEST_PAUSE = 64  # passes between two looks at a process without a GPU


class _Look(NamedTuple):
    """When a process was looked at.

    Attributes:
        inode: Of its folder in /proc: another process of the same number has another one.
        has_gpu: What was seen; `None` when we may not look.
        due: The pass in which to look again.
        pause: Passes from the last look to that one.
    """

    inode: int
    has_gpu: bool | None
    due: int
    pause: int


class ProcessReader:
    """Answers the orders that concern processes."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._files = ProcessFiles(root)
        self._looks: dict[int, _Look] = {}
        self._pass = 0

    def answer(self, order: Order) -> tuple[object, ...]:
        """The frame that an order asks for."""
        if order.subject == PIDS:
            return self._pids(anew=order.what == LIST)
        if order.subject == CGROUPS:
            return self._cgroups()
        return self._process(pid_of(order.subject), suspect=order.what == SUSPECT)

    # Which processes

    def _pids(self, *, anew: bool) -> PidsFrame:
        """Which processes have something of a GPU.

        Args:
            anew: Whether to look at every process of the node now.
        """
        faults = Faults(0)
        kfd = {int(name) for name in self._list(KFD_PROC, faults) if name.isdecimal()}
        if anew:
            self._looks = {}
        self._pass += 1
        known, looks = self._looks, {}
        now = self._pass
        for pid, inode in self._running(faults):
            look = known.get(pid)
            if look is None or look.inode != inode or look.due <= now:
                pause = 1 if look is None or look.inode != inode else min(2 * look.pause, _LONGEST_PAUSE)
                look = _Look(inode, pid not in kfd and self._files.has_gpu_open(pid), now + pause, pause)
            looks[pid] = look
        self._looks = looks
        users = kfd.union(pid for pid, look in looks.items() if look.has_gpu)
        refused = sum(look.has_gpu is None for look in looks.values())
        return PidsFrame(tuple(sorted(users)), refused, tuple(faults.found))

    def _running(self, faults: Faults) -> list[tuple[int, int]]:
        """(pid, inode of its folder) of every process."""
        try:
            with os.scandir(f"{self._root}/proc") as entries:
                return [(int(entry.name), entry.inode()) for entry in entries if entry.name.isdecimal()]
        except OSError as error:
            faults.add(SOURCE, errno_name(error.errno), "/proc")
            return []

    # One process

    def _process(self, pid: int, *, suspect: bool) -> ProcessFrame:
        faults = Faults(0)
        files = self._files
        books = f"{KFD_PROC}/{pid}"
        frame = ProcessFrame(
            exists=files.exists(pid),
            kfd=tuple(self._kfd_entries(books, faults)),
            has_kfd_entry=os.path.isdir(self._root + books),
            has_queues=bool(self._list(f"{books}/queues", faults)),
        )
        stat = files.stat(pid, faults)
        if stat is None:
            return frame._replace(exists=files.exists(pid), faults=tuple(faults.found))
        uid, namespaces, kill_pending = files.status(pid, faults)
        threads = files.threads(pid) if stat.state == "Z" or kill_pending else None
        opened = files.open_files(pid, threads if stat.state == "Z" else None, faults)
        mapped = not opened.has_gpu and opened.may_look and frame.has_kfd_entry and files.has_gpu_mapped(pid)
        cgroup = files.cgroup(pid, faults)
        frame = frame._replace(
            start_time=stat.start_time,
            comm=stat.comm,
            state=stat.state,
            parent=stat.parent,
            group=stat.group,
            session=stat.session,
            group_is_led=files.exists(stat.group),
            uid=uid,
            namespaces=namespaces,
            live_threads=len(threads.ids) if threads else None,
            stuck_thread=bool(threads and threads.stuck),
            kill_pending=kill_pending,
            cgroup=cgroup,
            invocation=files.invocation(pid),
            may_look=opened.may_look,
            kfd_open=opened.kfd or mapped,
            drm_open=opened.drm,
            listening=self._listening(pid, stat.group, cgroup, faults) if suspect else None,
            clients=opened.clients,
        )
        again = files.stat(pid, faults)  # the number may have passed to another process meanwhile
        if again is None or again.start_time != stat.start_time:
            return ProcessFrame(exists=again is not None, kfd=frame.kfd, has_kfd_entry=frame.has_kfd_entry)
        return frame._replace(faults=tuple(faults.found))

    def _listening(self, pid: int, group: int, cgroup: str | None, faults: Faults) -> bool | None:
        if cgroup is not None and cgroup.endswith(".service"):
            return self._files.listening(pid, self._files.members_of_cgroup(cgroup), faults)
        return self._files.listening(pid, self._files.members_of_group(group), faults)

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

    # Control groups

    def _cgroups(self) -> CgroupsFrame:
        faults = Faults(0)
        if self._files.read(f"{CGROUP_ROOT}/dmem.capacity", faults) is None:
            return CgroupsFrame(None, tuple(faults.found))
        counted: dict[str, dict[str, int]] = {}
        folders = [("", 0)]
        seen = 0
        while folders and seen < _MOST_CGROUPS:
            group, depth = folders.pop()
            seen += 1
            raw = self._files.read(f"{CGROUP_ROOT}{group}/dmem.current", faults) if group else None
            counted[group] = parse_dmem(raw or b"")
            if depth < _DEEPEST_CGROUP:
                folders += [(f"{group}/{name}", depth + 1) for name in self._subfolders(f"{CGROUP_ROOT}{group}")]
        return CgroupsFrame(tuple(sorted(_own(counted))), tuple(faults.found))

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
            if error.errno not in MISSING:
                faults.add(SOURCE, errno_name(error.errno), folder)
            return []

    def _number(self, path: str, faults: Faults) -> int | None:
        raw = self._files.read(path, faults)
        try:
            return None if raw is None else parse_number(raw, 0, _NUMBER_HIGH)
        except ParseError as error:
            faults.add(SOURCE, error.errno, path)
            return None


def _own(counted: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, str, int]]:
    """(path, PCI address, bytes) of what each control group has beside the groups in it: the kernel counts those in."""
    inside: Counter[tuple[str, str]] = Counter()
    for group, sizes in counted.items():
        outer = group.rpartition("/")[0]
        while outer and not counted.get(outer):  # a group that does not count
            outer = outer.rpartition("/")[0]
        inside.update({(outer, pci): size for pci, size in sizes.items()})
    for group, sizes in counted.items():
        for pci, size in sizes.items():
            own = size - inside[group, pci]
            if own > 0:  # they are not read at the same moment
                yield os.fsencode(group).decode("utf-8", "backslashreplace"), pci, own
