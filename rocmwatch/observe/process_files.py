"""One process that has something of a GPU, as its files in /proc tell.

A process whose leader has ended shows no open files of its own, while its other threads still have them: then they are
looked at through a thread that lives. `maps` is long, and read only where nothing else shows that a GPU is in use.
"""

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.drm import minor_of
from rocmwatch.kernel.fdinfo import parse_fdinfo
from rocmwatch.kernel.process import Stat, parse_cgroup, parse_invocation, parse_stat, parse_status
from rocmwatch.kernel.sockets import listening_inodes, parse_port_range, socket_inode
from rocmwatch.observe.files import MISSING, Faults, errno_name, read_file
from rocmwatch.observe.process_wire import ClientTuple

SOURCE = "processes"
CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
KFD_NODE = "/dev/kfd"
_DRM_NODE = re.compile(r"/dev/dri/((?:renderD|card)[0-9]+)")
_VANISHED = MISSING | {errno.ESRCH}  # it ended while it was looked at
_MOST_THREADS = 1000  # that are looked at, of one process
_MOST_MEMBERS = 1000  # of one group or service
_ENVIRON_BYTES = 256 << 10
_MAPS_BYTES = 8 << 20
_LONG_BYTES = 4 << 20


class OpenFiles(NamedTuple):
    """What a process has open.

    Attributes:
        clients: DRM clients of AMD GPUs, each once.
        kfd: Whether /dev/kfd is open; `drm` the same of any GPU's node.
        sockets: Inodes.
        may_look: Whether they could be looked at.
    """

    clients: tuple[ClientTuple, ...] = ()
    kfd: bool = False
    drm: bool = False
    sockets: frozenset[int] = frozenset()
    may_look: bool = True

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU is among them."""
        return self.kfd or self.drm


class Threads(NamedTuple):
    """The threads of a process that are no zombies.

    Attributes:
        ids: Their numbers.
        stuck: Whether one of them sleeps in the kernel and cannot be woken.
    """

    ids: tuple[int, ...]
    stuck: bool


class ProcessFiles:
    """Reads processes below one root."""

    def __init__(self, root: str) -> None:
        self._root = root

    def stat(self, pid: int, faults: Faults) -> Stat | None:
        """Who it is; `None` when it is gone, or cannot be understood (then there is a fault)."""
        path = f"/proc/{pid}/stat"
        raw = self.read(path, faults)
        if raw is None:
            return None
        try:
            return parse_stat(raw)
        except ParseError as error:
            faults.add(SOURCE, error.errno, path)
            return None

    def exists(self, pid: int) -> bool:
        """Whether there is a process of that number."""
        return os.path.isdir(f"{self._root}/proc/{pid}")

    def status(self, pid: int, faults: Faults) -> tuple[int | None, int | None, bool | None]:
        """(user, pid namespaces that know it, whether a SIGKILL waits)."""
        found = parse_status(self.read(f"/proc/{pid}/status", faults) or b"")
        return found.uid, found.namespaces, found.kill_pending

    def cgroup(self, pid: int, faults: Faults) -> str | None:
        """The path of its control group."""
        return parse_cgroup(self.read(f"/proc/{pid}/cgroup", faults) or b"")

    def invocation(self, pid: int) -> str | None:
        """The start of the service that it came from, by its environment."""
        with contextlib.suppress(OSError), open(f"{self._root}/proc/{pid}/environ", "rb") as file:
            return parse_invocation(file.read(_ENVIRON_BYTES))
        return None

    def threads(self, pid: int) -> Threads:
        """Its threads that live."""
        live: list[int] = []
        stuck = False
        for name in self._names(f"/proc/{pid}/task")[:_MOST_THREADS]:
            try:
                stat = parse_stat(read_file(f"{self._root}/proc/{pid}/task/{name}/stat"))
            except (OSError, ParseError):
                continue
            if stat.state not in "ZX" and name.isdecimal():
                live.append(int(name))
                stuck = stuck or stat.state == "D"
        return Threads(tuple(live), stuck)

    def open_files(self, pid: int, threads: Threads | None, faults: Faults) -> OpenFiles:
        """What it has open; through its threads that live, where it has no leader any more."""
        folders = [f"/proc/{pid}"] if threads is None else [f"/proc/{pid}/task/{tid}" for tid in threads.ids]
        clients: dict[tuple[str, str], ClientTuple] = {}
        kfd = drm = False
        sockets: set[int] = set()
        try:
            for folder in folders:
                for descriptor, target in self.links(folder):
                    kfd = kfd or target == KFD_NODE
                    node = _DRM_NODE.match(target)
                    inode = socket_inode(target)
                    if inode is not None:
                        sockets.add(inode)
                    if node is not None:
                        drm = True
                        self._add_client(f"{folder}/fdinfo/{descriptor}", node[1], clients, faults)
        except PermissionError:
            return OpenFiles(kfd=kfd, drm=drm, may_look=False)
        return OpenFiles(tuple(clients.values()), kfd, drm, frozenset(sockets))

    def has_gpu_open(self, pid: int) -> bool | None:
        """Whether it has a GPU open, by the names of its files alone; `None` when we may not look."""
        try:
            return any(target == KFD_NODE or _DRM_NODE.match(target) for _, target in self.links(f"/proc/{pid}"))
        except PermissionError:
            return None

    def links(self, folder: str) -> Iterator[tuple[str, str]]:
        """(descriptor, what it is of) of a process or thread; none of one that is gone.

        Raises:
            PermissionError: When we may not look.
        """
        path = f"{self._root}{folder}/fd"
        try:
            names = os.listdir(path)
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                yield name, os.readlink(f"{path}/{name}")

    def has_gpu_mapped(self, pid: int) -> bool:
        """Whether a GPU's node is among its mappings. In doubt yes."""
        try:
            with open(f"{self._root}/proc/{pid}/maps", "rb") as file:
                maps = file.read(_MAPS_BYTES)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return KFD_NODE.encode() in maps or b"/dev/dri/" in maps or len(maps) == _MAPS_BYTES

    def listening(self, pid: int, members: Iterator[int], faults: Faults) -> bool | None:
        """Whether it, or one of the others, serves at a port; `None` when that cannot be told."""
        ephemeral = parse_port_range(self.read("/proc/sys/net/ipv4/ip_local_port_range", faults) or b"")
        tables = [self._whole(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
        if tables[0] is None:
            return None
        serving: set[int] = set().union(*(listening_inodes(table or b"", ephemeral) for table in tables))
        if not serving:
            return False
        try:
            for member in (pid, *members):
                for _, target in self.links(f"/proc/{member}"):
                    if socket_inode(target) in serving:
                        return True
        except PermissionError:
            return None
        return False

    def members_of_cgroup(self, cgroup: str) -> Iterator[int]:
        """The processes of a control group."""
        for root in CGROUP_ROOTS:
            raw = self._whole(f"{root}{cgroup}/cgroup.procs")
            if raw is not None:
                yield from (int(word) for word in raw.split()[:_MOST_MEMBERS] if word.isdigit())
                return

    def members_of_group(self, group: int) -> Iterator[int]:
        """The processes of a process group: each process of the node is looked at."""
        for name in self._names("/proc"):
            if name.isdecimal():
                try:
                    stat = parse_stat(read_file(f"{self._root}/proc/{name}/stat"))
                except (OSError, ParseError):
                    continue
                if stat.group == group:
                    yield int(name)

    def read(self, path: str, faults: Faults) -> bytes | None:
        """The bytes of a small file; `None` when it is gone, or may not be read."""
        try:
            return read_file(self._root + path)
        except OSError as error:
            if error.errno not in _VANISHED and not isinstance(error, PermissionError):
                faults.add(SOURCE, errno_name(error.errno), path)
            return None

    def _add_client(self, path: str, node: str, clients: dict[tuple[str, str], ClientTuple], faults: Faults) -> None:
        client = parse_fdinfo(self.read(path, faults) or b"")
        if client is not None:
            pci, number, *sizes = client
            minor = minor_of(node) if node.startswith("renderD") else None
            clients.setdefault((pci, number), (pci, minor, *sizes))  # type: ignore[arg-type]

    def _whole(self, path: str) -> bytes | None:
        """The bytes of a file that may be longer than one read gives."""
        with contextlib.suppress(OSError), open(self._root + path, "rb") as file:
            return file.read(_LONG_BYTES)
        return None

    def _names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._root + folder)
        except OSError:
            return []
