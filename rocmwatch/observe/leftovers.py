"""Readers of an earlier start of the service that still hang in the driver.

A process in state D cannot be killed. It stays in the service's cgroup when systemd starts the service anew, and so
the bound on readers that were given up would begin at nothing with each restart, if these were not counted.

Whoever is in the cgroup at the start, and is not of this start, is one of them: everything else of an earlier start
ends with its pipes. What /proc says of them cannot be asked for, as main has no capability and the unit hides
(ProtectProc=) what has some.

Sources: cgroup.procs (Documentation/admin-guide/cgroup-v2.rst); SYSTEMD_EXEC_PID (systemd.exec(5)).
"""

import os
from collections.abc import Collection, Iterable, Mapping

from rocmwatch.observe.files import read_file

ROOTS = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")


class LeftOvers:
    """The processes that an earlier start left in the service's cgroup."""

    def __init__(self, folder: str | None, own: Collection[int] = ()) -> None:
        """Counts them.

        Args:
            folder: The service's cgroup; `None` outside of a service: then there are none.
            own: The processes of this start.
        """
        self._folder = folder
        self._pids = self._members() - frozenset(own)

    def __len__(self) -> int:
        return len(self._pids)

    def look_again(self) -> None:
        """Strikes out those that are gone. Nobody can join them."""
        if self._pids:
            self._pids &= self._members()

    def _members(self) -> frozenset[int]:
        if self._folder is None:
            return frozenset()
        try:
            return frozenset(map(int, read_file(f"{self._folder}/cgroup.procs").split()))
        except (OSError, ValueError):
            return frozenset()


def own_service(environ: Mapping[str, str]) -> str | None:
    """The cgroup folder of the service whose main process this is; `None` when systemd did not start it as one.

    Args:
        environ: This process's environment.
    """
    if environ.get("SYSTEMD_EXEC_PID") != str(os.getpid()):
        return None  # by hand, perhaps in a terminal that is a service of its own: its members are none of ours
    try:
        return service_folder(read_file("/proc/self/cgroup").decode("utf-8", "replace"))
    except OSError:
        return None


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
