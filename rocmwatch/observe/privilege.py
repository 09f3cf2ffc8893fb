"""Giving capabilities away, for good: main keeps none, what it starts keeps the two that reading needs.

    CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH: together they open /proc/PID/fd of other users and the 0700 folder of
    debugfs (either alone does not).

Sources: capabilities(7), capset(2), prctl(2). There is no binding for these in the standard library; libc is asked by
ctypes.
"""

import ctypes
import os
from collections.abc import Iterable

CAP_DAC_READ_SEARCH = 2
CAP_SYS_PTRACE = 19
SAMPLING = frozenset({CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE})

_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Set(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, argument: int = 0) -> int:
    rest = (ctypes.c_ulong(argument), *[ctypes.c_ulong(0)] * 3)  # the kernel looks at all of them
    return int(_libc.prctl(ctypes.c_int(option), *rest))


def allow_only(capabilities: Iterable[int]) -> None:
    """Sees to it that no program started from here can have any other capability, nor gain one by what it runs.

    The bounding set can only be cut with CAP_SETPCAP. Without that it stays as it is, and holds nothing that this
    process could not get anyway: under the unit, systemd has cut it.

    Raises:
        OSError: When the kernel refuses no_new_privs, which it never should.
    """
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "prctl(PR_SET_NO_NEW_PRIVS)")
    kept = set(capabilities)
    capability = 0
    while (there := _prctl(_PR_CAPBSET_READ, capability)) >= 0:  # negative: past the kernel's last one
        if there and capability not in kept and _prctl(_PR_CAPBSET_DROP, capability) < 0:
            return
        capability += 1


def drop_all() -> None:
    """Leaves the calling process, and all that it will start, without any capability.

    Call it while there is one thread: capabilities belong to a thread.

    Raises:
        OSError: When the kernel refuses, which it never should: giving away is always allowed.
    """
    allow_only(())
    _check(_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL), "prctl(PR_CAP_AMBIENT_CLEAR_ALL)")
    header = _Header(_VERSION_3, 0)
    nothing = (_Set * 2)()
    _check(_libc.capset(ctypes.byref(header), nothing), "capset")
