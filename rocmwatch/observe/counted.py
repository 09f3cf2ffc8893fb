"""What gpu_metrics counts, of one GPU: understood once a reading of the sensors, and not once a picture."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocmwatch.kernel.throttle import ThrottleMeter, throttled_now
from rocmwatch.kernel.xgmi import link_bytes
from rocmwatch.model import EMPTY, PartitionSample, frozen
from rocmwatch.observe.wire import GpuFrame, Part

COUNTER_NAMES = ("throttle_ratio", "throttled", "xgmi")  # what has no file of its own
PARTITION_NAME = "partition_busy"
_NO_PARTITIONS: Mapping[str, PartitionSample] = frozen({})
_NO_LINKS = (b"", b"", b"")


def _nothing() -> Mapping[str, float]:
    return EMPTY  # dataclasses refuse it as a default, up to Python 3.11


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What is published of it; see `GpuSample`."""

    throttle_ratio: Mapping[str, float] = field(default_factory=_nothing)
    throttled: Mapping[str, float] = field(default_factory=_nothing)
    xgmi_read_bytes: Mapping[str, float] = field(default_factory=_nothing)
    xgmi_write_bytes: Mapping[str, float] = field(default_factory=_nothing)
    partitions: Mapping[str, PartitionSample] = field(default_factory=lambda: _NO_PARTITIONS)


NOTHING = Counted()


def understood(frame: GpuFrame, parts: tuple[Part, ...], meter: ThrottleMeter) -> Counted:
    """What a frame with sensors says.

    Args:
        frame: As the reader sent it.
        parts: The partitions that it was asked for.
        meter: Knows the reading before.
    """
    read, written, status = frame.links or _NO_LINKS
    return Counted(
        throttle_ratio=_frozen(meter.update(frame.accumulator_bits, frame.accumulated)),
        throttled=EMPTY if frame.throttle_status is None else frozen(throttled_now(frame.throttle_status)),
        xgmi_read_bytes=_frozen(link_bytes(read, status)),
        xgmi_write_bytes=_frozen(link_bytes(written, status)),
        partitions=_partitions(frame.partition_readings, parts),
    )


def names_in(frame: GpuFrame, counted: Counted) -> frozenset[str]:
    """Which of the fields the card can tell, as this frame shows; a first share of time is still to come."""
    counts = bool(frame.accumulated) and frame.accumulated[0] != (1 << frame.accumulator_bits) - 1
    there = (counts, counted.throttled, counted.xgmi_read_bytes or counted.xgmi_write_bytes)
    names = [name for name, value in zip(COUNTER_NAMES, there, strict=True) if value]
    if any(busy is not None for busy, _ in frame.partition_readings):
        names.append(PARTITION_NAME)
    return frozenset(names)


def _partitions(
    readings: tuple[tuple[float | None, float | None], ...], parts: tuple[Part, ...]
) -> Mapping[str, PartitionSample]:
    if not readings or len(readings) != len(parts):  # the GPU was divided anew since it was asked
        return _NO_PARTITIONS
    return frozen(
        {
            str(number): PartitionSample(busy_ratio=busy, sclk_hertz=hertz)
            for (number, _, _), (busy, hertz) in zip(parts, readings, strict=True)
        }
    )


def _frozen(values: Mapping[str, float]) -> Mapping[str, float]:
    return frozen(values) if values else EMPTY
