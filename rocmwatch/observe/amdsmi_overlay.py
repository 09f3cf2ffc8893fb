"""What amdsmi says of a GPU, laid over what the driver's files say of it. Values in, values out."""

from typing import Any, TypeVar

from rocmwatch.observe.amdsmi_frame import AmdsmiFrame
from rocmwatch.observe.wire import (
    LIMIT_FIELDS,
    MEMORY,
    MEMORY_FIELDS,
    SENSOR_FIELDS,
    SENSORS,
    SLOW,
    TOTAL_FIELDS,
    FaultTuple,
    GpuFrame,
)

_SCLK = SENSOR_FIELDS.index("clock_sclk")
_TEMPERATURES = [at for at, name in enumerate(SENSOR_FIELDS) if name.startswith("temperature_")]
_USED = MEMORY_FIELDS.index("vram_used_bytes")
_TOTAL = TOTAL_FIELDS.index("vram_total_bytes")
_Values = TypeVar("_Values", bound="tuple[Any, ...] | None")


def lacks_something(frame: GpuFrame) -> bool:
    """Whether what is needed has no file: VRAM (all of it and what is used), and one temperature.

    A file that fails is no gap: amdsmi would read the same one.

    Args:
        frame: Of a card that is awake, with everything in it.
    """
    if frame.faults or frame.memory is None or frame.totals is None or frame.sensors is None:
        return False
    no_temperature = all(frame.sensors[at] is None for at in _TEMPERATURES)
    return no_temperature or None in (frame.memory[_USED], frame.totals[_TOTAL])


def laid_over(frame: GpuFrame, answer: AmdsmiFrame, *, gaps_only: bool) -> GpuFrame:
    """The frame with amdsmi's values in it.

    Args:
        frame: By the files. What was not read there is not taken from amdsmi either.
        answer: By amdsmi.
        gaps_only: Whether a value of the files wins.
    """
    new = dict(answer.values)
    if len(frame.xcc_clocks) > 1 and frame.sensors is not None and frame.sensors[_SCLK] is not None:
        new.pop("clock_sclk", None)  # amdsmi's is of one die, and the files' of the fastest
    memory = _merged(frame.memory, MEMORY_FIELDS, new, gaps_only)
    sensors = _merged(frame.sensors, SENSOR_FIELDS, new, gaps_only)
    totals = _merged(frame.totals, TOTAL_FIELDS, new, gaps_only)
    limits = _merged(frame.limits, LIMIT_FIELDS, new, gaps_only)
    missing = {
        name: kind
        for kind, names, values in (
            (MEMORY, MEMORY_FIELDS, memory),
            (SENSORS, SENSOR_FIELDS, sensors),
            (SLOW, TOTAL_FIELDS, totals),
            (SLOW, LIMIT_FIELDS, limits),
        )
        for name, value in zip(names, values or (), strict=False)
        if value is None
    }
    for _, name, _, _ in frame.faults:
        missing.pop(name, None)
    faults: list[FaultTuple] = [
        (missing[name], name, word, call) for name, word, call in answer.errors if name in missing
    ]
    return frame._replace(memory=memory, sensors=sensors, totals=totals, limits=limits, faults=(*frame.faults, *faults))


def contradiction(answer: AmdsmiFrame, vram_total_bytes: int | None) -> str:
    """What of an answer cannot be true; empty when nothing is known against it.

    Args:
        answer: By amdsmi.
        vram_total_bytes: By the files; an APU's 0 is no answer.
    """
    values = dict(answer.values)
    total, used = values.get("vram_total_bytes"), values.get("vram_used_bytes")
    if total is not None and vram_total_bytes and total != vram_total_bytes:
        return "the VRAM that it has is not what the driver says"
    known = total or vram_total_bytes
    return "more VRAM is used than there is" if used is not None and known and used > known else ""


def _merged(values: _Values, names: tuple[str, ...], new: "dict[str, float]", gaps_only: bool) -> _Values:  # noqa: FBT001
    if values is None:
        return values
    return tuple(  # type: ignore[return-value]
        old if new.get(name) is None or (gaps_only and old is not None) else new[name]
        for name, old in zip(names, values, strict=True)
    )
