"""/proc of the simulated host: as much of it as a monitor reads about a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rocmwatch.simulate.motion import UPTIME_SECONDS, State
from rocmwatch.simulate.parts import GIB, Host, Kernel
from rocmwatch.simulate.tree import Tree

_JIFFIES_PER_SECOND = 100
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What moves in /proc: the host's time, and what the GPUs take of its memory.

    Attributes:
        booted_at: Unix seconds.
        uptime_seconds: Since then.
        busy: How busy the GPUs are on average, 0 to 1.
    """

    booted_at: int
    uptime_seconds: float
    gtt_used_bytes: int
    busy: float


def moment(states: Sequence[State], booted_at: int) -> Moment:
    """The host's side of the GPUs' states."""
    return Moment(
        booted_at=booted_at,
        uptime_seconds=UPTIME_SECONDS + states[0].seconds,
        gtt_used_bytes=sum(state.gtt_used_bytes for state in states),
        busy=sum(state.busy_gfx for state in states) / len(states),
    )


def add_still_proc(tree: Tree, kernel: Kernel, host: Host, boot_id: str) -> None:
    """Adds the files of /proc that do not change."""
    tree.text(
        "proc",
        version=f"Linux version {kernel.release} (simulated) (gcc 12.2.0) #1 SMP PREEMPT_DYNAMIC",
        cmdline=f"BOOT_IMAGE=/boot/vmlinuz-{kernel.release} root=UUID=00000000-0000-4000-8000-000000000000 ro",
        filesystems="nodev\tsysfs\nnodev\tproc\nnodev\tdebugfs\n\text4",
        mounts="sysfs /sys sysfs ro 0 0\nproc /proc proc rw 0 0\ndebugfs /sys/kernel/debug debugfs rw 0 0",
        cpuinfo="\n\n".join(
            f"processor\t: {cpu}\nvendor_id\t: AuthenticAMD" for cpu in range(host.sockets * host.cores)
        ),
    )
    tree.text("proc/sys/kernel", osrelease=kernel.release, ostype="Linux", hostname="simulated", pid_max="4194304")
    tree.text("proc/sys/kernel/random", boot_id=boot_id)


def _meminfo(host: Host, now: Moment) -> bytes:
    total = host.memory_bytes
    used = min(total, total // 20 + now.gtt_used_bytes + int(2 * GIB * now.busy))
    cached = (total - used) // 4
    rows = (
        ("MemTotal", total),
        ("MemFree", total - used - cached),
        ("MemAvailable", total - used),
        ("Buffers", 512 << 20),
        ("Cached", cached),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Shmem", 256 << 20),
    )
    return b"".join(b"%-16s%8d kB\n" % (name.encode() + b":", size // _KIB) for name, size in rows)


def _stat(host: Host, now: Moment) -> bytes:
    """Counters of jiffies: a tenth of the time in user mode, a fortieth in the kernel."""
    cpus = host.sockets * host.cores
    jiffies = int(now.uptime_seconds * _JIFFIES_PER_SECOND)
    user, system = jiffies // 10, jiffies // 40
    times = (user, 0, system, jiffies - user - system, 0, 0, 0, 0, 0, 0)
    one = " ".join(map(str, times))
    lines = ["cpu  " + " ".join(str(time * cpus) for time in times), *(f"cpu{cpu} {one}" for cpu in range(cpus))]
    lines += [f"intr {jiffies * 7}", f"ctxt {jiffies * 11}", f"btime {now.booted_at}"]
    lines += [f"processes {50_000 + jiffies // 500}", "procs_running 3", "procs_blocked 0", ""]
    return "\n".join(lines).encode()


def _uptime(host: Host, now: Moment) -> bytes:
    return b"%.2f %.2f\n" % (now.uptime_seconds, now.uptime_seconds * host.sockets * host.cores * 0.875)


def _loadavg(_host: Host, now: Moment) -> bytes:
    return b"%.2f %.2f %.2f 3/1812 48213\n" % ((2.0 + 14.0 * now.busy,) * 3)


def _pressure(_host: Host, now: Moment) -> bytes:
    stalled = int(now.uptime_seconds * 10)
    return "".join(f"{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={stalled}\n" for kind in ("some", "full")).encode()


MOVING_PROC_FILES: dict[str, Callable[[Host, Moment], bytes]] = {
    "proc/meminfo": _meminfo,
    "proc/stat": _stat,
    "proc/uptime": _uptime,
    "proc/loadavg": _loadavg,
    "proc/pressure/memory": _pressure,
}
