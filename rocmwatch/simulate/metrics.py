"""What a simulated GPU says in `gpu_metrics`, in each revision that a model has: state -> the kernel's fields."""

from __future__ import annotations

from collections.abc import Callable

from rocmwatch.simulate.encode import Value, encode
from rocmwatch.simulate.motion import UPTIME_SECONDS, State
from rocmwatch.simulate.parts import Model

_ENERGY_UNIT_JOULES = 2.0**-16  # 15.259 uJ
_ACTIVITY_PER_SECOND = 100_000  # the accumulators' unit is the firmware's own; only their growth says something

Fields = dict[str, Value]


def gpu_metrics(model: Model, state: State) -> bytes:
    """The file's bytes."""
    return encode(model.gpu_metrics, _FIELDS[model.gpu_metrics](model, state))


def _v1_3(model: Model, state: State) -> Fields:
    celsius = state.temperatures_celsius
    return {
        "temperature_edge": round(celsius["edge"]),
        "temperature_hotspot": round(celsius["junction"]),
        "temperature_mem": round(celsius["mem"]),
        "temperature_vrgfx": round(celsius["edge"]) - 2,
        "temperature_vrsoc": round(celsius["edge"]) - 4,
        "temperature_vrmem": round(celsius["mem"]) - 3,
        "average_gfx_activity": int(100 * state.busy_gfx),
        "average_umc_activity": int(100 * state.busy_memory),
        "average_socket_power": int(state.power_watts),
        **_counters(state),
        "average_gfxclk_frequency": state.sclk_mhz[0],
        "average_socclk_frequency": 1090,
        "average_uclk_frequency": state.mclk_mhz,
        "current_gfxclk": state.sclk_mhz[0],
        "current_socclk": 1090,
        "current_uclk": state.mclk_mhz,
        "current_vclk0": 29,
        "current_dclk0": 22,
        "throttle_status": 0,
        "current_fan_speed": 0,
        **_link(model),
        "temperature_hbm": [round(celsius["mem"]) - stack for stack in range(4)],
        "indep_throttle_status": 0,
    }


def _v1_5(model: Model, state: State) -> Fields:
    celsius = state.temperatures_celsius
    moved_kib = [int(state.busy_memory_seconds * 1_000_000) + 7919 * link for link in range(8)]
    moved_kib[0] = 0  # a GPU has no link to itself
    return {
        "temperature_hotspot": round(celsius["junction"]),
        "temperature_mem": round(celsius["mem"]),
        "temperature_vrsoc": round(celsius["junction"]) - 5,
        "curr_socket_power": int(state.power_watts),
        "average_gfx_activity": int(100 * state.busy_gfx),
        "average_umc_activity": int(100 * state.busy_memory),
        "vcn_activity": [0] * 4,
        "jpeg_activity": [0] * 32,
        **_counters(state),
        "throttle_status": 0,
        "gfxclk_lock_status": 0,
        **_link(model),
        "xgmi_link_width": 16,
        "xgmi_link_speed": 32,
        "pcie_bandwidth_acc": int(state.busy_gfx_seconds * 1_500),
        "pcie_bandwidth_inst": int(3 * state.busy_gfx),
        "pcie_l0_to_recov_count_acc": 3,
        "pcie_replay_count_acc": 0,
        "pcie_replay_rover_count_acc": 0,
        "pcie_nak_sent_count_acc": 0,
        "pcie_nak_rcvd_count_acc": 0,
        "xgmi_read_data_acc": moved_kib,
        "xgmi_write_data_acc": [moved * 9 // 10 for moved in moved_kib],
        "current_gfxclk": state.sclk_mhz,
        "current_socclk": [1300 if state.busy_gfx > 0.02 else 29] * 4,
        "current_vclk0": [29] * 4,
        "current_dclk0": [22] * 4,
        "current_uclk": state.mclk_mhz,
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
        "average_dram_reads": int(90_000 * state.busy_memory) + 150,
        "average_dram_writes": int(20_000 * state.busy_memory) + 90,
        "average_ipu_reads": 0,
        "average_ipu_writes": 0,
        "system_clock_counter": _nanoseconds(state),
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
        "throttle_residency_prochot": 0,
        "throttle_residency_spl": 0,
        "throttle_residency_fppt": 0,
        "throttle_residency_sppt": 0,
        "throttle_residency_thm_core": 0,
        "throttle_residency_thm_gfx": 0,
        "throttle_residency_thm_soc": 0,
        "time_filter_alphavalue": 1_000_000,
    }


def _counters(state: State) -> Fields:
    return {
        "energy_accumulator": int(state.energy_joules / _ENERGY_UNIT_JOULES),
        "system_clock_counter": _nanoseconds(state),
        "gfx_activity_acc": int(_ACTIVITY_PER_SECOND * state.busy_gfx_seconds),
        "mem_activity_acc": int(_ACTIVITY_PER_SECOND * state.busy_memory_seconds),
        "firmware_timestamp": _nanoseconds(state) // 10,
    }


def _link(model: Model) -> Fields:
    speed, width = model.link
    return {"pcie_link_width": width, "pcie_link_speed": int(10 * float(speed.split()[0]))}


def _nanoseconds(state: State) -> int:
    return int((UPTIME_SECONDS + state.seconds) * 1e9)


_FIELDS: dict[tuple[int, int], Callable[[Model, State], Fields]] = {(1, 3): _v1_3, (1, 5): _v1_5, (3, 0): _v3_0}
