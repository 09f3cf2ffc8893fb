"""The files that are read of an MI300X, and the fields that go without when one is bad: the first is what it is of.

`{card}`, `{hwmon}`, `{pci}` and `{node}` stand for what the GPU's are.
"""

from __future__ import annotations

DEVICE = "/sys/class/drm/{card}/device"
NODE = "/sys/class/kfd/kfd/topology/nodes/{node}"
TABLE = "/sys/kernel/debug/dri/{pci}/amdgpu_vram_mm"

NUMBERS: dict[str, tuple[str, ...]] = {
    f"{DEVICE}/mem_info_vram_used": ("vram_used_bytes",),
    f"{DEVICE}/mem_info_vram_total": ("vram_total_bytes",),
    f"{DEVICE}/mem_info_vis_vram_used": ("visible_vram_used_bytes",),
    f"{DEVICE}/mem_info_vis_vram_total": ("visible_vram_total_bytes",),
    f"{DEVICE}/mem_info_gtt_used": ("gtt_used_bytes",),
    f"{DEVICE}/mem_info_gtt_total": ("gtt_total_bytes",),
    f"{DEVICE}/gpu_busy_percent": ("busy_gfx",),
    f"{DEVICE}/mem_busy_percent": ("busy_memory",),
    f"{DEVICE}/hwmon/{{hwmon}}/temp2_input": ("temperature_junction",),
    f"{DEVICE}/hwmon/{{hwmon}}/temp3_input": ("temperature_memory",),
    f"{DEVICE}/hwmon/{{hwmon}}/temp2_crit": ("limit_critical_junction",),
    f"{DEVICE}/hwmon/{{hwmon}}/temp3_emergency": ("limit_emergency_memory",),
    f"{DEVICE}/hwmon/{{hwmon}}/power1_input": ("power",),
    f"{DEVICE}/hwmon/{{hwmon}}/power1_cap": ("power_cap",),
    f"{DEVICE}/hwmon/{{hwmon}}/freq1_input": ("clock_sclk",),
    f"{DEVICE}/hwmon/{{hwmon}}/freq2_input": ("clock_mclk",),
    f"{DEVICE}/numa_node": ("numa_node",),
    f"{DEVICE}/current_link_width": ("pcie_width",),
    f"{DEVICE}/max_link_width": ("pcie_max_width",),
    f"{DEVICE}/pcie_replay_count": ("pcie_replays",),
}
XCC_CLOCKS = tuple(f"xcc_clock_{die}" for die in range(8))
LEVELS = {f"{DEVICE}/pp_dpm_sclk": ("clock_limit_sclk",), f"{DEVICE}/pp_dpm_mclk": ("clock_limit_mclk",)}
MODES = {
    f"{DEVICE}/current_compute_partition": ("compute_partition",),
    f"{DEVICE}/current_memory_partition": ("memory_partition",),
}
TABLES = {TABLE: ("fragmentation",)}
METRICS = {f"{DEVICE}/gpu_metrics": ("gpu_metrics", "energy", "xgmi", *XCC_CLOCKS)}
SPEEDS = {
    f"{DEVICE}/current_link_speed": ("pcie_transfers_per_second",),
    f"{DEVICE}/max_link_speed": ("pcie_max_transfers_per_second",),
}
ERRORS = {f"{DEVICE}/ras/umc_err_count": ("ras_umc",), f"{DEVICE}/ras/gfx_err_count": ("ras_gfx",)}
