"""The tables against numbers that come from compiling the kernel's structs, and not from the tables."""

import kernel_bytes
import pytest

from rocmwatch.kernel.gpu_metrics_layouts import (
    ATTRIBUTE_REVISION,
    ATTRIBUTE_TABLE,
    ATTRIBUTE_TYPES,
    ATTRIBUTES,
    LAYOUTS,
    SIZES,
    WIDTHS,
    XCP_LAYOUTS,
    XCP_SIZES,
)

# (offset, type, count) as the compiler has them, for fields spread over each struct
COMPILED = {
    (1, 0): {
        "system_clock_counter": (8, "Q", 1),
        "temperature_edge": (16, "H", 1),
        "average_socket_power": (34, "H", 1),
        "energy_accumulator": (36, "I", 1),
        "current_gfxclk": (54, "H", 1),
        "throttle_status": (68, "I", 1),
        "pcie_link_width": (74, "B", 1),
        "pcie_link_speed": (75, "B", 1),
    },
    (1, 3): {
        "temperature_edge": (4, "H", 1),
        "average_gfx_activity": (16, "H", 1),
        "average_socket_power": (22, "H", 1),
        "energy_accumulator": (24, "Q", 1),
        "average_gfxclk_frequency": (40, "H", 1),
        "current_gfxclk": (54, "H", 1),
        "current_uclk": (58, "H", 1),
        "throttle_status": (68, "I", 1),
        "current_fan_speed": (72, "H", 1),
        "gfx_activity_acc": (80, "I", 1),
        "temperature_hbm": (88, "H", 4),
        "firmware_timestamp": (96, "Q", 1),
        "voltage_soc": (104, "H", 1),
        "indep_throttle_status": (112, "Q", 1),
    },
    (1, 4): {
        "curr_socket_power": (10, "H", 1),
        "vcn_activity": (16, "H", 4),
        "energy_accumulator": (24, "Q", 1),
        "gfxclk_lock_status": (44, "I", 1),
        "xgmi_link_speed": (54, "H", 1),
        "pcie_bandwidth_acc": (64, "Q", 1),
        "pcie_replay_rover_count_acc": (96, "Q", 1),
        "xgmi_write_data_acc": (168, "Q", 8),
        "current_gfxclk": (240, "H", 8),
        "current_uclk": (280, "H", 1),
    },
    (1, 5): {
        "jpeg_activity": (24, "H", 32),
        "energy_accumulator": (88, "Q", 1),
        "pcie_nak_rcvd_count_acc": (172, "I", 1),
        "xgmi_read_data_acc": (176, "Q", 8),
        "current_gfxclk": (312, "H", 8),
        "current_uclk": (352, "H", 1),
    },
    (1, 6): {
        "energy_accumulator": (16, "Q", 1),
        "accumulation_counter": (32, "I", 1),
        "hbm_thm_residency_acc": (52, "I", 1),
        "mem_activity_acc": (72, "I", 1),
        "pcie_nak_sent_count_acc": (120, "I", 1),
        "current_gfxclk": (264, "H", 8),
        "num_partition": (306, "H", 1),
        "xcp_stats[0].gfx_busy_inst": (312, "I", 8),
        "xcp_stats[1].gfx_busy_inst": (312 + 168, "I", 8),
        "xcp_stats[7].gfx_busy_acc": (312 + 7 * 168 + 104, "Q", 8),
        "pcie_lc_perf_other_end_recovery": (1656, "I", 1),
    },
    (1, 7): {
        "mem_max_bandwidth": (16, "Q", 1),
        "energy_accumulator": (24, "Q", 1),
        "xgmi_link_status": (264, "H", 8),
        "firmware_timestamp": (288, "Q", 1),
        "current_gfxclk": (296, "H", 8),
        "num_partition": (338, "H", 1),
        "xcp_stats[7].gfx_below_host_limit_acc": (344 + 7 * 232 + 168, "Q", 8),
        "pcie_lc_perf_other_end_recovery": (2200, "I", 1),
    },
    (1, 8): {
        "current_uclk": (336, "H", 1),
        "xcp_stats[0].jpeg_busy": (344 + 32, "H", 40),
        "xcp_stats[0].vcn_busy": (344 + 112, "H", 4),
        "xcp_stats[7].gfx_below_host_limit_total_acc": (344 + 7 * 440 + 376, "Q", 8),
        "pcie_lc_perf_other_end_recovery": (3864, "I", 1),
    },
    (2, 0): {
        "system_clock_counter": (8, "Q", 1),
        "temperature_gfx": (16, "H", 1),
        "average_gfx_activity": (40, "H", 1),
        "average_socket_power": (44, "H", 1),
        "current_gfxclk": (80, "H", 1),
        "throttle_status": (112, "I", 1),
    },
    (2, 4): {
        "temperature_core": (8, "H", 8),
        "average_gfx_activity": (28, "H", 1),
        "average_socket_power": (40, "H", 1),
        "average_gfxclk_frequency": (64, "H", 1),
        "current_gfxclk": (76, "H", 1),
        "current_l3clk": (104, "H", 2),
        "throttle_status": (108, "I", 1),
        "indep_throttle_status": (120, "Q", 1),
        "average_temperature_l3": (148, "H", 2),
        "average_gfx_current": (162, "H", 1),
    },
    (3, 0): {
        "temperature_skin": (40, "H", 1),
        "average_core_c0_activity": (62, "H", 16),
        "average_dram_writes": (96, "H", 1),
        "system_clock_counter": (104, "Q", 1),
        "average_socket_power": (112, "I", 1),
        "average_ipu_power": (116, "H", 1),
        "average_core_power": (136, "H", 16),
        "average_sys_power": (168, "H", 1),
        "average_gfxclk_frequency": (174, "H", 1),
        "average_uclk_frequency": (186, "H", 1),
        "current_gfx_maxfreq": (224, "H", 1),
        "throttle_residency_prochot": (228, "I", 1),
        "time_filter_alphavalue": (256, "I", 1),
    },
}


