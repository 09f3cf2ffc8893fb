"""The files of a GPU's hwmon folder: temperatures, power, clocks, voltages, a fan.

Source: drivers/gpu/drm/amd/pm/amdgpu_pm.c (hwmon attributes).
"""

from __future__ import annotations

from collections.abc import Callable

from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import Fan, Model
from rocmwatch.simulate.places import Place
from rocmwatch.simulate.tree import Tree, number_line

Render = Callable[[State], bytes]

_NO_HYSTERESIS = -273150  # what the driver prints for a hysteresis that is not set
_FULL_PWM = 255


def moving_hwmon(model: Model, place: Place) -> dict[str, Render]:
    """The files that change with the GPU's state, by path below the root."""
    files: dict[str, Render] = {}
    for sensor in model.sensors:
        files[f"temp{sensor.number}_input"] = _temperature(sensor.label)
    for file in () if model.is_silent(place.index) else power_files(model):
        files[file] = lambda state: number_line(int(state.power_watts) * 1_000_000)
    if model.sclk.hwmon_number is not None:
        files[f"freq{model.sclk.hwmon_number}_input"] = lambda state: number_line(state.sclk_mhz[0] * 1_000_000)
    if model.mclk.hwmon_number is not None:
        files[f"freq{model.mclk.hwmon_number}_input"] = lambda state: number_line(state.mclk_mhz * 1_000_000)
    if model.fan is not None:
        files |= _moving_fan(model.fan)
    return {f"{place.hwmon}/{name}": render for name, render in files.items()}


def power_files(model: Model) -> tuple[str, ...]:
    """The files that show the power: kernels before `power1_input` have an average of every card."""
    shown = tuple(file for file in model.power_files if model.kernel.has(f"hwmon/{file}"))
    return shown or ("power1_average",)


def add_still_hwmon(tree: Tree, model: Model, place: Place) -> None:
    """Adds the files that do not change."""
    folder = place.hwmon
    tree.text(folder, name="amdgpu")
    tree.files[f"{folder}/uevent"] = b""
    tree.links[f"{folder}/device"] = place.device
    tree.links[f"{folder}/subsystem"] = "sys/class/hwmon"
    tree.links[f"sys/class/hwmon/{folder.rsplit('/', 1)[1]}"] = folder
    for sensor in model.sensors:
        tree.text(folder, **{f"temp{sensor.number}_label": sensor.label})
        for limit, celsius in sensor.limits_celsius:
            tree.text(folder, **{f"temp{sensor.number}_{limit}": f"{celsius * 1000}"})
        if sensor.limits_celsius:
            tree.text(folder, **{f"temp{sensor.number}_crit_hyst": f"{_NO_HYSTERESIS}"})
    for clock in (model.sclk, model.mclk):
        if clock.hwmon_number is not None:
            tree.text(folder, **{f"freq{clock.hwmon_number}_label": clock.label})
    for number, label in model.voltages:
        tree.text(folder, **{f"in{number}_label": label, f"in{number}_input": "818"})
    _add_power(tree, model, place)
    if model.fan is not None:
        tree.text(folder, fan1_enable="0", fan1_min="0", fan1_max=str(model.fan.max_rpm))
        tree.text(folder, pwm1_enable="2", pwm1_min="0", pwm1_max=str(_FULL_PWM))


def _add_power(tree: Tree, model: Model, place: Place) -> None:
    """A second die has a cap of 0, and older kernels show a power of 0, too: its sister speaks for both."""
    folder = place.hwmon
    silent = model.is_silent(place.index)
    tree.text(folder, power1_label="PPT")
    if silent and model.kernel.silent_die_power:
        tree.text(folder, power1_average="0")
    if model.power_has_cap:
        low, high = (0, 0) if silent else model.power_range_watts
        cap = _microwatts(0 if silent else model.power_cap_watts)
        tree.text(folder, power1_cap=cap, power1_cap_default=cap)
        tree.text(folder, power1_cap_max=_microwatts(high), power1_cap_min=_microwatts(low))


def _microwatts(watts: float) -> str:
    return str(int(watts) * 1_000_000)


def _moving_fan(fan: Fan) -> dict[str, Render]:
    def rpm(state: State) -> int:
        return fan.rpm(state.temperatures_celsius["junction"])

    return {
        "fan1_input": lambda state: number_line(rpm(state)),
        "fan1_target": lambda state: number_line(rpm(state)),
        "pwm1": lambda state: number_line(rpm(state) * _FULL_PWM // fan.max_rpm),
    }


def _temperature(label: str) -> Render:
    return lambda state: number_line(int(state.temperatures_celsius[label]) * 1000)
