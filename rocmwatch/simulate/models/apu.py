"""APUs: a small carve-out of the host's memory as VRAM, nearly full at idle; models live in GTT."""

from __future__ import annotations

from dataclasses import replace

from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.models.hosts import LAPTOP, WORKSTATION
from rocmwatch.simulate.parts import MIB, Clock, Kfd, Model, Sensor

APU = Model(
    name="apu",
    product="AMD Radeon Graphics (unified memory)",
    host=WORKSTATION,
    kernel=KERNELS["6.12"],
    pci=("0000:c1:00.0",),
    pci_class=0x038000,
    device_id=0x150E,
    subsystem=(0x1002, 0x0124),
    revision=0xC4,
    vbios="113-SIMAPU-001",
    link=("16.0 GT/s PCIe", 16),
    vram_total_bytes=512 * MIB,
    vram_floor_bytes=491 * MIB,
    gtt_total_bytes=64163 * MIB,
    pool="gtt",
    revisions=dict.fromkeys(("6.8", "6.12", "7.3"), (3, 0)),
    sensors=(Sensor(number=1, label="edge", lag_seconds=12, above_ambient=42),),
    sclk=Clock(
        label="sclk", dpm_file="pp_dpm_sclk", hwmon_number=1, levels_mhz=(600, 2900), idle_mhz=600, fine_grained=True
    ),
    mclk=Clock(label="mclk", dpm_file="pp_dpm_mclk", hwmon_number=None, levels_mhz=(400, 800, 1000), idle_mhz=400),
    power_files=("power1_average", "power1_input"),
    power_idle_watts=6,
    power_cap_watts=54,
    power_has_cap=False,
    xcc_count=1,
    kfd=Kfd(
        name="ip discovery",
        gfx_target_version=110500,
        simds_per_xcc=24,
        arrays_per_xcc=2,
        simd_arrays_per_engine=2,
        cus_per_array=8,
        simds_per_cu=2,
        waves_per_simd=16,
        wavefront=32,
        sdma_engines=1,
        memory_width=128,
    ),
    voltages=((0, "vddgfx"), (1, "vddnb")),
    has_unique_id=False,
    has_memory_busy=False,
    attributes=(
        ("mem_info_preempt_used", "0"),
        ("pp_dpm_socclk", "0: 600Mhz *\n1: 736Mhz \n2: 1472Mhz "),
        ("pp_dpm_fclk", "0: 400Mhz *\n1: 1200Mhz \n2: 1960Mhz "),
        ("pp_num_states", "states: 1\n0 default"),
        ("power_dpm_force_performance_level", "auto"),
        ("power_dpm_state", "performance"),
    ),
)

PHOENIX = replace(
    APU,
    name="phoenix",
    product="AMD Radeon 780M Graphics",
    host=LAPTOP,
    revisions=dict.fromkeys(("6.5", "6.8", "6.12", "7.3"), (2, 1)),
    device_id=0x15BF,
    revision=0xC1,
    vbios="113-SIMPHX-001",
    gtt_total_bytes=LAPTOP.memory_bytes // 2,
    sclk=replace(APU.sclk, levels_mhz=(800, 2700), idle_mhz=800),
    power_idle_watts=3,
    kfd=replace(APU.kfd, gfx_target_version=110003, cus_per_array=6),
    attributes=(*APU.attributes, ("unique_id", "")),
)

STRIX_HALO = replace(
    APU,
    name="strix-halo",
    product="AMD Radeon 8060S Graphics",
    revisions=dict.fromkeys(("6.12", "7.3"), (3, 0)),
    device_id=0x1586,
    revision=0xC1,
    vbios="113-SIMHALO-001",
    gtt_total_bytes=110 * 1024 * MIB,  # as people set it who serve models on it (ttm.pages_limit)
    power_idle_watts=9,
    power_cap_watts=120,
    kfd=replace(
        APU.kfd, gfx_target_version=110501, simds_per_xcc=80, arrays_per_xcc=4, cus_per_array=10, memory_width=256
    ),
)
