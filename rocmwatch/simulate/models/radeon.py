"""Consumer cards: a fan, a voltage, no counters of hardware errors, no board information."""

from __future__ import annotations

from rocmwatch.simulate.kernels import KERNELS
from rocmwatch.simulate.models.hosts import DESKTOP
from rocmwatch.simulate.parts import MIB, Clock, Fan, Kfd, Model, Sensor

RX7900XTX = Model(
    name="rx7900xtx",
    product="AMD Radeon RX 7900 XTX",
    host=DESKTOP,
    kernel=KERNELS["6.12"],
    revisions=dict.fromkeys(("6.1", "6.5", "6.8", "6.12", "7.3", "dkms-6.4", "dkms"), (1, 3)),
    pci=("0000:03:00.0", "0000:0b:00.0"),
    pci_class=0x030000,
    device_id=0x744C,
    subsystem=(0x1002, 0x0E3B),
    revision=0xC8,
    vbios="113-SIM7900-001",
    link=("16.0 GT/s PCIe", 16),
    vram_total_bytes=24560 * MIB,
    vram_floor_bytes=27 * MIB,
    gtt_total_bytes=DESKTOP.memory_bytes // 2,
    pool="vram",
    sensors=(
        Sensor(
            number=1, label="edge", lag_seconds=20, above_ambient=34, limits_celsius=(("crit", 100), ("emergency", 105))
        ),
        Sensor(
            number=2,
            label="junction",
            lag_seconds=6,
            above_ambient=56,
            limits_celsius=(("crit", 110), ("emergency", 115)),
        ),
        Sensor(
            number=3, label="mem", lag_seconds=25, above_ambient=52, limits_celsius=(("crit", 108), ("emergency", 113))
        ),
    ),
    sclk=Clock(
        label="sclk", dpm_file="pp_dpm_sclk", hwmon_number=1, levels_mhz=(500, 2482), idle_mhz=31, fine_grained=True
    ),
    mclk=Clock(label="mclk", dpm_file="pp_dpm_mclk", hwmon_number=2, levels_mhz=(96, 456, 772, 1249), idle_mhz=96),
    power_files=("power1_average",),
    power_idle_watts=18,
    power_cap_watts=339,
    power_has_cap=True,
    power_range_watts=(305, 390),
    counts_millijoules=True,
    fan=Fan(max_rpm=3200, starts_at_celsius=52, full_at_celsius=105),
    xcc_count=1,
    kfd=Kfd(
        name="ip discovery",
        gfx_target_version=110000,
        simds_per_xcc=192,
        arrays_per_xcc=12,
        simd_arrays_per_engine=2,
        cus_per_array=8,
        simds_per_cu=2,
        waves_per_simd=16,
        wavefront=32,
        sdma_engines=2,
        memory_width=384,
    ),
    voltages=((0, "vddgfx"),),
    attributes=(
        ("mem_info_vram_vendor", "samsung"),
        ("mem_info_preempt_used", "0"),
        ("pcie_replay_count", "0"),
        ("pp_cur_state", "1"),
        ("pp_dpm_socclk", "0: 500Mhz \n1: 1500Mhz *"),
        ("pp_dpm_fclk", "0: 500Mhz \n1: 2300Mhz *"),
        ("pp_dpm_pcie", "0: 16.0GT/s, x16 156Mhz \n1: 16.0GT/s, x16 623Mhz *"),
        ("pp_features", "features high: 0x00003fff low: 0xfe7ff7ff"),
        ("pp_force_state", ""),
        ("pp_num_states", "states: 2\n0 boot\n1 performance"),
        ("power_dpm_force_performance_level", "auto"),
        ("power_dpm_state", "performance"),
        ("thermal_throttling_logging", "thermal throttling logging enabled, with interval 60 seconds"),
    ),
    forbidden=(("pcie_bw", "0 0 256"), ("pp_table", "\x00" * 32)),
)
