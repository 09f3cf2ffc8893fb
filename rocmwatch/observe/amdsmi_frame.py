"""What main and the amdsmi reader say to each other, beside `wire`'s orders and frames."""

from typing import NamedTuple

from rocmwatch.observe.wire import MEMORY, SENSORS, SLOW

LIBRARY = "amdsmi"  # the subject that is no GPU: load the library and start it
ROCM_PATH = "ROCM_PATH"  # where ROCm is, in the environment of main and of the readers
PACKAGES = "ROCMWATCH_PACKAGES"  # where main's packages are, in that of the readers, which start without them
ASKED = MEMORY | SENSORS | SLOW  # what of an order amdsmi has answers to


class StartFrame(NamedTuple):
    """The answer about LIBRARY.

    Attributes:
        reason: Why it cannot be used; empty when it can.
        is_absent: Whether that is because there is none on this machine.
    """

    reason: str
    is_absent: bool = False


class AmdsmiFrame(NamedTuple):
    """The answer about one GPU. By name, as amdsmi knows some of the fields of `wire` only.

    Attributes:
        values: (name of the field, number in the base unit), of what is known.
        errors: (name of the field, the library's error, the call), of calls that should have worked.
    """

    values: "tuple[tuple[str, float], ...]" = ()
    errors: tuple[tuple[str, str, str], ...] = ()
