"""Where each number lies in `gpu_metrics`, for every revision of the file.

    78 00 01 03 29 00 2e 00 34 00 ...       size 120, format 1, content 3; then temperatures, 41 46 52 degrees C

The kernel's structs are laid out as any C compiler does it, little-endian, each field aligned to its own size: so a
layout is written here as the kernel writes it, field after field, and offsets follow. `H:` and its kin give the type of
the names after it (B 8, H 16, I 32, Q 64 bits unsigned), `name[8]` is an array. An array of structs (`xcp_stats`) is
written flat, `xcp_stats[0].gfx_busy_inst`, with a `|` before each of them, as a struct is aligned to its widest field.
Revision 1.9 has no fixed layout: it is a list of attributes, each behind a word that says what it is (`ATTRIBUTES`).
`XCP_*` are the same for a partition's own file, `xcp/xcp_metrics`, which counts its revisions anew.
Source: drivers/gpu/drm/amd/include/kgd_pp_interface.h, struct gpu_metrics_v1_0 to gpu_metrics_v3_0,
struct amdgpu_partition_metrics_v1_0 and the enum amdgpu_metrics_attr_id.
"""

from __future__ import annotations

from typing import NamedTuple

WIDTHS = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}
HEADER_BYTES = 4


class LayoutField(NamedTuple):
    """A field: its name in the kernel, its type as in `struct`, how many there are, and where the first one is."""

    name: str
    fmt: str
    count: int  # type: ignore[assignment]  # the tuple's own method of that name is not missed
    offset: int


class Attribute(NamedTuple):
    """An attribute of 1.9: its number, its name in the kernel, and the unit, type and count that drivers give it."""

    number: int
    name: str
    unit: int
    fmt: str
    count: int  # type: ignore[assignment]  # as above


