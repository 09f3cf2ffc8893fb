r"""A process as /proc shows it.

    4242 (VLLM::EngineCor) S 4200 ... 918273 ...    /proc/PID/stat: pid, name, state, parent, ..., start in field 22
    SigPnd:\t0000000000000100                       /proc/PID/status: bit 8 of either mask is a SIGKILL that waits
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

_AFTER_NAME = re.compile(rb" ([A-Za-z]) ([0-9]+) (-?[0-9]+) (-?[0-9]+) (?:-?[0-9]+ ){15}([0-9]+) ")  # fields 3-6, 22
_KILL_BIT = 1 << 8  # SIGKILL is number 9
_HEX = re.compile(rb"[0-9a-fA-F]{1,16}")


class Stat(NamedTuple):
    """Who a process is.

    Attributes:
        comm: Its name, at most 15 bytes, made safe to print.
        state: `R S D Z T t X I ...`, as ps shows it.
        parent: The pid of its parent; 0 for the first process and those of the kernel.
        group: Its process group; `session` likewise.
        start_time: Clock ticks after boot.
    """

    comm: str
    state: str
    parent: int
    group: int
    session: int
    start_time: int


class Status(NamedTuple):
    """What else is known of it; `None` where the file does not say.

    Attributes:
        uid: Its real user.
        namespaces: How many pid namespaces know it, from the reader's down.
        threads: Of all states.
        kill_pending: Whether a SIGKILL waits for it.
    """

    uid: int | None
    namespaces: int | None
    threads: int | None
    kill_pending: bool | None


def parse_stat(raw: bytes) -> Stat:
    """The process (or thread) of a stat file.

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
    return Stat(comm or "", fields[1].decode(), *(int(fields[at]) for at in range(2, 6)))


def parse_status(raw: bytes) -> Status:
    """The rest, of /proc/PID/status. Lines that make no sense are left out: it is a file that grows."""
    values: dict[bytes, list[bytes]] = {}
    for line in raw.splitlines():
        key, colon, value = line.partition(b":")
        if colon:
            values[key] = value.split()
    masks = [mask for key in (b"SigPnd", b"ShdPnd") for mask in values.get(key, [])]
    numbers = [int(mask, 16) for mask in masks if _HEX.fullmatch(mask)]
    names = values.get(b"NSpid")
    return Status(
        uid=_number(values.get(b"Uid")),
        namespaces=len(names) if names else None,
        threads=_number(values.get(b"Threads")),
        kill_pending=any(number & _KILL_BIT for number in numbers) if len(numbers) == 2 else None,
    )


def parse_invocation(raw: bytes) -> str | None:
    """INVOCATION_ID of an environment (/proc/PID/environ), 32 hexadecimal digits; `None` when there is none."""
    for entry in raw.split(b"\0"):
        if entry.startswith(b"INVOCATION_ID="):
            value = entry.partition(b"=")[2]
            return value.decode() if len(value) == 32 and value.isalnum() and value.isascii() else None
    return None


def _number(words: list[bytes] | None) -> int | None:
    return int(words[0]) if words and words[0].isdigit() and len(words[0]) <= 19 else None


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
