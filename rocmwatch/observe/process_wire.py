"""What main and the processes reader say to each other: subjects, and the frames that answer (wire.py has the rest).

`PIDS` comes first, and each process that it names is a subject of its own in the request after it.
"""

from typing import NamedTuple

from rocmwatch.observe.wire import FaultTuple

PIDS = "pids"  # which processes have something of a GPU
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
    """The answer about one process. Without a start time there is no such process (any more).

    Attributes:
        parent: The pid of its parent.
        cgroup: Path of its control group.
        kfd: Its entries in the compute driver's books.
        has_kfd_entry: Whether it stands in those books at all.
        clients: Its DRM clients.
        kfd_open: Whether it has /dev/kfd open; `None` when we may not look at its files, nor at its clients then.
        faults: Reads that failed.
    """

    start_time: int | None = None
    comm: str | None = None
    state: str | None = None
    parent: int | None = None
    cgroup: str | None = None
    kfd: tuple[KfdTuple, ...] = ()
    has_kfd_entry: bool = False
    clients: tuple[ClientTuple, ...] = ()
    kfd_open: bool | None = None
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
