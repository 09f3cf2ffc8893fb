"""What a simulated GPU says in `gpu_metrics`, in each revision that a model has: state -> the kernel's fields."""

from __future__ import annotations

from collections.abc import Callable

from rocmwatch.simulate.encode import encode, encode_partition
from rocmwatch.simulate.instinct_metrics import partition_fields, v1_5, v1_7, v1_8, v1_9
from rocmwatch.simulate.metrics_parts import Fields, counters, link, millijoules, nanoseconds
from rocmwatch.simulate.motion import State
from rocmwatch.simulate.parts import Model

# The bit that each reason sets in `indep_throttle_status`. (SMU_THROTTLER_*_BIT of PPT0, TDC_GFX, TEMP_HOTSPOT and
# PROCHOT_CPU in drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h.)
_THROTTLER_BITS = {"power": 0, "current": 16, "thermal": 36, "prochot": 46}


def gpu_metrics(model: Model, state: State) -> bytes:
    """The file's bytes."""
    return encode(model.gpu_metrics, _FIELDS[model.gpu_metrics](model, state))


def partition_metrics(model: Model, state: State, partition: int) -> bytes:
    """The bytes of `xcp/xcp_metrics` of one partition, on a kernel that has such files."""
    revision = model.kernel.xcp_metrics or (0, 0)
    return encode_partition(revision, partition_fields(model, state, partition, with_counters=revision != (1, 0)))


def _v1_3(model: Model, state: State) -> Fields:
    celsius = {label: round(value) for label, value in state.temperatures_celsius.items()}
    edge, memory = celsius.get("edge"), celsius["mem"]
    return {
        "temperature_edge": edge,
        "temperature_hotspot": celsius["junction"],
        "temperature_mem": memory,
        "temperature_vrgfx": None if edge is None else edge - 2,
        "temperature_vrsoc": (celsius["junction"] if edge is None else edge) - 4,
        "temperature_vrmem": None if edge is None else memory - 3,
        "average_gfx_activity": int(100 * state.busy_gfx),
        "average_umc_activity": int(100 * state.busy_memory),
        "average_socket_power": int(state.power_watts),
        **counters(state),
        **({"energy_accumulator": millijoules(state)} if model.counts_millijoules else {}),
        "average_gfxclk_frequency": state.sclk_mhz[0],
        "average_socclk_frequency": 1090,
        "average_uclk_frequency": state.mclk_mhz,
        "current_gfxclk": state.sclk_mhz[0],
        "current_socclk": 1090,
        "current_uclk": state.mclk_mhz,
        "current_vclk0": 29,
        "current_dclk0": 22,
        "throttle_status": 0,
        "current_fan_speed": model.fan.rpm(state.temperatures_celsius["junction"]) if model.fan else 0,
        **link(model),
        "temperature_hbm": [memory - stack for stack in range(model.hbm_sensors)],
        "indep_throttle_status": sum(1 << _THROTTLER_BITS[reason] for reason in state.throttled),
    }


def _v2_1(model: Model, state: State) -> Fields:
    """Temperatures in 1/100 degree, load in 1/100 percent, power in mW."""
    hundredths = int(100 * state.temperatures_celsius["edge"])
    milliwatts = int(1000 * state.power_watts)
    cores = min(8, model.host.cores)
    return {
        "temperature_gfx": hundredths,
        "temperature_soc": hundredths - 60,
        "temperature_core": [hundredths + 30 * (core % 4) for core in range(cores)],
        "temperature_l3": [hundredths + 10],
        "average_gfx_activity": int(10_000 * state.busy_gfx),
        "average_mm_activity": 0,
        "system_clock_counter": nanoseconds(state),
        "average_socket_power": milliwatts,
        "average_cpu_power": int(0.2 * milliwatts),
        "average_soc_power": int(0.1 * milliwatts),
        "average_gfx_power": int(0.7 * milliwatts),
        "average_core_power": [int(0.2 * milliwatts) // cores] * cores,
        "average_gfxclk_frequency": state.sclk_mhz[0],
        "average_socclk_frequency": 600,
        "average_uclk_frequency": state.mclk_mhz,
        "average_fclk_frequency": 1200,
        "average_vclk_frequency": 800,
        "average_dclk_frequency": 800,
        "current_gfxclk": state.sclk_mhz[0],
        "current_socclk": 600,
        "current_uclk": state.mclk_mhz,
        "current_fclk": 1200,
        "current_coreclk": [3300] * cores,
        "throttle_status": 0,
    }


def _v3_0(model: Model, state: State) -> Fields:
    """Temperatures in 1/100 degree, power in mW, memory traffic in MB/s."""
    hundredths = int(100 * state.temperatures_celsius["edge"])
    milliwatts = int(1000 * state.power_watts)
    cores = model.host.cores
    return {
        "temperature_gfx": hundredths,
        "temperature_soc": hundredths - 60,
        "temperature_core": [hundredths + 30 * (core % 4) for core in range(cores)],
        "temperature_skin": hundredths - 400,
        "average_gfx_activity": int(100 * state.busy_gfx),
        "average_vcn_activity": 0,
        "average_ipu_activity": [0] * 8,
        "average_core_c0_activity": [3] * cores,
        "average_dram_reads": min(65_534, int(90_000 * state.busy_memory) + 150),
        "average_dram_writes": int(20_000 * state.busy_memory) + 90,
        "average_ipu_reads": 0,
        "average_ipu_writes": 0,
        "system_clock_counter": nanoseconds(state),
        "average_socket_power": milliwatts,
        "average_ipu_power": 0,
        "average_apu_power": milliwatts,
        "average_gfx_power": int(0.7 * milliwatts),
        "average_dgpu_power": 0,
        "average_all_core_power": int(0.2 * milliwatts),
        "average_core_power": [int(0.2 * milliwatts) // cores] * cores,
        "average_sys_power": 0,
        "stapm_power_limit": int(model.power_cap_watts),
        "current_stapm_power_limit": int(model.power_cap_watts),
        "average_gfxclk_frequency": state.sclk_mhz[0],
        "average_socclk_frequency": 600,
        "average_vpeclk_frequency": 800,
        "average_ipuclk_frequency": 800,
        "average_fclk_frequency": 1960 if state.busy_gfx > 0.2 else 400,
        "average_vclk_frequency": 800,
        "average_uclk_frequency": state.mclk_mhz,
        "average_mpipu_frequency": 400,
        "current_coreclk": [3300] * cores,
        "current_core_maxfreq": model.host.cpu_clock_mhz,
        "current_gfx_maxfreq": model.sclk.levels_mhz[-1],
        **{f"throttle_residency_{reason}": 0 for reason in _APU_REASONS},
        "throttle_residency_prochot": int(1000 * state.throttle.get("prochot", 0)),
        "throttle_residency_sppt": int(1000 * state.throttle.get("power", 0)),
        "throttle_residency_thm_gfx": int(1000 * state.throttle.get("socket_thermal", 0)),
        "time_filter_alphavalue": 1_000_000,
    }


_APU_REASONS = ("prochot", "spl", "fppt", "sppt", "thm_core", "thm_gfx", "thm_soc")
_FIELDS: dict[tuple[int, int], Callable[[Model, State], Fields]] = {
    (1, 3): _v1_3,
    (1, 5): v1_5,
    (1, 7): v1_7,
    (1, 8): v1_8,
    (1, 9): v1_9,
    (2, 1): _v2_1,
    (3, 0): _v3_0,
}
