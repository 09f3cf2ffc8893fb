"""Readers of an earlier start of the service that still hang in the driver.

A process in state D cannot be killed. It stays in the service's cgroup when systemd starts the service anew, and so
the bound on readers that were given up would begin at nothing with each restart, if these were not counted.

Source: /proc/PID/stat (proc_pid_stat(5)), cgroup.procs.
"""

import os
from collections.abc import Iterable

from rocmwatch.observe.files import read_file

READER_NAMES = frozenset({"rw-sensors"})
ROOTS = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def parse_stat(raw: bytes) -> tuple[str, str]:
    """(name, state) of a process. The name may hold anything, parentheses and lines as well."""
    head, closed, rest = raw.rpartition(b")")
    if not closed:
        return "", ""
    return head.partition(b"(")[2].decode("utf-8", "replace"), rest[1:2].decode("ascii", "replace")


def service_folder(cgroup: str, roots: Iterable[str] = ROOTS) -> str | None:
    """The cgroup folder of the service that a process belongs to; `None` outside of a service.

    Args:
        cgroup: Its /proc/PID/cgroup, a `number:controllers:path` a line.
        roots: Where the hierarchies may be mounted.
    """
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (controllers == "name=systemd" or number == "0") and path.endswith(".service"):
            for root in roots:
                if os.path.exists(f"{root}{path}/cgroup.procs"):
                    return root + path
    return None


def left_over_readers() -> frozenset[int]:
    """The process ids of readers in state D in the own service's cgroup."""
    try:
        folder = service_folder(read_file("/proc/self/cgroup").decode("utf-8", "replace"))
        members = read_file(f"{folder}/cgroup.procs").split() if folder else []
    except OSError:
        return frozenset()
    return frozenset(pid for pid in map(int, members) if is_stuck_reader(pid))


def is_stuck_reader(pid: int) -> bool:
    """Whether the process is a reader in state D."""
    try:
        name, state = parse_stat(read_file(f"/proc/{pid}/stat"))
    except OSError:
        return False
    return name in READER_NAMES and state == "D"
