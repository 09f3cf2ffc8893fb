"""What to ask amdsmi, and what its answers mean: numbers in base units, or nothing.

The same number has another form in each version of the library and of its Python wrapper: "N/A", all ones of 8, 16, 32
or 64 bits, or 0 may stand for "not known". What cannot be true is not known either.

| answer | what it is |
|---|---|
| memory | bytes (amdsmi_get_gpu_vram_usage, which says MiB, is not asked) |
| temperature | whole degrees |
| clock | MHz; a highest clock of 0 is none |
| power | watts; 0 is what a missing field reads as, and 255 what some wrappers print for "not known" |
| power limit | microwatts |
| activity | percent |

Energy is not asked: a counter that comes from the files at one time and from here at another would jump.
"""

from collections.abc import Callable
from typing import NamedTuple

from rocmwatch.observe.wire import MEMORY, SENSORS, SLOW

_ALL_ONES = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_WATTS_UNKNOWN = 0xFF
_MOST_BYTES = 1 << 50
_HOTTEST = 200
_MOST_MHZ = 10_000
_MOST_WATTS = 10_000
_POWERS = ("current_socket_power", "socket_power", "average_socket_power")  # the first that is known

Convert = Callable[[object], "float | None"]


class Question(NamedTuple):
    """A call, and what its answer tells.

    Attributes:
        what: When to ask it: MEMORY, SENSORS or SLOW.
        call: The wrapper's function.
        arguments: (enumeration, member) of what it wants beside the GPU.
        answers: (name of a field, how to find it in the answer).
    """

    what: int
    call: str
    arguments: tuple[tuple[str, str], ...]
    answers: tuple[tuple[str, Convert], ...]


def _number(value: object, low: float, high: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if low <= value <= high and value not in _ALL_ONES else None


def used_bytes(answer: object) -> float | None:
    """Bytes in use, of which there may be 0."""
    return _number(answer, 0, _MOST_BYTES)


def total_bytes(answer: object) -> float | None:
    """Bytes that there are."""
    return _number(answer, 1, _MOST_BYTES)


def celsius(answer: object) -> float | None:
    """Degrees. 0 is what the driver prints once it may not ask any more."""
    number = _number(answer, 1, _HOTTEST)
    return None if number is None else float(number)


def hertz(answer: object) -> float | None:
    """The clock of now, in an answer of amdsmi_get_clock_info."""
    return _hertz(answer, "clk")


def highest_hertz(answer: object) -> float | None:
    """The highest clock that there is, in the same answer."""
    return _hertz(answer, "max_clk")


def watts(answer: object) -> float | None:
    """The power of now, in an answer of amdsmi_get_power_info."""
    for key in _POWERS:
        number = _number(_item(answer, key), 1, _MOST_WATTS)
        if number is not None and number != _WATTS_UNKNOWN:
            return float(number)
    return None


def watts_at_most(answer: object) -> float | None:
    """The limit of the power, in the same answer."""
    number = _number(_item(answer, "power_limit"), 1e6, _MOST_WATTS * 1e6)
    return None if number is None else number / 1e6


def busy_gfx(answer: object) -> float | None:
    """The load of the graphics engines, in an answer of amdsmi_get_gpu_activity."""
    return _ratio(_item(answer, "gfx_activity"))


def busy_memory(answer: object) -> float | None:
    """The load of the memory's controller, in the same answer."""
    return _ratio(_item(answer, "umc_activity"))


def _item(answer: object, key: str) -> object:
    return answer.get(key) if isinstance(answer, dict) else None


def _hertz(answer: object, key: str) -> float | None:
    number = _number(_item(answer, key), 1, _MOST_MHZ)
    return None if number is None else number * 1e6


def _ratio(percent: object) -> float | None:
    number = _number(percent, 0, 100)
    return None if number is None else number / 100


_KINDS = (("VRAM", "vram"), ("VIS_VRAM", "visible_vram"), ("GTT", "gtt"))
_SENSORS = (("EDGE", "edge"), ("HOTSPOT", "junction"), ("VRAM", "memory"))
_LIMITS = (("CRITICAL", "critical"), ("EMERGENCY", "emergency"))
_CLOCKS = (("GFX", "sclk"), ("MEM", "mclk"))


def _memory(what: int, call: str, part: str, convert: Convert) -> list[Question]:
    return [
        Question(what, call, (("AmdSmiMemoryType", kind),), ((f"{name}_{part}_bytes", convert),))
        for kind, name in _KINDS
    ]


def _temperatures(what: int, metric: str, prefix: str) -> list[Question]:
    return [
        Question(
            what,
            "amdsmi_get_temp_metric",
            (("AmdSmiTemperatureType", sensor), ("AmdSmiTemperatureMetric", metric)),
            ((f"{prefix}{name}", celsius),),
        )
        for sensor, name in _SENSORS
    ]


QUESTIONS: tuple[Question, ...] = (
    *_memory(MEMORY, "amdsmi_get_gpu_memory_usage", "used", used_bytes),
    *_memory(SLOW, "amdsmi_get_gpu_memory_total", "total", total_bytes),
    *_temperatures(SENSORS, "CURRENT", "temperature_"),
    *[question for metric, name in _LIMITS for question in _temperatures(SLOW, metric, f"limit_{name}_")],
    *[
        Question(
            SENSORS,
            "amdsmi_get_clock_info",
            (("AmdSmiClkType", clock),),
            ((f"clock_{name}", hertz), (f"clock_limit_{name}", highest_hertz)),
        )
        for clock, name in _CLOCKS
    ],
    Question(SENSORS, "amdsmi_get_power_info", (), (("power", watts), ("power_cap", watts_at_most))),
    Question(SENSORS, "amdsmi_get_gpu_activity", (), (("busy_gfx", busy_gfx), ("busy_memory", busy_memory))),
)


def pci_address(bdf_id: object) -> str | None:
    """The address in an answer of amdsmi_get_gpu_bdf_id; the one that never comes out of uninitialised memory.

    The id is: 32 bits domain | 4 bits partition | 12 bits zero | 8 bits bus | 5 bits device | 3 bits function.
    """
    if not isinstance(bdf_id, int) or not 0 < bdf_id < 1 << 64:
        return None
    domain, bus, device, function = bdf_id >> 32, bdf_id >> 8 & 0xFF, bdf_id >> 3 & 0x1F, bdf_id & 7
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