@pytest.mark.parametrize("revision", sorted(COMPILED))
def test_fields_lie_where_the_compiler_puts_them(revision):
    laid_out = {field.name: (field.offset, field.fmt, field.count) for field in LAYOUTS[revision]}
    assert COMPILED[revision] == {name: laid_out[name] for name in COMPILED[revision]}


@pytest.mark.parametrize("revision", sorted(LAYOUTS))
def test_the_last_field_ends_where_the_struct_does(revision):
    last = LAYOUTS[revision][-1]
    widest = max(WIDTHS[field.fmt] for field in LAYOUTS[revision])
    end = last.offset + last.count * WIDTHS[last.fmt]
    assert SIZES[revision] == -(-end // widest) * widest


def test_the_sizes_are_the_compiler_s():
    assert {revision: size for revision, size in SIZES.items() if revision != ATTRIBUTE_REVISION} == kernel_bytes.SIZES


@pytest.mark.parametrize("revision", sorted(LAYOUTS))
def test_fields_neither_overlap_nor_repeat(revision):
    layout = LAYOUTS[revision]
    ends = [field.offset + field.count * WIDTHS[field.fmt] for field in layout]
    assert all(end <= following.offset for end, following in zip(ends[:-1], layout[1:], strict=True))
    assert len(layout) == len({field.name for field in layout})


def test_each_revision_begins_like_the_one_before_it():
    assert LAYOUTS[1, 3][: len(LAYOUTS[1, 2])] == LAYOUTS[1, 2]
    assert LAYOUTS[1, 2][: len(LAYOUTS[1, 1])] == LAYOUTS[1, 1]
    assert LAYOUTS[2, 4][: len(LAYOUTS[2, 3])] == LAYOUTS[2, 3]


def test_attributes_are_numbered_without_gaps():
    assert list(range(52)) == [attribute.number for attribute in ATTRIBUTE_TABLE]
    assert len(ATTRIBUTES) == len(set(ATTRIBUTES.values()))
    assert {attribute.fmt for attribute in ATTRIBUTE_TABLE} <= set(ATTRIBUTE_TYPES)


def test_a_partition_s_file_has_its_own_layout():
    fields = {field.name: field.offset for field in XCP_LAYOUTS[1, 0]}
    assert tuple(
        fields[name]
        for name in (
            "current_gfxclk",
            "current_uclk",
            "gfx_busy_inst",
            "jpeg_busy",
            "vcn_busy",
            "gfx_busy_acc",
            "gfx_below_host_limit_total_acc",
        )
    ) == (4, 44, 48, 80, 160, 168, 424)
    assert 488 == XCP_SIZES[1, 0] == fields["gfx_below_host_limit_total_acc"] + 64
