"""Processes that use GPUs, as files: /proc and the compute driver's books below a root of their own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

TAIL = "0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1000 20 18446744073709551615 1 1"


class Processes:
    """A root with processes in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kfd = root / "sys/class/kfd/kfd/proc"
        self.kfd.mkdir(parents=True)
        (root / "proc").mkdir()

    def process(
        self,
        pid: int,
        comm: str = "python3",
        start: int = 5000,
        cgroup: str = "/system.slice/vllm.service",
        *,
        state: str = "S",
        parent: int = 1,
        group: int | None = None,
        uid: int = 1000,
        namespaces: int = 1,
        pending: int = 0,
        invocation: str | None = None,
    ) -> None:
        """A process without any GPU."""
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "fdinfo").mkdir(exist_ok=True)
        led = pid if group is None else group
        (folder / "stat").write_text(f"{pid} ({comm}) {state} {parent} {led} {led} {TAIL.format(start=start)}\n")
        (folder / "cgroup").write_text(f"0::{cgroup}\n")
        (folder / "environ").write_text("" if invocation is None else f"A=b\0INVOCATION_ID={invocation}\0")
        lines = {
            "Name": comm,
            "Uid": f"{uid}\t{uid}\t{uid}\t{uid}",
            "NSpid": "\t".join(map(str, range(pid, pid + namespaces))),
            "Threads": "1",
            "SigPnd": "0000000000000000",
            "ShdPnd": f"{pending:016x}",
        }
        (folder / "status").write_text("".join(f"{key}:\t{value}\n" for key, value in lines.items()))

    def thread(self, pid: int, tid: int, state: str = "S") -> None:
        """A thread of a process."""
        folder = self.root / f"proc/{pid}/task/{tid}"
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "fdinfo").mkdir(exist_ok=True)
        (folder / "stat").write_text(f"{tid} (python3) {state} 1 {pid} {pid} {TAIL.format(start=5000)}\n")

    def opens(self, pid: int | str, descriptor: int, target: str, **fdinfo: str | int) -> None:
        """Opens a file in a process (or in a thread, `10/task/11`); keys of fdinfo with underscores for dashes."""
        os.symlink(target, self.root / f"proc/{pid}/fd/{descriptor}")
        lines = [f"{key.replace('_', '-')}:\t{value}\n" for key, value in fdinfo.items()]
        (self.root / f"proc/{pid}/fdinfo/{descriptor}").write_text("pos:\t0\n" + "".join(lines))

    def books(self, pid: int, gpu_id: int, **values: int) -> None:
        """Entries of the compute driver: `vram`, `evicted_ms`, `faults`."""
        folder = self.kfd / str(pid)
        paths: Mapping[str, str] = {
            "vram": f"vram_{gpu_id}",
            "evicted_ms": f"stats_{gpu_id}/evicted_ms",
            "faults": f"counters_{gpu_id}/faults",
        }
        for name, value in values.items():
            path = folder / paths[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")

    def ends(self, pid: int, *, books: bool = True) -> None:
        """The process is gone, and its entry in the books with it, unless they are kept."""
        for folder in [self.root / f"proc/{pid}", *([self.kfd / str(pid)] if books else [])]:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            if folder.exists():
                folder.rmdir()