def _laid_out(text: str) -> tuple[LayoutField, ...]:
    """Turns a struct's text into fields with offsets."""
    fields = []
    offset = HEADER_BYTES
    fmt = "H"
    for word in text.split():
        if word.endswith(":"):
            fmt = word[0]
            continue
        if word == "|":
            offset = -(-offset // 8) * 8
            continue
        name, count = word, 1
        if word.endswith("]"):
            name, _, size = word[:-1].rpartition("[")
            count = int(size)
        width = WIDTHS[fmt]
        offset = -(-offset // width) * width
        fields.append(LayoutField(name, fmt, count, offset))
        offset += width * count
    return tuple(fields)


def _partitions(text: str) -> str:
    """The eight `xcp_stats` structs of 1.6 and later, written flat; each begins at a multiple of 8."""
    names = [word if word.endswith(":") else f"xcp_stats[%d].{word}" for word in text.split()]
    return " ".join(f"| {' '.join(names)}".replace("%d", str(number)) for number in range(8))


_CLOCKS_1 = """
    average_gfxclk_frequency average_socclk_frequency average_uclk_frequency average_vclk0_frequency
    average_dclk0_frequency average_vclk1_frequency average_dclk1_frequency
    current_gfxclk current_socclk current_uclk current_vclk0 current_dclk0 current_vclk1 current_dclk1 """
_TEMPERATURES_1 = """
    temperature_edge temperature_hotspot temperature_mem temperature_vrgfx temperature_vrsoc temperature_vrmem
    average_gfx_activity average_umc_activity average_mm_activity average_socket_power """
_V1_0 = f"Q: system_clock_counter H: {_TEMPERATURES_1} I: energy_accumulator H: {_CLOCKS_1}"
_V1_0 += "I: throttle_status H: current_fan_speed B: pcie_link_width pcie_link_speed"
_V1_1 = f"H: {_TEMPERATURES_1} Q: energy_accumulator system_clock_counter H: {_CLOCKS_1}"
_V1_1 += """ I: throttle_status H: current_fan_speed pcie_link_width pcie_link_speed padding
    I: gfx_activity_acc mem_activity_acc H: temperature_hbm[4] """
_V1_2 = f"{_V1_1} Q: firmware_timestamp"
_V1_3 = f"{_V1_2} H: voltage_soc voltage_gfx voltage_mem padding1 Q: indep_throttle_status"

_HEAD_MI300 = """
    H: temperature_hotspot temperature_mem temperature_vrsoc curr_socket_power
    average_gfx_activity average_umc_activity """
_LINKS = "H: pcie_link_width pcie_link_speed xgmi_link_width xgmi_link_speed I: gfx_activity_acc mem_activity_acc "
_LINKS += "Q: pcie_bandwidth_acc pcie_bandwidth_inst pcie_l0_to_recov_count_acc pcie_replay_count_acc "
_LINKS += "pcie_replay_rover_count_acc "
_NAKS = "I: pcie_nak_sent_count_acc pcie_nak_rcvd_count_acc "
_XGMI = "Q: xgmi_read_data_acc[8] xgmi_write_data_acc[8] "
_CLOCKS_MI300 = "Q: firmware_timestamp "
_CLOCKS_MI300 += "H: current_gfxclk[8] current_socclk[4] current_vclk0[4] current_dclk0[4] current_uclk "
_COUNTERS = "Q: energy_accumulator system_clock_counter "
_LOCK = "I: throttle_status gfxclk_lock_status "
_RESIDENCIES = """
    I: accumulation_counter prochot_residency_acc ppt_residency_acc socket_thm_residency_acc vr_thm_residency_acc
    hbm_thm_residency_acc gfxclk_lock_status """
_V1_4 = f"{_HEAD_MI300} vcn_activity[4] {_COUNTERS}{_LOCK}{_LINKS}{_XGMI}{_CLOCKS_MI300} padding"
_V1_5 = f"{_HEAD_MI300} vcn_activity[4] jpeg_activity[32] {_COUNTERS}{_LOCK}{_LINKS}{_NAKS}{_XGMI}{_CLOCKS_MI300}"
_V1_5 += " padding"
_XCP_1_6 = "I: gfx_busy_inst[8] H: jpeg_busy[32] vcn_busy[4] Q: gfx_busy_acc[8]"
_XCP_1_8 = """I: gfx_busy_inst[8] H: jpeg_busy[40] vcn_busy[4] Q: gfx_busy_acc[8] gfx_below_host_limit_ppt_acc[8]
    gfx_below_host_limit_thm_acc[8] gfx_low_utilization_acc[8] gfx_below_host_limit_total_acc[8]"""
_END = " I: pcie_lc_perf_other_end_recovery"
_V1_6 = f"{_HEAD_MI300}{_COUNTERS}{_RESIDENCIES}{_LINKS}{_NAKS}{_XGMI}{_CLOCKS_MI300} num_partition "
_V1_6 += _partitions(_XCP_1_6) + _END
_HEAD_1_7 = f"{_HEAD_MI300} Q: mem_max_bandwidth {_COUNTERS}{_RESIDENCIES}{_LINKS}{_NAKS}{_XGMI}"
_HEAD_1_7 += f" H: xgmi_link_status[8] padding {_CLOCKS_MI300} num_partition "
_V1_7 = _HEAD_1_7 + _partitions(f"{_XCP_1_6} gfx_below_host_limit_acc[8]") + _END
_V1_8 = _HEAD_1_7 + _partitions(_XCP_1_8) + _END

_CLOCKS_2 = """
    H: average_gfxclk_frequency average_socclk_frequency average_uclk_frequency average_fclk_frequency
    average_vclk_frequency average_dclk_frequency
    current_gfxclk current_socclk current_uclk current_fclk current_vclk current_dclk current_coreclk[8]
    current_l3clk[2] I: throttle_status H: fan_pwm """
_TEMPERATURES_2 = "H: temperature_gfx temperature_soc temperature_core[8] temperature_l3[2] "
_TEMPERATURES_2 += "average_gfx_activity average_mm_activity "
_POWER_2 = "H: average_socket_power average_cpu_power average_soc_power average_gfx_power average_core_power[8] "
_V2_0 = f"Q: system_clock_counter {_TEMPERATURES_2}{_POWER_2}{_CLOCKS_2} padding"
_V2_1 = f"{_TEMPERATURES_2} Q: system_clock_counter {_POWER_2}{_CLOCKS_2} padding[3]"
_V2_2 = f"{_V2_1} Q: indep_throttle_status"
_V2_3 = f"""{_V2_2} H: average_temperature_gfx average_temperature_soc average_temperature_core[8]
    average_temperature_l3[2]"""
_V2_4 = f"""{_V2_3} average_cpu_voltage average_soc_voltage average_gfx_voltage
    average_cpu_current average_soc_current average_gfx_current"""
_V3_0 = """
    H: temperature_gfx temperature_soc temperature_core[16] temperature_skin
    average_gfx_activity average_vcn_activity average_ipu_activity[8] average_core_c0_activity[16]
    average_dram_reads average_dram_writes average_ipu_reads average_ipu_writes
    Q: system_clock_counter I: average_socket_power H: average_ipu_power I: average_apu_power average_gfx_power
    average_dgpu_power average_all_core_power H: average_core_power[16] average_sys_power stapm_power_limit
    current_stapm_power_limit
    average_gfxclk_frequency average_socclk_frequency average_vpeclk_frequency average_ipuclk_frequency
    average_fclk_frequency average_vclk_frequency average_uclk_frequency average_mpipu_frequency
    current_coreclk[16] current_core_maxfreq current_gfx_maxfreq
    I: throttle_residency_prochot throttle_residency_spl throttle_residency_fppt throttle_residency_sppt
    throttle_residency_thm_core throttle_residency_thm_gfx throttle_residency_thm_soc time_filter_alphavalue"""

_XCP_FILE = f"H: current_gfxclk[8] current_socclk[4] current_vclk0[4] current_dclk0[4] current_uclk {_XCP_1_8}"

LAYOUTS: dict[tuple[int, int], tuple[LayoutField, ...]] = {
    (1, 0): _laid_out(_V1_0),
    (1, 1): _laid_out(_V1_1),
    (1, 2): _laid_out(_V1_2),
    (1, 3): _laid_out(_V1_3),
    (1, 4): _laid_out(_V1_4),
    (1, 5): _laid_out(_V1_5),
    (1, 6): _laid_out(_V1_6),
    (1, 7): _laid_out(_V1_7),
    (1, 8): _laid_out(_V1_8),
    (2, 0): _laid_out(_V2_0),
    (2, 1): _laid_out(_V2_1),
    (2, 2): _laid_out(_V2_2),
    (2, 3): _laid_out(_V2_3),
    (2, 4): _laid_out(_V2_4),
    (3, 0): _laid_out(_V3_0),
}
SIZES: dict[tuple[int, int], int] = {
    (1, 0): 80,
    (1, 1): 96,
    (1, 2): 104,
    (1, 3): 120,
    (1, 4): 288,
    (1, 5): 360,
    (1, 6): 1664,
    (1, 7): 2208,
    (1, 8): 3872,
    (1, 9): 8,  # its head; attributes follow
    (2, 0): 120,
    (2, 1): 120,
    (2, 2): 128,
    (2, 3): 152,
    (2, 4): 168,
    (3, 0): 264,
}
XCP_LAYOUTS: dict[tuple[int, int], tuple[LayoutField, ...]] = {(1, 0): _laid_out(_XCP_FILE)}
XCP_SIZES: dict[tuple[int, int], int] = {(1, 0): 488, (1, 1): 8}

ATTRIBUTE_REVISION = (1, 9)
XCP_ATTRIBUTE_REVISION = (1, 1)
ATTRIBUTE_TYPES = "BbHhIiQq"  # by the type's number in the encoding word
NONE, MEGAHERTZ, CELSIUS, WATTS, NANOSECONDS, TEN_NANOSECONDS = 0, 1, 2, 3, 4, 5
GIGATRANSFERS, TENTH_GIGATRANSFERS, GIGABYTES_PER_SECOND, KILOBYTES, PERCENT = 6, 7, 8, 9, 10

ATTRIBUTE_TABLE: tuple[Attribute, ...] = (
    Attribute(0, "temperature_hotspot", CELSIUS, "H", 1),
    Attribute(1, "temperature_mem", CELSIUS, "H", 1),
    Attribute(2, "temperature_vrsoc", CELSIUS, "H", 1),
    Attribute(3, "curr_socket_power", WATTS, "H", 1),
    Attribute(4, "average_gfx_activity", PERCENT, "H", 1),
    Attribute(5, "average_umc_activity", PERCENT, "H", 1),
    Attribute(6, "mem_max_bandwidth", GIGABYTES_PER_SECOND, "Q", 1),
    Attribute(7, "energy_accumulator", NONE, "Q", 1),
    Attribute(8, "system_clock_counter", NANOSECONDS, "Q", 1),
    Attribute(9, "accumulation_counter", NONE, "Q", 1),
    Attribute(10, "prochot_residency_acc", NONE, "Q", 1),
    Attribute(11, "ppt_residency_acc", NONE, "Q", 1),
    Attribute(12, "socket_thm_residency_acc", NONE, "Q", 1),
    Attribute(13, "vr_thm_residency_acc", NONE, "Q", 1),
    Attribute(14, "hbm_thm_residency_acc", NONE, "Q", 1),
    Attribute(15, "gfxclk_lock_status", NONE, "I", 1),
    Attribute(16, "pcie_link_width", NONE, "H", 1),
    Attribute(17, "pcie_link_speed", TENTH_GIGATRANSFERS, "H", 1),
    Attribute(18, "xgmi_link_width", NONE, "H", 1),
    Attribute(19, "xgmi_link_speed", GIGATRANSFERS, "H", 1),
    Attribute(20, "gfx_activity_acc", NONE, "Q", 1),
    Attribute(21, "mem_activity_acc", NONE, "Q", 1),
    Attribute(22, "pcie_bandwidth_acc", NONE, "Q", 1),
    Attribute(23, "pcie_bandwidth_inst", GIGABYTES_PER_SECOND, "Q", 1),
    Attribute(24, "pcie_l0_to_recov_count_acc", NONE, "Q", 1),
    Attribute(25, "pcie_replay_count_acc", NONE, "Q", 1),
    Attribute(26, "pcie_replay_rover_count_acc", NONE, "Q", 1),
    Attribute(27, "pcie_nak_sent_count_acc", NONE, "Q", 1),
    Attribute(28, "pcie_nak_rcvd_count_acc", NONE, "Q", 1),
    Attribute(29, "xgmi_read_data_acc", KILOBYTES, "Q", 8),
    Attribute(30, "xgmi_write_data_acc", KILOBYTES, "Q", 8),
    Attribute(31, "xgmi_link_status", NONE, "H", 8),
    Attribute(32, "firmware_timestamp", TEN_NANOSECONDS, "Q", 1),
    Attribute(33, "current_gfxclk", MEGAHERTZ, "H", 8),
    Attribute(34, "current_socclk", MEGAHERTZ, "H", 4),
    Attribute(35, "current_vclk0", MEGAHERTZ, "H", 4),
    Attribute(36, "current_dclk0", MEGAHERTZ, "H", 4),
    Attribute(37, "current_uclk", MEGAHERTZ, "H", 1),
    Attribute(38, "num_partition", NONE, "H", 1),
    Attribute(39, "pcie_lc_perf_other_end_recovery", NONE, "Q", 1),
    Attribute(40, "gfx_busy_inst", PERCENT, "I", 8),
    Attribute(41, "jpeg_busy", PERCENT, "H", 40),
    Attribute(42, "vcn_busy", PERCENT, "H", 4),
    Attribute(43, "gfx_busy_acc", NONE, "Q", 8),
    Attribute(44, "gfx_below_host_limit_ppt_acc", NONE, "Q", 8),
    Attribute(45, "gfx_below_host_limit_thm_acc", NONE, "Q", 8),
    Attribute(46, "gfx_low_utilization_acc", NONE, "Q", 8),
    Attribute(47, "gfx_below_host_limit_total_acc", NONE, "Q", 8),
    Attribute(48, "temperature_hbm", CELSIUS, "H", 8),
    Attribute(49, "temperature_mid", CELSIUS, "H", 1),
    Attribute(50, "temperature_aid", CELSIUS, "H", 4),
    Attribute(51, "temperature_xcd", CELSIUS, "H", 8),
)
ATTRIBUTES: dict[int, str] = {attribute.number: attribute.name for attribute in ATTRIBUTE_TABLE}
