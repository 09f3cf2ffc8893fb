"""A simulated node with processes of our making, seen by sampler, census and roll as the daemon sees it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_processes import Processes
from watching import Watcher

from rocmwatch.model import Holder, Holdings, View
from rocmwatch.observe.census import Census
from rocmwatch.observe.crew import Crew
from rocmwatch.picture import counted, judged
from rocmwatch.picture.roll import Roll
from rocmwatch.simulate import SimulatedNode

GIB = 1 << 30
FLOOR_BYTES = 284 << 20


class Household(Processes):
    """A node whose GPUs do nothing but hold memory.

    Attributes:
        gpu_ids: The compute driver's number of each node, in their order.
    """

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.root = Path(node.root)
        self.kfd = self.root / "sys/class/kfd/kfd/proc"
        self._clear()
        nodes = sorted((self.root / "sys/class/kfd/kfd/topology/nodes").iterdir(), key=lambda path: int(path.name))
        numbers = [int((path / "gpu_id").read_text()) for path in nodes]
        self.gpu_ids = [number for number in numbers if number]
        self.watcher = Watcher(self.root)
        self._crew = Crew(self.watcher.launcher, role="processes")
        self.census = Census(self._crew, self.watcher.clock)
        self.census.deadline_seconds = 5.0
        self.roll = Roll(str(self.root))
        self.uptime = float((self.root / "proc/uptime").read_text().split()[0])
        self.view: View | None = None

    def close(self) -> None:
        self._crew.close()
        self.watcher.close()

    def uses(self, *bytes_of_gpu: int) -> None:
        """What is in use of each GPU, whoever holds it."""
        for place, used in zip(self.node.places, bytes_of_gpu, strict=False):
            (self.root / place.device / "mem_info_vram_used").write_text(f"{used}\n")

    def units(self, **states: Mapping[str, Any]) -> None:
        """What systemd says; `vllm` stands for vllm.service."""
        listed = {f"{name}.service": state for name, state in states.items()}
        (self.root / "units.json").write_text(json.dumps(listed))

    def engine(self, pid: int, size: int, *, gpu: int = 0, age: float = 4000.0, **more: Any) -> None:
        """A process that computes on a GPU and holds so much of it."""
        self.process(pid, start=int((self.uptime - age) * 100), **more)
        self.opens(pid, 3, "/dev/kfd")
        self.books(pid, self.gpu_ids[gpu], vram=size, evicted_ms=0)
        (self.root / f"proc/{pid}/net").mkdir(exist_ok=True)
        (self.root / f"proc/{pid}/net/tcp").write_text("  sl  local_address\n")

    def look(self, seconds: float = 10.0) -> Holdings:
        """What is thought of it all, so many seconds later."""
        snapshot = judged(self.watcher.tick(seconds))
        findings = self.census.tick([reading.gpu for reading in snapshot.gpus], self.roll.suspects)
        snapshot = counted(snapshot, findings)
        now = self.watcher.clock.monotonic()
        holdings = self.roll.take(snapshot, now, all_seen=findings.all_seen, refused=findings.notes)
        self.view = View(
            snapshot=snapshot,
            version="0",
            started_at=0.0,
            hostname="node",
            root=str(self.root),
            config_loaded_at=0.0,
            holdings=holdings,
        )
        return holdings

    def after(self, seconds: float) -> Holdings:
        """The same after a while of looking every ten seconds."""
        for _ in range(int(seconds // 10)):
            holdings = self.look()
        return holdings

    def _clear(self) -> None:
        """Without the processes that the simulation may have made."""
        for folder in (self.kfd, self.root / "proc"):
            folder.mkdir(parents=True, exist_ok=True)
            for entry in folder.iterdir():
                if entry.name.isdecimal():
                    shutil.rmtree(entry)


def of(holdings: Holdings, pid: int) -> Holder:
    """The holder of that number."""
    return next(holder for holder in holdings.holders if holder.process.pid == pid)
