r"""Whether runtime power management has put the device to sleep.

    active\n                /sys/class/drm/card1/device/power/runtime_status

Drivers up to 6.12 wake a sleeping GPU for any question to its firmware (sensors, gpu_metrics, clock levels), newer ones
answer EPERM: so this file, which wakes nothing, is read first. The memory counters can be read in any state.
Source: drivers/base/power/sysfs.c (runtime_status_show); amdgpu_pm.c.
"""

from __future__ import annotations

from rocmwatch.errors import ParseError
from rocmwatch.kernel.number import BLANK, shown

_STATES = {state.encode(): state for state in ("active", "suspended", "suspending", "resuming", "error", "unsupported")}
_ASLEEP = frozenset({"suspended", "suspending", "resuming"})


def parse_runtime_status(raw: bytes) -> str:
    """The state, one of `active suspended suspending resuming error unsupported`.

    Raises:
        ParseError: `ENODATA` for an empty file, `EBADMSG` for any other word.
    """
    word = raw.strip(BLANK)
    state = _STATES.get(word)
    if state is not None:
        return state
    if not word:
        raise ParseError("ENODATA", "empty")
    raise ParseError("EBADMSG", f"no state of runtime power management: {shown(word)}")


def may_read_sensors(status: str | None) -> bool:
    """Whether a question to the firmware would leave the device's sleep undisturbed.

    Args:
        status: What `parse_runtime_status` said; `None` when there is no such file, as without CONFIG_PM.
    """
    return status not in _ASLEEP
