r"""A process as /proc shows it.

    4242 (VLLM::EngineCor) S 4200 ... 918273 ...    /proc/PID/stat: pid, name, state, parent, ..., start in field 22
    0::/system.slice/vllm@0.service                 /proc/PID/cgroup

The name may hold anything, brackets and newlines included: it ends at the last closing bracket. The start time counts
clock ticks after boot, and together with the pid it tells one process from a later one of the same number.
Source: Documentation/filesystems/proc.rst, fs/proc/array.c (do_task_stat); kernel/cgroup/cgroup.c.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import parse_text, shown

_AFTER_NAME = re.compile(rb" ([A-Za-z]) ([0-9]+) (?:-?[0-9]+ ){17}([0-9]+) ")  # fields 3, 4 and 22


class Stat(NamedTuple):
    """Who a process is.

    Attributes:
        comm: Its name, at most 15 bytes, made safe to print.
        state: `R S D Z T t X I ...`, as ps shows it.
        parent: The pid of its parent; 0 for the first process and those of the kernel.
        start_time: Clock ticks after boot.
    """

    comm: str
    state: str
    parent: int
    start_time: int


def parse_stat(raw: bytes) -> Stat:
    """The process of a /proc/PID/stat.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for anything else that is none.
    """
    if not raw.strip(b"\0 \n"):
        raise ParseError("ENODATA", "empty")
    head, bracket, tail = raw.rpartition(b")")
    fields = _AFTER_NAME.match(tail)
    _, opened, name = head.partition(b"(")
    if not (bracket and opened and fields):
        raise ParseError("EBADMSG", f"no stat of a process: {shown(raw)}")
    comm = parse_text(name.replace(b"\n", b"\x01"))  # a newline is one odd character among others
    return Stat(comm or "", fields[1].decode(), int(fields[2]), int(fields[3]))


def parse_cgroup(raw: bytes) -> str | None:
    """The path of a process's control group, below the root of the unified hierarchy (cgroup v2).

    Where both hierarchies are in use, systemd's own (`name=systemd`) says the same. `None` when neither is there.
    """
    paths: dict[bytes, bytes] = {}
    for line in raw.splitlines():
        number, _, rest = line.partition(b":")
        controllers, colon, path = rest.partition(b":")
        if colon and path.startswith(b"/"):
            paths[b"0" if number == b"0" and not controllers else controllers] = path
    found = paths.get(b"0")
    if found in (None, b"/"):
        found = paths.get(b"name=systemd", found)
    return None if found is None else found.decode("utf-8", "backslashreplace")
