"""How each kind of sampling is doing, told from what was asked for and what came back."""

from collections.abc import Container, Iterable, Mapping

from rocmwatch.model import SourceStatus, frozen
from rocmwatch.observe.wire import FRAGMENTATION, MEMORY, NO_TABLE, RAS, SENSORS, GpuFrame, Order

TOPOLOGY = "topology"
Result = tuple[Order, GpuFrame | None]


def memory_succeeded(frames: Iterable[GpuFrame | None]) -> bool:
    """Whether the memory of every GPU was read."""
    return all(frame is not None and frame.memory is not None for frame in frames)


def sensors_succeeded(frames: Iterable[GpuFrame | None]) -> bool:
    """Whether the sensors of every GPU were read: one that sleeps is left alone, one without any has none to fail."""
    return all(frame is not None and frame.state != "gone" and not _has_only_faults(frame) for frame in frames)


def table_succeeded(frames: Iterable[GpuFrame | None]) -> bool:
    """Whether the table of free blocks of every GPU that has one was read, and there was one."""
    tables = [frame.table if frame else None for frame in frames]
    found = [isinstance(table, tuple) for table in tables]
    return any(found) and all(there or table == NO_TABLE for there, table in zip(found, tables, strict=True))


def errors_succeeded(frames: Iterable[GpuFrame | None]) -> bool:
    """Whether every GPU that counts the hardware's errors told all of them, and there was one."""
    asked = list(frames)
    return any(frame and frame.ras for frame in asked) and all(
        frame and frame.ras is not None and not any(fault[0] == RAS for fault in frame.faults) for frame in asked
    )


def _was_left_alone(kind: int, frame: GpuFrame | None) -> bool:
    """A GPU that sleeps, or is being reset, is not asked for its errors: that is neither success nor failure."""
    return kind == RAS and frame is not None and not frame.done & RAS


def _has_only_faults(frame: GpuFrame) -> bool:
    return (
        frame.sensors is not None
        and all(value is None for value in frame.sensors)
        and any(fault[0] == SENSORS for fault in frame.faults)
    )


_SUCCEEDED = {
    MEMORY: ("memory", memory_succeeded),
    SENSORS: ("sensors", sensors_succeeded),
    FRAGMENTATION: ("fragmentation", table_succeeded),
    RAS: ("ras", errors_succeeded),
}


class Sources:
    """The last words of each source."""

    def __init__(self) -> None:
        self._all: dict[str, SourceStatus] = {}

    def current(self) -> Mapping[str, SourceStatus]:
        """A copy that does not change."""
        return frozen(self._all)

    def note_gpus(self, results: list[Result], unix: float, took: float, *, listed: bool) -> None:
        """Takes in what came of the orders of a tick that were about GPUs, and whether it is known which there are."""
        for kind, (name, succeeded) in _SUCCEEDED.items():
            frames = [frame for order, frame in results if order.what & kind and not _was_left_alone(kind, frame)]
            if frames or (listed and kind == MEMORY):  # without a GPU, nothing is what there is to read
                self._note(name, succeeded(frames), unix, took)

    def note_topology(self, subjects: Iterable[str], answered: Container[str], unix: float, took: float) -> None:
        """Takes in which of the subjects of the topology that should have been asked were answered."""
        self._note(TOPOLOGY, all(subject in answered for subject in subjects), unix, took)

    def _note(self, name: str, succeeded: bool, unix: float, took: float) -> None:  # noqa: FBT001
        before = self._all.get(name)
        at = unix if succeeded else before.last_success_at if before else None
        self._all[name] = SourceStatus(last_success_at=at, duration_seconds=took)
