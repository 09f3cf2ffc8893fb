"""A sampler with its launcher and readers, on a tree, at a clock of its own: the daemon's eyes without the daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from rocmwatch.model import GpuReading, Snapshot
from rocmwatch.observe.crew import Crew
from rocmwatch.observe.leftovers import LeftOvers
from rocmwatch.observe.link import LauncherLink
from rocmwatch.observe.ordinals import Ordinals
from rocmwatch.observe.sampler import Pace, Sampler
from rocmwatch.observe.stall import Patience
from rocmwatch.simulate import SimulatedNode

MINUTE = 61.0  # past it, everything is due
PACE = Pace(memory=5.0, sensors=5.0, fragmentation=60.0, deadline=0.5, ras=60.0)


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def unix(self) -> float:
        return 1_700_000_000.0 + self.now


class Watcher:
    """Takes snapshots of a tree.

    Attributes:
        clock: What the sampler goes by. Deadlines of reads are real time.
        last: The last snapshot.
    """

    def __init__(
        self,
        root: str | Path,
        pace: Pace = PACE,
        patience: Patience | None = None,
        left_overs: LeftOvers | None = None,
        ordinals: Ordinals | None = None,
    ) -> None:
        self.clock = HandClock()
        self.launcher = LauncherLink(str(root))
        self.crew = Crew(self.launcher, left_overs, patience or Patience())
        self.sampler = Sampler(self.crew, self.clock, ordinals or Ordinals(), pace)
        self.last: Snapshot | None = None

    def tick(self, seconds: float = 5.0) -> Snapshot:
        """The picture, so many seconds later."""
        self.clock.now += seconds
        self.last = self.sampler.tick()
        return self.last

    def until(
        self, condition: Callable[[Snapshot], bool], seconds: float = 5.0, patience_seconds: float = 20.0
    ) -> Snapshot:
        """Ticks until something holds, with real pauses; fails when it never does."""
        end = time.monotonic() + patience_seconds
        while not condition(snapshot := self.tick(seconds)):
            assert time.monotonic() < end, f"it never came to that: {snapshot}"
            time.sleep(0.05)
        return snapshot

    @property
    def readers(self) -> dict[int, str]:
        """The processes below the launcher, and the state of each."""
        return {pid: state_of(pid) for pid in children_of(self.launcher.pid)}

    @property
    def reader(self) -> int:
        """The process id of the common reader."""
        assert self.crew._reader is not None
        return self.crew._reader.pid

    def close(self) -> None:
        self.crew.close()
        self.launcher.close()


def of(snapshot: Snapshot, pci: str) -> GpuReading:
    """The reading of one GPU."""
    return next(reading for reading in snapshot.gpus if reading.gpu.pci == pci)


def states(snapshot: Snapshot) -> dict[str, str]:
    """The state of each GPU, by PCI address."""
    return {reading.gpu.pci: reading.state.value for reading in snapshot.gpus}


def children_of(pid: int) -> list[int]:
    """The child processes of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state_of(pid: int) -> str:
    """The state letter of a process (`R`, `S`, `D`, `Z`, `T`); empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descriptors_of(pid: int) -> int:
    """How many descriptors a process holds."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether something comes to hold."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


# What a reading says, by the names that faults go by


def said(reading: GpuReading) -> dict[str, object]:
    """Every value of a reading under the name of its field; what is not there has no entry."""
    sample, gpu, limits = reading.sample, reading.gpu, reading.limits
    values: dict[str, object] = {}
    if sample is not None:
        for kind in ("vram", "visible_vram", "gtt"):
            for part in ("total", "used"):
                values[f"{kind}_{part}_bytes"] = getattr(sample, f"{kind}_{part}_bytes")
        values |= {"power": sample.power_watts, "energy": sample.energy_joules}
        values |= {f"temperature_{name}": value for name, value in sample.temperatures_celsius.items()}
        values |= {f"clock_{name}": value for name, value in sample.clocks_hertz.items()}
        values |= {f"busy_{name}": value for name, value in sample.busy_ratio.items()}
        values |= {f"xcc_clock_{name}": value for name, value in sample.xcc_clocks_hertz.items()}
        values |= {f"throttled_{name}": value for name, value in sample.throttled.items()}
        values |= {f"throttle_ratio_{name}": value for name, value in sample.throttle_ratio.items()}
        values["xgmi"] = (sample.xgmi_read_bytes, sample.xgmi_write_bytes) if sample.xgmi_read_bytes else None
        values |= {f"partition_busy_{name}": value for name, value in sample.partitions.items()}
    for (sensor, limit), value in limits.temperatures_celsius.items():
        values[f"limit_{limit}_{sensor}"] = value
    values |= {f"clock_limit_{name}": value for name, value in limits.clocks_hertz.items()}
    values["power_cap"] = limits.power_cap_watts
    for name in ("width", "max_width", "transfers_per_second", "max_transfers_per_second", "replays"):
        values[f"pcie_{name}"] = getattr(reading.pcie, name)
    for (block, severity), count in reading.ras_errors.items():
        values[f"ras_{block}"] = {severity: count} | values.get(f"ras_{block}", {})  # type: ignore[operator]
    for name in ("product", "device_id", "unique_id", "serial", "vbios", "numa_node"):
        values[name] = getattr(gpu, name)
    values |= {"compute_partition": gpu.compute_partition, "memory_partition": gpu.memory_partition}
    values |= {"kfd_gpu_id": gpu.kfd_gpu_id, "pool": gpu.pool.value, "fragmentation": reading.free_blocks}
    for partition in gpu.partitions:
        values[f"partition_{partition.partition}"] = partition
    return {name: value for name, value in values.items() if value is not None}


def faults_of(reading: GpuReading) -> list[tuple[str, str, str]]:
    """(source, errno, path) of each fault."""
    return [(fault.source, fault.errno, fault.path) for fault in reading.faults]


# Fixtures, for the conftest.py of a folder that wants them


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Callable[..., SimulatedNode]]:
    """Makes simulated nodes that stand still: `node("mi300x", gpus=2)`."""
    with ExitStack() as stack:

        def make(model: str = "mi300x", gpus: int = 1, name: str = "node") -> SimulatedNode:
            made = SimulatedNode(str(tmp_path / name), model, gpus)
            made.create()
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def watch() -> Iterator[Callable[..., Watcher]]:
    """Makes watchers that are ended after the test: `watch(root)`."""
    with ExitStack() as stack:

        def make(root: str | Path, **options: Any) -> Watcher:
            return stack.enter_context(closing(Watcher(root, **options)))

        yield make
