"""What an MI300 or MI350 says in `gpu_metrics` 1.5 to 1.9, and what each of its partitions says in `xcp_metrics`."""

from __future__ import annotations

from rocmwatch.simulate.metrics_parts import ACTIVITY_PER_SECOND, Fields, counters, link, nanoseconds
from rocmwatch.simulate.motion import UPTIME_SECONDS, State
from rocmwatch.simulate.parts import Model

_ROUNDS_PER_SECOND = 1000  # of the firmware, which counts in how many of them the clocks were held down
_RESIDENCIES = {
    "prochot_residency_acc": "prochot",
    "ppt_residency_acc": "power",
    "socket_thm_residency_acc": "socket_thermal",
    "vr_thm_residency_acc": "vr_thermal",
    "hbm_thm_residency_acc": "hbm_thermal",
}
_LINKS = 8
_JPEG_ENGINES = 40
_LIMITS = (
    "gfx_below_host_limit_ppt_acc",
    "gfx_below_host_limit_thm_acc",
    "gfx_low_utilization_acc",
    "gfx_below_host_limit_total_acc",
)


def v1_5(model: Model, state: State) -> Fields:
    """1.5: nothing about why clocks are held down, no partitions."""
    return {
        **_card(model, state),
        "vcn_activity": [0] * 4,
        "jpeg_activity": [0] * 32,
        "throttle_status": 0,
    }


def v1_7(model: Model, state: State) -> Fields:
    """1.7: residencies, states of links, and a struct for each partition."""
    return _with_partitions(model, state, jpeg_engines=32, limits=("gfx_below_host_limit_acc",))


def v1_8(model: Model, state: State) -> Fields:
    """1.8: as 1.7, and more of the partitions."""
    return _with_partitions(model, state, jpeg_engines=_JPEG_ENGINES, limits=_LIMITS)


def v1_9(model: Model, state: State) -> Fields:
    """1.9: whatever there is, one attribute each. The firmware of MI300 leaves all but a few die temperatures out."""
    junction = round(state.temperatures_celsius["junction"])
    memory = round(state.temperatures_celsius["mem"])
    dies = range(model.xcc_count)
    fields = {
        **_card(model, state),
        **_of_1_7(model, state),
        **_dies(state, dies),
        "jpeg_busy": [0] * _JPEG_ENGINES,
        "vcn_busy": [0] * 4,
        **dict.fromkeys(_LIMITS, None),
        "temperature_hbm": [memory - stack % 4 for stack in range(8)],
        "temperature_aid": [junction - 3 - aid % 3 for aid in range(4)],
        "temperature_xcd": [junction - die % 4 for die in dies],
    }
    del fields["num_partition"]
    return fields


def partition_fields(model: Model, state: State, partition: int, *, with_counters: bool) -> Fields:
    """`xcp_metrics` 1.0, and with the two counters 1.1."""
    dies = _dies_of(model, partition)
    fields: Fields = {
        "current_gfxclk": [state.sclk_mhz[die] for die in dies],
        "current_socclk": [_socclk(state)],
        "current_vclk0": [29],
        "current_dclk0": [22],
        "current_uclk": state.mclk_mhz,
        **_dies(state, dies),
        "jpeg_busy": [0] * (_JPEG_ENGINES // model.partition_count),
        "vcn_busy": [0],
        **dict.fromkeys(_LIMITS, None),
    }
    if with_counters:
        fields |= {"accumulation_counter": _rounds(state), "firmware_timestamp": nanoseconds(state) // 10}
    return fields


def _card(model: Model, state: State) -> Fields:
    """What all of them have."""
    celsius = state.temperatures_celsius
    lanes, gigabits = model.xgmi_link or (None, None)
    moved = state.xgmi_bytes // 1024
    return {
        "temperature_hotspot": round(celsius["junction"]),
        "temperature_mem": round(celsius["mem"]),
        "temperature_vrsoc": round(celsius["junction"]) - 5,
        "curr_socket_power": int(state.power_watts),
        "average_gfx_activity": int(100 * state.busy_gfx),
        "average_umc_activity": int(100 * state.busy_memory),
        **counters(state),
        "gfxclk_lock_status": 0,
        **link(model),
        "xgmi_link_width": lanes,
        "xgmi_link_speed": gigabits,
        "pcie_bandwidth_acc": int(state.busy_gfx_seconds * 1_500),
        "pcie_bandwidth_inst": int(3 * state.busy_gfx),
        "pcie_l0_to_recov_count_acc": 3,
        "pcie_replay_count_acc": 0,
        "pcie_replay_rover_count_acc": 0,
        "pcie_nak_sent_count_acc": 0,
        "pcie_nak_rcvd_count_acc": 0,
        "xgmi_read_data_acc": [0] + [moved] * (_LINKS - 1),  # a GPU has no link to itself
        "xgmi_write_data_acc": [0] + [moved * 9 // 10] * (_LINKS - 1),
        "current_gfxclk": state.sclk_mhz,
        "current_socclk": [_socclk(state)] * 4,
        "current_vclk0": [29] * 4,
        "current_dclk0": [22] * 4,
        "current_uclk": state.mclk_mhz,
    }


def _of_1_7(model: Model, state: State) -> Fields:
    return {
        "mem_max_bandwidth": 4 * model.mclk.levels_mhz[-1] * model.kfd.memory_width // 8000,  # four bits a clock
        "accumulation_counter": _rounds(state),
        **{field: int(_ROUNDS_PER_SECOND * state.throttle.get(reason, 0.0)) for field, reason in _RESIDENCIES.items()},
        "xgmi_link_status": [None, *[1] * (_LINKS - 1)],
        "num_partition": model.partition_count,
        "pcie_lc_perf_other_end_recovery": 1,
    }


def _with_partitions(model: Model, state: State, *, jpeg_engines: int, limits: tuple[str, ...]) -> Fields:
    fields = {**_card(model, state), **_of_1_7(model, state)}
    for partition in range(model.partition_count):
        busy = {
            **_dies(state, _dies_of(model, partition)),
            "jpeg_busy": [0] * (jpeg_engines // model.partition_count),
            "vcn_busy": [0],
            **dict.fromkeys(limits, None),
        }
        fields |= {f"xcp_stats[{partition}].{name}": value for name, value in busy.items()}
    return fields


def _dies(state: State, dies: range) -> Fields:
    """How busy the dies are: the first a little more than the others."""
    return {
        "gfx_busy_inst": [max(0, int(100 * state.busy_gfx) - die % 3) for die in dies],
        "gfx_busy_acc": [int(ACTIVITY_PER_SECOND * state.busy_gfx_seconds) + die for die in dies],
    }


def _dies_of(model: Model, partition: int) -> range:
    count = model.xcc_count // model.partition_count
    return range(partition * count, (partition + 1) * count)


def _rounds(state: State) -> int:
    return int(_ROUNDS_PER_SECOND * (UPTIME_SECONDS + state.seconds))


def _socclk(state: State) -> int:
    return 1300 if state.busy_gfx > 0.02 else 29
