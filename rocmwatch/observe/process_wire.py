"""What main and the processes reader say to each other: subjects, and the frames that answer (wire.py has the rest).

`PIDS` comes first, and each process that it names is a subject of its own in the request after it.
"""

from typing import NamedTuple

from rocmwatch.observe.wire import FaultTuple

PIDS = "pids"  # which processes have something of a GPU
SUSPECT = 1  # of a process: look as well whether anybody of its group or service listens
CGROUPS = "cgroups"  # VRAM by control group
_PID = "pid "

KfdTuple = tuple[int, "int | None", "int | None", "int | None"]
"""(KFD's number of the node, VRAM bytes, milliseconds for which queues were stopped, page faults)"""
ClientTuple = tuple[str, "int | None", "int | None", "int | None", "int | None", "int | None"]
"""(PCI address, render minor, bytes: VRAM, GTT, evicted, requested)"""


class PidsFrame(NamedTuple):
    """The answer about PIDS.

    Attributes:
        pids: Those with an entry in the compute driver's books, or with a GPU's device file open.
        refused: Of how many others it could not be told.
        faults: Reads that failed.
    """

    pids: tuple[int, ...]
    refused: int
    faults: tuple[FaultTuple, ...]


class ProcessFrame(NamedTuple):
    """The answer about one process: the fields of a `model.GpuProcess`, and what it has, in the kernel's numbers.

    Attributes:
        kill_pending: Whether a SIGKILL waits for it.
        kfd: Its entries in the compute driver's books.
        clients: Its DRM clients.
        faults: Reads that failed.
    """

    exists: bool = False
    start_time: int | None = None
    comm: str | None = None
    state: str | None = None
    parent: int | None = None
    group: int | None = None
    session: int | None = None
    group_is_led: bool | None = None
    uid: int | None = None
    namespaces: int | None = None
    live_threads: int | None = None
    stuck_thread: bool = False
    kill_pending: bool | None = None
    cgroup: str | None = None
    invocation: str | None = None
    has_kfd_entry: bool = False
    has_queues: bool = False
    may_look: bool = True
    kfd_open: bool = False
    drm_open: bool = False
    listening: bool | None = None
    kfd: tuple[KfdTuple, ...] = ()
    clients: tuple[ClientTuple, ...] = ()
    faults: tuple[FaultTuple, ...] = ()


class CgroupsFrame(NamedTuple):
    """The answer about CGROUPS.

    Attributes:
        cgroups: (path, PCI address, bytes), only those that have some; `None` where the kernel does not count.
        faults: Reads that failed.
    """

    cgroups: "tuple[tuple[str, str, int], ...] | None"
    faults: tuple[FaultTuple, ...]


def subject_of(pid: int) -> str:
    """The subject that a process is."""
    return f"{_PID}{pid}"


def pid_of(subject: str) -> int:
    """The process that a subject is."""
    return int(subject.removeprefix(_PID))
